"""The local gateway as a process: what it prints, how it stops, what it keeps."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from colabhive_mcp.cli.hosting import HostedGateway, Plan, build_chat
from colabhive_mcp.errors import ConfigError

KEY = "hive_" + "abcdefghijklmnop"


def ask(address: str, path: str, key: str | None) -> int:
    """The status of one request."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
    try:
        connection.request("GET", path, headers={"X-API-Key": key} if key else {})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


@contextmanager
def start(*arguments: str, key: str | None = None) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A gateway process, its address and the key that it printed."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COLABHIVE_")}
    environ |= {"COLABHIVE_GATEWAY_KEY": key} if key else {}
    command = [sys.executable, "-W", "error", "-m", "colabhive_mcp", "gateway", "--port", "0", *arguments]
    child = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        address = child.stdout.readline().partition("Local gateway: ")[2].strip()
        printed = child.stdout.readline().partition("Key: ")[2].strip()
        try:
            yield child, address, printed
        finally:
            child.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_runs_until_a_signal(number: signal.Signals) -> None:
    """The gateway prints its real address and a fresh key, serves, and ends with exit code 0 and nothing more said."""
    with start() as (child, address, key):
        assert key.startswith("hive_")
        assert ask(address, "/api/builder/v1/mcp/manifest", key) == 200
        assert ask(address, "/api/builder/v1/mcp/manifest", "hive_other") == 401
        child.send_signal(number)
        rest = child.communicate(timeout=10)
    assert (child.returncode, rest) == (0, ("", ""))


def test_key_from_the_environment(tmp_path: Path) -> None:
    """A key of the environment is taken without a warning; in a kept database it is valid again at the next start."""
    database = str(tmp_path / "hive.db")
    with start("--db", database, key=KEY) as (child, address, key):
        assert key == KEY
        child.terminate()
        assert child.communicate(timeout=10) == ("", "")
    with start("--db", database) as (child, address, key):
        assert "hive_" not in key
        assert ask(address, "/api/builder/v1/mcp/manifest", KEY) == 200


def test_key_flag_warns() -> None:
    """A key on the command line draws a warning and is printed once."""
    with start("--key", KEY) as (child, _, key):
        assert key == KEY
        child.terminate()
        out, err = child.communicate(timeout=10)
    assert err.startswith("Warning: --key can be read")
    assert KEY not in out + err


def test_hosted_in_a_thread(tmp_path: Path) -> None:
    """Inside a process the gateway listens within its block, and the port is free after it."""
    with HostedGateway(Plan(path=str(tmp_path / "a.db"), key=KEY)) as gateway:
        assert gateway.key == KEY
        assert ask(gateway.address, "/health", None) == 200
        port = urlsplit(gateway.address).port
        assert port is not None
        with pytest.raises(ConfigError, match=f"port {port}"):
            HostedGateway(Plan(path=str(tmp_path / "b.db"), port=port))
    with pytest.raises(OSError, match="refused"):
        ask(gateway.address, "/health", None)


def test_database_that_is_none(tmp_path: Path) -> None:
    """A file that is no database is named and left as it is."""
    path = tmp_path / "x.db"
    path.write_bytes(b"no database, and longer than a header " * 100)
    with pytest.raises(ConfigError, match=r"x\.db"):
        HostedGateway(Plan(path=str(path)))
    assert path.read_bytes().startswith(b"no database")


def test_chat_server_address() -> None:
    """The chat server's address is checked before anything starts."""
    assert build_chat(None, None) is None
    with pytest.raises(ConfigError, match="--openai-url"):
        build_chat("localhost:1234", None)
