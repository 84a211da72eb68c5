"""`manifest show`: a tool as a person reads it, the index, and what no manifest may do to a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colabhive_mcp.cli import sheets
from colabhive_mcp.manifest.filters import build_filters
from colabhive_mcp.manifest.inventory import Form, build_inventory
from colabhive_mcp.manifest.model import build_manifest
from tests.harness.gateway import GatewayProcess, manifest
from tests.unit.cli.conftest import Run
from tests.unit.manifest.generated import DRAFT7, schemas
from tests.unit.manifest.samples import GOOD

PATH = "*/mcp/manifest"
NESTED = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3, "description": "How large"},
        "mode": {"enum": ["fast", "slow"]},
        "box": {
            "type": "object",
            "properties": {"corners": {"type": "array", "items": {"$ref": "#/$defs/Point"}}},
            "required": ["corners"],
        },
        "tree": {"$ref": "#/$defs/Tree"},
    },
    "required": ["size"],
    "$defs": {
        "Point": {"type": "object", "properties": {"x": {"type": "number", "minimum": 0}}, "required": ["x"]},
        "Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}},
    },
}


def serve(gateway: GatewayProcess, *tools: Any) -> dict[str, str]:
    """Let the gateway's manifest be of these tools; what finds the gateway."""
    gateway.fault(method="GET", path=PATH, body={"tools": list(tools)}, headers={"ETag": 'W/"e"'}, times=-1)
    return {"API_URL": gateway.url, "API_KEY": gateway.key}


def print_sheet(tool: Any) -> str:
    """The sheet of a tool with that manifest, and the index with it."""
    inventory = build_inventory(build_manifest({"tools": [tool]}, etag=None), build_filters(), Form())
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for each in inventory.manifest.tools.values():
            sheets._print_sheet(each, inventory)
        sheets._print_index(inventory)
    return out.getvalue()


def test_a_sheet(run: Run, gateway: GatewayProcess) -> None:
    """A sheet says everything that the manifest does, in words."""
    lineage = {"jobId": "j", "columns": {"text_column": "t"}, "dataset": None}
    given = serve(gateway, {**GOOD, "name": "count.words", "longDescription": "At length.", "lineage": lineage})
    ran = run("manifest", "show", "count.words", **given)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Count words\n\nCounts the words of a text.")
    facts = {line[:13].strip(): line[13:].strip() for line in ran.out.splitlines()}
    assert "At length." in ran.out
    assert {key: facts[key] for key in ("Slug", "Listed", "Version", "Kind", "Tags", "Price", "Speed")} == {
        "Slug": "count.words",
        "Listed": "as count_words",
        "Version": "1.2.3-rc.1+build.5, stable",
        "Kind": "tool / nlp",
        "Tags": "text",
        "Price": "free",
        "Speed": "instant: under 0.2 s",
    }
    assert facts["Side-effects"] == "none"
    assert facts["Hints"] == "read-only, idempotent, not destructive, stays inside ColabHive"
    assert facts["Trained"] == 'jobId j; columns {"text_column": "t"}'
    assert facts["Deprecated"] == "since 2026-03-01T00:00:00Z; use count-more instead"
    assert facts["Documentation"] == "https://docs.example/count"


def test_inputs_are_a_table() -> None:
    """Each property has its type, whether it is needed, its bounds and its default; those within stand behind it."""
    text = print_sheet(manifest("x", inputSchema=NESTED, outputSchema={"type": "array", "items": {"type": "string"}}))
    rows = [line.split() for line in text.partition("\nInput\n")[2].splitlines()]
    assert rows[:7] == [
        ["name", "type", "needed", "what", "it", "is"],
        ["size", "integer", "yes", "How", "large;", "1", "to", "9;", "default", "3"],
        ["mode", "one", "of", '"fast",', '"slow"'],
        ["box", "object"],
        ["box.corners", "array", "of", "object", "yes"],
        ["box.corners[].x", "number", "yes", "at", "least", "0"],
        ["tree", "anything"],
    ]
    assert "\nOutput\narray of string\n" in text


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": "two  spaces\tand\nlines"},
        {"text": "it's \x1b[2J \x9b \u2028 \u202e no-break\xa0space"},
        {"é": "🐝"},
        {},
    ],
)
def test_an_example_can_be_tried(arguments: dict[str, Any]) -> None:
    """An example is the command that runs it: a shell reads the very same arguments, a terminal obeys none of it."""
    text = print_sheet(manifest("x y", examples=[{"name": "E", "input": arguments, "output": 1}]))
    line = next(line for line in text.splitlines() if line.startswith("colabhive-mcp call"))
    assert line.isprintable()
    *command, given = shlex.split(line)
    assert command == ["colabhive-mcp", "call", "x y", "--json"]
    assert json.loads(given) == arguments


def test_the_index(run: Run, gateway: GatewayProcess) -> None:
    """Every tool is in the index, with its version and whether it is offered; what is unusable is told behind."""
    replaced = {"deprecation": {"replacedBy": "b"}}
    given = serve(gateway, manifest("b"), manifest("a", **replaced), {"name": "half"}, {"version": "1"})
    ran = run("manifest", "show", "--deprecated", "hide", **given)
    assert ran.code == 0
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    refusal = "not offered: deprecated is hide and it is deprecated (use b)"
    assert lines[:-1] == [
        '3 tools, ETag W/"e"',
        "",
        "slug version kind state",
        f"a 1.0.0 - {refusal}; deprecated, use b",
        "b 1.0.0 - offered",
        "half - - offered",
    ]
    assert lines[-1].startswith("tools[3] cannot be used: it has no name")
    why = json.loads(run("tools", "--why", "--json", "--deprecated", "hide", **given).out)["left_out"]
    assert f"not offered: {next(each['reason'] for each in why if each['slug'] == 'a')}" == refusal


def test_json(run: Run, gateway: GatewayProcess) -> None:
    """``--json`` is the manifest itself: of one tool, or of all with the ETag."""
    given = serve(gateway, manifest("a.b"), manifest("c"))
    for name in ("a.b", "a_b"):
        assert json.loads(run("manifest", "show", name, "--json", **given).out) == manifest("a.b")
    whole = json.loads(run("manifest", "show", "--json", **given).out)
    assert whole == {"etag": 'W/"e"', "tools": [manifest("a.b"), manifest("c")]}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("alp", "did you mean alpha or alps?"),
        ("zzz", "colabhive-mcp manifest show lists them all"),
        ("\x1b[2J", "\\x1b"),
    ],
)
def test_unknown_slugs(run: Run, gateway: GatewayProcess, name: str, words: str) -> None:
    """A slug that the manifest does not have is wrong usage, with those that come near."""
    ran = run("manifest", "show", name, **serve(gateway, manifest("alpha"), manifest("alps"), manifest("beta")))
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "\x1b" not in ran.err


def test_a_filtered_tool_is_shown(run: Run, gateway: GatewayProcess) -> None:
    """Filters hide nothing here: the sheet says that the tool is not listed, and why."""
    given = serve(gateway, manifest("a"))
    assert (
        "Listed        not at all: matched by deny_tools 'a'"
        in run("manifest", "show", "a", DENY_TOOLS="a", **given).out
    )


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_paragraphs_fit_the_terminal(
    run: Run, gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Words are folded and tables are cut to the width of the terminal, and never beyond what is read well."""
    monkeypatch.setattr(sheets, "get_width", lambda: columns)
    text = print_sheet(manifest("x", longDescription="Many words. " * 50))
    paragraph = [line for line in text.splitlines() if line.startswith("Many") or "words." in line]
    assert len(paragraph) > 1
    assert max(map(len, paragraph)) <= min(columns, sheets.READING_WIDTH)


# Any manifest

ODD_TEXT = st.text(alphabet=st.sampled_from("a \n\t\x1b\x9b\u202e\ud800\u2028é中"), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD_TEXT, inner, max_size=3),
    max_leaves=6,
)


def members(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of these members, of any type."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, JSON))


FIELDS = {
    **dict.fromkeys(("displayName", "version", "stability", "description", "longDescription", "kind"), JSON),
    **dict.fromkeys(("category", "costHint", "latencyClass"), JSON),
    "tags": JSON | st.lists(JSON, max_size=2),
    "sideEffects": JSON | st.lists(ODD_TEXT, max_size=2),
    "annotations": JSON | members("readOnly", "idempotent"),
    "examples": JSON | st.lists(members("name", "description", "input", "output"), max_size=2),
    "lineage": JSON | st.dictionaries(ODD_TEXT, JSON, max_size=2),
    "links": JSON | st.dictionaries(ODD_TEXT, JSON, max_size=2),
    "deprecation": JSON | members("deprecatedAt", "replacedBy"),
    "inputSchema": JSON | schemas() | schemas(DRAFT7),
    "outputSchema": JSON | schemas() | schemas(DRAFT7),
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(fields=st.fixed_dictionaries({}, optional=FIELDS))
def test_any_manifest_has_a_sheet(fields: dict[str, Any]) -> None:
    """Whatever stands in any field of a manifest, it is shown, and no character of it is one that a terminal obeys."""
    text = print_sheet({"name": "x", **fields})
    assert [each for each in text if not each.isprintable() and each != "\n"] == []


# The command


@pytest.mark.parametrize("arguments", [("manifest",), ("manifest", "--help")])
def test_help(run: Run, arguments: tuple[str, ...]) -> None:
    """The command alone, and its help, name each command below it."""
    ran = run(*arguments)
    text = ran.out + ran.err
    assert all(f"\n  {name} " in text for name in ("show", "validate", "lint", "diff", "pin"))


def test_flags_before_the_command(run: Run, gateway: GatewayProcess) -> None:
    """A flag counts before the first command as well as behind the last, and the last one wins."""
    given = {"API_KEY": gateway.key}
    for arguments in (
        ("--api-url", gateway.url, "manifest", "show"),
        ("manifest", "show", "--api-url", gateway.url),
        ("--api-url", "http://127.0.0.1:9", "manifest", "show", "--api-url", gateway.url),
    ):
        ran = run(*arguments, "echo", **given)
        assert (ran.code, ran.err, ran.out.splitlines()[0]) == (0, "", "Echo")
    ran = run("--workers", "3", "manifest", "show", **given)
    assert ran.code == 2
    assert "--workers" in ran.err
