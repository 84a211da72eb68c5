"""A tool of the manifest as an MCP tool definition, shaped for a revision and for the form of schemas asked for.

Pure: it renders what the manifest says in MCP's words, and adds nothing to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from colabhive_mcp.manifest.client_form import (
    ClientForm,
    is_object_schema,
    to_exact_input,
    to_input_form,
    to_output_form,
)
from colabhive_mcp.manifest.document import load_document
from colabhive_mcp.manifest.model import Members, Tool
from colabhive_mcp.manifest.plain import inline_plain, is_plain
from colabhive_mcp.protocol.messages import dump_json
from colabhive_mcp.protocol.revisions import Revision

META_KEY = "com.colabhive/manifest"
KEPT_SCHEMA = 16 * 1024  # characters; read, each takes some ten times as much memory, and 512 are kept
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
_AS_IT_IS = ClientForm({})
_BINARY_FIELDS = {"image_b64", "images", "audio_b64"}


class Shape(NamedTuple):
    """What a definition depends on beside its tool: the revision, and how names and schemas are shown to a client."""

    revision: Revision
    exact_schemas: bool = False
    dropped: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[Any, ...]:
        """The same for shapes that make the same of every tool."""
        return (self.revision.shape, self.exact_schemas, self.dropped)


class Definition(NamedTuple):
    """An MCP tool definition as JSON, and what an operator is told where its input schema says less than the tool's."""

    body: bytes
    rewriting: str | None = None


def build_definition(tool: Tool, name: str, shape: Shape) -> Definition:
    """*tool* as listed under *name*. Raises UnusableSchema where no client could be shown its input.

    What stands in the manifest as a client may have it is not written anew: its text is copied.
    """
    members, revision = tool.members(), shape.revision
    manifest = members.values
    schema, form = _shape_input(members, shape)
    described = _describe(tool, manifest, form.notes)
    has_title = revision.titles and isinstance(manifest.get("displayName"), str)
    definition = {
        "name": to_text(name),
        "title": members.copy("displayName") if has_title else None,
        "description": to_text(described) if described else None,
        "outputSchema": _find_output(members, shape),
        "annotations": _annotate(manifest, revision),
        "_meta": f'{{"{META_KEY}":{_collect_meta(members)}}}' if revision.tool_meta else None,
        "inputSchema": schema,
    }
    body = ",".join(f'"{key}":{text}' for key, text in definition.items() if text is not None)
    rewriting = None if shape.exact_schemas else _say_rewriting(manifest.get("inputSchema"), form)
    return Definition(f"{{{body}}}".encode(), rewriting)


def to_text(value: Any) -> str:
    """*value* as JSON that goes into a definition."""
    return dump_json(value).decode()


def _say_rewriting(schema: Any, form: ClientForm) -> str | None:
    """How an input schema is shown that clients would not take as it is, or would leave the tool out for."""
    composed = [keyword for keyword in _COMPOSITIONS if isinstance(schema, dict) and keyword in schema]
    told = [f"its root's {' and '.join(composed)} is shown as plain properties."] if composed else []
    unmirrored = [f"No argument is repeated in a header: {form.unmirrored}."] if form.unmirrored else []
    return " ".join([*told, *form.notes, *unmirrored]) or None


def _shape_input(members: Members, shape: Shape) -> tuple[str, ClientForm]:
    """The input schema for a client as JSON, and the form with what it does not say; a copy has nothing to say."""
    schema = members.values.get("inputSchema")
    if shape.exact_schemas:
        return to_text(_spell_out(to_exact_input(schema))), _AS_IT_IS
    if is_plain(schema, dropped=shape.dropped):
        return members.copy("inputSchema"), _AS_IT_IS
    inlined = inline_plain(schema, dropped=shape.dropped)
    form = ClientForm(inlined) if inlined is not None else to_input_form(schema, dropped=shape.dropped)
    return to_text(form.schema), form


def _find_output(members: Members, shape: Shape) -> str | None:
    """The output schema for a client, None where it is promised none."""
    schema = members.values.get("outputSchema")
    if not shape.revision.structured or not isinstance(schema, dict):
        return None
    if shape.exact_schemas:
        shown = shape_output(schema, shape.revision, exact=True)
        return None if shown is None else to_text(shown)
    form = _load_output_form(members.copy("outputSchema"))
    return form.text if form is not None and (form.is_object or shape.revision.any_structured) else None


def shape_output(schema: Any, revision: Revision, *, exact: bool = False) -> Mapping[str, Any] | None:
    """The output schema that the revision can hold, None where the result stays unstructured.

    Binary output becomes an image or audio block, so it is not promised as structured content as well.
    """
    if not revision.structured or not isinstance(schema, dict):
        return None
    form = _load_output_form(to_text(schema))
    if form is None or not (form.is_object or revision.any_structured):
        return None
    return _to_exact_output(schema) if exact else form.schema


class _OutputForm(NamedTuple):
    """The form of an output schema, written as JSON, and whether it admits nothing but objects."""

    schema: Mapping[str, Any]
    text: str
    is_object: bool


def _load_output_form(schema: str) -> _OutputForm | None:
    """The form of a schema written as JSON; None where it cannot be used, or is of an image or audio block.

    Kept while it is small, since tools of one kind all answer in the same shape.
    """
    return _keep_output_form(schema) if len(schema) <= KEPT_SCHEMA else _build_output_form(schema)


@lru_cache(maxsize=512)
def _keep_output_form(schema: str) -> _OutputForm | None:
    return _build_output_form(schema)


def _build_output_form(schema: str) -> _OutputForm | None:
    form = to_output_form(json.loads(schema))
    if form is None or _is_binary(form):
        return None
    return _OutputForm(form, to_text(form), is_object_schema(json.loads(schema)))


def _to_exact_output(schema: dict[str, Any]) -> dict[str, Any]:
    """The manifest's own output schema; one that admits nothing but objects says so, as the legacy revisions demand."""
    own = load_document(schema).root
    return _spell_out({**own, "type": "object"}) if is_object_schema(schema) else own


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


def _annotate(manifest: Mapping[str, Any], revision: Revision) -> str | None:
    """The annotations as JSON, None where there are none."""
    if not revision.annotations:
        return None
    stated = manifest.get("annotations")
    known = stated if isinstance(stated, dict) else {}
    hints = tuple((hint, known[name]) for name, hint in _ANNOTATIONS.items() if type(known.get(name)) is bool)
    title = manifest.get("displayName")
    if isinstance(title, str) and not revision.titles:
        return to_text({"title": title, **dict(hints)})
    return _write_hints(hints) if hints else None


@lru_cache(maxsize=81)  # as many as there are: each of four hints is true, false or missing
def _write_hints(hints: tuple[tuple[str, bool], ...]) -> str:
    """An object with *hints* as JSON; kept, since there are few sets of them."""
    return to_text(dict(hints))


def _describe(tool: Tool, manifest: Mapping[str, Any], notes: tuple[str, ...]) -> str:
    """The description, the deprecation, what the schema can't say, then effects, cost and speed in one line."""
    deprecation = say_deprecation(manifest["deprecation"]) if tool.deprecated else None
    return "\n".join(filter(None, [tool.description, deprecation, *notes, _say_hints(manifest)]))


def say_deprecation(deprecation: Mapping[str, Any]) -> str:
    """One sentence for whoever would use a tool that is deprecated: since when, and what to use instead."""
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


def _collect_meta(members: Members) -> str:
    """What MCP has no field for; examples last, and only while they are small."""
    told = [name for name in _META_FIELDS if members.values.get(name) is not None]
    examples = members.values.get("examples")
    if isinstance(examples, list) and examples and len(members.copy("examples").encode()) <= MAX_EXAMPLES_BYTES:
        told.append("examples")
    listed = ",".join([f'"{name}":{members.copy(name)}' for name in told])
    return f"{{{listed}}}"
