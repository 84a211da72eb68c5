"""Where a value is nested too deep, or holds what JSON cannot."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.manifest.nesting import find_deep, find_unwritable, may_be_deep, say_deep
from colabhive_mcp.manifest.wording import to_pointer, to_trail

VALUES = st.recursive(
    st.none() | st.integers(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)


def count_levels(value: Any) -> int:
    """How many levels of objects and arrays there are."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(count_levels, parts), default=0)


@given(value=VALUES, levels=st.integers(1, 5))
def test_deep_is_deeper_than_that_many_levels(value: Any, levels: int) -> None:
    """A place is found exactly where there are more levels, and the text of such a value has more brackets."""
    found = find_deep(value, levels)
    assert (found is not None) is (count_levels(value) > levels)
    if found is not None:
        assert may_be_deep(json.dumps(value).encode(), levels)
        assert isinstance(find(value, found), dict | list)


def find(value: Any, trail: Any) -> Any:
    """What stands at a place."""
    if trail is None:
        return value
    return find(value, trail[0])[trail[1]]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, {"b": math.nan}]}, "/a/1/b"),
        ([[], math.inf], "/1"),
        ({"a/b": -math.inf}, "/a~1b"),
        ({"a": 10**5000}, "/a"),
    ],
)
def test_what_json_cannot_hold_is_found(value: Any, place: str) -> None:
    """The first number that is none, or that nobody could write, is found by its place."""
    assert to_pointer(find_unwritable(value)) == place


def test_what_json_can_hold_is_not() -> None:
    """All other numbers, and everything else, are in order."""
    assert find_unwritable({"a": [1e308, 10**4000, True, None, "NaN"]}) is None


def test_no_depth_is_too_much() -> None:
    """What no recursion could walk through is walked through."""
    deep: Any = [math.nan]
    for _ in range(100_000):
        deep = [deep]
    assert find_deep(deep, 99_000) is not None
    assert find_unwritable(deep) is not None
    while deep:  # an ordinary release of it would go as deep as it is
        deep = deep.pop() if isinstance(deep, list) else None


def test_the_words_name_the_place() -> None:
    """The reason has the limit and a pointer, which is short however deep the place is."""
    assert say_deep(to_trail(["a", 0]), 2) == "it is nested deeper than 2 levels (at /a/0)"
    assert len(say_deep(to_trail(["a" * 50] * 400), 400)) < 220
