"""Where a JSON pointer leads in a text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import thread_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabhive_mcp.cli.positions import Position, find_positions

TEXT = """{
  "name": "a, \\"b\\": {[",
  "list": [1, {"é/~": true}, [ ]],
  "n":-1.5e3
}
"""
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=6)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def walk(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its pointer."""
    yield pointer, value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in members:
        yield from walk(member, f"{pointer}/{str(step).replace('~', '~0').replace('/', '~1')}")


@pytest.mark.parametrize(
    ("pointer", "line", "column"),
    [
        ("", 1, 1),
        ("/name", 2, 11),
        ("/list", 3, 11),
        ("/list/0", 3, 12),
        ("/list/1/é~1~0", 3, 23),
        ("/list/2", 3, 30),
        ("/n", 4, 7),
        ("/nowhere", 1, 1),
        ("/list/7/a", 3, 11),
    ],
)
def test_positions(pointer: str, line: int, column: int) -> None:
    """A pointer is where its value begins; one that leads nowhere is where the value around it begins."""
    assert find_positions(TEXT, {pointer}) == {pointer: Position(line, column)}


@given(JSON, st.sampled_from([None, 1, 2]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_value_is_found(value: Any, indent: int | None, ascii_only: bool) -> None:
    """At each position there is the value of its pointer, however the text is laid out."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    every = dict(walk(value))
    lines = text.split("\n")
    for pointer, (line, column) in find_positions(text, every.keys()).items():
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert json.JSONDecoder().raw_decode(rest)[0] == every[pointer]


def test_large_texts() -> None:
    """A document of a megabyte, or one that is nested deep, is no matter."""
    started = thread_time()
    wide = json.dumps([{"a": place, "b": "x" * 20} for place in range(25_000)], indent=1)
    assert find_positions(wide, {"/24999/b"})["/24999/b"].line == 25_000 * 4
    deep = "[" * 50_000 + "]" * 50_000
    assert find_positions(deep, {"/0/0/0"})["/0/0/0"] == Position(1, 4)
    assert thread_time() - started < 15
