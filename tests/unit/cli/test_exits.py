"""The boundary: every failure is one sentence and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from colabhive_mcp.cli.exits import run_guarded
from colabhive_mcp.errors import (
    BadAnswer,
    BridgeError,
    ClientError,
    ConfigError,
    GatewayError,
    GatewayUnreachable,
    KeyRefused,
    ToolError,
)


def fail(error: BaseException) -> int:
    """Raise *error* where a command would."""

    def run() -> int:
        raise error

    return run_guarded(run)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("words"), 78),
        (KeyRefused("words"), 77),
        (BadAnswer("words"), 76),
        (GatewayUnreachable("words"), 69),
        (GatewayError("words"), 1),
        (ToolError("words"), 1),
        (ClientError("words"), 2),
        (BridgeError("words"), 70),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_known_errors(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """An error of ours is its own sentence and exit code."""
    assert fail(error) == code
    assert capsys.readouterr() == ("", "Error: words\n")


def test_own_fault(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours is exit code 70 without a traceback, which only a debug level shows, without a key."""
    error = ValueError("hive_secretsecret")
    assert fail(error) == 70
    text = capsys.readouterr().err
    assert "Traceback" not in text
    assert "ValueError" in text
    monkeypatch.setattr(sys, "argv", ["colabhive-mcp", "--log-level=debug"])
    assert fail(error) == 70
    text = capsys.readouterr().err
    assert "Traceback" in text
    assert "secretsecret" not in text


def test_broken_installation(capsys: pytest.CaptureFixture[str]) -> None:
    """A package that cannot be imported is named with its version."""
    assert fail(ImportError("cannot import name 'x'", name="click.core")) == 70
    text = capsys.readouterr().err
    assert text.startswith("Error: click 8.")
    assert "pip install" in text
    assert fail(ImportError("No module named 'nowhere'", name="nowhere")) == 70
    assert "nowhere (not installed)" in capsys.readouterr().err


def test_interrupt_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C is exit code 130 and nothing said."""
    assert fail(KeyboardInterrupt()) == 130
    assert capsys.readouterr() == ("", "")


def test_closed_pipe_is_quiet() -> None:
    """A reader that has seen enough ends a command without an error."""
    command = [sys.executable, "-m", "colabhive_mcp", "config", "--help"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 0


@pytest.mark.parametrize(
    ("redirection", "code", "words"),
    [
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        ("> /dev/full", 70, "Error: [Errno 28] No space left on device.\n"),
    ],
)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the device that is always full is Linux's")
def test_outputs_that_take_nothing(redirection: str, code: int, words: str) -> None:
    """A closed stream is no reason to fail, and a full disk is told in one sentence."""
    command = f"{sys.executable} -m colabhive_mcp config {redirection}"
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (code, words)
