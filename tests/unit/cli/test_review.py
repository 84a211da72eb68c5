"""``manifest validate`` and ``manifest lint``: sources, forms, exit codes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from colabhive_mcp import __version__
from colabhive_mcp.cli.reports import Report, Told, to_text
from colabhive_mcp.manifest.contract import RULES, Finding
from tests.harness.gateway import GatewayProcess
from tests.unit.cli.conftest import Ran, Run
from tests.unit.manifest.samples import ABSENT, GOOD, SEED, change

WRONG = change(change(SEED, "/costHint", "cheap"), "/inputSchema/properties/x", {"type": "int"})


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a document to a file in the working directory; answers its name."""
    monkeypatch.chdir(tmp_path)

    def put(document: Any, name: str = "tool.json") -> str:
        Path(name).write_text(json.dumps(document, indent=2, ensure_ascii=False), "utf-8")
        return name

    return put


def codes(ran: Ran) -> list[str]:
    return [each["code"] for each in json.loads(ran.out)["findings"]]


def test_a_valid_file(run: Run, write: Any) -> None:
    """What is in order is one line and exit code 0; no key and no gateway is needed."""
    ran = run("manifest", "validate", write(SEED))
    assert ran == Ran(0, "1 tool checked: 0 errors, 0 warnings, 0 notes.\n", "")


def test_text(run: Run, write: Any) -> None:
    """Text names tool, file, line, column, severity, code, place, fault and remedy, and counts at the end."""
    ran = run("manifest", "validate", write(WRONG))
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert lines[0] == SEED["name"]
    place = next(
        number for number, line in enumerate(json.dumps(WRONG, indent=2).splitlines(), 1) if "costHint" in line
    )
    assert lines[1].startswith(f"  tool.json:{place}:15  error  unknown-value  /costHint: costHint must be one of")
    assert lines[2].startswith("      → Wanted: what one call costs")
    assert lines[3].endswith("; the server leaves the tool out")
    assert lines[-1] == "1 tool checked: 2 errors, 0 warnings, 0 notes."
    assert "\x1b" not in ran.out


def test_text_of_others_is_cleaned() -> None:
    """What an author wrote cannot move a cursor, and a pointer of any length is cut."""
    finding = Finding("renamed", "note", "/\x1b[2J" + "a" * 500, "\x1b[31m\nx", "y\r")
    shown = click.unstyle(to_text(Report("a", None, 1, [Told("\x1b]0;t\x07", "", finding)])))
    assert shown.isprintable() or "\x1b" not in shown
    assert max(map(len, shown.splitlines())) < 300
    assert len(shown.splitlines()) == 4


def test_json(run: Run, write: Any) -> None:
    """JSON has every finding with all that is known of it, pointers being those of the whole document."""
    shown = json.loads(run("manifest", "validate", "--json", write({"tools": [GOOD, WRONG]})).out)
    assert (shown["source"], shown["tools"]) == ("tool.json", 2)
    assert shown["counts"] == {"error": 2, "warning": 0, "note": 0}
    first, second = shown["findings"]
    assert first.keys() == {"tool", "code", "severity", "pointer", "line", "column", "message", "mend", "breaks"}
    assert (first["pointer"], first["breaks"]) == ("/tools/1/costHint", False)
    assert (second["pointer"], second["breaks"]) == ("/tools/1/inputSchema/properties/x/type", True)
    assert first["line"] > second["line"] > 1


def test_sarif(run: Run, write: Any, tmp_path: Path) -> None:
    """The log has what SARIF 2.1.0 requires, relative addresses, and the same bytes every time."""
    (tmp_path / "a b").mkdir()
    name = write([WRONG, {**GOOD, "x": 1}], "a b/tööl.json")
    ran = run("manifest", "validate", "--sarif", name)
    assert ran == run("manifest", "validate", "--sarif", name)
    log = json.loads(ran.out)
    assert log["version"] == "2.1.0"
    [one] = log["runs"]
    driver = one["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("colabhive-mcp", __version__)
    assert [rule["id"] for rule in driver["rules"]] == list(RULES)
    assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
    for result in one["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        [location] = result["locations"]
        physical = location["physicalLocation"]
        assert physical["artifactLocation"]["uri"] == "a%20b/t%C3%B6%C3%B6l.json"
        assert physical["region"]["startLine"] >= 1
        assert physical["region"]["startColumn"] >= 1
    assert {result["level"] for result in one["results"]} == {"error", "note"}


@pytest.mark.parametrize(
    ("fail_on", "note", "warning", "error"), [("error", 0, 0, 1), ("warning", 0, 1, 1), ("note", 1, 1, 1)]
)
def test_fail_on(run: Run, write: Any, fail_on: str, note: int, warning: int, error: int) -> None:
    """The exit code is 1 where there is a finding as bad as asked for, 0 otherwise."""
    files = {"note": change(GOOD, "/name", "count.words"), "warning": change(GOOD, "/outputSchema", ABSENT)}
    files["error"] = change(GOOD, "/examples/1", ABSENT)
    got = {
        name: run("manifest", "lint", "--fail-on", fail_on, write(document)).code for name, document in files.items()
    }
    assert got == {"note": note, "warning": warning, "error": error}
    assert run("manifest", "lint", "--fail-on", "note", write(GOOD)).code == 0


def test_lint_comes_after_validation(run: Run, write: Any) -> None:
    """`lint` repeats nothing that `validate` says, but that something comes first."""
    assert "not-valid" not in codes(run("manifest", "lint", "--json", write(SEED)))
    assert codes(run("manifest", "lint", "--json", write(change(GOOD, "/costHint", "cheap")))) == ["not-valid"]
    ran = run("manifest", "lint", "--json", write([GOOD, GOOD]))
    assert codes(ran) == ["not-valid"]


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash reads standard input, and places are told in it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(WRONG)))
    assert "stdin:1:" in run("manifest", "validate", "-").out


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"tools": 5}, {"missing-field", "wrong-type"}),
        ({"tools": [GOOD]}, set()),
        ({"tools": [GOOD, GOOD]}, {"repeated-name"}),
        ({"tools": [GOOD], "generatedAt": "now"}, {"missing-field", "wrong-form"}),
        ({"tools": [5, None]}, {"not-an-object"}),
        ([], set()),
        ("text", {"not-an-object"}),
    ],
)
def test_documents(run: Run, write: Any, document: Any, expected: set[str]) -> None:
    """A single manifest, a list, a bundle of tools and a discovery response are each held to what they are."""
    assert set(codes(run("manifest", "validate", "--json", write(document)))) == expected


@pytest.mark.parametrize(
    "line", [[], ["a.json", "--all"], ["--slug", "a", "--all"], ["--fail-on", "fatal", "-"], ["no-such-file.json"]]
)
@pytest.mark.parametrize("command", ["validate", "lint"])
def test_wrong_usage(run: Run, command: str, line: list[str]) -> None:
    """One source has to be named, and has to be there; all else is exit code 2."""
    assert run("manifest", command, *line).code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"a": ', "is no JSON: Expecting value at line 1, column 7. JSON takes double quotes only"),
        (b'{"a": 1,}', "no comments or trailing commas"),
        (b"name: a\nkind: tool\n", "convert YAML or TOML"),
        (b"// A tool.\n{}", "leave comments out"),
        (b" \n", "it is empty. Write {}"),
        (b"{}\n{}", "there is more, at line 2, column 1. Write several manifests as one list"),
        (b"9" * 5000, "is no JSON: "),
        ("{}".encode("utf-16"), "is not UTF-8 text: save it as UTF-8."),
        (b"[" * 100_000, "is nested too deep to be read"),
    ],
    ids=["cut", "comma", "yaml", "comment", "empty", "two", "number", "utf-16", "deep"],
)
@pytest.mark.parametrize("piped", [False, True], ids=["file", "stdin"])
def test_what_is_no_json(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, words: str, piped: bool
) -> None:
    """What is no JSON is wrong usage, from a file or from standard input, and it is said how to mend it."""
    (tmp_path / "x.json").write_bytes(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="latin-1"))
    ran = run("manifest", "validate", "-" if piped else str(tmp_path / "x.json"))
    assert ran.code == 2
    assert words in ran.err


def test_a_byte_order_mark_is_no_fault(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input is UTF-8 in any locale, with or without the mark that Windows editors write."""
    text = json.dumps(change(GOOD, "/displayName", "Zähler"), ensure_ascii=False).encode("utf-8-sig")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="ascii"))
    assert run("manifest", "validate", "-").code == 0


def test_closed_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no standard input it is empty."""
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is no JSON: it is empty" in run("manifest", "validate", "-").err


# Over a gateway


def test_the_whole_gateway(run: Run, gateway: GatewayProcess) -> None:
    """The demo catalogue passes both commands, whose findings are no worse than notes."""
    live = {"API_URL": gateway.url, "API_KEY": gateway.key}
    for command in ("validate", "lint"):
        ran = run("manifest", command, "--all", "--json", "--fail-on", "warning", **live)
        assert ran.code == 0, ran.out
        assert json.loads(ran.out)["tools"] >= 9
    assert codes(run("manifest", "validate", "--all", "--json", **live)) == []


def test_one_tool_of_the_gateway(run: Run, own_gateway: GatewayProcess) -> None:
    """One manifest is judged alone, and SARIF names it by its place at the gateway; an unknown one is wrong usage."""
    own_gateway.register(change(GOOD, "/costHint", "cheap") | {"deprecation": None})
    live = {"API_URL": own_gateway.url, "API_KEY": own_gateway.key}
    log = json.loads(run("manifest", "validate", "--slug", "count-words", "--sarif", **live).out)
    [result] = log["runs"][0]["results"]
    assert result["ruleId"] == "unknown-value"
    [location] = result["locations"]
    assert location["physicalLocation"] == {"artifactLocation": {"uri": "mcp/manifest/count-words"}}
    assert run("manifest", "validate", "--slug", "echo", **live).code == 0
    assert run("manifest", "lint", "--slug", "nobody", **live).code == 2
