"""A tool of the manifest as each revision and every client takes it, with nothing added to what the manifest says."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabhive_mcp.manifest.adapter import (
    MAX_EXAMPLES_BYTES,
    META_KEY,
    Shape,
    build_definition,
    shape_output,
)
from colabhive_mcp.manifest.model import build_tool
from colabhive_mcp.manifest.schemas import UnusableSchema
from colabhive_mcp.protocol.revisions import REVISIONS
from tests.harness import spec

LATEST = Shape(REVISIONS["2025-11-25"])
EXACT = LATEST._replace(exact_schemas=True)
EXAMPLE = {"name": "Simple", "input": {"a": 1}, "output": {"b": 2}}
FULL: dict[str, Any] = {
    "name": "qwen-2.5",
    "displayName": "Qwen 2.5",
    "version": "1.0.0",
    "stability": "stable",
    "description": "Multilingual.",
    "longDescription": "Long.",
    "kind": "llm",
    "category": "nlp",
    "tags": ["chat"],
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "outputSchema": {"type": "object", "properties": {"m": {"type": "integer"}}},
    "examples": [EXAMPLE],
    "sideEffects": ["network", "cost"],
    "costHint": "low",
    "latencyClass": "fast",
    "annotations": {"readOnly": True, "idempotent": False, "destructive": False, "openWorld": True},
    "lineage": {"jobId": "j"},
    "deprecation": None,
    "links": {"documentation": "https://x.test"},
}
HINTS = {"readOnlyHint": True, "idempotentHint": False, "destructiveHint": False, "openWorldHint": True}


def define(manifest: dict[str, Any], revision: str = "2025-11-25", *, exact: bool = False) -> dict[str, Any]:
    """The definition of a tool with this manifest, held to the schema of the revision."""
    tool = build_tool({"name": "tool", **manifest})
    body: dict[str, Any] = json.loads(build_definition(tool, "name", Shape(REVISIONS[revision], exact)).body)
    modern = {"resultType": "complete", "ttlMs": 1, "cacheScope": "private"} if revision == spec.MODERN else {}
    message = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [body], **modern}}
    spec.check(message, revision=revision, method="tools/list")
    return body


MEMBERS = {  # a member of a definition -> the first revision that has it
    "name": "2024-11-05",
    "description": "2024-11-05",
    "inputSchema": "2024-11-05",
    "annotations": "2025-03-26",
    "title": "2025-06-18",
    "outputSchema": "2025-06-18",
    "_meta": "2025-06-18",
}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_members_by_revision(revision: str, exact: bool) -> None:
    """A definition has every member that the revision has, and no other."""
    body = define(FULL, revision, exact=exact)
    assert set(body) == {member for member, first in MEMBERS.items() if first <= revision}


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_the_least_that_a_tool_is(revision: str) -> None:
    """Of a manifest that says nothing, nothing is told but the name and a schema without arguments."""
    body = define({}, revision)
    assert body.pop("inputSchema") == {"type": "object", "properties": {}}
    assert body.pop("_meta", {META_KEY: {}}) == {META_KEY: {}}
    assert body == {"name": "name"}


def test_the_title() -> None:
    """The title is the display name; where a revision has none for tools, its annotations have."""
    assert define(FULL)["title"] == "Qwen 2.5"
    assert define(FULL, "2025-03-26")["annotations"] == {"title": "Qwen 2.5", **HINTS}
    for wrong in (None, 5, ["x"], {}):
        assert "title" not in define({**FULL, "displayName": wrong})
        assert "title" not in define({**FULL, "displayName": wrong}, "2025-03-26")["annotations"]


ANNOTATIONS: list[tuple[Any, dict[str, bool]]] = [
    (FULL["annotations"], HINTS),
    ({"readOnly": False, "destructive": True}, {"readOnlyHint": False, "destructiveHint": True}),
    ({"readOnly": True}, {"readOnlyHint": True}),
    ({"readOnly": "yes", "idempotent": 1, "openWorld": None, "destructive": False}, {"destructiveHint": False}),
    ({"readOnlyHint": True, "read_only": True, "own": True}, {}),
    ({}, {}),
    (None, {}),
    ([], {}),
    ("readOnly", {}),
]


@pytest.mark.parametrize(("stated", "hints"), ANNOTATIONS)
def test_annotations(stated: Any, hints: dict[str, bool]) -> None:
    """The four booleans of the manifest become hints; what is missing or unknown there is missing here."""
    assert define({"annotations": stated}).get("annotations", {}) == hints


DESCRIPTIONS: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"description": "d"}, "d"),
    ({"description": ""}, None),
    ({"description": 5}, None),
    ({"description": "d", "longDescription": "long"}, "d"),
    ({"description": "d", "sideEffects": []}, "d\nSide-effects: none."),
    ({"description": "d", "sideEffects": ["network", "pii"]}, "d\nSide-effects: network, pii."),
    ({"description": "d", "sideEffects": "network"}, "d"),
    ({"description": "d", "sideEffects": [5]}, "d"),
    ({"description": "d", "sideEffects": None}, "d"),
    ({"costHint": "free"}, "Cost: free."),
    ({"costHint": "low"}, "Cost: low (under $0.001)."),
    ({"costHint": "medium"}, "Cost: medium (under $0.01)."),
    ({"costHint": "high"}, "Cost: high (over $0.01)."),
    ({"costHint": "training_quota"}, "Cost: training_quota."),
    ({"costHint": ["low"]}, None),
    ({"latencyClass": "instant"}, "Latency: instant (under 0.2 s)."),
    ({"latencyClass": "batch"}, "Latency: batch (over 30 s)."),
    ({"latencyClass": "minutes"}, "Latency: minutes."),
    (
        {"description": "d", "sideEffects": [], "costHint": "free", "latencyClass": "slow"},
        "d\nSide-effects: none; cost: free; latency: slow (under 30 s).",
    ),
    (
        {"description": "d", "deprecation": {"deprecatedAt": "2026-03-01T00:00:00Z", "replacedBy": "other-2.0"}},
        "d\nDeprecated since 2026-03-01; use other-2.0 instead.",
    ),
    ({"deprecation": {"deprecatedAt": "2026-03-01T00:00:00Z", "replacedBy": None}}, "Deprecated since 2026-03-01."),
    ({"deprecation": {"deprecatedAt": None, "replacedBy": "x"}}, "Deprecated; use x instead."),
    ({"deprecation": {}}, None),
    ({"deprecation": None}, None),
    ({"deprecation": "yes"}, None),
]


@pytest.mark.parametrize(("manifest", "expected"), DESCRIPTIONS)
def test_descriptions(manifest: dict[str, Any], expected: str | None) -> None:
    """The description is the manifest's, then its deprecation, then effects, cost and speed in one line."""
    assert define(manifest).get("description") == expected


def test_alternatives_are_told() -> None:
    """What the advertised schema cannot say of the real one is said in the description."""
    schema = {"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]}
    tool = build_tool({"name": "t", "description": "d", "sideEffects": [], "inputSchema": schema})
    definition = build_definition(tool, "t", LATEST)
    body = json.loads(definition.body)
    assert set(body["inputSchema"]["properties"]) == {"a", "b"}
    first, *told, last = body["description"].splitlines()
    assert (first, last) == ("d", "Side-effects: none.")
    assert told
    assert "oneOf" in (definition.rewriting or "")
    assert all(sentence in (definition.rewriting or "") for sentence in told)


META = {
    "kind": "llm",
    "category": "nlp",
    "tags": ["chat"],
    "stability": "stable",
    "version": "1.0.0",
    "costHint": "low",
    "latencyClass": "fast",
    "sideEffects": ["network", "cost"],
    "lineage": {"jobId": "j"},
    "links": {"documentation": "https://x.test"},
    "examples": [EXAMPLE],
}


def test_meta() -> None:
    """All else that the manifest says is in ``_meta`` under our own key, nulls left out and examples last."""
    meta = define(FULL)["_meta"]
    assert meta == {META_KEY: META}
    assert list(meta[META_KEY])[-1] == "examples"


@pytest.mark.parametrize("value", [0, False, "", [], {}, {"a": [1]}])
def test_meta_is_what_the_manifest_says(value: Any) -> None:
    """Values of any type but null are passed on as they are."""
    assert define({"lineage": value})["_meta"] == {META_KEY: {"lineage": value}}


@pytest.mark.parametrize(
    ("examples", "kept"),
    [
        ([EXAMPLE], True),
        ([EXAMPLE, EXAMPLE], True),
        (["x" * (MAX_EXAMPLES_BYTES - 4)], True),
        (["x" * (MAX_EXAMPLES_BYTES - 3)], False),
        ([EXAMPLE, {"input": "x" * 5000}], False),
        (["é" * (MAX_EXAMPLES_BYTES // 2)], False),
        ([], False),
        (None, False),
        ({"a": 1}, False),
    ],
)
def test_examples_while_they_are_small(examples: Any, kept: bool) -> None:
    """Examples are told only while all of them together are small."""
    assert ("examples" in define({"examples": examples})["_meta"][META_KEY]) is kept


OUTPUTS: list[tuple[Any, bool, bool]] = [  # an output schema, shown to legacy clients, shown to modern ones
    ({"type": "object", "properties": {"a": {"type": "string"}}}, True, True),
    ({"type": "object"}, True, True),
    ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}, True, True),
    ({"type": "array", "items": {"type": "integer"}}, False, True),
    ({"type": ["object", "null"]}, False, True),
    ({"type": "string"}, False, True),
    ({"type": "object", "properties": {"image_b64": {"type": "string"}}}, False, False),
    ({"type": "object", "properties": {"images": {"type": "array"}}}, False, False),
    ({"type": "object", "properties": {"audio_b64": {"type": "string"}}}, False, False),
    ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"images": {}}}}}, False, False),
    ({"type": "object", "anyOf": [{"properties": {"image_b64": {}}}, {"properties": {"url": {}}}]}, False, False),
    ({"type": "object", "properties": {"a": {"$ref": "https://x.test/schema"}}}, False, False),
    ({"type": "objekt"}, False, False),
    (None, False, False),
    ("object", False, False),
    ([], False, False),
]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("schema", "legacy", "modern"), OUTPUTS)
def test_output_schemas(schema: Any, legacy: bool, modern: bool, exact: bool) -> None:
    """An output schema is shown where the revision can hold what it promises, and never for binary output."""
    for revision in spec.REVISIONS:
        shown = modern if revision == spec.MODERN else legacy and REVISIONS[revision].structured
        assert ("outputSchema" in define({"outputSchema": schema}, revision, exact=exact)) is shown
        assert (shape_output(schema, REVISIONS[revision], exact=exact) is not None) is shown


INPUTS: list[Any] = [None, True, {}, {"type": "object"}, {"properties": {}}]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("schema", INPUTS)
def test_tools_without_arguments(schema: Any, exact: bool) -> None:
    """However a manifest says that there are no arguments, clients see an object without any."""
    body = define({"inputSchema": schema}, exact=exact)
    assert (body["inputSchema"]["type"], body["inputSchema"]["properties"]) == ("object", {})


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "schema", [False, 5, "object", [], {"type": "int"}, {"type": "string"}, {"$ref": "file:///etc/passwd"}]
)
def test_unusable_inputs(schema: Any, exact: bool) -> None:
    """A tool whose arguments could not be told or checked is not offered, with the reason."""
    with pytest.raises(UnusableSchema):
        build_definition(build_tool({"name": "t", "inputSchema": schema}), "t", EXACT if exact else LATEST)


def test_exact_schemas() -> None:
    """On request the schemas are the manifest's own, and nothing is told of rewriting."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {},
        "oneOf": [{}],
    }
    tool = build_tool({"name": "t", "inputSchema": schema, "outputSchema": {"type": "object", "$comment": "c"}})
    definition = build_definition(tool, "t", EXACT)
    body = json.loads(definition.body)
    assert body["inputSchema"] == schema
    assert body["outputSchema"] == {"type": "object", "$comment": "c"}
    assert "description" not in body
    assert definition.rewriting is None


values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x", "object", "string"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "a", "readOnly"]), inner),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(
    manifest=st.dictionaries(st.sampled_from([name for name in FULL if name != "name"]), values, max_size=8),
    exact=st.booleans(),
)
def test_any_manifest_is_a_definition_or_unusable(manifest: dict[str, Any], exact: bool) -> None:
    """However wrong its members are, a tool is one that each revision takes, or is left out with a reason."""
    for revision in spec.REVISIONS:
        with contextlib.suppress(UnusableSchema):
            define(manifest, revision, exact=exact)
