"""A schema that was read whole: every subschema visited once, every reference resolved, nothing ever fetched.

What is refused here is what no call could be checked against, with the reason and the place. A reference to a shared
definition that the schema lacks finds the contract's own, which is bundled in. All passes keep their own stack, so a
hostile schema costs no more than its size. Knows nothing of values to check or of clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urljoin

from colabhive_mcp.manifest.canonical import SHARED, find_shared
from colabhive_mcp.manifest.dialects import (
    ANNOTATIONS,
    DEFAULT,
    REFERENCES,
    TEXT,
    Dialect,
    UnusableSchema,
    find_dialect,
)
from colabhive_mcp.manifest.wording import Trail, to_list, to_pointer, to_quoted, to_words

MAX_DEPTH = 100
MAX_SUBSCHEMAS = 20_000

_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_NAMING = frozenset({"id", "$id", "$anchor", "$dynamicAnchor"})
_SHARED_PREFIX = "/$defs/"
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_ONES = ("not", "if", "then", "else")
_IN_PLACE_MAPS = ("dependentSchemas", "dependencies")


@dataclass(frozen=True, slots=True)
class Document:
    """A usable schema. Schemas are told apart by their identity (``id``), for equal ones may mean different things.

    *targets* has, for ``(the identity of a schema that refers, keyword)``, the schema that is meant; *labels* has,
    for the identity of each target, a reference that leads to it.
    """

    root: Any
    dialect: Dialect
    targets: Mapping[tuple[int, str], Any]
    labels: Mapping[int, str]
    references: int

    def rules(self, schema: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
        """The keywords of *schema* that count in this dialect; annotations always do."""
        if self.dialect.ref_alone and "$ref" in schema:
            return [
                (keyword, value) for keyword, value in schema.items() if keyword == "$ref" or keyword in ANNOTATIONS
            ]
        inert = self.dialect.inert
        if inert.isdisjoint(schema):
            return schema.items()
        return [(keyword, value) for keyword, value in schema.items() if keyword not in inert]

    def target(self, schema: Any, keyword: str) -> Any:
        """The schema that the reference under *keyword* of *schema* means."""
        return self.targets[id(schema), keyword]

    def parts(self, schema: Any) -> Iterator[Any]:
        """The subschemas that stand in *schema*, references not followed."""
        shapes = self.dialect.shapes
        for keyword, value in self.rules(schema) if type(schema) is dict else ():
            if keyword in shapes and (parts := shapes[keyword].parts) is not None:
                yield from (child for _, child in parts(value))

    def together(self) -> Iterator[Mapping[str, Any]]:
        """The rules of the root, and of all that holds with it: references and ``allOf`` followed."""
        pending = [self.root]
        seen = set()
        while pending:
            schema = pending.pop(0)
            if type(schema) is dict and id(schema) not in seen:
                seen.add(id(schema))
                rules = dict(self.rules(schema))
                yield rules
                pending += [self.target(schema, keyword) for keyword in REFERENCES & rules.keys()]
                pending += rules.get("allOf", ())

    def in_place(self, schema: Any) -> Iterator[Any]:
        """The schemas that are applied to the same value as *schema*, references followed."""
        if type(schema) is not dict:
            return
        for keyword, value in self.rules(schema):
            if keyword in REFERENCES:
                yield self.target(schema, keyword)
            elif keyword in _IN_PLACE_LISTS:
                yield from value
            elif keyword in _IN_PLACE_ONES:
                yield value
            elif keyword in _IN_PLACE_MAPS:
                yield from (each for each in value.values() if type(each) is not list)


def load_document(schema: Any) -> Document:
    """Read *schema* whole.

    Where it refers to shared definitions that it doesn't have, the document's root is a copy that has them.

    Raises:
        UnusableSchema: a value has the wrong shape for its dialect, the dialect is unknown, a reference leads out of
            the document or nowhere or back to itself, or the schema is too deep or too large.
    """
    dialect = _find_dialect(schema)
    survey = _Survey(schema, dialect)
    survey.run()
    if survey.lacking:
        schema = _bundle(schema, survey.lacking)
        survey = _Survey(schema, dialect)
        survey.run()
    document = Document(schema, dialect, survey.targets, survey.labels, len(survey.referring))
    if survey.targets:
        _refuse_loops(document, survey.referring)
    return document


def find_faults(schema: Any) -> list[UnusableSchema]:
    """Every reason why `load_document` refuses *schema*, as far as one does not hide the next; empty where it doesn't.

    Each has its *place*, where there is one.
    """
    faults: list[UnusableSchema] = []
    try:
        _Inspection(schema, _find_dialect(schema), faults).run()
        if not faults:
            load_document(schema)
    except UnusableSchema as fault:
        faults.append(fault)
    return faults


def _find_dialect(schema: Any) -> Dialect:
    if type(schema) is not dict and type(schema) is not bool:
        raise UnusableSchema(f"{to_words(schema)} is no schema")
    return find_dialect(schema["$schema"]) if type(schema) is dict and "$schema" in schema else DEFAULT


def _bundle(schema: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """*schema* with the shared definitions *names*."""
    return {**schema, "$defs": {**schema.get("$defs", {}), **{name: find_shared(name) for name in sorted(names)}}}


class _Survey:
    """One pass over all that is a schema in a document, and over what references find beside it."""

    def __init__(self, root: Any, dialect: Dialect) -> None:
        self.root = root
        self.dialect = dialect
        self.pending: list[tuple[Any, int, Trail, str]] = [(root, 1, None, "")]
        self.resources: dict[str, Any] = {"": root}
        self.anchors: dict[tuple[str, str], Any] = {}
        self.dynamic: dict[str, int] = {}
        self.bases: dict[int, str] = {}
        self.references: list[tuple[Any, str, Trail]] = []
        self.referring: list[Any] = []
        self.targets: dict[tuple[int, str], Any] = {}
        self.labels: dict[int, str] = {}
        self.lacking: set[str] = set()
        self.count = 0

    def run(self) -> None:
        """Visit until no reference finds anything that was not visited."""
        while self.pending:
            while self.pending:
                self._visit(*self.pending.pop())
            while self.references:
                self._follow(*self.references.pop())

    def refuse(self, words: str, place: Trail) -> None:
        """What to do about a fault: here, to stop at the first."""
        raise UnusableSchema(words, place=place)

    def _visit(self, schema: Any, depth: int, trail: Trail, base: str) -> None:
        self.count += 1
        if self.count > MAX_SUBSCHEMAS:
            raise UnusableSchema(f"has more than {MAX_SUBSCHEMAS:,} subschemas")
        if type(schema) is not dict:
            return
        if depth > MAX_DEPTH:
            raise UnusableSchema(_TOO_DEEP, place=trail)
        if not _NAMING.isdisjoint(schema):
            base = self._name(schema, base)
        self.bases[id(schema)] = base
        self._check(schema, depth, trail, base)

    def _check(self, schema: dict[str, Any], depth: int, trail: Trail, base: str) -> None:
        shapes = self.dialect.shapes
        for keyword, value in schema.items():
            shape = shapes.get(keyword)
            if shape is TEXT and type(value) is str and keyword != "$schema":
                continue
            if shape is None or shape.parts is None:
                if type(value) is dict or type(value) is list:
                    _refuse_deep(value)
                if shape is None:
                    continue
            if not shape.fits(value):
                self.refuse(f"{keyword} {to_quoted(value)} {shape.says} (at {to_pointer(trail)})", (trail, keyword))
                continue
            if shape.parts is not None:
                place = (trail, keyword)
                for part, child in shape.parts(value):
                    self.pending.append((child, depth + 1, place if part is None else (place, part), base))
            elif keyword in REFERENCES:
                self.references.append((schema, keyword, trail))
            elif keyword == "$schema" and find_dialect(value) is not self.dialect:
                self.refuse(f"dialect {to_quoted(value)} is not supported within another", (trail, keyword))

    def _name(self, schema: dict[str, Any], base: str) -> str:
        """Record the names that *schema* gives itself; the URI that references within it start from."""
        identity = schema.get(self.dialect.identity)
        if isinstance(identity, str) and not (self.dialect.ref_alone and "$ref" in schema):
            url, _, fragment = identity.partition("#")
            base = _join(base, url) if url else base
            if url:
                self.resources.setdefault(base, schema)
            if fragment:  # how drafts 4 to 7 write an anchor
                self.anchors[base, fragment] = schema
        for keyword in ("$anchor", "$dynamicAnchor"):
            if keyword in self.dialect.shapes and isinstance(schema.get(keyword), str):
                self.anchors[base, schema[keyword]] = schema
        if isinstance(anchor := schema.get("$dynamicAnchor"), str):
            self.dynamic[anchor] = self.dynamic.get(anchor, 0) + 1
        return base

    def _follow(self, schema: Any, keyword: str, trail: Trail) -> None:
        try:
            target, base = self._resolve(schema[keyword], keyword, self.bases[id(schema)])
            if type(target) is not dict and type(target) is not bool:
                raise UnusableSchema(f"{keyword} {to_quoted(schema[keyword])} leads to no schema")
        except UnusableSchema as fault:
            self.refuse(str(fault), (trail, keyword))
            return
        self.targets[id(schema), keyword] = target
        self.labels.setdefault(id(target), schema[keyword])
        self.referring.append(schema)
        if type(target) is dict and id(target) not in self.bases:
            self.pending.append((target, 1, (trail, keyword), base))

    def _resolve(self, reference: str, keyword: str, base: str) -> tuple[Any, str]:
        url, _, fragment = _join(base, reference).partition("#")
        if url not in self.resources:
            raise UnusableSchema(f"{keyword} {to_quoted(reference)} is not local")
        if keyword == "$dynamicRef" and self.dynamic.get(fragment, 0) > 1:
            raise UnusableSchema(f"{keyword} {to_quoted(reference)} has more than one target, which is not supported")
        if fragment and not fragment.startswith("/"):
            found = self.anchors.get((url, unquote(fragment)), _NOWHERE)
        else:
            found = _find(self.resources[url], fragment)
            if found is _NOWHERE and self.resources[url] is self.root:
                found = self._find_shared(unquote(fragment))
        if found is _NOWHERE:
            raise UnusableSchema(f"{keyword} {to_quoted(reference)} leads nowhere")
        return found, url

    def _find_shared(self, pointer: str) -> Any:
        """The contract's definition that *pointer* means; the document will have it where the others are."""
        name = pointer.removeprefix(_SHARED_PREFIX)
        if name not in SHARED or name == pointer or type(self.root.get("$defs", {})) is not dict:
            return _NOWHERE
        self.lacking.add(name)
        return find_shared(name)


class _Inspection(_Survey):
    """A survey that goes on after a fault."""

    def __init__(self, root: Any, dialect: Dialect, faults: list[UnusableSchema]) -> None:
        super().__init__(root, dialect)
        self.faults = faults

    def refuse(self, words: str, place: Trail) -> None:
        """Collect the fault."""
        self.faults.append(UnusableSchema(words, place=place))


_NOWHERE: Any = object()


def _join(base: str, reference: str) -> str:
    """*reference* as seen from *base*; no failure of the URL parser gets out."""
    if reference.startswith("#"):
        return base + reference
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


def _find(document: Any, pointer: str) -> Any:
    """What a JSON pointer (RFC 6901), percent-encoded as in a URI, finds in *document*."""
    for token in unquote(pointer).split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and _INDEX.fullmatch(name) and int(name) < len(document):
            document = document[int(name)]
        else:
            return _NOWHERE
    return document


def _refuse_deep(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [each for holder in level for each in _children(holder) if isinstance(each, dict | list)]
        if not level:
            return
    raise UnusableSchema(_TOO_DEEP)


def _children(holder: Any) -> Iterable[Any]:
    return holder.values() if isinstance(holder, dict) else holder


def _refuse_loops(document: Document, referring: Iterable[Any]) -> None:
    """Refuse references that come back to their start without a step into the value, and endless chains."""
    heights: dict[int, int] = {}
    for start in referring:
        if id(start) not in heights:
            _measure(document, start, heights)


def _measure(document: Document, start: Any, heights: dict[int, int]) -> None:
    """Walk in depth over what applies in place, each schema once; *heights* gets the longest chain from each."""
    stack = [(start, document.in_place(start))]
    tallest = {id(start): 1}
    while stack:
        schema, children = stack[-1]
        child = next(children, _NOWHERE)
        if child is _NOWHERE:
            stack.pop()
            heights[id(schema)] = tallest.pop(id(schema))
            _raise_to(tallest, stack, heights[id(schema)] + 1)
        elif id(child) in tallest:
            raise UnusableSchema(f"references {to_list(dict.fromkeys(_references_of(stack)))} lead back to themselves")
        elif len(stack) + heights.get(id(child), 1) > MAX_DEPTH:
            raise UnusableSchema(f"references {_TOO_DEEP}")
        elif id(child) in heights:
            _raise_to(tallest, stack, heights[id(child)] + 1)
        else:
            stack.append((child, document.in_place(child)))
            tallest[id(child)] = 1


def _raise_to(tallest: dict[int, int], stack: list[tuple[Any, Iterator[Any]]], height: int) -> None:
    if stack:
        above = id(stack[-1][0])
        tallest[above] = max(tallest[above], height)


def _references_of(stack: list[tuple[Any, Iterator[Any]]]) -> Iterator[str]:
    for schema, _ in stack:
        yield from (to_quoted(schema[keyword]) for keyword in REFERENCES & schema.keys())
