"""The bridge's own tool: its definition and its arguments."""

from typing import Any

import pytest

from colabhive_mcp.calls.invocation import Outcome
from colabhive_mcp.calls.lookup import DEFINITION, KEPT_ANSWERS, KEPT_BYTES, NAME, KeptAnswers, Lookup, parse_lookup
from colabhive_mcp.errors import ToolError
from colabhive_mcp.manifest.names import is_portable
from colabhive_mcp.manifest.schemas import build_checker
from tests.harness import spec


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"invocation_id": "i"}, Lookup("i", None)),
        ({"invocation_id": " i "}, Lookup("i", None)),
        ({"invocation_id": "i", "offset": None}, Lookup("i", None)),
        ({"invocation_id": "i", "offset": 0}, Lookup("i", 0)),
        ({"invocation_id": "i", "offset": 12}, Lookup("i", 12)),
        ({"invocation_id": "i", "offset": 12.0}, Lookup("i", 12)),
        ({"invocation_id": "i", "offset": "12"}, Lookup("i", 12)),
        ({"invocation_id": "i", "sessionId": "s"}, Lookup("i", None)),
    ],
)
def test_arguments(arguments: dict[str, Any], expected: Lookup) -> None:
    """The id and the offset are taken as clients are known to send them."""
    assert parse_lookup(arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"invocation_id": None},
        {"invocation_id": ""},
        {"invocation_id": "  "},
        {"invocation_id": 5},
        {"invocation_id": ["i"]},
        {"invocation_id": "i", "offset": -1},
        {"invocation_id": "i", "offset": "-1"},
        {"invocation_id": "i", "offset": "x"},
        {"invocation_id": "i", "offset": True},
        {"invocation_id": "i", "offset": 1.5},
        {"invocation_id": "i", "offset": "²"},
        {"invocation_id": "i", "offset": []},
    ],
)
def test_bad_arguments(arguments: dict[str, Any]) -> None:
    """What is missing or wrong is said in words."""
    with pytest.raises(ToolError, match=r'"invocation_id"|"offset"'):
        parse_lookup(arguments)


def test_the_definition_is_a_tool() -> None:
    """The definition is one that MCP and every client take, and its own schema takes what the notes say to send."""
    spec._validate(dict(DEFINITION), "2025-11-25", "Tool")
    assert is_portable(NAME)
    checker = build_checker(DEFINITION["inputSchema"])
    assert checker.accepts({"invocation_id": "i", "offset": 5})
    assert not checker.accepts({})


# Answers of operations


def test_kept_answers() -> None:
    """An answer is found by the id under which it was kept, also where it is nothing; another id finds none."""
    kept = KeptAnswers()
    ids = [kept.keep(answer) for answer in ({"a": 1}, None)]
    assert [kept.find(each) for each in ids] == [
        Outcome("succeeded", ids[0], {"a": 1}),
        Outcome("succeeded", ids[1], None),
    ]
    assert len(set(ids)) == 2
    assert kept.find("answer-0") is None
    assert KeptAnswers().find(ids[0]) is None


def test_the_oldest_answer_makes_room() -> None:
    """Only so many answers are kept, the last ones."""
    kept = KeptAnswers()
    ids = [kept.keep(place) for place in range(KEPT_ANSWERS + 2)]
    assert [kept.find(each) is None for each in ids] == [True, True] + [False] * KEPT_ANSWERS


def test_large_answers_make_room() -> None:
    """All answers together have a bound in bytes; the last one is kept, whatever its size."""
    kept = KeptAnswers()
    half = "x" * (KEPT_BYTES // 2)
    ids = [kept.keep(answer) for answer in ("small", half, half[:-99], half * 3)]
    assert [kept.find(each) is None for each in ids[:3]] == [True, True, True]
    assert kept.find(ids[3]) is not None
    both = [kept.keep(answer) for answer in (half[:-99], half[:-99])]
    assert [kept.find(each) is None for each in (ids[3], *both)] == [True, False, False]
