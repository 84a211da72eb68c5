"""The arguments of a call: repaired where clients are known to bend them, then checked against the manifest's own
schema.

A repair never guesses: it is kept only where the arguments were refused as they came and are accepted after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from colabhive_mcp.errors import ToolError
from colabhive_mcp.manifest.schemas import Checker

MAX_FINDINGS = 5
MAX_DEPTH = 32  # of the repair; what lies deeper is checked as it came

# n8n's agent adds these to the arguments of every tool.
INJECTED = ("sessionId", "action", "chatInput", "toolCallId")

_JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
}
_ABSENT = object()


def repair_arguments(arguments: Mapping[str, Any], schema: Any, checker: Checker) -> dict[str, Any]:
    """*arguments* as the gateway should get them. Raises ToolError that names each path and what was expected there."""
    schema = schema if isinstance(schema, dict) else {}
    given = _drop_injected(arguments, schema)
    if not checker.accepts(given):
        given = _mend(given, schema, schema, MAX_DEPTH)
        findings = checker.findings(given, limit=MAX_FINDINGS)
        if findings:
            raise ToolError(_say_findings([(finding.path, finding.message) for finding in findings]))
    whole: dict[str, Any] = _to_integers(given, schema, schema, MAX_DEPTH)
    return whole


def _say_findings(findings: list[tuple[str, str]]) -> str:
    lines = [f"- {path or 'arguments'}: {message}" for path, message in findings]
    return "\n".join(["The arguments do not fit the tool's input schema:", *lines, "Nothing was sent."])


def _drop_injected(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Without the extras of known clients, but for those that the tool itself declares; a tool that declares nothing
    keeps all.
    """
    declared = schema.get("properties")
    if not isinstance(declared, dict) or not declared:
        return dict(arguments)
    return {key: value for key, value in arguments.items() if key not in INJECTED or key in declared}


def _resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """*schema* behind its local references; ``{}`` where there is nothing to go by."""
    for _ in range(MAX_DEPTH):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = _find(root, reference)
    return {}


def _find(root: Mapping[str, Any], reference: str) -> Any:
    node: Any = root
    if not reference.startswith("#"):
        return None
    for token in reference[1:].split("/")[1:]:
        node = node.get(token.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


def _children(value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Each member or item of *value* with its key and the schema that is stated for it."""
    if isinstance(value, dict):
        properties = schema.get("properties")
        named = properties if isinstance(properties, dict) else {}
        others = schema.get("additionalProperties")
        yield from ((key, member, named.get(key, others)) for key, member in value.items())
    elif isinstance(value, list):
        yield from ((place, item, schema.get("items")) for place, item in enumerate(value))


def _types(schema: Mapping[str, Any]) -> set[str]:
    stated = schema.get("type")
    names = stated if isinstance(stated, list) else [stated]
    return {name for name in names if isinstance(name, str)}


def _mend(value: Any, schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """*value* with JSON text decoded once where no text is wanted, and nulls left out where none is wanted."""
    schema = _resolve(schema, root)
    value = _decode(value, _types(schema))
    if depth == 0 or not isinstance(value, dict | list):
        return value
    mended = [
        (key, _mend_member(key, member, rule, schema, root, depth)) for key, member, rule in _children(value, schema)
    ]
    if isinstance(value, list):
        return [item for _, item in mended]
    return {key: member for key, member in mended if member is not _ABSENT}


def _mend_member(
    key: Any, value: Any, rule: Any, parent: Mapping[str, Any], root: Mapping[str, Any], depth: int
) -> Any:
    if value is None and isinstance(key, str) and key not in _required(parent) and _refuses_null(_resolve(rule, root)):
        return _ABSENT
    return _mend(value, rule, root, depth - 1)


def _required(schema: Mapping[str, Any]) -> list[Any]:
    required = schema.get("required")
    return required if isinstance(required, list) else []


def _refuses_null(schema: Mapping[str, Any]) -> bool:
    types = _types(schema)
    return ("enum" in schema and None not in schema["enum"]) or (bool(types) and "null" not in types)


def _decode(value: Any, types: set[str]) -> Any:
    """The value that a text spells, where only other types are wanted and it is of one of them."""
    if not isinstance(value, str) or not types or "string" in types:
        return value
    try:
        decoded = json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return value
    return decoded if any(_is_of(decoded, name) for name in types) else value


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _is_of(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _JSON_TYPES.get(name, ()))


def _to_integers(value: Any, schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """*value* with 3.0 written as 3 wherever an integer is wanted: JSON Schema takes both, many a backend only one."""
    schema = _resolve(schema, root)
    if isinstance(value, float):
        return int(value) if value.is_integer() and _types(schema) == {"integer"} else value
    if depth == 0 or not isinstance(value, dict | list) or not schema:
        return value
    whole = [(key, _to_integers(member, rule, root, depth - 1)) for key, member, rule in _children(value, schema)]
    return dict(whole) if isinstance(value, dict) else [item for _, item in whole]
