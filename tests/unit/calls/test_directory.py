"""The tools that stand for a long list: their definitions, their arguments, and their answers as text."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.calls import lookup
from colabhive_mcp.calls.directory import (
    CALL,
    DEFINITIONS,
    DESCRIBE,
    MAX_SUMMARY,
    NAMES,
    SEARCH,
    Call,
    parse_call,
    parse_description,
    parse_search,
    say_found,
    to_description,
)
from colabhive_mcp.errors import ToolError
from colabhive_mcp.manifest.model import build_tool
from colabhive_mcp.manifest.names import is_portable
from colabhive_mcp.manifest.queries import Found, Hit, Query
from colabhive_mcp.manifest.schemas import build_checker
from colabhive_mcp.protocol.messages import dump_json
from tests.harness import spec

OTHER_WORDS = "Try other words for the same, fewer, or those of the language that manifests are in."
PARSERS = {SEARCH: parse_search, DESCRIBE: parse_description, CALL: parse_call}


def hit(slug: str, **more: Any) -> Hit:
    """A tool that was found, under its own name."""
    return Hit(slug, build_tool({"name": slug, **more}))


# Definitions


@pytest.mark.parametrize("definition", DEFINITIONS, ids=NAMES)
def test_the_definitions_are_tools(definition: dict[str, Any]) -> None:
    """Each definition is one that MCP and every client take, and admits no argument that it doesn't name."""
    spec._validate(json.loads(json.dumps(definition)), "2025-11-25", "Tool")
    assert is_portable(definition["name"])
    checker = build_checker(definition["inputSchema"])
    assert not checker.accepts({"name": "x", "query": "x"})
    assert checker.accepts({} if definition["name"] == SEARCH else {"name": "x"})


def test_the_definitions_are_small() -> None:
    """All that is listed where tools are searched costs a model's context at most 4 KB."""
    assert len(dump_json([*DEFINITIONS, lookup.DEFINITION])) <= 4096


def test_the_schema_takes_what_the_parser_takes() -> None:
    """What the input schema of the search allows is what its parser makes a query of."""
    arguments = {
        "query": "x",
        "kind": "llm",
        "tags": ["a"],
        "max_cost": "low",
        "max_latency": "long",
        "exclude_side_effects": ["pii"],
    }
    assert build_checker(DEFINITIONS[0]["inputSchema"]).accepts(arguments)
    assert parse_search(arguments) == Query("x", "llm", ("a",), "low", "long", ("pii",))


# Arguments


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, Query()),
        ({"query": None, "kind": None, "tags": None, "max_cost": None, "exclude_side_effects": None}, Query()),
        ({"query": "", "kind": " ", "tags": "", "max_cost": "", "exclude_side_effects": []}, Query()),
        ({"query": " speech to text "}, Query("speech to text")),
        ({"query": 2024}, Query("2024")),
        ({"query": ["speech", "text", 2]}, Query("speech text 2")),
        ({"tags": "nlp"}, Query(tags=("nlp",))),
        ({"tags": "nlp, vision ,"}, Query(tags=("nlp", "vision"))),
        ({"tags": '["nlp", "vision"]'}, Query(tags=("nlp", "vision"))),
        ({"tags": "[nlp"}, Query(tags=("[nlp",))),
        ({"tags": [" nlp ", ""]}, Query(tags=("nlp",))),
        ({"max_cost": "Free", "max_latency": "FAST "}, Query(max_cost="free", max_latency="fast")),
        ({"exclude_side_effects": "network"}, Query(without_side_effects=("network",))),
        ({"query": "x", "sessionId": "s", "action": "a", "chatInput": "c", "toolCallId": "t"}, Query("x")),
    ],
)
def test_search_arguments(arguments: dict[str, Any], expected: Query) -> None:
    """The arguments of a search are taken as clients and models are known to send them."""
    assert parse_search(arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"query": {}}, '"query" must be a text, not an object'),
        ({"query": True}, '"query" must be a text, not true'),
        ({"query": [["x"]]}, '"query" must be a text'),
        ({"kind": {"a": 1}}, '"kind" must be a text'),
        ({"tags": 5}, '"tags" must be a list of texts, not 5'),
        ({"tags": ["a", 5]}, '"tags" must be a list of texts'),
        ({"tags": '[{"a": 1}]'}, '"tags" must be a list of texts'),
        ({"tags": False}, '"tags" must be a list of texts, not false'),
        ({"exclude_side_effects": True}, '"exclude_side_effects" must be a list of texts'),
        ({"max_cost": "cheap"}, '"max_cost" must be free, low, medium or high, not "cheap"'),
        ({"max_cost": 5}, '"max_cost" must be free'),
        ({"max_latency": "2s"}, '"max_latency" must be instant, fast, slow, batch, minutes or long, not "2s"'),
        ({"q": "x", "limit": 3}, 'search_tools has no argument "q" or "limit"; it has query, kind'),
    ],
)
def test_bad_search_arguments(arguments: dict[str, Any], words: str) -> None:
    """What is wrong is said with what would be right."""
    with pytest.raises(ToolError) as refused:
        parse_search(arguments)
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"name": "echo"}, Call("echo", {})),
        ({"name": " echo ", "arguments": None}, Call("echo", {})),
        ({"name": "echo", "arguments": {}}, Call("echo", {})),
        ({"name": "echo", "arguments": {"text": "x", "name": None}}, Call("echo", {"text": "x", "name": None})),
        ({"name": "echo", "arguments": '{"text": "x"}'}, Call("echo", {"text": "x"})),
        ({"name": "echo", "arguments": " "}, Call("echo", {})),
        ({"name": "echo", "arguments": "null"}, Call("echo", {})),
        ({"name": "echo", "arguments": {"text": "x"}, "sessionId": "s"}, Call("echo", {"text": "x"})),
    ],
)
def test_call_arguments(arguments: dict[str, Any], expected: Call) -> None:
    """A call has a name and an object, which may be written as JSON text or left out."""
    assert parse_call(arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, '"name" is missing'),
        ({"name": ""}, '"name" is missing'),
        ({"name": 5, "arguments": {}}, '"name" must be the name of one tool'),
        ({"name": ["echo", "hash"]}, '"name" must be the name of one tool'),
        (
            {"tool_name": "echo", "args": {}},
            'call_tool has no argument "tool_name" or "args"; it has name and arguments. Nothing was',
        ),
        ({"name": "echo", "arguments": "text"}, '"arguments" must be an object'),
        ({"name": "echo", "arguments": "[1]"}, '"arguments" must be an object'),
        ({"name": "echo", "arguments": '"{}"'}, '"arguments" must be an object'),
        ({"name": "echo", "arguments": [1]}, '"arguments" must be an object'),
        ({"name": "echo", "arguments": []}, '"arguments" must be an object'),
        ({"name": "echo", "arguments": 0}, '"arguments" must be an object'),
        ({"name": "echo", "arguments": False}, '"arguments" must be an object'),
        ({"name": "echo", "arguments": "[" * 100_000}, '"arguments" must be an object'),
        (
            {"name": "echo", "text": "x", "times": 2},
            'go into "arguments", not beside it: "text" and "times". Nothing was',
        ),
        ({"name": "echo", "arguments": {}, "text": "x"}, 'go into "arguments"'),
    ],
)
def test_bad_call_arguments(arguments: dict[str, Any], words: str) -> None:
    """Arguments that would be lost, or are none, are refused before anything is called."""
    with pytest.raises(ToolError) as refused:
        parse_call(arguments)
    assert words in refused.value.message


def test_description_arguments() -> None:
    """A description has a name and nothing else."""
    assert parse_description({"name": " echo ", "action": "x"}) == "echo"
    for arguments, words in (({}, '"name" is missing'), ({"name": None}, '"name"'), ({"tool": "echo"}, "it has name")):
        with pytest.raises(ToolError, match=words):
            parse_description(arguments)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(
    st.sampled_from([name for each in DEFINITIONS for name in each["inputSchema"]["properties"]]) | st.text(max_size=5),
    JSON,
    max_size=4,
)


@given(arguments=ARGUMENTS, name=st.sampled_from(NAMES))
def test_any_arguments(arguments: dict[str, Any], name: str) -> None:
    """Whatever the arguments, they are parsed, or refused in words."""
    with contextlib.suppress(ToolError):
        assert PARSERS[name](arguments)


# Answers


def test_hits() -> None:
    """A hit is a line with what its manifest states, and nothing of what it doesn't."""
    found = Found(
        (
            hit(
                "full",
                description="  Does  this.\nAnd more.",
                kind="llm",
                costHint="low",
                latencyClass="fast",
                sideEffects=["network", "pii"],
            ),
            hit("pure", description="Does that.", sideEffects=[]),
            hit("bare"),
            hit("old", description="Did it.", deprecation={"replacedBy": "full"}),
            hit("older", deprecation={"deprecatedAt": "2026-01-01T00:00:00Z"}),
        ),
        5,
    )
    assert say_found(found, Query("x")).splitlines() == [
        "5 tools, best first:",
        "- full: Does this. [llm; cost low; latency fast; side-effects network, pii]",
        "- pure: Does that. [side-effects none]",
        "- bare",
        "- old: Did it. [deprecated, use full]",
        "- older [deprecated]",
        "Read one with describe_tool, run it with call_tool.",
    ]


@pytest.mark.parametrize(
    ("total", "at_least", "expected"),
    [
        (2, False, "1 more matches: search with more telling words or limits."),
        (1001, False, "1,000 more match: search with more telling words or limits."),
        (100, True, "At least 99 more match: search with more telling words or limits."),
    ],
)
def test_more_hits(total: int, at_least: bool, expected: str) -> None:
    """How many more there are is said, and how to find the right one."""
    said = say_found(Found((hit("a"),), total, at_least), Query("x")).splitlines()
    assert said[0] == "1 tool, best first:"
    assert said[-2] == expected


@pytest.mark.parametrize("length", [MAX_SUMMARY - 1, MAX_SUMMARY, MAX_SUMMARY + 1, 100_000])
def test_long_descriptions(length: int) -> None:
    """A long description is cut, so that ten hits stay ten short lines."""
    line = say_found(Found((hit("a", description="x" * length),), 1), Query("x")).splitlines()[1]
    assert len(line) == len("- a: ") + min(length, MAX_SUMMARY)
    assert line.endswith("…") == (length > MAX_SUMMARY)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query("x y"), f'No tool matches "x y". {OTHER_WORDS}'),
        (
            Query("x", kind="model", max_cost="low"),
            f'No tool matches "x" within the limits. {OTHER_WORDS} Or leave out kind or max_cost. '
            "Kinds here: llm and tool.",
        ),
        (
            Query(tags=("a",), max_latency="fast", without_side_effects=("cost",)),
            "No tool matches within the limits. Leave out tags, max_latency or exclude_side_effects.",
        ),
        (Query(), "No tool matches."),
    ],
)
def test_no_hits(query: Query, expected: str) -> None:
    """Where nothing was found, it is said what to try."""
    assert say_found(Found((), 0), query, kinds=("llm", "tool")) == expected


MANIFEST = {
    "name": "qwen-2.5",
    "displayName": "Qwen",
    "version": "1.0.0",
    "description": "Chats.",
    "longDescription": "Chats at length. " * 20,
    "kind": "llm",
    "tags": ["chat"],
    "inputSchema": {
        "type": "object",
        "properties": {"messages": {"type": "array", "items": {"$ref": "#/$defs/Message"}}},
        "anyOf": [{"required": ["messages"]}, {"required": ["prompt"]}],
        "$defs": {"Message": {"type": "object"}},
    },
    "outputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "examples": [{"name": "One", "input": {"messages": []}, "output": {"text": "x" * 500}}],
    "sideEffects": [],
    "costHint": "low",
    "deprecation": {"replacedBy": "qwen-3"},
    "lineage": None,
}


def describe(manifest: dict[str, Any] = MANIFEST, name: str = "qwen-2_5", **options: Any) -> dict[str, Any]:
    """What a model reads of a tool."""
    described: dict[str, Any] = json.loads(to_description(build_tool(manifest), name, **{"limit": 10**6, **options}))
    return described


def test_descriptions() -> None:
    """A description has all that the manifest states, the schemas as clients take them, and nothing invented."""
    described = describe()
    same = ("displayName", "description", "longDescription", "kind", "tags", "examples", "sideEffects", "costHint")
    assert {key: described[key] for key in (*same, "deprecation", "version")} == {
        key: MANIFEST[key] for key in (*same, "deprecation", "version")
    }
    assert (described["name"], described["slug"]) == ("qwen-2_5", "qwen-2.5")
    schema = described["inputSchema"]
    assert schema["properties"]["messages"]["items"] == {"type": "object"}
    assert not {"anyOf", "$defs"} & schema.keys()
    assert described["inputNotes"]
    assert not {"lineage", "links", "leftOut", "latencyClass"} & described.keys()


def test_exact_descriptions() -> None:
    """Where exact schemas are wanted, they are the manifest's own."""
    described = describe(exact_schemas=True)
    assert described["inputSchema"] == MANIFEST["inputSchema"]
    assert described["outputSchema"] == MANIFEST["outputSchema"]
    assert "inputNotes" not in described


def test_small_manifests() -> None:
    """A tool of which little is known has a description all the same."""
    assert describe({"name": "bare"}, "bare") == {"name": "bare", "inputSchema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("limit", range(100, 2200, 100))
def test_limited_descriptions(limit: int) -> None:
    """A description that is too large leaves out what matters least, and names it and where to read it."""
    text = to_description(build_tool(MANIFEST), "qwen-2_5", limit=limit)
    whole, told = describe(), json.loads(text)
    assert len(text.encode()) <= max(limit, 400)
    left_out = told.pop("leftOut", [])
    assert told.pop("leftOutIsAt", None) == ("colabhive://manifest/qwen-2.5" if left_out else None)
    assert told == {key: value for key, value in whole.items() if key not in left_out}
    assert left_out[:1] in ([], ["examples"])
    assert ("inputSchema" in left_out) <= ("outputSchema" in left_out)
