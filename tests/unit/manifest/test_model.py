"""What the gateway says of its tools, as values: what is usable, what is missing, what is shared."""

import copy
import gc
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabhive_mcp.errors import BadAnswer
from colabhive_mcp.manifest.model import (
    MAX_SLUG,
    LeftOut,
    UnusableTool,
    build_manifest,
    build_tool,
)

WRONG: list[Any] = [None, True, 5, 0.5, "", "text", [], ["x"], [1], {}, {"a": 1}]
FULL: dict[str, Any] = {
    "name": "qwen-2.5",
    "kind": "llm",
    "stability": "stable",
    "description": "d",
    "sideEffects": ["network"],
    "costHint": "low",
    "latencyClass": "fast",
    "deprecation": {"deprecatedAt": "2026-01-01", "replacedBy": "other"},
    "inputSchema": {"type": "object"},
}
FIELDS = {  # a field of a tool -> the member of the manifest that it is
    "kind": "kind",
    "stability": "stability",
    "description": "description",
    "cost": "costHint",
    "latency": "latencyClass",
}


def test_what_a_tool_says() -> None:
    """A tool has what filters and tables look at, and its whole manifest behind it."""
    tool = build_tool(FULL)
    assert (tool.slug, tool.kind, tool.stability, tool.description) == ("qwen-2.5", "llm", "stable", "d")
    assert (tool.side_effects, tool.cost, tool.latency, tool.replaced_by) == (("network",), "low", "fast", "other")
    assert tool.load() == FULL


def test_what_a_tool_does_not_say() -> None:
    """Nothing is invented: what is missing in the manifest is missing in the tool."""
    tool = build_tool({"name": "x"})
    assert [getattr(tool, name) for name in (*FIELDS, "side_effects", "replaced_by")] == [None] * 7


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize(("field", "member"), FIELDS.items())
def test_wrong_types_are_missing(field: str, member: str, value: Any) -> None:
    """A member of the wrong type is as good as none; a text is taken as it is."""
    tool = build_tool({**FULL, member: value})
    assert getattr(tool, field) == (value if isinstance(value, str) else None)
    assert tool.load()[member] == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], ()),
        (["a", "b"], ("a", "b")),
        (None, None),
        ("network", None),
        ({"network": True}, None),
        ([1], None),
        ([{"type": "mutating"}], None),
        (["network", 5], None),
    ],
)
def test_side_effects(value: Any, expected: Any) -> None:
    """Side-effects that cannot be read whole are not stated, which is not the same as none."""
    assert build_tool({**FULL, "sideEffects": value}).side_effects == expected


@pytest.mark.parametrize("value", [*WRONG, {"replacedBy": 5}, {"replacedBy": None}])
def test_deprecations_of_the_wrong_type(value: Any) -> None:
    """A deprecation that names no tool in words names none."""
    assert build_tool({**FULL, "deprecation": value}).replaced_by is None


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (None, "not an object"),
        ("text", "not an object"),
        ([FULL], "not an object"),
        ({}, "no name"),
        ({"name": None}, "no name"),
        ({"name": 5}, "no name"),
        ({"name": ["x"]}, "no name"),
        ({"name": ""}, "no name"),
        ({"name": " \t"}, "no name"),
        ({"name": "a\nb"}, "control characters"),
        ({"name": "a\u202eb"}, "control characters"),
        ({"name": "\ud83d"}, "control characters"),
        ({"name": "x" * (MAX_SLUG + 1)}, "longer than"),
        ({"name": "x", "n": [0, float("nan")]}, r"a number that JSON cannot \(at /n/1\)"),
        ({"name": "x", "n": 10**5000}, r"a number that JSON cannot \(at /n\)"),
        ({"name": "x", "n": json.loads("[" * 400 + "]" * 400)}, r"deeper than 400 levels \(at /n/0/0/0.*\)"),
    ],
)
def test_unusable_tools(entry: Any, reason: str) -> None:
    """What cannot be offered says why."""
    with pytest.raises(UnusableTool, match=reason):
        build_tool(entry)


def test_a_tool_that_is_nested_beyond_writing() -> None:
    """A tool too deep to be written is unusable, and no overflow."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UnusableTool, match="nested deeper than 400 levels"):
        build_tool({"name": "x", "tags": deep})
    while deep:  # an ordinary release of it would go as deep as it is
        deep = deep.pop()


def test_equal_tools_are_one() -> None:
    """Tools that are the same byte for byte are one object, and any difference makes two."""
    first = build_tool(copy.deepcopy(FULL))
    assert build_tool(copy.deepcopy(FULL)) is first
    other = build_tool({**FULL, "version": "2"})
    assert other is not first
    assert other != first
    assert len({first, other, build_tool(FULL)}) == 2


def test_tools_are_not_kept_for_ever() -> None:
    """A tool that no copy has any more is forgotten."""
    from colabhive_mcp.manifest import model

    source = build_tool({"name": "short-lived", "n": 1}).source
    gc.collect()
    assert source not in model._shared


def test_a_loaded_manifest_is_the_callers() -> None:
    """What a caller does with a loaded manifest changes no tool."""
    tool = build_tool(FULL)
    tool.load()["inputSchema"]["type"] = "array"
    assert tool.load() == FULL


def test_tools_cannot_be_changed() -> None:
    """Tools are frozen and show no payload when printed."""
    tool = build_tool(FULL)
    with pytest.raises(AttributeError):
        tool.slug = "y"  # type: ignore[misc]
    assert "inputSchema" not in repr(tool)


@pytest.mark.parametrize(
    "document", [None, True, 5, "text", [], [FULL], {}, {"tools": None}, {"tools": {}}, {"tools": "x"}, {"Tools": []}]
)
def test_what_is_no_manifest(document: Any) -> None:
    """Anything but an object with a list of tools is no manifest."""
    with pytest.raises(BadAnswer, match="not of the right shape"):
        build_manifest(document, etag=None)


def test_an_empty_manifest() -> None:
    """A manifest without tools is one."""
    manifest = build_manifest({"tools": []}, etag='W/"e"', pages=2)
    assert (dict(manifest.tools), manifest.left_out, manifest.etag, manifest.pages) == ({}, (), 'W/"e"', 2)


def test_bad_entries_take_no_other_with_them() -> None:
    """Each entry that cannot be offered is named, or its place where it has no name, and all others are there."""
    entries = [{"name": "b"}, None, {"name": ""}, {"name": "a"}, {"name": "b", "n": 1}, {"name": "c\n"}, {"name": 5}]
    manifest = build_manifest({"tools": entries}, etag=None)
    assert list(manifest.tools) == ["a", "b"]
    assert manifest.tools["b"].load() == {"name": "b"}
    assert [entry.name for entry in manifest.left_out] == ["tools[1]", "tools[2]", "b", "c\n", "tools[6]"]
    assert manifest.left_out[2] == LeftOut("b", "its name was seen before; the first is kept (at /tools/4)")


def test_order_is_that_of_the_slugs() -> None:
    """A manifest in another order is the same manifest."""
    entries = [{"name": name} for name in ("b", "a", "C", "ä", "a-1")]
    one, other = (build_manifest({"tools": order}, etag=None) for order in (entries, entries[::-1]))
    assert list(one.tools) == list(other.tools) == sorted(one.tools)
    assert one == other


def test_manifests_cannot_be_changed() -> None:
    """A copy that calls in flight hold stays what it is."""
    manifest = build_manifest({"tools": [FULL]}, etag=None)
    with pytest.raises(TypeError):
        manifest.tools["x"] = manifest.tools["qwen-2.5"]  # type: ignore[index]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FULL, "x"]), inner, max_size=5),
    max_leaves=10,
)


@settings(max_examples=150, deadline=None)
@given(document=json_values | st.fixed_dictionaries({"tools": st.lists(json_values, max_size=5)}))
def test_any_document_is_a_manifest_or_none(document: Any) -> None:
    """Whatever the gateway sends, it is refused whole or every entry is a tool or left out."""
    try:
        manifest = build_manifest(document, etag=None)
    except BadAnswer:
        return
    assert len(manifest.tools) + len(manifest.left_out) == len(document["tools"])
