"""Run a command line inside the test's own process, with an environment that holds no setting."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from colabhive_mcp.cli.commands import run_arguments


@dataclass(frozen=True)
class Ran:
    """What a command line did."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """``run("config", "--json", WORKERS="3")``: arguments, and settings as variables without their prefix."""
    for name in os.environ:
        if name.startswith("COLABHIVE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def start(*arguments: str, **settings: str) -> Ran:
        with monkeypatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(f"COLABHIVE_{name}", value)
            code = run_arguments(arguments)
        return Ran(code, *capsys.readouterr())

    return start
