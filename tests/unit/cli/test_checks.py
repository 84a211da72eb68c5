"""``config``: each setting, its value and its source."""

from __future__ import annotations

import json

import pytest

from colabhive_mcp.config import SETTINGS
from tests.unit.cli.conftest import Run

KEY = "hive_abcdefghijklmnop"


def test_config_table(run: Run) -> None:
    """The table has one line a setting, in the table's order, with value and source."""
    lines = run("config", "--allow-tools", "a*,b", STABILITY="stable").out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [setting.name for setting in SETTINGS]
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert rows["allow_tools"].split(maxsplit=1) == ["a*,b", "flag --allow-tools"]
    assert rows["stability"].split(maxsplit=1) == ["stable", "environment COLABHIVE_STABILITY"]
    assert rows["use_etag"].split() == ["true", "default"]
    assert rows["poll_interval"].split() == ["2", "default"]
    assert rows["account_id"].split() == ["-", "default"]


def test_config_json(run: Run) -> None:
    """As JSON each value has its own type, and the file that was looked for is named."""
    shown = json.loads(run("config", "--json", USE_ETAG="no").out)
    rows = {row["name"]: row for row in shown["settings"]}
    assert list(rows) == [setting.name for setting in SETTINGS]
    assert rows["use_etag"] == {"name": "use_etag", "value": False, "source": "environment COLABHIVE_USE_ETAG"}
    assert rows["allow_tools"]["value"] == []
    assert shown["file"].endswith("colabhive-mcp/config.toml")


@pytest.mark.parametrize("line", [["config"], ["config", "--json"], ["config", "--check"]], ids=" ".join)
def test_config_shortens_the_key(run: Run, line: list[str]) -> None:
    """Of the key no more than its first characters is shown."""
    ran = run(*line, API_KEY=KEY)
    assert ran.code == 0
    assert "bcdefg" not in ran.out + ran.err


def test_config_check(run: Run) -> None:
    """``--check`` is a sentence and exit code 0, or what is wrong and 78."""
    assert run("config", "--check", API_KEY=KEY).out == "The settings are in order.\n"
    assert run("config", "--check", API_KEY=KEY, WORKERS="none").code == 78
    assert run("config", "--check").code == 78


def test_doubts_are_told(run: Run) -> None:
    """What is allowed and probably not meant is a warning on stderr, not an error."""
    ran = run("config", VERIFY_TLS="no", POL_INTERVAL="3")
    assert ran.code == 0
    assert ran.err.count("Warning: ") == 2
