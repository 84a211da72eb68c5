"""The published schemas of every MCP revision, held against what the server writes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

SPEC = Path(__file__).parents[1] / "data" / "spec"
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
LEGACY = REVISIONS[:-1]
MODERN = REVISIONS[-1]

RESULTS = {
    "initialize": "InitializeResult",
    "ping": "EmptyResult",
    "logging/setLevel": "EmptyResult",
    "server/discover": "DiscoverResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "completion/complete": "CompleteResult",
    "prompts/list": "ListPromptsResult",
    "subscriptions/listen": "SubscriptionsListenResult",
}
NOTIFICATIONS = {
    "notifications/progress": "ProgressNotification",
    "notifications/tools/list_changed": "ToolListChangedNotification",
    "notifications/message": "LoggingMessageNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
    "notifications/cancelled": "CancelledNotification",
}
ERRORS = ("JSONRPCErrorResponse", "JSONRPCError")
MODERN_ONLY = {"resultType", "ttlMs", "cacheScope"}


@cache
def load(revision: str) -> dict[str, Any]:
    """One revision's schema."""
    schema: dict[str, Any] = json.loads((SPEC / f"{revision}.schema.json").read_text("utf-8"))
    return schema


@cache
def validator(revision: str, name: str) -> Validator:
    """The validator of one definition of a revision."""
    schema = load(revision)
    holder = "$defs" if "$defs" in schema else "definitions"
    root = {"$schema": schema["$schema"], "$ref": f"#/{holder}/{name}", holder: schema[holder]}
    return validator_for(root)(root)


def check(message: dict[str, Any], *, revision: str, method: str | None) -> None:
    """*message* is one that *revision* allows; *method* is that of the request which a response answers."""
    if "method" in message:
        assert message["method"] in NOTIFICATIONS, f"the server sent {message['method']}"
        _validate(message, revision, NOTIFICATIONS[message["method"]])
    elif "error" in message:
        _check_error(message, revision)
    else:
        assert method is not None, f"a response to nothing: {message}"
        assert set(message) == {"jsonrpc", "id", "result"}
        if revision != MODERN:
            assert MODERN_ONLY.isdisjoint(message["result"])
        _validate(message["result"], revision, RESULTS[method])


def _check_error(message: dict[str, Any], revision: str) -> None:
    """An error's id may be JSON-RPC's null where it could not be read, which older schemas forget."""
    name = next(name for name in ERRORS if name in _definitions(revision))
    known = {**message, "id": 0} if message.get("id", 0) is None else message
    _validate(known, revision, name)
    code = message["error"]["code"]
    not_found = code == -32002 and revision != MODERN  # of a resource
    assert code not in range(-32019, -31999) or not_found, f"code {code} is reserved"
    assert code not in range(-32099, -32019) or code in {-32020, -32021, -32022}, f"code {code} is not defined"


def _definitions(revision: str) -> dict[str, Any]:
    schema = load(revision)
    definitions: dict[str, Any] = schema.get("$defs") or schema["definitions"]
    return definitions


def _validate(value: Any, revision: str, name: str) -> None:
    error = next(iter(sorted(validator(revision, name).iter_errors(value), key=lambda each: len(each.path))), None)
    assert error is None, f"not a {name} of {revision}: {error.message} at {error.json_path}\n{value}"
