"""The schemas that clients are shown, which are less than JSON Schema allows, and what they do not say in words.

An input is always a plain object here: its root has ``properties`` and no alternatives, which whole model APIs
refuse. An output keeps its root. What else is rewritten stands in the tables of `styles`. Calls and results are
checked elsewhere, against the original.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from colabhive_mcp.manifest.dialects import ANNOTATIONS, REFERENCES, UnusableSchema
from colabhive_mcp.manifest.document import Document, load_document
from colabhive_mcp.manifest.headers import HeaderParameter, find_header_parameters, find_headers, say_fault
from colabhive_mcp.manifest.rewriting import Form, Json, Style, overlay, render, unite
from colabhive_mcp.manifest.styles import OUTPUT, build_input_style
from colabhive_mcp.manifest.wording import SHOWN_LENGTH, to_list, to_quoted, to_words

MAX_TOLD = 8
_MOVED = "in the form that clients are shown, an argument with x-mcp-header would stand elsewhere"


@dataclass(frozen=True, slots=True)
class ClientForm:
    """An input schema as every client takes it; *notes* are sentences of what it does not say.

    *unmirrored* is why none of its arguments is repeated in an HTTP header, where the original asks for that.
    """

    schema: Json
    notes: tuple[str, ...] = ()
    unmirrored: str | None = None


def to_input_form(schema: Any, *, dropped: frozenset[str] = frozenset()) -> ClientForm:
    """The form of an input schema that all clients take: a plain object with ``properties``.

    No larger than four times the original and 16 KiB: references that would make it larger are kept. *dropped* are
    further keywords that one client cannot be told.

    Raises:
        UnusableSchema: as `load_document`, and for a schema that no object fits, as arguments always are one.
    """
    document = _load_input(schema)
    wanted, faults = find_headers(schema)
    if wanted:
        form = _render(document, build_input_style(dropped, mirrored=True))
        if set(find_header_parameters(form.schema)) == set(wanted):
            return form
    plain = _render(document, build_input_style(dropped))
    return replace(plain, unmirrored=say_fault(faults[0]) if faults else _MOVED) if wanted or faults else plain


def find_mirrored(schema: Any, *, exact: bool) -> tuple[HeaderParameter, ...]:
    """The arguments that whoever was shown a usable input *schema*, *exact* or in its form, repeats in HTTP headers."""
    wanted = find_header_parameters(schema)
    return wanted if exact or not wanted else find_header_parameters(to_input_form(schema).schema)


def _render(document: Document, style: Style) -> ClientForm:
    notes: list[str] = []
    root = render(document, style, lambda form: _Root(form).build(notes))
    return ClientForm(root, tuple(unite(notes)))


def to_exact_input(schema: Any) -> Json:
    """The manifest's own input schema, with the ``type`` and ``properties`` that clients cannot do without.

    Raises:
        UnusableSchema: as `to_input_form`.
    """
    own = _load_input(schema).root
    return {**own, "type": "object", "properties": own.get("properties", {})}


def to_output_form(schema: Any) -> Json | None:
    """The form of an output schema that all clients compile, and by which none refuses what fits the original.

    None where there is no schema, or none that could be used.
    """
    if schema is None or schema is False:
        return None
    try:
        document = load_document(schema)
    except UnusableSchema:
        return None
    root = render(document, OUTPUT, lambda form: form.rewrite(document.root))
    return {**root, "type": "object"} if _is_object(document, document.root, {}) else root


def is_object_schema(schema: Any) -> bool:
    """Whether *schema* admits nothing but objects. One that cannot be used does not count."""
    if not isinstance(schema, dict) or schema.get("type") == "object":
        return isinstance(schema, dict)
    try:
        document = load_document(schema)
    except UnusableSchema:
        return False
    return _is_object(document, document.root, {})


def _is_object(document: Document, schema: Any, known: dict[int, bool]) -> bool:
    if type(schema) is bool:
        return not schema
    if id(schema) not in known:
        rules = dict(document.rules(schema))
        together = [
            *(document.target(schema, keyword) for keyword in REFERENCES & rules.keys()),
            *rules.get("allOf", ()),
        ]
        known[id(schema)] = (
            rules.get("type") in ("object", ["object"])
            or _are_objects([rules["const"]] if "const" in rules else rules.get("enum", ()))
            or any(_is_object(document, each, known) for each in together)
            or any(
                all(_is_object(document, each, known) for each in rules[keyword])
                for keyword in ("anyOf", "oneOf")
                if keyword in rules
            )
        )
    return known[id(schema)]


def _are_objects(values: Sequence[Any]) -> bool:
    return bool(values) and all(type(each) is dict for each in values)


def _load_input(schema: Any) -> Document:
    document = load_document({} if schema is None or schema is True else schema)
    for rules in document.together():
        types = rules.get("type", "object")
        if "object" not in ([types] if isinstance(types, str) else types):
            raise UnusableSchema(f"type {to_quoted(types)} is not what arguments are, an object")
    if document.root is False:
        raise UnusableSchema("false admits no arguments at all")
    return document


# The root of an input

_COMPOSING = REFERENCES | {"allOf", "anyOf", "oneOf", "if", "then", "else"}
_UNTOLD = {"not", "enum", "const", "dependentSchemas", "unevaluatedProperties"}
_MORE_RULES = "More rules hold than the schema shows; a call that breaks one is answered with the reason."
_INTRODUCTIONS = {"oneOf": "Exactly one of these", "anyOf": "At least one of these"}


class _Root:
    """The root of an input as one plain object. *notes* collects in words the alternatives that it had.

    What holds together is merged, of alternatives the properties are united. A plain object is built once for each
    schema, so alternatives that share schemas cost no more than their number.
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self.known: dict[int, Json] = {}

    def build(self, notes: list[str]) -> Json:
        plain = self._to_plain(self.form.document.root, notes)
        return {"type": "object", "properties": {}, **plain}

    def _to_plain(self, schema: Any, notes: list[str]) -> Json:
        if type(schema) is bool:
            return {}
        if id(schema) not in self.known:
            self.known[id(schema)] = self._merge_parts(schema, dict(self.form.document.rules(schema)), notes)
        return self.known[id(schema)]

    def _merge_parts(self, schema: Json, rules: Json, notes: list[str]) -> Json:
        own = [rule for rule in rules.items() if rule[0] not in _COMPOSING and rule[0] != "type"]
        plain = self.form.rewrite_rules(schema, own)
        if not _UNTOLD.isdisjoint(plain):
            plain = {keyword: value for keyword, value in plain.items() if keyword not in _UNTOLD}
            notes.append(_MORE_RULES)
        if _COMPOSING.isdisjoint(rules):
            return plain
        for part in self._find_parts(schema, rules):
            plain = _merge(self._to_plain(part, notes), plain)
        for keyword in filter(rules.__contains__, _INTRODUCTIONS):
            branches = [self._to_plain(each, []) for each in rules[keyword] if each is not False]
            notes.append(_say_alternatives(_INTRODUCTIONS[keyword], branches, plain))
            plain = _merge(_unite_branches(branches), plain)
        if "if" in rules:
            notes.append(_MORE_RULES)
            branches = [self._to_plain(rules.get(keyword, True), []) for keyword in ("then", "else")]
            plain = _merge(_unite_branches(branches), plain)
        return plain

    def _find_parts(self, schema: Json, rules: Json) -> Iterator[Any]:
        for keyword in filter(REFERENCES.__contains__, rules):
            yield self.form.document.target(schema, keyword)
        yield from rules.get("allOf", ())


def _merge(lower: Json, upper: Json) -> Json:
    """Two plain objects that hold together; where they speak of the same property, *upper* wins."""
    merged = {**lower, **upper}
    if "properties" in lower and "properties" in upper:
        shared = {**upper["properties"], **lower["properties"]}
        for name in lower["properties"].keys() & upper["properties"].keys():
            shared[name] = overlay(lower["properties"][name], upper["properties"][name]) or upper["properties"][name]
        merged["properties"] = shared
    if "required" in lower:
        merged["required"] = unite(upper.get("required", ()), lower["required"])
    if "patternProperties" in lower and "patternProperties" in upper:
        merged.pop("additionalProperties", None)  # it would refuse what the patterns of *lower* let in
    elif lower.get("additionalProperties") is False:
        merged["additionalProperties"] = False
    return merged


def _unite_branches(branches: Sequence[Json]) -> Json:
    """What holds whichever of the plain objects holds: all their properties, and what every one requires."""
    told: dict[str, list[Json]] = {}
    for branch in branches:
        for name, schema in branch.get("properties", {}).items():
            told.setdefault(name, []).append(schema)
    united: Json = {"properties": {name: _unite_schemas(schemas) for name, schemas in told.items()}}
    needs = [frozenset(branch.get("required", ())) for branch in branches]
    required = [name for name in told if all(name in each for each in needs)]
    if required:
        united["required"] = required
    if branches and all(_is_closed(branch) for branch in branches):
        united["additionalProperties"] = False
    return united


def _is_closed(plain: Json) -> bool:
    return plain.get("additionalProperties") is False and "patternProperties" not in plain


def _unite_schemas(schemas: Sequence[Json]) -> Json:
    """One schema for a property that alternatives describe each in their way; a choice where they name values."""
    distinct = list({_to_key(schema): schema for schema in schemas}.values())
    if len(distinct) == 1:
        return distinct[0]
    rests = {_to_key(_without_values(schema)) for schema in distinct}
    if len(rests) == 1 and all("const" in schema or "enum" in schema for schema in distinct):
        values = [value for schema in distinct for value in _to_values(schema)]
        return {**_without_values(distinct[0]), "enum": list({_to_key(value): value for value in values}.values())}
    return {"anyOf": distinct}


def _without_values(schema: Json) -> Json:
    return {keyword: value for keyword, value in schema.items() if keyword not in {"const", "enum", *ANNOTATIONS}}


def _to_values(schema: Json) -> Sequence[Any]:
    return [schema["const"]] if "const" in schema else list(schema["enum"])


def _say_alternatives(introduction: str, branches: Sequence[Json], base: Json) -> str:
    """The alternatives in one sentence: ``Exactly one of these: needs `a`; or needs `b` and `c`.``"""
    said = unite(_say_branch(branch, base) for branch in branches[:MAX_TOLD])
    more = [f"one of {len(branches) - MAX_TOLD} more"] if len(branches) > MAX_TOLD else []
    return f"{introduction}: {'; or '.join([*said, *more])}."


def _say_branch(branch: Json, base: Json) -> str:
    fixed = {name: schema["const"] for name, schema in branch.get("properties", {}).items() if "const" in schema}
    known = fixed.keys() | base.get("required", ())
    needed = [name for name in branch.get("required", ()) if name not in known]
    phrases = [f"{_to_code(name)} is {to_words(value)}" for name, value in fixed.items()]
    if needed:
        phrases.append(f"needs {to_list(map(_to_code, needed), joined='and')}")
    return to_list(phrases, joined="and") or branch.get("title") or "nothing more"


def _to_code(name: str) -> str:
    return f"`{name[:SHOWN_LENGTH]}`"


def _to_key(value: Any) -> str:
    """A text that is the same for what is written the same, whatever the order of its members."""
    return json.dumps(value, sort_keys=True)
