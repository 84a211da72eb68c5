"""What each action computes.

Owns the table of built-in actions. An action takes the input and a context and returns its result; one that takes
time is a generator that yields how far it is and how long until it goes on, so that waiting needs no thread. Must not
know HTTP, queues or SQL.
"""

import base64
import hashlib
import itertools
import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from colabhive_mcp.localgateway.chat import ChatError, ChatServer, complete_chat
from colabhive_mcp.localgateway.media import encode_sparkline, encode_tone

DIMENSION = 64


class ActionError(Exception):
    """An invocation that ends as failed, with a code and words for the one who asked."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Context:
    """What an action may reach: its account's notes, the chat server, and the metrics of its invocation."""

    append_note: Callable[[str], int]
    chat: ChatServer | None
    metrics: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """Go on after *seconds*; *detail* says how far the work has come."""

    seconds: float
    detail: str


Input = Mapping[str, Any]
Steps = Generator[Pause, None, Any]
Action = Callable[[Input, Context], Any]


def echo(arguments: Input, _: Context) -> Any:
    """The text back; input without a text comes back whole."""
    text = arguments.get("text")
    return text if isinstance(text, str) else dict(arguments)


def fail(arguments: Input, _: Context) -> Any:
    """Fail with the given code and message."""
    raise ActionError(str(arguments.get("code", "failed")), str(arguments.get("message", "this action always fails")))


def text_stats(arguments: Input, _: Context) -> dict[str, Any]:
    """Counts of a text: characters, words, lines, sentences, and its longest word."""
    text = _text(arguments, "text")
    words = ["".join(filter(str.isalnum, word)) for word in text.split()]
    words = [word for word in words if word]
    return {
        "characters": len(text),
        "words": len(words),
        "lines": len(text.splitlines()),
        "sentences": sum(1 for part in text.replace("!", ".").replace("?", ".").split(".") if part.strip()),
        "longest_word": max(words, key=len, default=""),
        "mean_word_length": round(sum(map(len, words)) / len(words), 2) if words else 0.0,
    }


def hash_embedding(arguments: Input, context: Context) -> dict[str, Any]:
    """The vector of a text, or of each text of a list."""
    dimension = int(_number(arguments, "dimension", DIMENSION, low=2, high=4096))
    text = arguments.get("text")
    context.metrics["dimension"] = dimension
    if isinstance(text, list):
        return {"embeddings": [_embed(_text({"text": item}, "text"), dimension) for item in text]}
    return {"embedding": _embed(_text(arguments, "text"), dimension)}


def sparkline(arguments: Input, _: Context) -> dict[str, Any]:
    """A picture of a row of numbers."""
    values = arguments.get("values")
    if not isinstance(values, list) or not values:
        raise ActionError("invalid_input", "values: a list of numbers is needed")
    numbers = [_number({"values": value}, "values", 0, low=-1e300, high=1e300) for value in values]
    width = int(_number(arguments, "width", 240, low=2, high=2000))
    height = int(_number(arguments, "height", 60, low=2, high=1000))
    return _to_media("image", encode_sparkline(numbers, width=width, height=height), "image/png")


def tone(arguments: Input, _: Context) -> dict[str, Any]:
    """A sine tone."""
    frequency = _number(arguments, "frequency", 440, low=20, high=3900)
    seconds = _number(arguments, "seconds", 0.5, low=0.01, high=10)
    return _to_media("audio", encode_tone(frequency, seconds), "audio/wav")


def slow_count(arguments: Input, _: Context) -> Steps:
    """Count to a number, one at each interval."""
    to = int(_number(arguments, "to", 5, low=0, high=10_000))
    interval = _number(arguments, "interval", 0.4, low=0, high=60)
    for counted in range(to):
        yield Pause(interval, f"counted {counted} of {to}")
    return {"counted": to}


def notes_append(arguments: Input, context: Context) -> dict[str, Any]:
    """Append a line to the account's notes."""
    return {"notes": context.append_note(_text(arguments, "line"))}


def chat(arguments: Input, context: Context) -> dict[str, Any]:
    """Answer a conversation."""
    messages = arguments.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise ActionError("invalid_input", "messages: a list of objects with role and content is needed")
    options = {key: arguments[key] for key in ("temperature", "max_tokens") if key in arguments}
    context.metrics["backend"] = "rule" if context.chat is None else "openai"
    try:
        return complete_chat(context.chat, messages, **options)
    except ChatError as error:
        raise ActionError("chat_server", str(error)) from error


ACTIONS: Mapping[str, Action] = {
    "echo": echo,
    "fail": fail,
    "text-stats": text_stats,
    "hash-embedding": hash_embedding,
    "sparkline": sparkline,
    "tone": tone,
    "slow-count": slow_count,
    "notes-append": notes_append,
    "chat": chat,
}


def _embed(text: str, dimension: int) -> list[float]:
    """Feature hashing of words and their neighbours, normalised to length 1; a text without words is all zeros."""
    words = text.lower().split()
    vector = [0.0] * dimension
    for feature in [*words, *map(" ".join, itertools.pairwise(words))]:
        digest = hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest()
        number = int.from_bytes(digest, "big")
        vector[(number >> 1) % dimension] += 1.0 if number & 1 else -1.0
    length = math.sqrt(sum(value * value for value in vector))
    return [round(value / length, 6) for value in vector] if length else vector


def _text(arguments: Input, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise ActionError("invalid_input", f"{name}: a string is needed")
    return value


def _number(arguments: Input, name: str, default: float, *, low: float, high: float) -> float:
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ActionError("invalid_input", f"{name}: a number from {low} to {high} is needed")
    return value


def _to_media(kind: str, data: bytes, mime_type: str) -> dict[str, Any]:
    return {f"{kind}_b64": base64.b64encode(data).decode(), "mime_type": mime_type}
