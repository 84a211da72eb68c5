"""Addresses of manifests, the index, and the completion of slugs."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.manifest.filters import build_filters
from colabhive_mcp.manifest.inventory import Form, Inventory, build_inventory
from colabhive_mcp.manifest.model import build_manifest, build_tool
from colabhive_mcp.manifest.resources import (
    INDEX_URI,
    complete_slug,
    parse_uri,
    render_index,
    render_tool,
    to_uri,
)
from colabhive_mcp.protocol.revisions import REVISIONS

NEWEST = REVISIONS["2026-07-28"]


def build(*tools: Any, **filters: Any) -> Inventory:
    """What a client sees of a manifest of these tools, which may be slugs."""
    entries = [{"name": tool} if isinstance(tool, str) else tool for tool in tools]
    return build_inventory(build_manifest({"tools": entries}, etag='"e"'), build_filters(**filters), Form())


@given(slug=st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()))
def test_an_address_leads_back(slug: str) -> None:
    """Any slug has an address of plain characters that leads back to it."""
    uri = to_uri(slug)
    assert uri.isascii()
    assert uri.isprintable()
    assert " " not in uri
    assert parse_uri(uri) == slug


@pytest.mark.parametrize(
    "uri", ["", "x", INDEX_URI, f"{INDEX_URI}/", f"{INDEX_URI}/a/b", "colabhive://manifests/a", "/a"]
)
def test_other_addresses(uri: str) -> None:
    """Any other address is none of a tool."""
    assert parse_uri(uri) is None


@given(uri=st.text() | st.text().map(f"{INDEX_URI}/".__add__))
def test_any_address(uri: str) -> None:
    """Whatever is asked for, it is a slug or none."""
    assert parse_uri(uri) is None or uri.startswith(f"{INDEX_URI}/")


def test_the_index() -> None:
    """The index has what is offered and can be shown, deprecated tools last, and nothing that is not stated."""
    old = {"name": "a", "description": "d", "kind": "tool", "deprecation": {"replacedBy": "b.c"}}
    inventory = build(old, "b.c", "no", {"name": "broken", "inputSchema": 5}, deny_tools=("no",))
    assert json.loads(render_index(inventory, NEWEST)) == {
        "etag": '"e"',
        "tools": [
            {"name": "b_c", "slug": "b.c", "uri": f"{INDEX_URI}/b.c"},
            {
                "name": "a",
                "slug": "a",
                "uri": f"{INDEX_URI}/a",
                "kind": "tool",
                "description": "d",
                "replacedBy": "b.c",
            },
        ],
    }


def test_a_manifest_is_whole() -> None:
    """A tool's resource is its manifest with every field, known or not."""
    manifest = {"name": "a", "x-unknown": [1, None], "longDescription": "é\u2028"}
    assert json.loads(render_tool(build_tool(manifest))) == manifest


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", ["Alpha", "beta-alpha", "gamma", "alphabet"]),
        ("al", ["Alpha", "alphabet", "beta-alpha"]),
        ("AL", ["Alpha", "alphabet", "beta-alpha"]),
        ("mm", ["gamma"]),
        ("alphabet", ["alphabet"]),
        ("alphabets", []),
        ("[a", []),
        (" ", []),
    ],
)
def test_completion(value: str, expected: list[str]) -> None:
    """Slugs that begin with the value are first, then those that hold it; within, as on the list."""
    inventory = build("beta-alpha", "Alpha", {"name": "alphabet", "deprecation": {"replacedBy": "x"}}, "gamma")
    assert complete_slug(inventory, value, NEWEST) == expected


def test_completion_of_many() -> None:
    """Thousands of slugs are completed within the blink of an eye once the list is made."""
    inventory = build(*(f"tool-{place}" for place in range(3000)))
    inventory.encode(NEWEST)
    started = time.perf_counter()
    assert len(complete_slug(inventory, "ool", NEWEST)) == 3000
    assert time.perf_counter() - started < 5
