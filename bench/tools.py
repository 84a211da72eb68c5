"""The tools that the benchmark's gateway lists: as many as asked for, the same in every run, about 2.5 KB each.

The first word of a tool's name says how its invocation goes (`BEHAVIOURS`). It knows nothing of HTTP.
"""

from __future__ import annotations

import json
import random
from typing import Any

BEHAVIOURS = ("instant", "held", "queued")
"""Answered at once; answered after `HELD_SECONDS`; accepted at once and ready after `READY_SECONDS`."""

HELD_SECONDS = 0.5
READY_SECONDS = 0.15

ARGUMENTS = {"text": "The quick brown fox jumps over the lazy dog.", "limit": 5}
"""Arguments that every tool accepts."""

RESULT = {"text": "A fox, and a dog that does not mind.", "usage": {"input_tokens": 11, "output_tokens": 10}}
"""A result that every tool's output schema accepts."""

_KINDS = ("llm", "specialist", "tool", "model")
_WORDS = ("model", "text", "image", "tensor", "summary", "label", "corpus", "token", "score", "batch", "sample")

_MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"type": "string", "enum": ["system", "user", "assistant"]},
        "content": {"type": "string", "maxLength": 100000},
    },
    "required": ["role", "content"],
}
_USAGE = {
    "type": "object",
    "properties": {
        "input_tokens": {"type": "integer", "minimum": 0},
        "output_tokens": {"type": "integer", "minimum": 0},
    },
    "required": ["input_tokens", "output_tokens"],
}


def to_name(index: int) -> str:
    """The slug of the tool at this place: the first three show the three behaviours."""
    return f"{BEHAVIOURS[index % len(BEHAVIOURS)]}-{_KINDS[index // len(BEHAVIOURS) % len(_KINDS)]}-{index:05d}"


def build_tools(count: int) -> list[bytes]:
    """Build this many manifests, each as compact JSON."""
    return [encode(build_tool(index)) for index in range(count)]


def build_tool(index: int, *, version: str = "1.0.0") -> dict[str, Any]:
    """Build the manifest of one tool; every third one shares a definition by `$ref`, as language models do."""
    words = random.Random(index)
    kind = _KINDS[index // len(BEHAVIOURS) % len(_KINDS)]
    return {
        "name": to_name(index),
        "displayName": _sentence(words, 3).title(),
        "version": version,
        "stability": "stable",
        "description": _sentence(words, 18),
        "longDescription": " ".join(_sentence(words, 14) for _ in range(3)),
        "kind": kind,
        "category": "nlp",
        "tags": words.sample(_WORDS, 4),
        "inputSchema": _build_input(words, shared=kind == "llm"),
        "outputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "usage": {"$ref": "#/$defs/Usage"}},
            "required": ["text"],
            "$defs": {"Usage": _USAGE},
        },
        "examples": [_build_example(words) for _ in range(2)],
        "sideEffects": [],
        "costHint": "low",
        "latencyClass": "fast",
        "annotations": {"readOnly": True, "idempotent": False, "destructive": False, "openWorld": False},
        "lineage": None,
        "deprecation": None,
        "links": {"documentation": f"https://docs.example.com/models/{to_name(index)}"},
    }


def encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _build_input(words: random.Random, *, shared: bool) -> dict[str, Any]:
    message = {"$ref": "#/$defs/Message"} if shared else _MESSAGE
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "description": _sentence(words, 10)},
            "limit": {"type": "integer", "minimum": 1, "maximum": 4096, "default": 512},
            "temperature": {"type": "number", "minimum": 0, "maximum": 2, "description": _sentence(words, 8)},
            "labels": {"type": "array", "items": {"type": "string"}, "description": _sentence(words, 8)},
            "history": {"type": "array", "items": message, "description": _sentence(words, 8)},
        },
        "required": ["text"],
    }
    return schema | ({"$defs": {"Message": _MESSAGE}} if shared else {})


def _build_example(words: random.Random) -> dict[str, Any]:
    sample = {"text": _sentence(words, 8), "limit": words.randrange(1, 100)}
    return {"name": _sentence(words, 2), "description": _sentence(words, 5), "input": sample, "output": RESULT}


def _sentence(words: random.Random, length: int) -> str:
    return " ".join(words.choices(_WORDS, k=length)).capitalize() + "."
