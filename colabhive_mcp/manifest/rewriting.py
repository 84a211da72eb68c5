"""Rewriting a schema keyword by keyword, with references inlined: what the client forms are made with.

A `Style` is a table from keyword to its rewrite, with the reason in each line; a keyword without a row stays as it
is. Whatever is rewritten comes out in the 2020-12 dialect. The original is never changed; values such as defaults are
shared with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from colabhive_mcp.manifest.dialects import ANNOTATIONS, REFERENCES
from colabhive_mcp.manifest.document import MAX_DEPTH, Document
from colabhive_mcp.manifest.nesting import MAX_LEVELS, find_deep
from colabhive_mcp.manifest.references import build_names, find_recursive

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
GROWTH = 4
ALLOWANCE = 16 * 1024

Json = dict[str, Any]


class Unbounded(Exception):
    """Inlining does not end, or makes the schema much larger or too deep; some references have to be kept."""


@dataclass(frozen=True, slots=True)
class Style:
    """How keywords are rewritten, and what is then done to each schema as a whole; *dropped* are never written."""

    table: Mapping[str, Rewrite]
    finish: Callable[[Form, Json], None]
    dropped: frozenset[str] = frozenset()


class Form:
    """One rewriting of a document: references give way to what they mean, but for the targets *kept* by identity."""

    def __init__(self, document: Document, style: Style, *, kept: Collection[int] = ()) -> None:
        self.document = document
        self.style = style
        self.kept = kept
        self.names = build_names(document) if kept else {}
        self.wanted: list[Any] = []
        self.defs: dict[str, Any] = {}
        self.depth = 0
        self.open: set[int] = set()
        self.without_null: set[int] = set()
        self.loosened = 0  # how many rules were not told; rewrites compare it before and after a subschema
        # Only a definition that is used twice can make the form larger than the original.
        self.growing = document.references > len(document.labels)
        self.room = to_limit(document) if self.growing else 0

    def rewrite(self, schema: Any) -> Json:
        """A subschema as an object; ``true`` and ``false`` are spelled out, since some clients take no other form."""
        if type(schema) is bool:
            return {} if schema else self._drop({"not": {}})
        if self.document.targets and not REFERENCES.isdisjoint(schema):
            return self._rewrite_reference(schema)
        written = self.rewrite_rules(schema, self.document.rules(schema))
        self.style.finish(self, written)
        return written

    def rewrite_rules(self, schema: Mapping[str, Any], rules: Iterable[tuple[str, Any]]) -> Json:
        """Some *rules* of *schema*, by the table."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unbounded
        table = self.style.table
        written: Json = {}
        for keyword, value in rules:
            rewrite = table.get(keyword)
            if rewrite is None:
                written[keyword] = value
            else:
                written.update(rewrite(self, value, schema))
        self.depth -= 1
        return self._drop(written)

    def _drop(self, written: Json) -> Json:
        """*written* without the keywords that the style never writes."""
        if not self.style.dropped:
            return written
        kept = {keyword: value for keyword, value in written.items() if keyword not in self.style.dropped}
        self.loosened += len(written) - len(kept)
        return kept

    def refer(self, target: Any) -> Json:
        """What stands for a reference to *target*: its content, or a reference to where the form will have it."""
        if id(target) not in self.kept and target is not self.document.root:
            return self._inline(target)
        self.loosened += 1  # what is kept is rewritten later, so it has to be taken for told less
        if target is self.document.root:
            return {"$ref": "#"}
        name = self.names[id(target)]
        if name not in self.defs:
            self.defs[name] = {}
            self.wanted.append(target)
        return {"$ref": f"#/$defs/{name}"}

    def _inline(self, target: Any) -> Json:
        if id(target) in self.open:
            raise Unbounded
        if self.growing:
            self.room -= to_size(target)
            if self.room < 0:
                raise Unbounded
        self.open.add(id(target))
        written = self.rewrite(target)
        self.open.discard(id(target))
        return written

    def complete(self, root: Json) -> Json:
        """*root* with the definitions that its references need, and those that they need in turn."""
        while self.wanted:
            target = self.wanted.pop()
            self.defs[self.names[id(target)]] = self.rewrite(target)
        return {**root, "$defs": self.defs} if self.defs else root

    def _rewrite_reference(self, schema: Mapping[str, Any]) -> Json:
        rules = dict(self.document.rules(schema))
        written = self.rewrite_rules(schema, [rule for rule in rules.items() if rule[0] not in REFERENCES])
        for keyword in filter(REFERENCES.__contains__, rules):
            target = self.refer(self.document.target(schema, keyword))
            written = overlay(target, written) or self._nest(target, written)
        self.style.finish(self, written)
        return written

    def _nest(self, lower: Json, upper: Json) -> Json:
        """Both as one schema where `overlay` cannot: side by side, but for what has to stay outermost."""
        outer = {keyword: value for keyword, value in upper.items() if keyword in ANNOTATIONS or keyword == _OUTERMOST}
        inner = {keyword: value for keyword, value in upper.items() if keyword not in outer}
        self.style.finish(self, inner)
        return {**outer, "allOf": [lower, inner]}


def render(document: Document, style: Style, build: Callable[[Form], Json]) -> Json:
    """The root that *build* makes, with as few references kept as let it end and stay within its limit."""
    for find_kept in (_keep_none, find_recursive):
        form = Form(document, style, kept=find_kept(document))
        try:
            root = form.complete(build(form))
        except Unbounded:
            continue
        if _is_bounded(form, root):
            return root
    form = Form(document, style, kept=document.labels.keys())
    return form.complete(build(form))


def _is_bounded(form: Form, root: Json) -> bool:
    """Whether inlining has made the form neither much larger nor too deep for clients."""
    if form.growing and to_size(root) > to_limit(form.document):
        return False
    return not form.document.targets or find_deep(root, MAX_LEVELS) is None


def _keep_none(document: Document) -> set[int]:
    return set()


Rewrite = Callable[[Form, Any, Mapping[str, Any]], Mapping[str, Any]]


def to_limit(document: Document) -> int:
    """How large a form of *document* may be, as JSON."""
    return GROWTH * to_size(document.root) + ALLOWANCE


def to_size(value: Any) -> int:
    """The length of *value* as JSON."""
    return len(_encode(value))


# Two schemas that hold together

# Keywords that mean something only with each other; every other one is a family of its own.
_FAMILIES = {
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"), "properties"),
    **dict.fromkeys(("items", "prefixItems"), "items"),
    **dict.fromkeys(("contains", "minContains", "maxContains"), "contains"),
    **dict.fromkeys(("if", "then", "else"), "if"),
}
_OUTERMOST = "unevaluatedProperties"  # asks about all that stands beside it


def overlay(lower: Json, upper: Json) -> Json | None:
    """Both as one schema that means the same, the annotations of *upper* winning; None where their rules clash."""
    harmless = ANNOTATIONS | {"required"} | ({"type"} if lower.get("type") == upper.get("type") else set())
    families = {_FAMILIES.get(keyword, keyword) for keyword in lower if keyword not in harmless}
    if _OUTERMOST in lower or any(_FAMILIES.get(keyword, keyword) in families for keyword in upper):
        return None
    joined = {**lower, **upper}
    if "required" in lower and "required" in upper:
        joined["required"] = unite(lower["required"], upper["required"])
    return joined


def unite(*lists: Iterable[Any]) -> list[Any]:
    """The names of all *lists*, each once, in the order of their first appearance."""
    return list(dict.fromkeys(name for names in lists for name in names))
