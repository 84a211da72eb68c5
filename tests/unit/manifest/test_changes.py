"""What changed between two manifests, and whether each version says so."""

from __future__ import annotations

import json
from time import thread_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabhive_mcp.manifest.changes import AGREES, TOO_SMALL, UNCERTAIN, UNKNOWN, compare_manifests, compare_tools
from tests.unit.manifest.samples import ABSENT, GOOD, OPERATION, change

B, U, A, T = "breaking", "undecided", "additive", "text"


def compare(old: Any, new: Any) -> list[tuple[str, str]]:
    """The pointer and the level of each change."""
    return [(each.pointer, each.level) for each in compare_tools("x", old, new).changes]


@pytest.mark.parametrize(
    ("pointer", "value", "told", "expected"),
    [
        ("/displayName", "Other", "/displayName", T),
        ("/description", "Other", "/description", T),
        ("/tags", ["b", "a"], "/tags", T),
        ("/costHint", "low", "/costHint", T),
        ("/latencyClass", "slow", "/latencyClass", T),
        ("/links/documentation", "https://elsewhere.example", "/links", T),
        ("/lineage", {"jobId": "1"}, "/lineage", T),
        ("/unknown", 1, "/unknown", T),
        ("/kind", "llm", "/kind", B),
        ("/stability", "beta", "/stability", A),
        ("/deprecation", None, "/deprecation", T),
        ("/sideEffects", ["network"], "/sideEffects", B),
        ("/sideEffects", "network", "/sideEffects", U),
        ("/annotations/readOnly", False, "/annotations/readOnly", B),
        ("/annotations/destructive", True, "/annotations/destructive", B),
        ("/annotations/openWorld", ABSENT, "/annotations/openWorld", B),
        ("/examples", [*GOOD["examples"], {"name": "One more"}], "/examples", A),
        ("/examples", GOOD["examples"][:1], "/examples", T),
        ("/examples", [*GOOD["examples"][::-1], GOOD["examples"][0]], "/examples", T),
        ("/inputSchema/required", ["text", "options"], "/inputSchema/required", B),
        ("/inputSchema/properties/text/description", "Other", "/inputSchema/properties/text/description", T),
        ("/inputSchema", ABSENT, "/inputSchema", U),
        ("/outputSchema/required", [], "/outputSchema/required", B),
        ("/outputSchema/properties/words/type", "number", "/outputSchema/properties/words/type", B),
        ("/outputSchema", ABSENT, "/outputSchema", B),
        ("/outputSchema", None, "/outputSchema", B),
    ],
)
def test_fields(pointer: str, value: Any, told: str, expected: str) -> None:
    """Each field's change has its place and its level."""
    assert compare(GOOD, change(GOOD, pointer, value)) == [(told, expected)]


@pytest.mark.parametrize(
    ("pointer", "value", "expected"),
    [
        ("/sideEffects", ["network"], A),
        ("/annotations/readOnly", False, T),
        ("/annotations/destructive", True, T),
        ("/stability", "beta", T),
        ("/outputSchema", ABSENT, A),
        ("/inputSchema", ABSENT, U),
        ("/deprecation", None, A),
        ("/inputSchema/required", ["text", "options"], A),
    ],
)
def test_fields_the_other_way(pointer: str, value: Any, expected: str) -> None:
    """To promise more is less of a change than to promise less."""
    assert [level for _, level in compare(change(GOOD, pointer, value), GOOD)] == [expected]


def test_an_endpoint_is_undecided() -> None:
    """Where an operation's arguments go is not described by its schemas."""
    assert compare(OPERATION, change(OPERATION, "/endpoint/path", "/other/{merge_id}")) == [("/endpoint", U)]


def test_null_and_absent_say_the_same() -> None:
    """A field that is null says as much as one that is not there."""
    assert compare(GOOD, change(GOOD, "/lineage", ABSENT)) == []


NO_INPUT = ("/inputSchema/required", ["text", "options"])
MORE_INPUT = ("/inputSchema/required", [])
WORDS = ("/description", "Other")
UNSURE = ("/inputSchema/properties/text/format", "uri")
VERSION_ONLY = ("/version", "1.0.0")


@pytest.mark.parametrize(
    ("changed", "old", "new", "verdict", "reason"),
    [
        (NO_INPUT, "1.0.0", "1.1.0", TOO_SMALL, "the changes call for a major step"),
        (NO_INPUT, "1.0.0", "2.0.0", AGREES, ""),
        (NO_INPUT, "0.1.0", "0.1.1", TOO_SMALL, "the changes call for a minor step"),
        (NO_INPUT, "0.1.0", "0.2.0", AGREES, ""),
        (MORE_INPUT, "1.0.0", "1.0.1", TOO_SMALL, "the changes call for a minor step"),
        (MORE_INPUT, "1.0.0", "1.1.0", AGREES, ""),
        (MORE_INPUT, "1.0.0", "2.0.0", AGREES, "larger than needed"),
        (WORDS, "1.0.0", "1.0.0", TOO_SMALL, "the changes call for a patch step"),
        (WORDS, "1.0.0", "1.0.0+b", TOO_SMALL, "the changes call for a patch step"),
        (WORDS, "1.0.0", "1.0.1", AGREES, ""),
        (WORDS, "1.0.1", "1.0.0", TOO_SMALL, "the version went backwards"),
        (WORDS, "1.0", "1.0.1", UNKNOWN, 'the old version "1.0" is not SemVer'),
        (WORDS, "1.0.0", None, UNKNOWN, "the new manifest has no version"),
        (UNSURE, "1.0.0", "1.1.0", UNCERTAIN, "what is undecided may call for a major step"),
        (UNSURE, "1.0.0", "1.0.0", TOO_SMALL, "the changes call for a patch step"),
        (UNSURE, "1.0.0", "2.0.0", AGREES, ""),
        (UNSURE, "0.1.0", "0.1.1", UNCERTAIN, "what is undecided may call for a minor step"),
        (UNSURE, "0.1.0", "0.2.0", AGREES, ""),
        (VERSION_ONLY, "1.0.0", "1.0.1", AGREES, "larger than needed"),
    ],
)
def test_verdicts(changed: tuple[str, Any], old: Any, new: Any, verdict: str, reason: str) -> None:
    """A version agrees with what changed where its step is large enough for all of it, and for what is undecided."""
    before, after = change(GOOD, "/version", old), change(change(GOOD, *changed), "/version", new)
    judgement = compare_tools("x", before, after).judgement
    assert (judgement.verdict, judgement.reason) == (verdict, reason)


def test_many_large_examples_are_compared_in_no_time() -> None:
    """Each example is read once, and not once for each other one."""
    old = [{"input": {"rows": [[place, row] for row in range(2_000)]}} for place in range(100)]
    started = thread_time()
    changes = compare({"examples": old}, {"examples": [*old[::-1], {"input": {}}]})
    assert thread_time() - started < 5
    assert changes == [("/examples", T)]


def test_manifests() -> None:
    """Tools are matched by name; those that are equal, whatever the order of their fields, have not changed."""
    again = dict(reversed(GOOD.items()))
    old = {"same": GOOD, "gone": GOOD, "other": GOOD}
    found = compare_manifests(old, {"same": again, "come": GOOD, "other": change(GOOD, *WORDS)})
    assert (found.added, found.removed, found.unchanged) == (("come",), ("gone",), 1)
    assert [each.name for each in found.changed] == ["other"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "x"]), inner, max_size=5),
    max_leaves=10,
)


@given(JSON, JSON)
@settings(max_examples=100, deadline=None)
def test_any_json_has_an_answer(one: Any, other: Any) -> None:
    """Whatever stands where a manifest should be, there is an answer that can be written as JSON."""
    for old, new in ((one, other), (GOOD, other), ({**GOOD, "inputSchema": one}, GOOD)):
        for tool in compare_manifests({"x": old}, {"x": new}).changed:
            json.dumps([tool.judgement, [(each.words, each.level) for each in tool.changes]])
