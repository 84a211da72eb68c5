"""Tools as a mapping, and the members of a tool's manifest as they were written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabhive_mcp.manifest.model import Tools, build_tool

SLUGS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=4)
TEXT = st.text() | st.text(st.sampled_from('\u2028\u2029\x85\ud800\udfff"\\\n🐝}],:'), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


def build(slugs: Any) -> Tools:
    """Tools of these names."""
    return Tools(build_tool({"name": slug}) for slug in slugs)


# The mapping


@given(slugs=st.sets(SLUGS, max_size=8), other=SLUGS)
def test_tools_are_a_mapping(slugs: set[str], other: str) -> None:
    """Each tool is found by its slug, whatever characters it has, no other is, and they are in the order of slugs."""
    tools = build(slugs)
    assert list(tools) == list(tools.keys()) == sorted(slugs)
    assert [tool.slug for tool in tools.values()] == sorted(slugs)
    assert len(tools) == len(slugs)
    assert bool(tools) is bool(slugs)
    for slug in {*slugs, other, other + "a", other[:-1]}:
        assert (slug in tools) is (slug in slugs)
        assert (getattr(tools.get(slug), "slug", None) == slug) is (slug in slugs)


@given(slugs=st.lists(SLUGS, max_size=6, unique=True))
def test_tools_are_equal_in_any_order(slugs: list[str]) -> None:
    """The same tools are the same, hashed the same; one more, or another version, is another."""
    tools, turned = build(slugs), build(slugs[::-1])
    assert tools == turned
    assert hash(tools) == hash(turned)
    assert tools != build([*slugs, "one-more-than-these"])
    assert tools != dict(tools)
    if slugs:
        others = [build_tool({"name": slug, "version": "2"}) for slug in slugs[:1]]
        assert tools != Tools([*others, *(tools[slug] for slug in slugs[1:])])


def test_a_missing_tool() -> None:
    """A slug that is not there is a KeyError, as of any mapping; so is what is before the first and after the last."""
    tools = build(["b", "d"])
    for slug in ("", "a", "b ", "c", "dd", "\U0010ffff"):
        with pytest.raises(KeyError):
            tools[slug]


# The members


@settings(max_examples=100, deadline=None)
@given(fields=st.dictionaries(TEXT, JSON, max_size=6))
def test_members_are_the_manifest(fields: dict[str, Any]) -> None:
    """The members are those of the whole manifest in their order, and the text of each is read as its value."""
    tool = build_tool({**fields, "name": "x"})
    members = tool.members()
    assert list(members.values.items()) == list(tool.load().items())
    for name, value in members.values.items():
        text = members.copy(name)
        assert text == text.strip()
        assert len(text.splitlines()) == 1
        assert json.loads(text) == value


@pytest.mark.parametrize("manifest", [{"name": "x"}, {"name": "x", "": {}}, {"name": "x", '"},{': [[], {"}": ","}]}])
def test_odd_members(manifest: dict[str, Any]) -> None:
    """Names and values that look like what stands between members are members."""
    members = build_tool(manifest).members()
    assert members.values == manifest
    assert [members.copy(name) for name in manifest] == [
        json.dumps(value, separators=(",", ":")) for value in manifest.values()
    ]
