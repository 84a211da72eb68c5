"""The arguments of a call: mended where clients are known to bend them, then checked against the tool's own schema.

A repair never guesses: it is kept only where the arguments were refused as they came and are accepted after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from colabhive_mcp.errors import ToolError
from colabhive_mcp.manifest.schemas import Checker
from colabhive_mcp.protocol.messages import load_json

MAX_FINDINGS = 5
MAX_DEPTH = 32  # of the repair; what lies deeper is checked as it came

# n8n's agent adds these to the arguments of every tool.
INJECTED = ("sessionId", "action", "chatInput", "toolCallId")

_DECLARING = ("properties", "$ref", "allOf", "anyOf", "oneOf")
_UNIONS = ("anyOf", "oneOf")
_PARTS = ("allOf", *_UNIONS)
_UNION_DEPTH = 2  # of alternatives within alternatives whose types are looked for
_JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "string": str,
    "null": type(None),
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
    """Without the extras of known clients, but for those that the tool itself declares.

    A tool that declares nothing, or names by a pattern, keeps all.
    """
    if "patternProperties" in schema or not any(schema.get(keyword) for keyword in _DECLARING):
        return dict(arguments)
    return {key: value for key, value in arguments.items() if key not in INJECTED or _declares(schema, key)}


def _declares(root: Mapping[str, Any], name: str) -> bool:
    """Whether the schema, or a part or an alternative of it, says anything of the member *name*."""
    pending: list[Any] = [root]
    seen: set[int] = set()
    while pending:
        schema = _resolve(pending.pop(), root)
        if name in (schema.get("properties") or ()) or isinstance(schema.get("additionalProperties"), dict):
            return True
        if id(schema) not in seen:
            seen.add(id(schema))
            pending += [part for keyword in _PARTS for part in schema.get(keyword) or ()]
    return False


def _resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """*schema* behind its references, and behind an ``allOf`` of one; ``{}`` where there is nothing to go by."""
    for _ in range(MAX_DEPTH):
        if not isinstance(schema, dict):
            return {}
        reference, parts = schema.get("$ref"), schema.get("allOf")
        if isinstance(reference, str):
            schema = _find(root, reference)
        elif isinstance(parts, list) and len(parts) == 1 and not {"type", "properties", "items"} & schema.keys():
            schema = parts[0]
        else:
            return schema
    return {}


def _find(root: Mapping[str, Any], reference: str) -> Any:
    """What a JSON pointer finds; an anchor finds nothing, and what stands there is checked as it came."""
    fragment = unquote(reference.removeprefix("#"))
    if not reference.startswith("#") or (fragment and not fragment.startswith("/")):
        return None
    node: Any = root
    for token in fragment.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = node[int(name)] if name.isdecimal() and int(name) < len(node) else None
        else:
            node = node.get(name) if isinstance(node, dict) else None
    return node


def _children(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Each member or item of *value* with its key and the schema that is stated for it."""
    if isinstance(value, dict):
        schema = _choose(schema, "object", root)
        named = schema.get("properties") or {}
        others = None if "patternProperties" in schema else schema.get("additionalProperties")
        yield from ((key, member, named.get(key, others)) for key, member in value.items())
    elif isinstance(value, list):
        schema = _choose(schema, "array", root)
        first = schema.get("prefixItems") or []
        rules = (first[place] if place < len(first) else schema.get("items") for place in range(len(value)))
        yield from zip(range(len(value)), value, rules, strict=True)


def _choose(schema: Mapping[str, Any], kind: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one alternative of *schema* that may be of type *kind*, *schema* itself where there is not exactly one."""
    branches = [_resolve(branch, root) for branch in _branches(schema)]
    fitting = [branch for branch in branches if kind in _types(branch, root)]
    return fitting[0] if len(fitting) == 1 and all(_types(branch, root) for branch in branches) else schema


def _branches(schema: Mapping[str, Any]) -> list[Any]:
    return next((schema[keyword] for keyword in _UNIONS if isinstance(schema.get(keyword), list)), [])


def _types(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = _UNION_DEPTH) -> set[str]:
    """The JSON types that *schema* admits, by its own words or by its alternatives; empty where it doesn't say."""
    stated = schema.get("type")
    if stated is not None:
        return set(stated if isinstance(stated, list) else [stated])
    if "const" in schema or "enum" in schema:
        return {_name_type(value) for value in (schema["enum"] if "enum" in schema else [schema["const"]])}
    each = [_types(_resolve(branch, root), root, depth - 1) for branch in _branches(schema)] if depth else []
    return set().union(*each) if all(each) else set()


def _name_type(value: Any) -> str:
    return next(name for name in ("integer", *_JSON_TYPES) if _is_of(value, name))


def _mend(value: Any, schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """*value* with JSON text decoded once where no text is wanted, and nulls left out where none is wanted."""
    schema = _resolve(schema, root)
    value = _decode(value, _types(schema, root))
    if depth == 0 or not isinstance(value, dict | list):
        return value
    required = _choose(schema, "object", root).get("required") or []
    mended = [
        (key, _ABSENT if _may_drop(key, member, rule, required, root) else _mend(member, rule, root, depth - 1))
        for key, member, rule in _children(value, schema, root)
    ]
    if isinstance(value, list):
        return [item for _, item in mended]
    return {key: member for key, member in mended if member is not _ABSENT}


def _may_drop(key: Any, value: Any, rule: Any, required: Sequence[Any], root: Mapping[str, Any]) -> bool:
    """Whether a member is an explicit null for what may be left out but not be null."""
    if value is not None or not isinstance(key, str) or key in required:
        return False
    types = _types(_resolve(rule, root), root)
    return bool(types) and "null" not in types


def _decode(value: Any, types: set[str]) -> Any:
    """The value that a text spells, where only other types are wanted and it is of one of them."""
    if not isinstance(value, str) or not types or "string" in types:
        return value
    try:
        decoded = load_json(value.encode())
    except ValueError:
        return value
    return decoded if any(_is_of(decoded, name) for name in types) else value


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
        types = _types(schema, root) if value.is_integer() else set()
        return int(value) if "integer" in types and "number" not in types else value
    if depth == 0 or not isinstance(value, dict | list) or not schema:
        return value
    whole = [(key, _to_integers(member, rule, root, depth - 1)) for key, member, rule in _children(value, schema, root)]
    return dict(whole) if isinstance(value, dict) else [item for _, item in whole]
