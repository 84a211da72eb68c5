"""The demo's client: it waits for answers, and says when there are none."""

from __future__ import annotations

import os
import sys
import time

import pytest

from colabhive_mcp.cli.peer import Peer, PeerError

ECHO = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/x"}), flush=True)
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": message["params"]}), flush=True)
    elif message["method"] == "exit":
        sys.exit(3)
"""


def build(code: str, *, clock: object = time.monotonic) -> Peer:
    """A peer of a small program."""
    return Peer([sys.executable, "-c", code], environ=dict(os.environ), clock=clock)  # type: ignore[arg-type]


def test_session() -> None:
    """Requests get their own answers, notifications go to the listener, and closing tells the exit code."""
    heard: list[dict[str, object]] = []
    with build(ECHO) as peer:
        assert peer.request("a", {"n": 1}, listener=heard.append)["result"] == {"n": 1}
        assert peer.request("a", {"n": 2})["id"] == 2
        assert [message["method"] for message in heard] == ["notifications/x"]
        assert len(peer.seen) == 4
        number = peer.send("a", {"n": 3})
        peer.listen(heard.append, until=lambda message: message.get("id") == number)
        assert heard[-1]["result"] == {"n": 3}
        assert peer.close()[0] == 0


def test_server_that_ends() -> None:
    """A server that ends is an error in words, and so is one that no longer reads."""
    with build(ECHO) as peer:
        peer.notify("exit")
        with pytest.raises(PeerError, match=r"has ended|no longer reads"):
            peer.request("a")


def test_server_that_says_nothing() -> None:
    """An answer that does not come in time is an error; the clock decides, and the child is ended."""
    times = iter([0.0, 100.0])
    with (
        build("import sys; sys.stdin.read()", clock=lambda: next(times)) as peer,
        pytest.raises(PeerError, match="within"),
    ):
        peer.request("a")
