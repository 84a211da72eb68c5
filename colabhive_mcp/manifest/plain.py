"""Schemas that every client takes as they are, recognised in one pass: most schemas of a manifest are such.

It only ever says yes to what `client_form` would leave exactly as it is, but for references that give way to what they
mean; to all else it says no, and the schema is read whole. Knows nothing of dialects or alternatives: a schema with any
of them is not plain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from colabhive_mcp.manifest.dialects import DEFAULT, TYPES
from colabhive_mcp.manifest.styles import KNOWN_FORMATS

MAX_DEPTH = 20

_LOCAL = re.compile(r"#/\$defs/([A-Za-z0-9_.-]+)")  # a name without what pointers and URIs escape
_BESIDE = {"$ref", "title", "description"}
_SCALARS = (str, int, float, bool)
_LIMITS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    *("title", "description", "required"),
)


def is_plain(schema: Any, *, dropped: Collection[str] = ()) -> bool:
    """Whether *schema*, of an input, is an object with properties that any client takes as it stands.

    *dropped* are keywords that are not to be told.
    """
    if type(schema) is not dict or schema.get("type") != "object" or type(schema.get("properties")) is not dict:
        return False
    if "enum" in schema or "const" in schema:  # told in words where they are of the arguments as a whole
        return False
    return _is_plain(schema, dropped, MAX_DEPTH)


def inline_plain(schema: Any, *, dropped: Collection[str] = ()) -> dict[str, Any] | None:
    """*schema* with each of its ``$defs`` in place of the one reference to it, where it is plain then; else None."""
    definitions = schema.get("$defs") if type(schema) is dict else None
    if type(definitions) is not dict:
        return None
    left = dict(definitions)
    inlined = _substitute({keyword: value for keyword, value in schema.items() if keyword != "$defs"}, left, MAX_DEPTH)
    return inlined if not left and is_plain(inlined, dropped=dropped) else None


def _substitute(schema: dict[str, Any], definitions: dict[str, Any], depth: int) -> dict[str, Any]:
    """*schema* with *definitions*, which are taken from there, in the place of references; one that stays is not plain.

    What an author wrote beside a reference is kept.
    """
    reference = schema.get("$ref")
    if type(reference) is str and _BESIDE.issuperset(schema):
        name = _LOCAL.fullmatch(reference)
        target = definitions.pop(name[1], None) if name else None
        if type(target) is dict and _has_plain_words(target):
            return {**target, **{keyword: value for keyword, value in schema.items() if keyword != "$ref"}}
    if depth == 0:
        return schema
    return {keyword: _substitute_part(keyword, value, definitions, depth - 1) for keyword, value in schema.items()}


def _has_plain_words(schema: dict[str, Any]) -> bool:
    """Whether its title and description, which words beside a reference would take the place of, are in order."""
    return all(type(schema.get(keyword, "")) is str for keyword in ("title", "description"))


def _substitute_part(keyword: str, value: Any, definitions: dict[str, Any], depth: int) -> Any:
    """*value* of *keyword* likewise. Properties are schemas by name, and no schema that could refer to another."""
    if type(value) is not dict:
        return value
    if keyword == "properties":
        return {
            name: _substitute(each, definitions, depth) if type(each) is dict else each for name, each in value.items()
        }
    return _substitute(value, definitions, depth) if keyword == "items" else value


def _is_plain(schema: Any, dropped: Collection[str], depth: int) -> bool:
    if type(schema) is not dict or depth == 0:
        return False
    for keyword, value in schema.items():
        check = _CHECKS.get(keyword)
        if check is not None:
            if not check(value) or keyword in dropped:
                return False
        elif not _are_plain(_find_parts(keyword, value), dropped, depth - 1):
            return False
    return schema.get("type") != "array" or "items" in schema


def _are_plain(parts: Collection[Any] | None, dropped: Collection[str], depth: int) -> bool:
    if parts is None:
        return False
    for part in parts:  # noqa: SIM110 - a third faster than all()
        if not _is_plain(part, dropped, depth):
            return False
    return True


def _find_parts(keyword: str, value: Any) -> Collection[Any] | None:
    """The subschemas under *keyword*; None where it is none that a plain schema has."""
    if keyword == "properties" and type(value) is dict:
        parts: Collection[Any] = value.values()
        return parts
    return (value,) if keyword == "items" else None


def _is_scalar(value: Any) -> bool:
    return type(value) in _SCALARS


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **{keyword: DEFAULT.shapes[keyword].fits for keyword in _LIMITS},
    "type": lambda value: type(value) is str and value in TYPES,
    "enum": lambda value: type(value) is list and bool(value) and all(map(_is_scalar, value)),
    "const": _is_scalar,
    "default": _is_scalar,
    "format": lambda value: type(value) is str and value in KNOWN_FORMATS,
    "additionalProperties": lambda value: type(value) is bool,
}
