"""A tool of the manifest as an MCP tool definition, shaped for a revision and for the form of schemas asked for.

Pure: it renders what the manifest says in MCP's words, and adds nothing to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from colabhive_mcp.manifest.client_form import is_object_schema, to_exact_input, to_input_form, to_output_form
from colabhive_mcp.manifest.model import Tool
from colabhive_mcp.protocol.messages import dump_json
from colabhive_mcp.protocol.revisions import Revision

META_KEY = "com.colabhive/manifest"
MAX_EXAMPLES_BYTES = 1024  # together; larger ones cost every client context on every list

_ANNOTATIONS = {
    "readOnly": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "openWorld": "openWorldHint",
}
_COSTS = {"low": "low (under $0.001)", "medium": "medium (under $0.01)", "high": "high (over $0.01)"}
_LATENCIES = {
    "instant": "instant (under 0.2 s)",
    "fast": "fast (under 2 s)",
    "slow": "slow (under 30 s)",
    "batch": "batch (over 30 s)",
}
_META_FIELDS = (
    "kind",
    "category",
    "tags",
    "stability",
    "version",
    "costHint",
    "latencyClass",
    "sideEffects",
    "lineage",
    "deprecation",
    "links",
)
_COMPOSITIONS = ("allOf", "anyOf", "oneOf")
_BINARY_FIELDS = {"image_b64", "images", "audio_b64"}


@dataclass(frozen=True, slots=True)
class Definition:
    """An MCP tool definition, in words what its input schema no longer says, and what an operator is told of that."""

    body: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    rewriting: str | None = None


def build_definition(tool: Tool, name: str, revision: Revision, *, exact_schemas: bool = False) -> Definition:
    """*tool* as listed under *name*. Raises UnusableSchema where no client could be shown its input."""
    manifest = tool.load()
    schema, notes = _shape_input(manifest.get("inputSchema"), exact=exact_schemas)
    output = shape_output(manifest.get("outputSchema"), revision, exact=exact_schemas)
    optional = {
        "title": manifest.get("displayName") if revision.titles else None,
        "description": _describe(manifest, notes) or None,
        "outputSchema": output,
        "annotations": _annotate(manifest, revision) or None,
        "_meta": {META_KEY: _collect_meta(manifest)} if revision.tool_meta else None,
    }
    texts = {"title", "description"}
    kept = {
        key: value
        for key, value in optional.items()
        if value is not None and (key not in texts or isinstance(value, str))
    }
    rewriting = None if exact_schemas else _say_rewriting(manifest.get("inputSchema"), notes)
    return Definition({"name": name, **kept, "inputSchema": schema}, notes, rewriting)


def _say_rewriting(schema: Any, notes: tuple[str, ...]) -> str | None:
    """How the root of an input schema is shown that clients would not take as it is."""
    composed = [keyword for keyword in _COMPOSITIONS if isinstance(schema, dict) and keyword in schema]
    told = [f"its root's {' and '.join(composed)} is shown as plain properties."] if composed else []
    return " ".join([*told, *notes]) or None


def _shape_input(schema: Any, *, exact: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    if exact:
        return _spell_out(to_exact_input(schema)), ()
    form = to_input_form(schema)
    return form.schema, form.notes


def shape_output(schema: Any, revision: Revision, *, exact: bool = False) -> Mapping[str, Any] | None:
    """The output schema that the revision can hold, None where the result stays unstructured.

    Binary output becomes an image or audio block, so it is not promised as structured content as well.
    """
    if not revision.structured or not isinstance(schema, dict):
        return None
    if not revision.any_structured and not is_object_schema(schema):
        return None
    form = _load_output_form(dump_json(schema))
    if form is None or _is_binary(form):
        return None
    return _to_exact_output(schema) if exact else form


@lru_cache(maxsize=512)
def _load_output_form(schema: bytes) -> Mapping[str, Any] | None:
    """The output form of a schema written as JSON; kept, since tools of one kind all answer in the same shape."""
    return to_output_form(json.loads(schema))


def _to_exact_output(schema: dict[str, Any]) -> dict[str, Any]:
    """The manifest's own output schema; one that admits nothing but objects says so, as the legacy revisions demand."""
    return _spell_out({**schema, "type": "object"}) if is_object_schema(schema) else schema


def _spell_out(schema: dict[str, Any]) -> dict[str, Any]:
    """*schema* with an object for each property, as the legacy revisions demand: ``true`` and ``false`` become one."""
    properties = schema.get("properties", {})
    if not any(isinstance(each, bool) for each in properties.values()):
        return schema
    spelled: dict[bool, dict[str, Any]] = {True: {}, False: {"not": {}}}
    own = {name: spelled[each] if isinstance(each, bool) else each for name, each in properties.items()}
    return {**schema, "properties": own}


def _is_binary(form: Mapping[str, Any]) -> bool:
    """Whether *form*, or a part or an alternative of it, describes what becomes an image or audio block."""
    parts = [form, *(part for keyword in _COMPOSITIONS for part in form.get(keyword, ()))]
    return any(not _BINARY_FIELDS.isdisjoint(part.get("properties", ())) for part in parts)


def _annotate(manifest: Mapping[str, Any], revision: Revision) -> dict[str, Any]:
    stated = manifest.get("annotations")
    if not revision.annotations:
        return {}
    hints = {
        hint: stated[name]
        for name, hint in _ANNOTATIONS.items()
        if isinstance(stated, dict) and isinstance(stated.get(name), bool)
    }
    title = manifest.get("displayName")
    return {"title": title, **hints} if isinstance(title, str) and not revision.titles else hints


def _describe(manifest: Mapping[str, Any], notes: tuple[str, ...]) -> str:
    """The description, the deprecation, what the schema can't say, then effects, cost and speed in one line."""
    description = manifest.get("description")
    parts = [description if isinstance(description, str) else None, _say_deprecation(manifest), *notes]
    return "\n".join(filter(None, [*parts, _say_hints(manifest)]))


def _say_deprecation(manifest: Mapping[str, Any]) -> str | None:
    deprecation = manifest.get("deprecation")
    if not isinstance(deprecation, dict) or not deprecation:
        return None
    when, instead = deprecation.get("deprecatedAt"), deprecation.get("replacedBy")
    since = f" since {when[:10]}" if isinstance(when, str) else ""
    use = f"; use {instead} instead" if isinstance(instead, str) else ""
    return f"Deprecated{since}{use}."


def _say_effects(value: Any) -> str | None:
    if not isinstance(value, list) or not all(isinstance(effect, str) for effect in value):
        return None
    return ", ".join(value) or "none"


def _say_label(labels: Mapping[str, str]) -> Callable[[Any], str | None]:
    return lambda value: labels.get(value, value) if isinstance(value, str) else None


_HINTS: tuple[tuple[str, str, Callable[[Any], str | None]], ...] = (
    ("Side-effects", "sideEffects", _say_effects),
    ("cost", "costHint", _say_label(_COSTS)),
    ("latency", "latencyClass", _say_label(_LATENCIES)),
)


def _say_hints(manifest: Mapping[str, Any]) -> str:
    said = [(label, say(manifest.get(name))) for label, name, say in _HINTS]
    line = "; ".join(f"{label}: {words}" for label, words in said if words)
    return f"{line[0].upper()}{line[1:]}." if line else ""


def _collect_meta(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What MCP has no field for; examples last, and only while they are small."""
    meta = {name: manifest[name] for name in _META_FIELDS if manifest.get(name) is not None}
    examples = manifest.get("examples")
    if isinstance(examples, list) and examples and len(dump_json(examples)) <= MAX_EXAMPLES_BYTES:
        meta["examples"] = examples
    return meta
