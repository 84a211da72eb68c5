"""``get_invocation_result``, a tool of the bridge itself: it reads the result of a call that was started before."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from colabhive_mcp.calls.invocation import Outcome
from colabhive_mcp.errors import ToolError
from colabhive_mcp.protocol.messages import dump_json

NAME = "get_invocation_result"
KEPT_ANSWERS = 16  # of operations, which may be cut; the gateway has no invocation to read them on from
KEPT_BYTES = 64 * 1024 * 1024  # of these together, as JSON; one alone may be larger
DEFINITION: Mapping[str, Any] = {
    "name": NAME,
    "title": "Get invocation result",
    "description": (
        "Fetches the result of an earlier tool call by its invocation id, at no new cost: when a call took longer than "
        "the time allowed, or when its result was cut. Waits while the work is still going on.\n"
        "Side-effects: none; cost: free."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "invocation_id": {"type": "string", "description": "The id that the earlier call named."},
            "offset": {
                "type": "integer",
                "minimum": 0,
                "description": "The byte from which to read on, as the note at the cut says.",
            },
        },
        "required": ["invocation_id"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
}


@dataclass(frozen=True, slots=True)
class Lookup:
    """Which result, and from which byte on; None is from the start."""

    invocation_id: str
    offset: int | None


def parse_lookup(arguments: Mapping[str, Any]) -> Lookup:
    """The arguments of a call to this tool. Raises ToolError that says what is missing."""
    invocation_id, offset = arguments.get("invocation_id"), arguments.get("offset")
    if not isinstance(invocation_id, str) or not invocation_id.strip():
        raise ToolError('"invocation_id" is missing: give the id that the earlier call named')
    if isinstance(offset, str) and offset.isdecimal():
        offset = int(offset)
    if isinstance(offset, float) and offset.is_integer():
        offset = int(offset)
    if offset is not None and (isinstance(offset, bool) or not isinstance(offset, int) or offset < 0):
        raise ToolError('"offset" must be a whole number of bytes, 0 or more')
    return Lookup(invocation_id.strip(), offset)


class KeptAnswers:
    """The last few answers that have no invocation at the gateway to be read on from."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def keep(self, answer: Any) -> str:
        """Keep *answer*; answers the id by which it can be read."""
        key, size = f"answer-{uuid.uuid4()}", len(dump_json(answer))
        with self._lock:
            self._answers[key] = answer, size
            self._size += size
            while len(self._answers) > KEPT_ANSWERS or (self._size > KEPT_BYTES and len(self._answers) > 1):
                _, (_, freed) = self._answers.popitem(last=False)
                self._size -= freed
        return key

    def find(self, key: str) -> Outcome | None:
        """The answer as a finished call."""
        with self._lock:
            found = self._answers.get(key)
        return Outcome("succeeded", key, found[0]) if found else None
