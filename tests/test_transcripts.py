"""Transcripts: what a client sends and what the server must answer, one file a behaviour, over the real process.

A file in ``transcripts/`` begins with the lines that say what it pins. Then come lines of

- ``settings NAME=VALUE …`` and ``revision NAME``, before anything is sent;
- ``-> JSON``, what the client sends, or ``-> raw TEXT`` for a line that is no JSON;
- ``<- JSON``, what the server writes next. ``"…"`` stands for any value, a member ``"…": true`` for further members.
- ``<- nothing``, when all that was sent has to stay unanswered: a ping after it is answered first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import StdioClient, to_messages
from tests.harness.gateway import GatewayProcess

FOLDER = Path(__file__).parent / "transcripts"
FILES = sorted(FOLDER.glob("*.txt"))
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


def send(client: StdioClient, text: str) -> None:
    """Send one line as the transcript has it."""
    if text.startswith("raw "):
        client.send_raw(text.removeprefix("raw ").encode() + b"\n")
        return
    message = json.loads(text)
    for each in message if isinstance(message, list) else [message]:
        if isinstance(each, dict) and each.get("method") == "initialize":
            client.revision = NEGOTIATED.get(each["params"].get("protocolVersion"), client.revision)
        client.note(each)
    client.send_raw(text.encode() + b"\n")


NEGOTIATED = {name: name for name in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")}


def expect(client: StdioClient, step: Step) -> None:
    """Hold the next line to what the transcript says."""
    if step.text == "nothing":
        client.send({"jsonrpc": "2.0", "id": "sentinel", "method": "ping"})
        message = client.receive()
        assert message.get("id") == "sentinel", f"{step.place}: nothing was to come, but {message}"
        return
    line = client.receive_line()
    for message in to_messages(line):
        client.check(message)
    value, pattern = json.loads(line), json.loads(step.text)
    assert fits(value, pattern), f"{step.place}:\nwanted {step.text}\ngot    {line.decode()}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_server_keeps_to_the_transcript(
    path: Path, gateway: GatewayProcess, connect: Callable[..., StdioClient]
) -> None:
    """What the client sends is answered as the file says, message by message."""
    steps = list(read_steps(path))
    settings = dict(word.split("=", 1) for step in steps if step.kind == "settings" for word in step.text.split())
    revision = next((step.text for step in steps if step.kind == "revision"), "2025-11-25")
    client = connect(gateway, revision=revision, opened=False, **settings)
    for step in steps:
        if step.kind == "->":
            send(client, step.text)
        elif step.kind == "<-":
            expect(client, step)
    assert client.close() == 0
    assert client.drain() == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_transcript_says_what_it_pins(path: Path) -> None:
    """A transcript opens with a sentence for people, and both sides speak in it."""
    lines = path.read_text("utf-8").splitlines()
    assert lines[0].endswith(".")
    assert not STEP.fullmatch(lines[0])
    assert {"->", "<-"} <= {step.kind for step in read_steps(path)}
