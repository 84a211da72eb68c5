"""The command line: help that stays short, flags from the table, and exit codes for what is no command."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from colabhive_mcp import __version__
from colabhive_mcp.cli.commands import COMMANDS, command_line, load_command
from colabhive_mcp.cli.options import GROUPS, SettingOption
from colabhive_mcp.config import SETTINGS, build_environ
from tests.unit.cli.conftest import Run


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_help_is_short(run: Run, name: str | None) -> None:
    """Every help page fits a terminal, but for the one whose job is to explain all settings."""
    ran = run(*([name] if name else []), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.out.splitlines()) <= 40 or name == "config"
    assert max(map(len, ran.out.splitlines())) <= 80


def test_help_names_every_command(run: Run) -> None:
    """The first help page names each command with one sentence."""
    out = run("--help").out
    for name in COMMANDS:
        assert f"\n  {name} " in out


def test_config_help_explains_every_setting(run: Run) -> None:
    """Each setting's flag and sentence stand on the help page of ``config``."""
    out = " ".join(run("config", "--help").out.split())
    for setting in SETTINGS:
        assert setting.flag in out
        assert setting.help.split()[0] in out


def test_the_server_takes_every_setting() -> None:
    """The stdio server has a flag for each row of the table, and no other."""
    names = [param.name for param in command_line.params if isinstance(param, SettingOption)]
    assert names == [setting.name for setting in SETTINGS]
    assert {setting.group for setting in SETTINGS} == set(GROUPS)


@pytest.mark.parametrize("name", COMMANDS)
def test_flags_come_from_the_table(name: str) -> None:
    """A command offers all flags of a group of settings, or none."""
    names = {param.name for param in load_command(name).params if isinstance(param, SettingOption)}
    groups = {setting.group for setting in SETTINGS if setting.name in names}
    assert names == {setting.name for setting in SETTINGS if setting.group in groups}


def test_version(run: Run) -> None:
    """The version is told by the command and by the flag."""
    assert run("version").out == run("--version").out == f"colabhive-mcp {__version__}\n"


@pytest.mark.parametrize(
    "line",
    [
        ["nonsense"],
        ["--nonsense"],
        ["tools", "--nonsense"],
        ["call"],
        ["call", "x", "--arg", "novalue"],
        ["call", "x", "--arg", "=1"],
        ["call", "x", "--arg", "a=1", "--arg", "a=2"],
        ["call", "x", "--json", "[1]"],
        ["call", "x", "--json", "{"],
        ["call", "x", "--output", "xml"],
        ["gateway", "--port", "70000"],
        ["--workers", "3", "tools"],
        ["--profile", "x", "version"],
        ["--api-url", "http://127.0.0.1:1", "gateway"],
    ],
    ids=" ".join,
)
def test_wrong_usage(run: Run, line: list[str]) -> None:
    """Wrong usage is exit code 2 with words on stderr, and nothing on stdout."""
    ran = run(*line)
    assert (ran.code, ran.out) == (2, "")
    assert "Error: " in ran.err


@pytest.mark.parametrize(("value", "styled"), [("", True), ("1", False)])
def test_no_color(tmp_path: Path, value: str, styled: bool) -> None:
    """A terminal gets no colours where NO_COLOR is set and not empty."""
    (tmp_path / "a.json").write_text("5")
    terminal, child = pty.openpty()
    line = [sys.executable, "-m", "colabhive_mcp", "manifest", "validate", str(tmp_path / "a.json")]
    with open(terminal, "rb", buffering=0) as shown:
        environ = build_environ({"NO_COLOR": value})
        subprocess.run(line, stdin=subprocess.DEVNULL, stdout=child, env=environ, timeout=30, check=False)
        out = shown.read(4096)
        os.close(child)
    assert b"not-an-object" in out
    assert (b"\x1b[" in out) is styled


@pytest.mark.parametrize("line", [["tools"], ["call", "x"], ["config", "--check"], []], ids=" ".join)
def test_missing_key(run: Run, line: list[str]) -> None:
    """What needs a key says the ways to give one, with exit code 78."""
    for settings in ({}, {"API_KEY": "   "}):
        ran = run(*line, **settings)
        assert (ran.code, ran.out) == (78, "")
        assert "COLABHIVE_API_KEY_FILE" in ran.err


def test_wrong_flag_value(run: Run) -> None:
    """A setting's wrong value is exit code 78 and names the flag, before or after the command's name."""
    for line in (["config", "--poll-interval", "x"], ["--poll-interval", "x", "config"], ["--poll-interval", "x"]):
        ran = run(*line)
        assert ran.code == 78
        assert ran.err.startswith("Error: --poll-interval must be")


def test_flags_before_the_command(run: Run, tmp_path: object) -> None:
    """A flag before the command's name counts, and one after it counts more."""
    assert '"value": 3.0' in run("--poll-interval", "3", "config", "--json").out
    out = run("--poll-interval", "3", "config", "--json", "--poll-interval", "4").out
    assert '"value": 4.0' in out
    assert '"value": 3.0' not in out


def test_key_flag_warns_once(run: Run) -> None:
    """A key on the command line draws exactly one warning, on stderr."""
    ran = run("config", "--api-key", "hive_abcdefghijkl")
    assert ran.err.count("list of processes") == 1
    assert "defghi" not in ran.out + ran.err


def test_click_stays_out_of_the_server() -> None:
    """The start without arguments imports neither click nor what talks to the gateway."""
    code = "import sys, colabhive_mcp.__main__, colabhive_mcp.cli.server; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(ran.stdout.split()) & {"click", "waitress", "requests", "jsonschema", "cachetools", "tomllib"}
