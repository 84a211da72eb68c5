"""The dialects of JSON Schema as one table: which keyword each has, and what its value may be.

This is what the meta-schemas say, in a form that is read in microseconds: a list of hundreds of tools is checked
before it is first served. It is as strict as they are but in two points that are harmless to read: ``true`` and
``false`` are schemas in every dialect, and lists that draft-04 wants filled may be empty. Knows nothing of references
or values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from colabhive_mcp.errors import EXIT_PROTOCOL, BridgeError
from colabhive_mcp.manifest.wording import Trail, to_quoted


class UnusableSchema(BridgeError, ValueError):
    """A schema that no call could be checked against; the message is the reason in words. The manifest's to mend.

    *place* is where in the schema, as far as that is known; the root where it isn't.
    """

    exit_code = EXIT_PROTOCOL

    def __init__(self, message: str, *, place: Trail = None) -> None:
        super().__init__(message)
        self.place = place


Parts = Callable[[Any], Iterable[tuple[Any, Any]]]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the value of a keyword may be; *says* completes the sentence of a refusal, *parts* gives its subschemas."""

    says: str
    fits: Callable[[Any], bool]
    parts: Parts | None = None


TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_ANCHOR = re.compile(r"[A-Za-z_][-A-Za-z0-9._:]*", re.ASCII)


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == value // 1


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_names(value: Any) -> bool:
    return type(value) is list and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_types(value: Any) -> bool:
    return value in TYPES if type(value) is str else bool(value) and _is_names(value) and TYPES.issuperset(value)


def _is_schema(value: Any) -> bool:
    return type(value) is dict or type(value) is bool


def _is_schema_list(value: Any) -> bool:
    return type(value) is list and bool(value) and all(map(_is_schema, value))


def _is_schema_map(value: Any) -> bool:
    return type(value) is dict and all(map(_is_schema, value.values()))


def _is_items(value: Any) -> bool:
    return _is_schema(value) or _is_schema_list(value)


def _is_names_map(value: Any) -> bool:
    return type(value) is dict and all(map(_is_names, value.values()))


def _is_mixed_map(value: Any) -> bool:
    return type(value) is dict and all(_is_schema(each) or _is_names(each) for each in value.values())


def _is_anchor(value: Any) -> bool:
    return type(value) is str and _ANCHOR.fullmatch(value) is not None


def _only(value: Any) -> Iterable[tuple[Any, Any]]:
    return ((None, value),)


def _each(value: Any) -> Iterable[tuple[Any, Any]]:
    return enumerate(value)


def _named(value: Any) -> Iterable[tuple[Any, Any]]:
    return tuple(value.items())


def _only_or_each(value: Any) -> Iterable[tuple[Any, Any]]:
    return enumerate(value) if type(value) is list else _only(value)


def _named_schemas(value: Any) -> Iterable[tuple[Any, Any]]:
    return [(name, each) for name, each in value.items() if type(each) is not list]


ANYTHING = Shape("", lambda _: True)
TEXT = Shape("is no string", _is_text)
FLAG = Shape("is neither true nor false", _is_flag)
NUMBER = Shape("is no number", _is_number)
POSITIVE = Shape("is no number above 0", lambda value: _is_number(value) and value > 0)
COUNT = Shape("is no whole number from 0 up", _is_count)
VALUES = Shape("is no list", lambda value: type(value) is list)
OBJECT = Shape("is no object", lambda value: type(value) is dict)
NAMES = Shape("is no list of distinct strings", _is_names)
NAMES_MAP = Shape("is no object of lists of distinct strings", _is_names_map)
TYPE = Shape("is no JSON Schema type", _is_types)
ANCHOR = Shape("is no anchor name", _is_anchor)
REFERENCE = Shape("is no string", _is_text)
IDENTITY = Shape("is no URI without a fragment", lambda value: type(value) is str and "#" not in value[:-1])
SCHEMA = Shape("is no schema", _is_schema, _only)
SCHEMAS = Shape("is no list of schemas", _is_schema_list, _each)
SCHEMA_MAP = Shape("is no object of schemas", _is_schema_map, _named)
ITEMS = Shape("is no schema and no list of schemas", _is_items, _only_or_each)
MIXED_MAP = Shape("is no object of schemas and lists of names", _is_mixed_map, _named_schemas)

_D4, _D6, _D7, _D19, _D20 = range(5)

# keyword, the shape of its value, the first dialect and the last one where this row is in force
_ROWS: tuple[tuple[str, Shape, int, int], ...] = (
    ("$schema", TEXT, _D4, _D20),
    ("id", TEXT, _D4, _D4),
    ("$id", TEXT, _D6, _D7),
    ("$id", IDENTITY, _D19, _D20),
    ("$anchor", ANCHOR, _D19, _D20),
    ("$dynamicAnchor", ANCHOR, _D20, _D20),
    ("$recursiveAnchor", FLAG, _D19, _D19),
    ("$recursiveAnchor", ANCHOR, _D20, _D20),
    ("$vocabulary", OBJECT, _D19, _D20),
    ("$comment", TEXT, _D7, _D20),
    ("$ref", REFERENCE, _D4, _D20),
    ("$recursiveRef", REFERENCE, _D19, _D19),
    ("$recursiveRef", TEXT, _D20, _D20),
    ("$dynamicRef", REFERENCE, _D20, _D20),
    ("title", TEXT, _D4, _D20),
    ("description", TEXT, _D4, _D20),
    ("default", ANYTHING, _D4, _D20),
    ("examples", VALUES, _D6, _D20),
    ("readOnly", FLAG, _D7, _D20),
    ("writeOnly", FLAG, _D19, _D20),
    ("deprecated", FLAG, _D19, _D20),
    ("format", TEXT, _D4, _D20),
    ("contentEncoding", TEXT, _D7, _D20),
    ("contentMediaType", TEXT, _D7, _D20),
    ("contentSchema", SCHEMA, _D19, _D20),
    ("type", TYPE, _D4, _D20),
    ("enum", VALUES, _D4, _D20),
    ("const", ANYTHING, _D6, _D20),
    ("multipleOf", POSITIVE, _D4, _D20),
    ("minimum", NUMBER, _D4, _D20),
    ("maximum", NUMBER, _D4, _D20),
    ("exclusiveMinimum", FLAG, _D4, _D4),
    ("exclusiveMaximum", FLAG, _D4, _D4),
    ("exclusiveMinimum", NUMBER, _D6, _D20),
    ("exclusiveMaximum", NUMBER, _D6, _D20),
    ("minLength", COUNT, _D4, _D20),
    ("maxLength", COUNT, _D4, _D20),
    ("pattern", TEXT, _D4, _D20),
    ("minItems", COUNT, _D4, _D20),
    ("maxItems", COUNT, _D4, _D20),
    ("uniqueItems", FLAG, _D4, _D20),
    ("minContains", COUNT, _D19, _D20),
    ("maxContains", COUNT, _D19, _D20),
    ("minProperties", COUNT, _D4, _D20),
    ("maxProperties", COUNT, _D4, _D20),
    ("required", NAMES, _D4, _D20),
    ("dependentRequired", NAMES_MAP, _D19, _D20),
    ("items", ITEMS, _D4, _D19),
    ("items", SCHEMA, _D20, _D20),
    ("prefixItems", SCHEMAS, _D20, _D20),
    ("additionalItems", SCHEMA, _D4, _D19),
    ("unevaluatedItems", SCHEMA, _D19, _D20),
    ("contains", SCHEMA, _D6, _D20),
    ("properties", SCHEMA_MAP, _D4, _D20),
    ("patternProperties", SCHEMA_MAP, _D4, _D20),
    ("additionalProperties", SCHEMA, _D4, _D20),
    ("unevaluatedProperties", SCHEMA, _D19, _D20),
    ("propertyNames", SCHEMA, _D6, _D20),
    ("dependencies", MIXED_MAP, _D4, _D20),
    ("dependentSchemas", SCHEMA_MAP, _D19, _D20),
    ("allOf", SCHEMAS, _D4, _D20),
    ("anyOf", SCHEMAS, _D4, _D20),
    ("oneOf", SCHEMAS, _D4, _D20),
    ("not", SCHEMA, _D4, _D20),
    ("if", SCHEMA, _D7, _D20),
    ("then", SCHEMA, _D7, _D20),
    ("else", SCHEMA, _D7, _D20),
    ("$defs", SCHEMA_MAP, _D19, _D20),
    ("definitions", SCHEMA_MAP, _D4, _D20),
)

REFERENCES = frozenset(name for name, shape, _, _ in _ROWS if shape is REFERENCE)
ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "readOnly", "writeOnly", "deprecated"}
    | {"contentEncoding", "contentMediaType", "contentSchema", "format", "$comment"}
)
_RULES = frozenset(name for name, _, _, _ in _ROWS) - ANNOTATIONS


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect: the *shapes* of its keywords and the few ways in which dialects differ beside them.

    *inert* are rules of other dialects, which this one does not obey; *ref_alone* says that everything beside a
    ``$ref`` is ignored; *identity* is the keyword that names a schema.
    """

    name: str
    shapes: Mapping[str, Shape]
    inert: frozenset[str]
    ref_alone: bool
    identity: str


def _build_dialect(name: str, place: int) -> Dialect:
    shapes = {keyword: shape for keyword, shape, first, last in _ROWS if first <= place <= last}
    inert = _RULES - shapes.keys()
    if place >= _D19:  # these two only keep the names from being used for something else
        inert |= {"dependencies"} if place == _D19 else {"dependencies", "$recursiveRef", "$recursiveAnchor"}
    return Dialect(name, shapes, inert, place <= _D7, "id" if place == _D4 else "$id")


DEFAULT = _build_dialect("2020-12", _D20)
DIALECTS: Mapping[str, Dialect] = {
    "json-schema.org/draft/2020-12/schema": DEFAULT,
    "json-schema.org/draft/2019-09/schema": _build_dialect("2019-09", _D19),
    "json-schema.org/draft-07/schema": _build_dialect("draft-07", _D7),
    "json-schema.org/draft-06/schema": _build_dialect("draft-06", _D6),
    "json-schema.org/draft-04/schema": _build_dialect("draft-04", _D4),
}


def find_dialect(uri: Any) -> Dialect:
    """The dialect that ``$schema`` names, with either scheme and with or without the empty fragment."""
    known = re.sub(r"^https?://|#$", "", uri) if isinstance(uri, str) else ""
    if known not in DIALECTS:
        raise UnusableSchema(f"dialect {to_quoted(uri)} is not supported")
    return DIALECTS[known]
