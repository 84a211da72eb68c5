"""Is this input what the schema asks for: required arguments and the plain keywords of each top-level argument.

Owns the gateway's own small reading of JSON Schema, enough to refuse what an action could not run with. A keyword that
it does not know, or that is malformed, asks for nothing. Must not know HTTP.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import ge, le
from typing import Any

from colabhive_mcp.localgateway.wire import to_fault


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and value == int(value)


TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def _to_number(value: Any) -> Any:
    return value if _is_number(value) else None


def _to_items(value: Any) -> Any:
    return len(value) if isinstance(value, list) else None


def _to_characters(value: Any) -> Any:
    return len(value) if isinstance(value, str) else None


BOUNDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], bool], str]] = {
    # keyword -> what of the value is measured (None: the keyword does not apply), what has to hold, how it is said
    "minimum": (_to_number, ge, "be at least {}"),
    "maximum": (_to_number, le, "be at most {}"),
    "minItems": (_to_items, ge, "have at least {} items"),
    "maxItems": (_to_items, le, "have at most {} items"),
    "minLength": (_to_characters, ge, "have at least {} characters"),
    "maxLength": (_to_characters, le, "have at most {} characters"),
}


def check_input(schema: Any, arguments: Mapping[str, Any], *loc: str) -> list[dict[str, Any]]:
    """The faults of *arguments* in the list form of validation errors, each ``loc`` starting with *loc*."""
    if not isinstance(schema, dict):
        return []
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    faults = list(_missing(schema, arguments, loc))
    if schema.get("additionalProperties") is False:
        extra = [name for name in arguments if name not in properties]
        faults += [to_fault("Extra inputs are not permitted", *loc, name, kind="extra_forbidden") for name in extra]
    for name, value in arguments.items():
        faults += _check_value(properties.get(name), value, (*loc, name))
    return faults


def _missing(schema: Mapping[str, Any], arguments: Mapping[str, Any], loc: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    required = schema.get("required")
    for name in required if isinstance(required, list) else []:
        if isinstance(name, str) and name not in arguments:
            yield to_fault("Field required", *loc, name, kind="missing")


def _check_value(schema: Any, value: Any, loc: tuple[str | int, ...]) -> Iterator[dict[str, Any]]:
    if not isinstance(schema, dict):
        return
    if not _is_of_type(schema.get("type"), value):
        yield to_fault(f"Input should be a valid {_say_type(schema['type'])}", *loc, kind="type_error")
        return
    if isinstance(schema.get("enum"), list) and value not in schema["enum"]:
        yield to_fault(f"Input should be one of {schema['enum']}", *loc, kind="enum")
    yield from _check_bounds(schema, value, loc)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for place, item in enumerate(value):
            yield from _check_value(schema["items"], item, (*loc, place))


def _check_bounds(schema: Mapping[str, Any], value: Any, loc: tuple[str | int, ...]) -> Iterator[dict[str, Any]]:
    for keyword, (measure, holds, words) in BOUNDS.items():
        bound, measured = schema.get(keyword), measure(value)
        if _is_number(bound) and measured is not None and not holds(measured, bound):
            yield to_fault("Input should " + words.format(bound), *loc, kind="out_of_bounds")


def _is_of_type(names: Any, value: Any) -> bool:
    known = [name for name in (names if isinstance(names, list) else [names]) if isinstance(name, str)]
    if not known or any(name not in TYPES for name in known):
        return True
    return any(TYPES[name](value) for name in known)


def _say_type(names: Any) -> str:
    return " or ".join(names) if isinstance(names, list) else str(names)
