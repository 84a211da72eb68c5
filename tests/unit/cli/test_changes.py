"""``manifest diff``: over files, standard input and a real gateway."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.gateway import GatewayProcess, manifest
from tests.unit.cli.conftest import Run
from tests.unit.manifest.samples import GOOD, change

REQUIRED = change(change(GOOD, "/inputSchema/required", ["text", "options"]), "/version", "1.3.0")
WORDS = change(change(GOOD, "/description", "Counts."), "/version", "1.2.4")
GONE, COME = ({**GOOD, "name": name} for name in ("gone", "come"))


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """``write("old.json", document)``: a file in a folder of its own, and its path."""

    def write(name: str, document: Any) -> str:
        path = tmp_path / name
        path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
        return str(path)

    return write


def test_text(run: Run, write: Any) -> None:
    """Each tool has a line, each change of it another with its place, and the last line has the sum."""
    old, new = write("old.json", {"tools": [GOOD, GONE]}), write("new.json", [COME, REQUIRED])
    ran = run("manifest", "diff", old, new)
    assert ran.code == 1
    assert ran.out.splitlines() == [
        f"{old} → {new}",
        "- removed  gone",
        "+ added    come",
        "~ changed  count-words  ✗ 1.2.3-rc.1+build.5 → 1.3.0: step minor, needed major"
        " (the changes call for a major step)",
        "    breaking   /inputSchema/required: 'options' is required now",
        "1 removed, 1 added and 1 changed; 1 version disagrees with what changed.",
    ]
    assert ran.err == ""


def test_json(run: Run, write: Any) -> None:
    """As JSON the same is there for scripts."""
    ran = run("manifest", "diff", write("old.json", GOOD), write("new.json", REQUIRED), "--json")
    shown = json.loads(ran.out)
    assert (shown["added"], shown["removed"], shown["unchanged"]) == ([], [], 0)
    assert shown["changed"] == [
        {
            "name": "count-words",
            "oldVersion": "1.2.3-rc.1+build.5",
            "newVersion": "1.3.0",
            "needed": "major",
            "undecided": False,
            "taken": "minor",
            "verdict": "too small",
            "reason": "the changes call for a major step",
            "changes": [
                {"level": "breaking", "pointer": "/inputSchema/required", "message": "'options' is required now"}
            ],
        }
    ]


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        (GOOD, GOOD, (0, 0, 0, 0)),
        (GOOD, WORDS, (0, 0, 1, 0)),
        (GOOD, REQUIRED, (1, 1, 1, 0)),
        (GOOD, change(REQUIRED, "/version", "2.0.0"), (0, 1, 1, 0)),
        (GOOD, change(WORDS, "/version", "1"), (1, 0, 1, 0)),
        (GOOD, change(WORDS, "/inputSchema/properties/text/format", "uri"), (1, 1, 1, 0)),
        ([GOOD, GONE], GOOD, (0, 1, 1, 0)),
        (GOOD, [GOOD, COME], (0, 0, 1, 0)),
    ],
    ids=["same", "words", "too small", "large enough", "no version", "undecided", "removed", "added"],
)
def test_exit_codes(run: Run, write: Any, old: Any, new: Any, codes: tuple[int, ...]) -> None:
    """The exit code is 1 where there is what ``--fail-on`` names; by default, a version that disagrees."""
    files = write("old.json", old), write("new.json", new)
    asked = ("disagreement", "breaking", "any", "none")
    assert tuple(run("manifest", "diff", *files, "--fail-on", each).code for each in asked) == codes
    assert run("manifest", "diff", *files).code == codes[0]


def test_strict(run: Run, write: Any) -> None:
    """``--strict`` holds a new optional input for breaking where anything was accepted in its place."""
    wider = change(change(GOOD, "/inputSchema/properties/more", {"type": "string"}), "/version", "1.3.0")
    files = write("old.json", GOOD), write("new.json", wider)
    assert run("manifest", "diff", *files).code == 0
    assert run("manifest", "diff", *files, "--strict").code == 1


def test_standard_input(run: Run, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hyphen reads standard input, once."""
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(WORDS)))
    assert "standard input" in run("manifest", "diff", write("old.json", GOOD), "-").out
    assert run("manifest", "diff", "-", "-").code == 2


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "nested too deep"),
        ("7", "is no manifest"),
        ('{"version": "1.0.0"}', "is no manifest"),
        ('{"tools": {}}', '"tools" is an object'),
    ],
)
def test_what_is_no_manifest(run: Run, write: Any, document: str, words: str) -> None:
    """A file that holds no manifest is wrong usage, in one sentence that says which file and why."""
    broken = write("broken.json", document)
    for files in ((broken, write("good.json", GOOD)), (write("good.json", GOOD), broken)):
        ran = run("manifest", "diff", *files)
        assert ran.code == 2
        assert words in ran.err
        assert broken in ran.err


@pytest.mark.parametrize("arguments", [[], ["--live", "new.json"]])
def test_one_thing_to_compare_with(run: Run, write: Any, arguments: list[str]) -> None:
    """There is a file NEW or ``--live``, and not both."""
    ran = run("manifest", "diff", write("old.json", GOOD), *arguments)
    assert ran.code == 2
    assert "--live" in ran.err


def test_entries_that_cannot_be_compared_are_told(run: Run, write: Any) -> None:
    """A name that is there twice, and an entry without one, are told with their places, and do not stop the rest."""
    ran = run("manifest", "diff", write("old.json", GOOD), write("new.json", [GOOD, WORDS, 7]))
    assert ran.code == 0
    assert ran.out.endswith("1 unchanged.\n")
    assert "count-words is there again at /1" in ran.err
    assert "at /2 is no manifest" in ran.err


def test_control_characters_stay_out(run: Run, write: Any) -> None:
    """What a manifest holds moves no cursor."""
    strange = {**WORDS, "name": "a\x1b[2J", "version": "1\x1b]0;x\x07"}
    ran = run("manifest", "diff", write("old.json", {**GOOD, "name": "a\x1b[2J"}), write("new.json", strange))
    assert "\x1b" not in ran.out + ran.err
    assert "\x07" not in ran.out + ran.err


def test_live(run: Run, write: Any, own_gateway: GatewayProcess) -> None:
    """``--live`` compares a pin with what the gateway lists now."""
    settings = {"API_URL": own_gateway.url, "API_KEY": own_gateway.key}
    own_gateway.register(manifest("probe", version="1.0.0"))
    pin = write("pin.json", "")
    assert run("manifest", "pin", "-o", pin, **settings).code == 0
    same = run("manifest", "diff", pin, "--live", "--fail-on", "any", **settings)
    assert same.code == 0
    assert same.out.endswith(" unchanged.\n")
    schema = {"type": "object", "properties": {"text": {"type": "integer"}}}
    own_gateway.register(manifest("probe", version="1.1.0", inputSchema=schema), manifest("more"))
    ran = run("manifest", "diff", pin, "--live", **settings)
    assert ran.code == 1
    assert "+ added    more" in ran.out
    assert "breaking   /inputSchema/properties/text/type: the type was string, is integer" in ran.out
    assert run("manifest", "diff", pin, "--live", "--json", "--fail-on", "none", **settings).code == 0


def test_live_without_a_gateway(run: Run, write: Any) -> None:
    """A gateway that cannot be reached is told as such, and not as a difference."""
    ran = run(
        "manifest", "diff", write("old.json", GOOD), "--live", API_URL="http://127.0.0.1:9", API_KEY="hive_abcdefgh"
    )
    assert ran.code == 69
