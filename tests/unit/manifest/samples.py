"""Manifests to be changed: the documentation's own example, one without any finding, and an operation."""

from __future__ import annotations

import copy
from typing import Any

SEED: dict[str, Any] = {
    "name": "qwen-2.5-7b-instruct-public",
    "displayName": "Qwen 2.5 7B Instruct",
    "version": "1.0.0",
    "stability": "stable",
    "description": "Multilingual instruction-tuned LLM. Long context. Supports tool-use / function calling.",
    "longDescription": "Qwen 2.5 7B trained by Alibaba, served via vLLM on ColabHive GPU nodes. Good for chat, "
    "summarization, and code generation across many languages. (Context window, price, and readiness are live values — "
    "read them from this manifest, don't assume.)",
    "kind": "llm",
    "category": "nlp",
    "tags": ["chat", "multilingual", "open-source", "apache-2.0"],
    "inputSchema": {
        "type": "object",
        "properties": {
            "messages": {"type": "array", "items": {"$ref": "#/$defs/ChatMessage"}},
            "temperature": {"type": "number", "minimum": 0, "maximum": 2, "default": 0.7},
            "max_tokens": {"type": "integer", "minimum": 1, "maximum": 4096, "default": 512},
        },
        "required": ["messages"],
    },
    "outputSchema": {
        "type": "object",
        "properties": {
            "choices": {"type": "array", "items": {"$ref": "#/$defs/Choice"}},
            "usage": {"$ref": "#/$defs/Usage"},
        },
        "required": ["choices"],
    },
    "examples": [
        {
            "name": "Simple chat",
            "description": "Hello-world chat completion",
            "input": {"messages": [{"role": "user", "content": "What is the capital of France?"}]},
            "output": {"choices": [{"message": {"role": "assistant", "content": "Paris."}}]},
        }
    ],
    "sideEffects": [],
    "costHint": "low",
    "latencyClass": "fast",
    "annotations": {"readOnly": True, "idempotent": False, "destructive": False, "openWorld": False},
    "lineage": None,
    "deprecation": None,
    "links": {
        "documentation": "https://docs.colabhive.com/models/llms/qwen-2.5-7b-instruct",
        "source": "https://huggingface.co/Qwen/Qwen2.5-7B-Instruct",
    },
}

GOOD: dict[str, Any] = {
    "name": "count-words",
    "displayName": "Count words",
    "version": "1.2.3-rc.1+build.5",
    "stability": "stable",
    "description": "Counts the words of a text. Use it when an exact number matters.",
    "kind": "tool",
    "category": "nlp",
    "tags": ["text"],
    "inputSchema": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "The text to count in."},
            "options": {
                "type": "object",
                "description": "What counts as a word.",
                "properties": {
                    "least": {"type": "integer", "minimum": 1, "description": "Letters that it has at least."}
                },
            },
        },
        "required": ["text"],
    },
    "outputSchema": {
        "type": "object",
        "properties": {"words": {"type": "integer", "description": "How many there are."}},
        "required": ["words"],
    },
    "examples": [
        {"name": "A phrase", "description": "The plain case", "input": {"text": "busy bees"}, "output": {"words": 2}},
        {"name": "Empty text", "description": "Nothing to count", "input": {"text": ""}, "output": {"words": 0}},
    ],
    "sideEffects": [],
    "costHint": "free",
    "latencyClass": "instant",
    "annotations": {"readOnly": True, "idempotent": True, "destructive": False, "openWorld": False},
    "lineage": None,
    "deprecation": {"deprecatedAt": "2026-03-01T00:00:00Z", "replacedBy": "count-more"},
    "links": {"documentation": "https://docs.example/count", "paper": "https://papers.example/1"},
}

OPERATION: dict[str, Any] = {
    **GOOD,
    "name": "merge-models",
    "description": "Merges two models. Use it to combine what both have learnt.",
    "kind": "operation",
    "inputSchema": {
        "type": "object",
        "properties": {
            "merge_id": {"type": "string", "description": "The merge of the two models."},
            "note": {"type": "string", "description": "Why they are merged."},
        },
        "required": ["merge_id"],
    },
    "examples": [
        {"name": "A merge", "description": "The plain case", "input": {"merge_id": "m1"}, "output": {"words": 1}},
        {
            "name": "With all options",
            "description": "A note",
            "input": {"merge_id": "m1", "note": ""},
            "output": {"words": 1},
        },
    ],
    "sideEffects": ["creates_job", "creates_model_version"],
    "costHint": "training_quota",
    "latencyClass": "minutes",
    "annotations": {"readOnly": False, "idempotent": False, "destructive": False, "openWorld": False},
    "endpoint": {
        "method": "POST",
        "path": "/training/merges/{merge_id}",
        "encoding": "json",
        "args": {"merge_id": {"in": "path", "name": "merge_id"}, "note": {"in": "header", "name": "X-Note"}},
    },
}

ABSENT: Any = object()


def change(manifest: Any, pointer: str, value: Any) -> Any:
    """A copy of *manifest* with *value* at *pointer*, or without what is there where the value is `ABSENT`."""
    changed = copy.deepcopy(manifest)
    *around, last = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    holder = changed
    for step in around:
        holder = holder[int(step) if isinstance(holder, list) else step]
    key: Any = int(last) if isinstance(holder, list) else last
    if value is ABSENT:
        del holder[key]
    else:
        holder[key] = value
    return changed
