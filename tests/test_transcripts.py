"""Transcripts: what a client sends and what the server must answer, one file a behaviour, over the real processes.

Each runs over stdio, and over HTTP where its rule holds for messages that come one by one.

A file in ``transcripts/`` begins with the lines that say what it pins. Then come lines of

- ``settings NAME=VALUE …`` and ``revision NAME``, before anything is sent;
- ``-> JSON``, what the client sends, or ``-> raw TEXT`` for a line that is no JSON;
- ``<- JSON``, what the server writes next. ``"…"`` stands for any value, a member ``"…": true`` for further members.
- ``<- nothing``, when all that was sent has to stay unanswered: a ping after it is answered first.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.harness import spec
from tests.harness.client import META, StdioClient, to_messages
from tests.harness.gateway import GatewayProcess
from tests.harness.relay import RelayProcess

FOLDER = Path(__file__).parent / "transcripts"
FILES = sorted(FOLDER.glob("*.txt"))
ON_PIPES_ALONE = {
    "before-initialize": "no request over HTTP has a handshake behind it",
    "filtered-tool": "its settings are those of a process of its own",
    "unreadable-lines-before-2025-11-25": "an error over HTTP has no id where none is known, in every revision",
}
OVER_HTTP = [path for path in FILES if path.stem not in ON_PIPES_ALONE]
ANY = "…"
STEP = re.compile(r"(?P<kind>->|<-|settings|revision) (?P<text>.*)")


@dataclass(frozen=True)
class Step:
    """One line of a transcript."""

    kind: str
    text: str
    place: str


def read_steps(path: Path) -> Iterator[Step]:
    """The steps of one file; the words before them are for people."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        match = STEP.fullmatch(line)
        if match:
            yield Step(match["kind"], match["text"], f"{path.name}:{number}")


def fits(value: Any, pattern: Any) -> bool:
    """Whether *value* is what *pattern* asks for."""
    if pattern == ANY:
        return True
    if isinstance(pattern, dict) and isinstance(value, dict):
        wanted = {key: rule for key, rule in pattern.items() if key != ANY}
        complete = ANY in pattern or value.keys() == wanted.keys()
        return complete and all(key in value and fits(value[key], rule) for key, rule in wanted.items())
    if isinstance(pattern, list) and isinstance(value, list):
        return len(pattern) == len(value) and all(map(fits, value, pattern))
    return type(value) is type(pattern) and value == pattern


class Peer(Protocol):
    """One client of either transport."""

    def send(self, text: str) -> None:
        """Send one line as the transcript has it."""

    def receive(self) -> Any:
        """What came next, be it a message or an array of them, held to its schema."""

    def expect_nothing(self) -> None:
        """All that was sent is unanswered."""


def find_asked(message: Any) -> str | None:
    """The revision that a handshake asks for and gets; None for any other message."""
    asks = isinstance(message, dict) and message.get("method") == "initialize"
    asked = message["params"].get("protocolVersion") if asks else None
    return asked if asked in spec.LEGACY else None


class PipePeer:
    """A client over stdio."""

    def __init__(self, client: StdioClient) -> None:
        self._client = client

    def send(self, text: str) -> None:
        """One line, raw or a message."""
        if not text.startswith("raw "):
            message = json.loads(text)
            for each in message if isinstance(message, list) else [message]:
                self._client.revision = find_asked(each) or self._client.revision
                self._client.note(each)
        self._client.send_raw(text.removeprefix("raw ").encode() + b"\n")

    def receive(self) -> Any:
        """The next line."""
        line = self._client.receive_line()
        for message in to_messages(line):
            self._client.check(message)
        return json.loads(line)

    def expect_nothing(self) -> None:
        """A ping after it all is answered first."""
        self._client.send({"jsonrpc": "2.0", "id": "sentinel", "method": "ping"})
        message = self._client.receive()
        assert message.get("id") == "sentinel", f"nothing was to come, but {message}"


class HttpPeer:
    """A client over HTTP: it posts each line, and says the version that the transcript is at."""

    def __init__(self, relay: RelayProcess, revision: str) -> None:
        self._relay = relay
        self._revision = revision
        self._methods: dict[str, str] = {}
        self._came: deque[Any] = deque()

    def send(self, text: str) -> None:
        """Post one line, and keep what comes back for it."""
        body = text.removeprefix("raw ")
        message = None if text.startswith("raw ") else json.loads(body)
        for each in message if isinstance(message, list) else [message]:
            self._revision = find_asked(each) or self._revision
            if isinstance(each, dict) and "id" in each and "method" in each:
                self._methods[repr(each["id"])] = each["method"]
        answer = self._relay.post(body.encode(), **self._to_headers(message))
        assert (answer.status == 202) is (answer.body == b"")
        self._came.extend(answer.messages if answer.body else ())

    def receive(self) -> Any:
        """The next message, or array, of the answers so far."""
        value = self._came.popleft()
        for message in value if isinstance(value, list) else [value]:
            spec.check(message, revision=self._revision, method=self._methods.get(repr(message.get("id"))))
        return value

    def expect_nothing(self) -> None:
        """No answer had a body that was not asked for."""
        assert not self._came, f"nothing was to come, but {self._came}"

    def _to_headers(self, message: Any) -> dict[str, str]:
        """What the revision of *message* wants; a modern one names its method and its tool."""
        params = message.get("params") if isinstance(message, dict) else None
        version = (params or {}).get("_meta", {}).get(META + "protocolVersion")
        if version is None:
            return {"MCP_Protocol_Version": self._revision}
        named = {"Mcp_Name": params["name"]} if "name" in params else {}
        return {"MCP_Protocol_Version": version, "Mcp_Method": message["method"], **named}


def follow(peer: Peer, steps: list[Step]) -> None:
    """Send and expect what the transcript says."""
    for step in steps:
        if step.kind == "->":
            peer.send(step.text)
        elif step.text == "nothing":
            peer.expect_nothing()
        elif step.kind == "<-":
            value = peer.receive()
            fit = fits(value, json.loads(step.text))
            assert fit, f"{step.place}:\nwanted {step.text}\ngot    {json.dumps(value)}"


def read_revision(steps: list[Step]) -> str:
    """The one that the file begins with."""
    return next((step.text for step in steps if step.kind == "revision"), "2025-11-25")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_server_keeps_to_the_transcript(
    path: Path, gateway: GatewayProcess, connect: Callable[..., StdioClient]
) -> None:
    """What the client sends over stdio is answered as the file says, message by message."""
    steps = list(read_steps(path))
    settings = dict(word.split("=", 1) for step in steps if step.kind == "settings" for word in step.text.split())
    client = connect(gateway, revision=read_revision(steps), opened=False, **settings)
    follow(PipePeer(client), steps)
    assert client.close() == 0
    assert client.drain() == []


@pytest.fixture(scope="module")
def relay(shared_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """One relay for all transcripts."""
    shared_gateway.clear()
    with RelayProcess(tmp_path_factory.mktemp("transcripts"), shared_gateway) as relay:
        yield relay


@pytest.mark.parametrize("path", OVER_HTTP, ids=lambda path: path.stem)
def test_the_relay_keeps_to_the_transcript(path: Path, gateway: GatewayProcess, relay: RelayProcess) -> None:
    """What the client posts is answered as the file says, message by message, and nothing more."""
    steps = list(read_steps(path))
    peer = HttpPeer(relay, read_revision(steps))
    follow(peer, steps)
    peer.expect_nothing()


def test_what_is_left_out_over_http_is_there() -> None:
    """Each transcript that runs on pipes alone exists; any other with settings would run without them."""
    assert ON_PIPES_ALONE.keys() <= {path.stem for path in FILES}
    assert not any(step.kind == "settings" for path in OVER_HTTP for step in read_steps(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_transcript_says_what_it_pins(path: Path) -> None:
    """A transcript opens with a sentence for people, and both sides speak in it."""
    lines = path.read_text("utf-8").splitlines()
    assert lines[0].endswith(".")
    assert not STEP.fullmatch(lines[0])
    assert {"->", "<-"} <= {step.kind for step in read_steps(path)}
