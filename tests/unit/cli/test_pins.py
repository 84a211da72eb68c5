"""`manifest pin`, and what `test` and `config` say of a pin, in the test's own process over a real gateway."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from colabhive_mcp.manifest.pins import parse_pin
from tests.harness.gateway import GatewayProcess, manifest
from tests.unit.cli.conftest import Run

PATH = "*/mcp/manifest"


def settings(gateway: GatewayProcess, **more: str) -> dict[str, str]:
    """What finds the gateway."""
    return {"API_URL": gateway.url, "API_KEY": gateway.key, **more}


def test_the_pin_is_the_manifest(run: Run, gateway: GatewayProcess, tmp_path: Path) -> None:
    """The file has every tool that the gateway lists and its ETag, and the command says how to use it."""
    file = tmp_path / "pin.json"
    ran = run("manifest", "pin", "-o", str(file), **settings(gateway))
    assert (ran.code, ran.err) == (0, "")
    served = gateway.ask("GET", "/api/builder/v1/mcp/manifest")
    pin = parse_pin(file.read_text("utf-8"), str(file))
    assert pin.document["tools"] == served["tools"]
    assert (pin.etag, pin.pages) == (served["etag"], 1)
    assert ran.out.startswith(f"{len(served['tools'])} tools pinned in {file}, ETag {served['etag']}.")
    assert f"--manifest-pin {file}" in ran.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert [each.name for each in tmp_path.iterdir()] == ["pin.json"]


def test_the_pin_on_stdout(run: Run, gateway: GatewayProcess, tmp_path: Path) -> None:
    """``-o -`` prints the pin and nothing else."""
    ran = run("manifest", "pin", "-o", "-", **settings(gateway))
    assert (ran.code, ran.err) == (0, "")
    assert parse_pin(ran.out, "stdout").document["tools"]
    assert list(tmp_path.iterdir()) == []


def test_tools_that_are_hard_to_write(run: Run, gateway: GatewayProcess) -> None:
    """A tool that is nested without end, or holds a number that is none, takes no other with it."""
    tools = [manifest("good"), manifest("deep", tags="@"), manifest("number", tags="#")]
    body = json.dumps({"tools": tools, "generatedAt": "now"})
    body = body.replace('"@"', "[" * 5000 + "]" * 5000).replace('"#"', "NaN")
    gateway.fault(method="GET", path=PATH, body=body, headers={"Content-Type": "application/json"})
    ran = run("manifest", "pin", "-o", "-", **settings(gateway))
    assert ran.code == 0
    pin = parse_pin(ran.out, "stdout").document
    assert pin["tools"][0] == manifest("good")
    assert [tool["name"] for tool in pin["tools"]] == ["good", "deep", "number"]
    assert pin["generatedAt"] == "now"


FAILURES = {
    "500": ({"status": 500, "body": "boom"}, 76),
    "no manifest": ({"body": {"tools": {}}}, 76),
    "a page": ({"body": "<html>"}, 76),
    "refused": ({"status": 401, "body": {"detail": "No."}}, 77),
}


@pytest.mark.parametrize("case", FAILURES)
def test_without_a_manifest_the_old_pin_stays(run: Run, gateway: GatewayProcess, tmp_path: Path, case: str) -> None:
    """Where the gateway has no manifest to give, the file that is there is left as it is."""
    fault, code = FAILURES[case]
    gateway.fault(method="GET", path=PATH, times=-1, **fault)
    file = tmp_path / "pin.json"
    file.write_text("old")
    ran = run("manifest", "pin", "-o", str(file), **settings(gateway))
    assert (ran.code, ran.out) == (code, "")
    assert file.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["pin.json"]


@pytest.mark.parametrize(
    ("place", "words"), [("folder", "Is a directory"), ("no/such", "No such file"), ("a/b", "Not a")]
)
def test_where_no_file_can_be(run: Run, gateway: GatewayProcess, tmp_path: Path, place: str, words: str) -> None:
    """A place where no file can be written is exit code 78 with words, and nothing is left behind."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").write_text("a file")
    ran = run("manifest", "pin", "-o", str(tmp_path / place), **settings(gateway))
    assert ran.code == 78
    assert f"{tmp_path / place} cannot be written: {words}" in ran.err
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["a", "folder"]


def test_a_link_stays_a_link(run: Run, gateway: GatewayProcess, tmp_path: Path) -> None:
    """Where the file is a link, what it leads to is replaced; a device is written to and stays one."""
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "pin.json", tmp_path / "link.json"
    link.symlink_to(target)
    assert run("manifest", "pin", "-o", str(link), **settings(gateway)).code == 0
    assert link.is_symlink()
    assert parse_pin(target.read_text("utf-8"), "pin").document["tools"]
    assert run("manifest", "pin", "-o", os.devnull, **settings(gateway)).code == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_file_is_asked_for(run: Run, gateway: GatewayProcess) -> None:
    """Without a file there is nothing to do, and nothing is asked of the gateway."""
    ran = run("manifest", "pin", **settings(gateway))
    assert ran.code == 2
    assert "-o" in ran.err
    assert gateway.seen("/mcp/manifest") == []


# What config says


@pytest.fixture
def pin(run: Run, gateway: GatewayProcess, tmp_path: Path) -> Path:
    """A pin that has one tool more than the gateway, and one that it changed."""
    file = tmp_path / "pin.json"
    run("manifest", "pin", "-o", str(file), **settings(gateway))
    document = json.loads(file.read_text("utf-8"))
    document["tools"][0]["version"] = "0.0.1"
    document["etag"] = 'W/"of another time"'
    document["tools"].append(manifest("left"))
    file.write_text(json.dumps(document), "utf-8")
    return file


def test_config_says_how_far_it_is_behind(run: Run, gateway: GatewayProcess, pin: Path) -> None:
    """``config`` tells of a pin in its last line, with ``--check`` as well, and as JSON under a key of its own."""
    given = settings(gateway, MANIFEST_PIN=str(pin))
    line = f"The manifest is pinned to {pin}, behind the gateway by 1 removed, 1 changed."
    for arguments in (("config",), ("config", "--check")):
        ran = run(*arguments, **given)
        assert (ran.code, ran.err, ran.out.splitlines()[-1]) == (0, "", line)
    told = json.loads(run("config", "--json", **given).out)
    assert told["pin"] == {"added": 0, "removed": 1, "changed": 1, "error": None}
    assert "pin" not in json.loads(run("config", "--json", **settings(gateway)).out)


def test_test_says_how_far_it_is_behind(run: Run, gateway: GatewayProcess, pin: Path) -> None:
    """``test`` tells of a pin at the step of the manifest, in words and as JSON."""
    given = settings(gateway, MANIFEST_PIN=str(pin))
    words = f"; pinned to {pin}, behind the gateway by 1 removed, 1 changed"
    ran = run("test", **given)
    assert (ran.code, ran.err) == (0, "")
    assert next(line for line in ran.out.splitlines() if " manifest " in line).endswith(words)
    steps = {step["step"]: step for step in json.loads(run("test", "--json", **given).out)["steps"]}
    assert steps["manifest"]["detail"].endswith(words)


def test_config_cannot_tell(run: Run, gateway: GatewayProcess, pin: Path) -> None:
    """Where the gateway fails or the key is missing, ``config`` says why it cannot tell, and is no failure."""
    gateway.fault(method="GET", path=PATH, status=500, body="boom", times=-1)
    with_key, keyless = settings(gateway, MANIFEST_PIN=str(pin)), {"MANIFEST_PIN": str(pin)}
    for given, words in ((with_key, "500"), (keyless, "there is no API key")):
        ran = run("config", **given)
        assert (ran.code, ran.err) == (0, "")
        assert "how far it is behind cannot be told" in ran.out
        assert ".." not in ran.out.splitlines()[-1]
        assert words in ran.out
        assert words in json.loads(run("config", "--json", **given).out)["pin"]["error"]


def test_an_etag_that_is_no_longer_served(run: Run, gateway: GatewayProcess) -> None:
    """``test`` fails at the manifest with what is served and what to do; ``config`` says it, and is no failure."""
    given = settings(gateway, MANIFEST_PIN='W/"gone"')
    ran = run("test", **given)
    assert ran.code == 76
    assert 'W/"gone" is no longer served' in ran.out
    assert "manifest pin" in ran.out
    ran = run("config", **given)
    assert ran.code == 0
    assert 'W/"gone" is no longer served' in ran.out


@pytest.mark.parametrize("command", [("tools",), ("test",), ("config",), ("call", "echo"), ("manifest", "show")])
def test_a_pin_that_is_missing(run: Run, gateway: GatewayProcess, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Every command that would read it says that the file is missing, with exit code 78."""
    file = tmp_path / "none.json"
    ran = run(*command, **settings(gateway, MANIFEST_PIN=str(file)))
    assert ran.code == 78
    assert f"there is no file {file}" in ran.out + ran.err
    assert "manifest_pin" in ran.out + ran.err
