"""``search_tools``, ``describe_tool`` and ``call_tool``: what stands for a list that is too long for a model's context.

Pure: their definitions, their arguments, and their answers as text. It neither finds nor calls a tool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colabhive_mcp.calls.arguments import INJECTED
from colabhive_mcp.errors import ToolError
from colabhive_mcp.manifest.client_form import to_exact_input, to_input_form, to_output_form
from colabhive_mcp.manifest.model import Tool
from colabhive_mcp.manifest.queries import COSTS, LATENCIES, Found, Hit, Query
from colabhive_mcp.manifest.resources import to_uri
from colabhive_mcp.manifest.wording import to_count, to_list, to_words
from colabhive_mcp.protocol.messages import dump_json, load_json

SEARCH, DESCRIBE, CALL = "search_tools", "describe_tool", "call_tool"
NAMES = (SEARCH, DESCRIBE, CALL)
MAX_SUMMARY = 160  # characters of a tool's description in a list of hits

_READ_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_TOOL_NAME = {"type": "string", "description": f"As {SEARCH} gives it."}


def _build_definition(name: str, description: str, properties: Mapping[str, Any], **more: Any) -> Mapping[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False, **more.pop("schema", {})}
    title = name.replace("_", " ").capitalize()
    return {"name": name, "title": title, "description": description, "inputSchema": schema, **more}


DEFINITIONS: tuple[Mapping[str, Any], ...] = (
    _build_definition(
        SEARCH,
        "Finds tools by what they do. There are too many to list: search here for each new task, read a hit with "
        f"{DESCRIBE}, run it with {CALL}. Answers the best ten, a line each.\nSide-effects: none; cost: free.",
        {
            "query": {
                "type": "string",
                "description": "What the tool should do, in a few plain words; any may match. Without it, all tools.",
            },
            "kind": {"type": "string", "description": "Such as llm, specialist, generative, tool or operation."},
            "tags": {**_TEXTS, "description": "All of these."},
            "max_cost": {"type": "string", "enum": [*COSTS]},
            "max_latency": {"type": "string", "enum": [*LATENCIES]},
            "exclude_side_effects": {
                **_TEXTS,
                "description": "None of these: network, storage, pii, cost, mutating, external.",
            },
        },
        annotations=_READ_ONLY,
    ),
    _build_definition(
        DESCRIBE,
        "Reads one tool before its first call: what it does, its input and output schema, examples, cost, speed, "
        "side-effects.\nSide-effects: none; cost: free.",
        {"name": _TOOL_NAME},
        schema={"required": ["name"]},
        annotations=_READ_ONLY,
    ),
    _build_definition(
        CALL,
        f"Runs one tool and answers its result. Side-effects, cost and latency are those that {DESCRIBE} tells of it.",
        {
            "name": _TOOL_NAME,
            "arguments": {"type": "object", "description": "What the tool's own inputSchema asks for."},
        },
        schema={"required": ["name"]},
        annotations={"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True},
    ),
)
_ARGUMENTS = {definition["name"]: (*definition["inputSchema"]["properties"],) for definition in DEFINITIONS}


# Arguments


@dataclass(frozen=True, slots=True)
class Call:
    """Which tool to call, by its name or slug, and with which arguments."""

    name: str
    arguments: Mapping[str, Any]


def parse_search(arguments: Mapping[str, Any]) -> Query:
    """The arguments of ``search_tools``. Raises ToolError that says what is wrong with them."""
    _refuse_others(SEARCH, arguments)
    return Query(
        words=_parse_text(arguments, "query"),
        kind=_parse_text(arguments, "kind"),
        tags=_parse_texts(arguments, "tags"),
        max_cost=_parse_label(arguments, "max_cost", COSTS),
        max_latency=_parse_label(arguments, "max_latency", LATENCIES),
        without_side_effects=_parse_texts(arguments, "exclude_side_effects"),
    )


def parse_description(arguments: Mapping[str, Any]) -> str:
    """The tool's name in the arguments of ``describe_tool``. Raises ToolError as `parse_search`."""
    _refuse_others(DESCRIBE, arguments)
    return _parse_name(arguments)


def parse_call(arguments: Mapping[str, Any]) -> Call:
    """The arguments of ``call_tool``; those of the tool may be written as JSON text. Raises ToolError."""
    others = _find_others(CALL, arguments)
    if others and "name" not in arguments:
        raise ToolError(f"{_say_others(CALL, others)}. Nothing was called")
    if others:
        told = to_list(map(to_words, others), joined="and")
        raise ToolError(f'The tool\'s own arguments go into "arguments", not beside it: {told}. Nothing was called')
    return Call(_parse_name(arguments), _parse_object(arguments.get("arguments")))


def _find_others(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    return [name for name in arguments if name not in _ARGUMENTS[tool] and name not in INJECTED]


def _refuse_others(tool: str, arguments: Mapping[str, Any]) -> None:
    others = _find_others(tool, arguments)
    if others:
        raise ToolError(_say_others(tool, others))


def _say_others(tool: str, others: Sequence[str]) -> str:
    known = to_list(_ARGUMENTS[tool], joined="and")
    return f"{tool} has no argument {to_list(map(to_words, others))}; it has {known}"


def _parse_name(arguments: Mapping[str, Any]) -> str:
    name = arguments.get("name")
    if not isinstance(name, str | None):
        raise ToolError(f'"name" must be the name of one tool, as {SEARCH} gives it, not {to_words(name)}')
    if name is None or not name.strip():
        raise ToolError(f'"name" is missing: give the name of a tool, as {SEARCH} gives it')
    return name.strip()


def _parse_object(value: Any) -> Mapping[str, Any]:
    """An object, also where it came as JSON text; empty where it is absent, null or blank."""
    decoded = _decode(value.strip() or "null") if isinstance(value, str) else value
    if not isinstance(decoded, dict | None):
        raise ToolError(f'"arguments" must be an object that fits the tool\'s inputSchema, not {to_words(value)}')
    return decoded or {}


def _decode(text: str) -> Any:
    """The value that *text* spells as JSON; *text* itself where it spells none."""
    try:
        return load_json(text.encode())
    except ValueError:
        return text


def _parse_text(arguments: Mapping[str, Any], name: str) -> str | None:
    """A text, also where it came as a number or as a list of words; None where it is absent, null or blank."""
    value = arguments.get(name)
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, str | int | float | None) and not isinstance(part, bool) for part in parts):
        raise ToolError(f'"{name}" must be a text, not {to_words(value)}')
    return " ".join(str(part) for part in parts if part is not None).strip() or None


def _parse_texts(arguments: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts, also where it came as JSON text, or as one text with commas."""
    value = arguments.get(name)
    decoded = _decode(value) if isinstance(value, str) and value.lstrip().startswith("[") else value
    parts = decoded.split(",") if isinstance(decoded, str) else [] if decoded is None else decoded
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ToolError(f'"{name}" must be a list of texts, not {to_words(value)}')
    return tuple(part.strip() for part in parts if part.strip())


def _parse_label(arguments: Mapping[str, Any], name: str, labels: Collection[str]) -> str | None:
    label = _parse_text(arguments, name)
    if label is not None and label.lower() not in labels:
        raise ToolError(f'"{name}" must be {to_list(labels)}, not {to_words(label)}')
    return label and label.lower()


# Answers


def say_found(found: Found, query: Query, *, kinds: Sequence[str] = ()) -> str:
    """The hits of a search, a line each, and how many more there are. *kinds* are those that one may search for."""
    if not found.hits:
        return _say_none(query, kinds)
    more = found.total - len(found.hits)
    lines = [f"{to_count(len(found.hits), 'tool', 'tools')}, best first:", *map(_say_hit, found.hits)]
    if more > 0:
        least = "At least " if found.at_least else ""
        count = to_count(more, "more matches", "more match")
        lines.append(f"{least}{count}: search with more telling words or limits.")
    return "\n".join([*lines, f"Read one with {DESCRIBE}, run it with {CALL}."])


def _say_none(query: Query, kinds: Sequence[str]) -> str:
    limits = _name_limits(query)
    parts = [
        f"No tool matches{f' {to_words(query.words)}' if query.words else ''}{' within the limits' if limits else ''}.",
        "Try other words for the same, fewer, or those of the language that manifests are in." if query.words else "",
        f"{'Or leave' if query.words else 'Leave'} out {to_list(limits)}." if limits else "",
        f"Kinds here: {to_list(kinds, joined='and')}." if kinds and query.kind else "",
    ]
    return " ".join(filter(None, parts))


def _name_limits(query: Query) -> list[str]:
    limits = {
        "kind": query.kind,
        "tags": query.tags,
        "max_cost": query.max_cost,
        "max_latency": query.max_latency,
        "exclude_side_effects": query.without_side_effects,
    }
    return [name for name, value in limits.items() if value]


def _say_hit(hit: Hit) -> str:
    summary, facts = _summarise(hit.tool.description or ""), "; ".join(_say_facts(hit.tool))
    return f"- {hit.name}{f': {summary}' if summary else ''}{f' [{facts}]' if facts else ''}"


def _summarise(description: str) -> str:
    line = " ".join(next(iter(description.strip().splitlines()), "").split())
    return line if len(line) <= MAX_SUMMARY else f"{line[: MAX_SUMMARY - 1].rstrip()}…"


def _say_facts(tool: Tool) -> Iterator[str]:
    """What the manifest states, and nothing of what it doesn't."""
    if tool.deprecated:
        yield f"deprecated, use {tool.replaced_by}" if tool.replaced_by else "deprecated"
    if tool.kind:
        yield tool.kind
    if tool.cost:
        yield f"cost {tool.cost}"
    if tool.latency:
        yield f"latency {tool.latency}"
    if tool.side_effects is not None:
        yield f"side-effects {', '.join(tool.side_effects) or 'none'}"


_FIELDS = (
    *("displayName", "description", "longDescription", "deprecation", "kind", "category", "tags", "stability"),
    *("version", "sideEffects", "costHint", "latencyClass", "annotations", "inputSchema", "inputNotes"),
    *("outputSchema", "examples", "lineage", "links"),
)
_DISPENSABLE = (  # in this order, until the rest is small enough
    *("examples", "lineage", "links", "longDescription", "outputSchema", "annotations", "tags", "category"),
    *("displayName", "version", "stability", "inputNotes", "inputSchema", "deprecation", "sideEffects", "costHint"),
    *("latencyClass", "kind", "description", "slug"),
)


def to_description(tool: Tool, name: str, *, limit: int, exact_schemas: bool = False) -> str:
    """All that a model should know of *tool*, which it calls *name*, as JSON of at most *limit* bytes.

    What is left out for its size is named, and so is where to read it; these words alone may be more than *limit*.
    Schemas are in the form that clients take, unless the exact ones are wanted.

    Raises:
        UnusableSchema: as `to_input_form`.
    """
    manifest = tool.load()
    known = {**manifest, **_to_schemas(manifest, exact=exact_schemas)}
    slug = {} if tool.slug == name else {"slug": tool.slug}
    kept = {"name": name, **slug, **{field: known[field] for field in _FIELDS if known.get(field) is not None}}
    left_out: list[str] = []
    text = dump_json(kept)
    for field in (field for field in _DISPENSABLE if field in kept):
        if len(text) <= limit:
            break
        del kept[field]
        left_out.append(field)
        text = dump_json({**kept, "leftOut": left_out, "leftOutIsAt": to_uri(tool.slug)})
    return text.decode()


def _to_schemas(manifest: Mapping[str, Any], *, exact: bool) -> dict[str, Any]:
    """The schemas, and in words what that of the input doesn't say."""
    own, output = manifest.get("inputSchema"), manifest.get("outputSchema")
    if exact:
        return {"inputSchema": to_exact_input(own), "inputNotes": None, "outputSchema": output}
    form = to_input_form(own)
    return {"inputSchema": form.schema, "inputNotes": list(form.notes) or None, "outputSchema": to_output_form(output)}
