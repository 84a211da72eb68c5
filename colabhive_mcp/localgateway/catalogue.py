"""The endpoints that a fresh gateway is seeded with.

Owns their registrations, written as an author would write them. Must not know how they are stored or run.
"""

from typing import Any

from colabhive_mcp.localgateway.store import Store

READS = {"readOnly": True, "idempotent": True, "destructive": False, "openWorld": False}
MESSAGE = {
    "type": "object",
    "description": "One message of a conversation.",
    "properties": {
        "role": {"type": "string", "enum": ["system", "user", "assistant"], "description": "Who says it."},
        "content": {"type": "string", "description": "What is said."},
    },
    "required": ["role", "content"],
}

MERGE_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100,
            "description": "The model that gets the next version.",
        },
        "sources": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 2,
            "maxItems": 8,
            "description": "Slugs of the models to merge.",
        },
        "weights": {
            "type": "array",
            "items": {"type": "number", "minimum": 0},
            "minItems": 2,
            "maxItems": 8,
            "description": "The weight of each source, in the same order; equal when left out.",
        },
        "method": {
            "type": "string",
            "enum": ["linear", "slerp"],
            "default": "linear",
            "description": "How the weights of the models are combined.",
        },
    },
    "required": ["name", "sources"],
    "additionalProperties": False,
}

RETRAIN_FIELDS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label_column": {
            "type": "string",
            "minLength": 1,
            "description": "The column of the table that holds what is to be learned.",
        },
        "epochs": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100,
            "default": 3,
            "description": "How often the whole table is gone through.",
        },
    },
    "required": ["label_column"],
    "additionalProperties": False,
}
JOB: dict[str, Any] = {
    "job_id": {"type": "string", "format": "uuid", "description": "The job."},
    "operation": {"type": "string", "description": "What the job does."},
    "status": {"type": "string", "description": "How far the job is."},
    "model": {"type": "string", "description": "The model that gets a version."},
    "model_version_id": {"type": "string", "format": "uuid", "description": "The version to be filled."},
    "version": {"type": "integer", "minimum": 1, "description": "Its number."},
    "created_at": {"type": "string", "format": "date-time", "description": "When the job was queued."},
}


def _media(kind: str, what: str, mime_type: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            f"{kind}_b64": {"type": "string", "description": what},
            "mime_type": {"type": "string", "const": mime_type, "description": "The type of the data."},
        },
        "required": [f"{kind}_b64", "mime_type"],
    }


ENDPOINTS: list[dict[str, Any]] = [
    {
        "name": "echo",
        "action": "echo",
        "displayName": "Echo",
        "version": "1.0.0",
        "stability": "stable",
        "description": "Returns the given text unchanged. Use it to check that the connection to the gateway works.",
        "category": "nlp",
        "tags": ["diagnostics", "text"],
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The text to return."}},
            "required": ["text"],
        },
        "outputSchema": {"type": "string", "description": "The text that was given."},
        "examples": [
            {
                "name": "A word",
                "description": "The plain case",
                "input": {"text": "hello"},
                "output": "hello",
            },
            {
                "name": "Nothing",
                "description": "An empty text is a text",
                "input": {"text": ""},
                "output": "",
            },
        ],
        "sideEffects": [],
        "costHint": "free",
        "latencyClass": "instant",
        "annotations": READS,
    },
    {
        "name": "text-stats",
        "action": "text-stats",
        "model_config": {"framework": "python", "task": "text statistics"},
        "displayName": "Text statistics",
        "version": "1.0.0",
        "stability": "stable",
        "description": "Counts the characters, words, lines and sentences of a text and finds its longest word.",
        "longDescription": "Characters are Unicode code points. A word is what stands between white space and has at "
        "least one letter or digit; punctuation around it is not counted as part of it.",
        "category": "nlp",
        "tags": ["statistics", "text"],
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The text to measure, in any language."}},
            "required": ["text"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "characters": {"type": "integer", "minimum": 0, "description": "Unicode code points."},
                "words": {"type": "integer", "minimum": 0, "description": "Words with a letter or digit."},
                "lines": {"type": "integer", "minimum": 0, "description": "Lines; an empty text has none."},
                "sentences": {"type": "integer", "minimum": 0, "description": "Parts ended by . ! or ?"},
                "longest_word": {"type": "string", "description": "The first of the longest words."},
                "mean_word_length": {"type": "number", "minimum": 0, "description": "Letters and digits a word."},
            },
            "required": ["characters", "words", "lines", "sentences", "longest_word", "mean_word_length"],
        },
        "examples": [
            {
                "name": "Two lines",
                "description": "The plain case",
                "input": {"text": "Bees dance.\nHives hum!"},
                "output": {
                    "characters": 22,
                    "words": 4,
                    "lines": 2,
                    "sentences": 2,
                    "longest_word": "dance",
                    "mean_word_length": 4.25,
                },
            },
            {
                "name": "Empty text",
                "description": "Nothing to count",
                "input": {"text": ""},
                "output": {
                    "characters": 0,
                    "words": 0,
                    "lines": 0,
                    "sentences": 0,
                    "longest_word": "",
                    "mean_word_length": 0.0,
                },
            },
        ],
        "sideEffects": [],
        "costHint": "free",
        "latencyClass": "instant",
        "annotations": READS,
    },
    {
        "name": "hash-embedding",
        "action": "hash-embedding",
        "model_config": {"framework": "python"},
        "displayName": "Hash embedding",
        "version": "1.0.0",
        "stability": "beta",
        "description": "Turns a text, or each text of a list, into a vector of length 1 by feature hashing. Use it to "
        "compare texts by the words they share.",
        "longDescription": "Words and pairs of neighbouring words are hashed into the dimensions, so that the cosine "
        "of two vectors says how many of them two texts share. It knows nothing of meaning.",
        "category": "nlp",
        "tags": ["embeddings", "similarity", "text"],
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": {
                    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": 256}],
                    "description": "A text, or a list of texts.",
                },
                "dimension": {
                    "type": "integer",
                    "minimum": 2,
                    "maximum": 4096,
                    "default": 64,
                    "description": "How many numbers a vector has.",
                },
            },
            "required": ["text"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "embedding": {
                    "type": "array",
                    "items": {"type": "number"},
                    "description": "The vector of a single text.",
                },
                "embeddings": {
                    "type": "array",
                    "items": {"type": "array", "items": {"type": "number"}},
                    "description": "The vectors of a list of texts, in its order.",
                },
            },
        },
        "examples": [
            {
                "name": "One text",
                "description": "A single text gives a single vector",
                "input": {"text": "busy bees", "dimension": 4},
                "output": {"embedding": [0.0, 0.57735, -0.57735, -0.57735]},
            },
            {
                "name": "A list with an empty text",
                "description": "A text without words is all zeros",
                "input": {"text": ["bee", ""], "dimension": 4},
                "output": {"embeddings": [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]},
            },
        ],
        "sideEffects": [],
        "costHint": "free",
        "latencyClass": "instant",
        "annotations": READS,
    },
    {
        "name": "sparkline",
        "action": "sparkline",
        "displayName": "Sparkline",
        "version": "1.0.0",
        "stability": "stable",
        "description": "Draws a row of numbers as a small line chart and returns it as a PNG image.",
        "category": "vision",
        "tags": ["chart", "image", "numbers"],
        "inputSchema": {
            "type": "object",
            "properties": {
                "values": {
                    "type": "array",
                    "items": {"type": "number"},
                    "minItems": 1,
                    "maxItems": 10000,
                    "description": "The numbers, from left to right.",
                },
                "width": {
                    "type": "integer",
                    "minimum": 2,
                    "maximum": 2000,
                    "default": 240,
                    "description": "Width of the image in pixels.",
                },
                "height": {
                    "type": "integer",
                    "minimum": 2,
                    "maximum": 1000,
                    "default": 60,
                    "description": "Height of the image in pixels.",
                },
            },
            "required": ["values"],
            "additionalProperties": False,
        },
        "outputSchema": _media("image", "The PNG image in base64.", "image/png"),
        "examples": [
            {
                "name": "A rise and a fall",
                "description": "The plain case, on a small image",
                "input": {"values": [1, 3, 2, 5, 4], "width": 16, "height": 8},
                "output": {
                    "image_b64": "iVBORw0KGgoAAAANSUhEUgAAABAAAAAICAAAAADVHSBLAAAAMklEQVR4nF2LyQ0AIAzDMor3XzKoB1DI"
                    "I6qtRr4BbE0RSvMhSi/XhBwXh0iCI/bV0cdegkxn/L7rDZYAAAAASUVORK5CYII=",
                    "mime_type": "image/png",
                },
            },
            {
                "name": "One number",
                "description": "A single number is a flat line",
                "input": {"values": [7], "width": 8, "height": 4},
                "output": {
                    "image_b64": "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAECAAAAACWpiEsAAAAEklEQVR4nGP4DwUMcIYCFMBFAN/fGOkB"
                    "pmzNAAAAAElFTkSuQmCC",
                    "mime_type": "image/png",
                },
            },
        ],
        "sideEffects": [],
        "costHint": "free",
        "latencyClass": "instant",
        "annotations": READS,
    },
    {
        "name": "tone",
        "action": "tone",
        "model_config": {"framework": "python", "generates": "audio"},
        "displayName": "Tone",
        "version": "1.0.0",
        "stability": "stable",
        "description": "Makes a sine tone of the given frequency and duration and returns it as WAV audio.",
        "category": "audio",
        "tags": ["audio", "sound"],
        "inputSchema": {
            "type": "object",
            "properties": {
                "frequency": {
                    "type": "number",
                    "minimum": 20,
                    "maximum": 3900,
                    "default": 440,
                    "description": "Frequency in hertz.",
                },
                "seconds": {
                    "type": "number",
                    "minimum": 0.01,
                    "maximum": 10,
                    "default": 0.5,
                    "description": "Duration in seconds.",
                },
            },
            "additionalProperties": False,
        },
        "outputSchema": _media("audio", "The WAV audio in base64: 8 kHz, 16 bit, mono.", "audio/wav"),
        "examples": [
            {
                "name": "Concert pitch",
                "description": "440 Hz is the default, here for a hundredth of a second",
                "input": {"seconds": 0.01},
                "output": {
                    "audio_b64": "UklGRsQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YaAAAAAAAMsA/QINBjUJkwtTDNoK"
                    "5waqAML4M/BB6ETict+t4FTmLfBa/WwMjRu1KPExqzXmMm8p8hn1Ba7vzNkexzu6JrUEuenFwtpt9esS"
                    "uS86SClZXFvPUgxBpijVDBHxodg2xqS7sLkNwG/Nyt+V9CsJGRtwKPEvMjGVLDAjmxaxCE37CvAV6Ark"
                    "7uM+5wrtJfRW+4sB/QVJCHwIAAeKBPAB",
                    "mime_type": "audio/wav",
                },
            },
            {
                "name": "A low tone",
                "description": "Both arguments given",
                "input": {"frequency": 110, "seconds": 0.01},
                "output": {
                    "audio_b64": "UklGRsQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YaAAAAAAADQAzgDNAS0D6AT4BlQJ"
                    "9AvMDtIR+hQ1GHcbsh7WIdYkoycvKmwsTC7EL8gwTjFLMbgwjy/KLWYrYii9JHognBspFikQpAmmAjz7"
                    "c/Nc6wjjXNxT1vbQScxRyBDFhMKtwIa/Cr8yv/W/SMEhw3TFMshNy7jOYtI81jfaQ95S4lTmPOr87Yjx"
                    "1fTX94f63fzT/mMAiwFJAp4CiQIQAjUB",
                    "mime_type": "audio/wav",
                },
            },
        ],
        "sideEffects": [],
        "costHint": "free",
        "latencyClass": "instant",
        "annotations": READS,
    },
    {
        "name": "slow-count",
        "action": "slow-count",
        "cold_start_s": 0.6,
        "displayName": "Slow count",
        "version": "1.0.0",
        "stability": "stable",
        "description": "Counts to a number, one at each interval, after a cold start. Use it to see how a long call is "
        "followed.",
        "category": "tabular",
        "tags": ["diagnostics", "slow"],
        "inputSchema": {
            "type": "object",
            "properties": {
                "to": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 10000,
                    "default": 5,
                    "description": "The number to count to.",
                },
                "interval": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": 60,
                    "default": 0.4,
                    "description": "Seconds between two numbers.",
                },
            },
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {"counted": {"type": "integer", "description": "The number that was reached."}},
            "required": ["counted"],
        },
        "examples": [
            {
                "name": "To five",
                "description": "Without arguments it takes about two and a half seconds",
                "input": {},
                "output": {"counted": 5},
            },
            {
                "name": "To nothing",
                "description": "Only the cold start takes time",
                "input": {"to": 0},
                "output": {"counted": 0},
            },
        ],
        "sideEffects": [],
        "costHint": "free",
        "latencyClass": "slow",
        "annotations": READS,
    },
    {
        "name": "notes-append",
        "action": "notes-append",
        "displayName": "Append a note",
        "version": "1.0.0",
        "stability": "stable",
        "description": "Appends one line to the account's notes, which stay on the gateway. Each call adds a line.",
        "category": "nlp",
        "tags": ["notes", "storage"],
        "inputSchema": {
            "type": "object",
            "properties": {
                "line": {"type": "string", "minLength": 1, "maxLength": 10000, "description": "The line to append."}
            },
            "required": ["line"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {"notes": {"type": "integer", "minimum": 1, "description": "How many notes there are now."}},
            "required": ["notes"],
        },
        "examples": [
            {
                "name": "The first note",
                "description": "The plain case",
                "input": {"line": "Call the beekeeper."},
                "output": {"notes": 1},
            },
            {
                "name": "The same line again",
                "description": "A repeated line is a second note",
                "input": {"line": "Call the beekeeper."},
                "output": {"notes": 2},
            },
        ],
        "sideEffects": ["storage", "mutating"],
        "costHint": "free",
        "latencyClass": "instant",
        "annotations": {"readOnly": False, "idempotent": False, "destructive": False, "openWorld": False},
    },
    {
        "name": "chat",
        "action": "chat",
        "model_config": {"framework": "openai", "generates": "text"},
        "displayName": "Chat",
        "version": "1.0.0",
        "stability": "beta",
        "description": "Answers a conversation with the language model that this gateway is set up with, or by a "
        "simple rule when it has none; `model` in the answer says which.",
        "category": "nlp",
        "tags": ["chat", "text"],
        "inputSchema": {
            "type": "object",
            "properties": {
                "messages": {
                    "type": "array",
                    "items": {"$ref": "#/$defs/ChatMessage"},
                    "minItems": 1,
                    "description": "The conversation so far, oldest first.",
                },
                "temperature": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": 2,
                    "default": 0.7,
                    "description": "How freely the model chooses its words.",
                },
                "max_tokens": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 4096,
                    "default": 512,
                    "description": "The longest answer, in tokens.",
                },
            },
            "required": ["messages"],
            "$defs": {"ChatMessage": MESSAGE},
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "model": {"type": "string", "description": "Who answered; local-rule when no model did."},
                "choices": {
                    "type": "array",
                    "items": {"$ref": "#/$defs/Choice"},
                    "description": "The answers, usually one.",
                },
                "usage": {"$ref": "#/$defs/Usage"},
            },
            "required": ["choices"],
            "$defs": {
                "ChatMessage": {"type": "object", "description": "One message of a conversation."},
                "Choice": {
                    "type": "object",
                    "description": "One answer.",
                    "properties": {
                        "index": {"type": "integer", "description": "Its place among the answers."},
                        "message": {"$ref": "#/$defs/ChatMessage"},
                        "finish_reason": {"type": ["string", "null"], "description": "Why the answer ended."},
                    },
                    "required": ["message"],
                },
                "Usage": {
                    "type": "object",
                    "description": "What the answer took, in tokens (words, for the rule).",
                    "properties": {
                        "prompt_tokens": {"type": "integer", "description": "In the conversation."},
                        "completion_tokens": {"type": "integer", "description": "In the answer."},
                        "total_tokens": {"type": "integer", "description": "Both together."},
                    },
                },
            },
        },
        "examples": [
            {
                "name": "Simple chat",
                "description": "One question, answered by the rule",
                "input": {"messages": [{"role": "user", "content": "Hello"}]},
                "output": {
                    "model": "local-rule",
                    "choices": [
                        {
                            "index": 0,
                            "message": {"role": "assistant", "content": "You said: Hello"},
                            "finish_reason": "stop",
                        }
                    ],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4},
                },
            },
            {
                "name": "With a system message",
                "description": "Instructions first, and a short answer asked for",
                "input": {
                    "messages": [
                        {"role": "system", "content": "Answer in one word."},
                        {"role": "user", "content": "Capital of France?"},
                    ],
                    "max_tokens": 8,
                },
                "output": {"choices": [{"message": {"role": "assistant", "content": "Paris."}}]},
            },
        ],
        "sideEffects": [],
        "costHint": "low",
        "latencyClass": "slow",
        "annotations": {"readOnly": True, "idempotent": False, "destructive": False, "openWorld": False},
    },
    {
        "name": "training.merge",
        "displayName": "Merge models",
        "version": "1.0.0",
        "stability": "beta",
        "description": "Queues a job that merges two or more models of this gateway into the next version of a named "
        "model, and returns the job.",
        "category": "multimodal",
        "tags": ["training", "merge", "operation"],
        "inputSchema": MERGE_INPUT,
        "outputSchema": {
            "type": "object",
            "properties": {
                **JOB,
                "operation": {"type": "string", "const": "merge", "description": "What the job does."},
            },
            "required": ["job_id", "status", "model", "version"],
        },
        "examples": [
            {
                "name": "Two models",
                "description": "Equal weights",
                "input": {"name": "hive-merged", "sources": ["text-stats", "chat"]},
                "output": {
                    "job_id": "5f8f0f43-6d2a-4b6e-9a38-0f3c1d1f7f10",
                    "operation": "merge",
                    "status": "queued",
                    "model": "hive-merged",
                    "model_version_id": "0b1f6f0e-43a8-4a4e-8f0e-6b6b0d6a9b52",
                    "version": 1,
                    "created_at": "2026-01-01T00:00:00.000Z",
                },
            },
            {
                "name": "Weighted",
                "description": "Weights and the method given; the model has a version already",
                "input": {
                    "name": "hive-merged",
                    "sources": ["text-stats", "chat"],
                    "weights": [0.3, 0.7],
                    "method": "slerp",
                },
                "output": {
                    "job_id": "0e0c2ad4-2b0e-4f0e-8e62-51b9a2a9e0aa",
                    "operation": "merge",
                    "status": "queued",
                    "model": "hive-merged",
                    "model_version_id": "9b2f1c55-90a5-4c0e-a0a5-6a1f2f0d7a01",
                    "version": 2,
                    "created_at": "2026-01-01T00:05:00.000Z",
                },
            },
        ],
        "sideEffects": ["creates_job", "creates_model_version"],
        "costHint": "training_quota",
        "latencyClass": "minutes",
        "annotations": {"readOnly": False, "idempotent": False, "destructive": False, "openWorld": False},
        "endpoint": {
            "method": "POST",
            "path": "/training/merges",
            "encoding": "json",
            "args": {
                "name": {"in": "body", "name": "name"},
                "sources": {"in": "body", "name": "sources"},
                "weights": {"in": "body", "name": "weights"},
                "method": {"in": "body", "name": "method"},
            },
        },
    },
    {
        "name": "training.retrain_on",
        "displayName": "Retrain on a table",
        "version": "1.0.0",
        "stability": "beta",
        "description": "Queues a job that trains the next version of a model of this gateway on a CSV table that is "
        "sent along, and returns the job and what the table holds.",
        "category": "multimodal",
        "tags": ["training", "dataset", "operation"],
        "inputSchema": {
            "type": "object",
            "properties": {
                "model": {"type": "string", "minLength": 1, "description": "The slug of the model to train."},
                "dataset": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The table: CSV in UTF-8, the column names in its first line. Its text, a data: URL "
                    "(data:text/csv;name=table.csv;base64,...), or the file: URL of a file that may be sent.",
                },
                **RETRAIN_FIELDS["properties"],
            },
            "required": ["model", "dataset", "label_column"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                **JOB,
                "dataset": {
                    "type": "object",
                    "description": "The table as it came.",
                    "properties": {
                        "name": {"type": "string", "description": "Its file name."},
                        "bytes": {"type": "integer", "minimum": 0, "description": "Its size."},
                        "sha256": {"type": "string", "description": "The digest of its bytes, in hexadecimal."},
                        "columns": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": "The names in its first line.",
                        },
                        "rows": {"type": "integer", "minimum": 0, "description": "The lines below that."},
                    },
                    "required": ["name", "bytes", "sha256", "columns", "rows"],
                },
            },
            "required": ["job_id", "status", "model", "version", "dataset"],
        },
        "examples": [
            {
                "name": "A small table",
                "description": "The text of the table itself",
                "input": {"model": "text-stats", "dataset": "text,label\nBees dance,1\n", "label_column": "label"},
                "output": {
                    "job_id": "5f8f0f43-6d2a-4b6e-9a38-0f3c1d1f7f11",
                    "operation": "retrain",
                    "status": "queued",
                    "model": "text-stats",
                    "model_version_id": "0b1f6f0e-43a8-4a4e-8f0e-6b6b0d6a9b53",
                    "version": 1,
                    "created_at": "2026-01-01T00:00:00.000Z",
                    "dataset": {
                        "name": "dataset",
                        "bytes": 24,
                        "sha256": "f5ff3fdea3d207aaed7748ac58b5b53c591911c11386aedeb3148ae9d50bb4e6",
                        "columns": ["text", "label"],
                        "rows": 1,
                    },
                },
            },
            {
                "name": "A file with its name",
                "description": "Base64 in a data: URL, and all options given; the model has a version already",
                "input": {
                    "model": "text-stats",
                    "dataset": "data:text/csv;name=bees.csv;base64,dGV4dCxsYWJlbAo=",
                    "label_column": "label",
                    "epochs": 10,
                },
                "output": {
                    "job_id": "0e0c2ad4-2b0e-4f0e-8e62-51b9a2a9e0ab",
                    "operation": "retrain",
                    "status": "queued",
                    "model": "text-stats",
                    "model_version_id": "9b2f1c55-90a5-4c0e-a0a5-6a1f2f0d7a02",
                    "version": 2,
                    "created_at": "2026-01-01T00:05:00.000Z",
                    "dataset": {
                        "name": "bees.csv",
                        "bytes": 11,
                        "sha256": "3d1efb1f982c7ceea409a3c9f189c2f423e724ac1df3454a5536427d01cd8fc7",
                        "columns": ["text", "label"],
                        "rows": 0,
                    },
                },
            },
        ],
        "sideEffects": ["creates_job", "creates_model_version"],
        "costHint": "training_quota",
        "latencyClass": "long",
        "annotations": {"readOnly": False, "idempotent": False, "destructive": False, "openWorld": False},
        "endpoint": {
            "method": "POST",
            "path": "/training/models/{model}/versions",
            "encoding": "multipart",
            "args": {
                "model": {"in": "path", "name": "model"},
                "dataset": {"in": "file", "name": "dataset"},
                "label_column": {"in": "body", "name": "label_column"},
                "epochs": {"in": "body", "name": "epochs"},
            },
        },
    },
]


def seed(store: Store) -> None:
    """Register each built-in endpoint that *store* lacks; one that is there stays as its owner has it."""
    for entry in ENDPOINTS:
        if not store.has_endpoint(entry["name"]):
            store.register_endpoint(entry)
