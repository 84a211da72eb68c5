"""A server whose manifest is frozen in a file: what it serves, and how it tells how far that is behind."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Connect
from tests.harness.client import StdioClient
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.processes import build_environment

Ran = subprocess.CompletedProcess[str]


def run(gateway: GatewayProcess | str, folder: Path, *arguments: str, **settings: Any) -> Ran:
    """One command, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "colabhive_mcp", *arguments],
        env=build_environment(gateway, folder, **settings),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, Path]]:
    """A gateway and a pin of its manifest; since then two tools were added, one was removed and one changed."""
    folder = tmp_path_factory.mktemp("moved")
    with GatewayProcess(folder) as gateway:
        gateway.register(manifest("early", version="1.0.0"), manifest("leaving"))
        ran = run(gateway, folder, "manifest", "pin", "-o", str(folder / "pin.json"))
        assert (ran.returncode, ran.stderr) == (0, "")
        gateway.register(manifest("early", version="2.0.0"), manifest("fresh"), manifest("fresher"))
        gateway.remove("leaving")
        yield gateway, folder / "pin.json"


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a gateway that takes every connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def pinned(client: StdioClient) -> list[dict[str, Any]]:
    """What the log says of the pin, without time and logger."""
    told = ("pin", "etag", "tools", "added", "removed", "changed", "error")
    return [{key: event[key] for key in told if key in event} for event in client.wait_event("manifest.pinned")]


def test_a_pinned_server_serves_the_file(moved: tuple[GatewayProcess, Path], connect: Connect) -> None:
    """The tools are those of the file whatever the gateway lists, and the log says how far they are behind."""
    gateway, file = moved
    client = connect(gateway, manifest_pin=file, manifest_ttl=0.2)
    document = json.loads(file.read_text("utf-8"))
    tools = client.tools()
    assert {"early", "leaving"} <= set(tools)
    assert "fresh" not in tools
    assert tools["early"]["_meta"]["com.colabhive/manifest"]["version"] == "1.0.0"
    assert client.call("early", {"text": "x"})["isError"] is False
    assert client.ask("tools/call", {"name": "fresh"})["error"]["code"] == -32602
    gateway.wait_seen("*/mcp/manifest", at_least=len(gateway.seen("/mcp/manifest")) + 3)
    assert client.tools() == tools
    assert pinned(client) == [
        {
            "pin": str(file),
            "etag": document["etag"],
            "tools": len(document["tools"]),
            "added": 2,
            "removed": 1,
            "changed": 1,
        }
    ]
    assert client.notifications == []


def test_the_log_says_when_it_has_changed(own_gateway: GatewayProcess, connect: Connect, tmp_path: Path) -> None:
    """How far a pin is behind is told at the start, again when it has changed, and not in between."""
    file = tmp_path / "pin.json"
    assert run(own_gateway, tmp_path, "manifest", "pin", "-o", str(file)).returncode == 0
    client = connect(own_gateway, manifest_pin=file, manifest_ttl=0.1)
    client.tools()
    own_gateway.wait_seen("*/mcp/manifest", at_least=len(own_gateway.seen("/mcp/manifest")) + 3)
    own_gateway.register(manifest("fresh"))
    client.wait_event("manifest.pinned", at_least=2)
    first, second = pinned(client)
    assert (first["added"], first["removed"], first["changed"]) == (0, 0, 0)
    assert (second["added"], second["removed"], second["changed"]) == (1, 0, 0)


def test_a_silent_gateway_keeps_nobody_waiting(
    silent: str, moved: tuple[GatewayProcess, Path], connect: Connect
) -> None:
    """A pinned list waits no more than two seconds for a gateway that says nothing."""
    gateway, file = moved
    client = connect(gateway, environment={"COLABHIVE_API_URL": silent}, manifest_pin=file, http_timeout=20)
    started = time.monotonic()
    assert "leaving" in client.tools()
    assert time.monotonic() - started < 10
    assert "error" in pinned(client)[0]


def test_a_dead_gateway(moved: tuple[GatewayProcess, Path], connect: Connect) -> None:
    """Without any gateway the pinned tools are listed, and a call fails with words, as does the look at the gateway."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        dead = f"http://127.0.0.1:{probe.getsockname()[1]}"
    quick = {"connect_timeout": 0.1, "http_timeout": 0.1}
    client = connect(moved[0], environment={"COLABHIVE_API_URL": dead}, manifest_pin=moved[1], **quick)
    assert "leaving" in client.tools()
    assert "refused the connection" in pinned(client)[0]["error"]
    result = client.call("echo", {"text": "x"})
    assert result["isError"]
    assert "refused the connection" in result["content"][0]["text"]


def test_pages(tmp_path_factory: pytest.TempPathFactory, connect: Connect) -> None:
    """A manifest of several pages is pinned whole, and compared whole: its ETag covers the first page alone."""
    folder = tmp_path_factory.mktemp("paged")
    with GatewayProcess(folder, arguments=("--page-size", "3")) as gateway:
        file = folder / "pin.json"
        assert run(gateway, folder, "manifest", "pin", "-o", str(file)).returncode == 0
        document = json.loads(file.read_text("utf-8"))
        assert document["pages"] == -(-len(document["tools"]) // 3) > 1
        assert not {"hasMore", "nextCursor"} & document.keys()
        gateway.register(manifest("zzz-on-the-last-page"))
        with connect(gateway, manifest_pin=file) as client:
            assert len(client.tools()) == len(document["tools"]) + 1
            assert pinned(client)[0]["added"] == 1


BROKEN = {
    "missing": (None, "there is no file"),
    "no manifest": ("[]", "holds no manifest"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_server_without_its_pin_does_not_start(case: str, tmp_path: Path, gateway: GatewayProcess) -> None:
    """A pin that cannot be read, or is none, is exit code 78 and one sentence that names the file and what to do."""
    content, words = BROKEN[case]
    file = tmp_path / "pin.json"
    if content is not None:
        file.write_text(content)
    ran = run(gateway, tmp_path, manifest_pin=file)
    assert (ran.returncode, ran.stdout) == (78, "")
    assert str(file) in ran.stderr
    assert words in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
