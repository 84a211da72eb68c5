"""The README and the examples, held against the program that they speak of."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from colabhive_mcp import errors
from colabhive_mcp.cli.clients import CLIENTS, render_config
from colabhive_mcp.cli.commands import COMMANDS
from colabhive_mcp.cli.exits import EXIT_INTERRUPTED
from colabhive_mcp.config import SETTINGS, load_settings
from colabhive_mcp.manifest.contract import lint, validate
from colabhive_mcp.protocol.revisions import SUPPORTED
from tests.harness.gateway import GatewayProcess

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
EXAMPLES = ROOT / "examples"
EXIT_CODES = {value for name, value in vars(errors).items() if name.startswith("EXIT_")} | {EXIT_INTERRUPTED}
KEY = "hive_" + "exampleKey0123456789"


def rows(first: str) -> dict[str, list[str]]:
    """The rows of the README's table whose first column is headed *first*, by the words of that column."""
    table = README.split(f"| {first} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]
    return {row[0].strip("`"): row[1:] for row in cells}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_stands_in_the_readme(setting: Any) -> None:
    """Each setting has a row, whose default is the program's."""
    default, _ = rows("setting")[setting.name]
    told = None if default == "none" else default.strip("`")
    environ = {} if told is None else {setting.variable: told}
    loaded = load_settings(flags={}, environ={"HOME": "/nonexistent", **environ})
    assert getattr(loaded, setting.name) == setting.default


def test_the_readme_names_no_other_setting() -> None:
    """A row of the table is a setting that there is."""
    assert rows("setting").keys() == {setting.name for setting in SETTINGS}


def test_every_exit_code_stands_in_the_readme() -> None:
    """The table of exit codes is the program's."""
    assert {int(code) for code in rows("exit code")} == EXIT_CODES


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_stands_in_the_readme(command: str) -> None:
    """Each command has a row of its own."""
    assert any(row.startswith(f"colabhive-mcp {command}") for row in rows("command"))


def test_the_readme_names_the_revisions_that_are_served() -> None:
    """The table of revisions has a column for each."""
    assert all(f"| {revision} " in README for revision in SUPPORTED)


def test_the_readme_begins_with_what_a_stranger_types() -> None:
    """``make demo`` and ``make test`` are told and are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"make (\w+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    told = set(re.findall(r"make (\w+)", README))
    assert {"demo", "test", "lint", "bench", "clients", "conformance", "system"} <= told


def test_links_in_the_readme_lead_somewhere() -> None:
    """Every file that the README links is there."""
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def parse(path: Path) -> Any:
    """A configuration as its client reads it."""
    text = path.read_text("utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("manifests/*.json")), ids=lambda path: path.stem)
def test_example_manifests_are_good(path: Path) -> None:
    """A manifest to start from breaks no rule of the contract and none of good authoring."""
    manifest = json.loads(path.read_text("utf-8"))
    assert validate(manifest) == []
    assert lint(manifest) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_examples_are_what_the_program_prints(client: str) -> None:
    """A ready file is the printed configuration with the command by its name; it parses and holds no key."""
    (path,) = EXAMPLES.glob(f"clients/{client}.*")
    assert path.read_text("utf-8") == render_config(client, ["colabhive-mcp"]) + "\n"
    assert "colabhive-mcp" in json.dumps(parse(path))
    assert "hive_" not in path.read_text("utf-8")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("command", [r"C:\Program Files\Python\python.exe", '/opt/my "own"/python3'])
def test_printed_configurations_take_any_path(client: str, command: str) -> None:
    """Spaces, quotes and backslashes in the path of the interpreter come out as they went in."""
    text = render_config(client, [command, "-m", "colabhive_mcp"], {"COLABHIVE_API_URL": "http://127.0.0.1:1"})
    value = tomllib.loads(text) if client == "codex" else json.loads(text)
    assert command in strings(value)
    assert any("COLABHIVE_API_URL" in each for each in strings(value))


def strings(value: Any) -> list[str]:
    """Every string in a configuration, keys included."""
    if isinstance(value, dict):
        return [each for key, member in value.items() for each in (key, *strings(member))]
    if isinstance(value, list):
        return [each for item in value for each in strings(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("client", ["claude-desktop", "claude-code", "cursor", "gemini-cli"])
def test_a_printed_configuration_starts_the_server(client: str, gateway: GatewayProcess, tmp_path: Path) -> None:
    """What is printed, run as a client runs it from another folder and with an empty PATH, answers a handshake."""
    command = [sys.executable, "-m", "colabhive_mcp", "config", "--client", client]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env={"HOME": str(tmp_path)})
    entry = json.loads(printed.stdout)["mcpServers"]["colabhive"]
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    answer = subprocess.run(
        [entry["command"], *entry["args"]],
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        env={"PATH": "", "COLABHIVE_API_KEY": gateway.key, "COLABHIVE_API_URL": gateway.url},
    )
    assert json.loads(answer.stdout.splitlines()[0])["result"]["protocolVersion"] == "2025-11-25"


def test_the_ci_check_passes_against_a_gateway(gateway: GatewayProcess, tmp_path: Path) -> None:
    """``ci-smoke.sh`` runs as a job would run it, and leaves the list and the answer."""
    shell = shutil.which("sh")
    assert shell is not None
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "COLABHIVE_API_KEY": gateway.key,
        "COLABHIVE_API_URL": gateway.url,
    }
    script = str(EXAMPLES / "ci-smoke.sh")
    run = subprocess.run([shell, script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert json.loads((tmp_path / "tools.json").read_text())
    assert json.loads((tmp_path / "answer.json").read_text())
