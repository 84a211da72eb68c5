"""What a call is held to: a tool's own schemas, its endpoint, and what its manifest says of it."""

from __future__ import annotations

from typing import Any

import pytest

from colabhive_mcp.calls.terms import load_output_checker, load_terms
from colabhive_mcp.manifest.model import build_tool
from colabhive_mcp.manifest.schemas import UnusableSchema
from colabhive_mcp.protocol.revisions import REVISIONS
from tests.unit.manifest.samples import GOOD, OPERATION, SEED, change

LATEST, NEWEST, OLDEST = REVISIONS["2025-11-25"], REVISIONS["2026-07-28"], REVISIONS["2024-11-05"]


def test_terms_are_what_the_manifest_says() -> None:
    """A tool's schemas, its deprecation and what it says of repeats are its terms; a tool has no endpoint."""
    terms = load_terms(build_tool({**GOOD, "endpoint": OPERATION["endpoint"]}))
    assert (terms.schema, terms.output_schema) == (GOOD["inputSchema"], GOOD["outputSchema"])
    assert (terms.deprecation, terms.idempotent, terms.endpoint) == (GOOD["deprecation"], True, None)
    assert terms.arguments.accepts({"text": "x"})
    assert not terms.arguments.accepts({"text": 5})


def test_terms_of_a_tool_that_says_nothing() -> None:
    """Nothing is invented: without a schema any arguments will do, and no promise is made."""
    terms = load_terms(build_tool({"name": "x"}))
    assert terms.arguments.accepts({"any": ["thing"]})
    assert (terms.output_schema, terms.endpoint, terms.deprecation, terms.idempotent) == (None,) * 4


@pytest.mark.parametrize("value", [None, "yes", 1, []])
def test_what_is_of_the_wrong_type_is_not_said(value: Any) -> None:
    """A hint or a deprecation of the wrong type is none."""
    terms = load_terms(build_tool({**GOOD, "annotations": {"idempotent": value}, "deprecation": value}))
    assert (terms.idempotent, terms.deprecation) == (None, None)
    assert load_terms(build_tool({**GOOD, "annotations": value})).idempotent is None


def test_an_operation_has_its_endpoint() -> None:
    """An operation's endpoint is that of its manifest; one without is invoked as a model."""
    assert load_terms(build_tool(OPERATION)).endpoint == OPERATION["endpoint"]
    bare = {key: value for key, value in OPERATION.items() if key != "endpoint"}
    assert load_terms(build_tool(bare)).endpoint is None


def test_shared_definitions_are_brought_along() -> None:
    """A schema that refers to shared definitions is checked by them."""
    terms = load_terms(build_tool(SEED))
    assert terms.arguments.accepts({"messages": [{"role": "user", "content": "x"}]})
    assert not terms.arguments.accepts({"messages": [{"role": "king", "content": "x"}]})


UNUSABLE = {
    "no schema": change(GOOD, "/inputSchema", 5),
    "not of arguments": change(GOOD, "/inputSchema/type", "array"),
    "a reference nowhere": change(GOOD, "/inputSchema/properties/text", {"$ref": "#/$defs/None"}),
    "an endpoint": change(OPERATION, "/endpoint/path", "https://elsewhere.example/"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_what_cannot_be_called(case: str) -> None:
    """What no client is shown has no terms; the words say why, at each try."""
    tool = build_tool(UNUSABLE[case])
    for _ in range(2):
        with pytest.raises(UnusableSchema):
            load_terms(tool)


def test_terms_are_kept() -> None:
    """Terms are made once for a tool, and anew for another version of it."""
    tool = build_tool(GOOD)
    assert load_terms(tool) is load_terms(tool)
    assert load_terms(build_tool({**GOOD, "version": "9.0.0"})) is not load_terms(tool)


def test_output_is_held_to_what_was_shown() -> None:
    """Results are checked where the revision's clients were shown a schema, by the tool's own."""
    tool, text = build_tool(GOOD), build_tool({**GOOD, "outputSchema": {"type": "string"}})
    checker = load_output_checker(tool, LATEST, exact=False)
    assert checker is not None
    assert (checker.accepts({"words": 2}), checker.accepts({"words": "2"})) == (True, False)
    assert load_output_checker(tool, OLDEST, exact=False) is None
    assert load_output_checker(text, LATEST, exact=False) is None
    assert load_output_checker(text, NEWEST, exact=False) is not None


@pytest.mark.parametrize(
    "schema", [None, 5, {"$ref": "#/$defs/None"}, {"type": "object", "properties": {"images": {}}}]
)
def test_no_promise_without_a_usable_schema(schema: Any) -> None:
    """Where no output schema was shown, nothing is promised; binary output becomes blocks instead."""
    assert load_output_checker(build_tool({**GOOD, "outputSchema": schema}), NEWEST, exact=False) is None
