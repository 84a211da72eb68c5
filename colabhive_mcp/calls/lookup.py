"""``get_invocation_result``: the one tool that the bridge has itself.

It reads the result of a call that was started before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from colabhive_mcp.errors import ToolError

NAME = "get_invocation_result"
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
