"""What can happen, as named tuples. One event goes to many sinks; an event never holds a key or a payload.

Each ends in its *name*, as the architecture gives it, and its *level*. They are tuples rather than dataclasses since a
client waits while they are made, and a dataclass takes five times as long to make.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

_NOT_FIELDS = {"name", "level"}


class Event(Protocol):
    """What every event has."""

    @property
    def name(self) -> str:
        """As the architecture names it."""
        ...

    @property
    def level(self) -> str:
        """How grave it is, as ``logging`` names levels."""
        ...

    def _asdict(self) -> dict[str, Any]: ...


def to_fields(event: Event) -> dict[str, Any]:
    """What an event tells, as plain JSON, without what is unknown."""
    return {key: value for key, value in event._asdict().items() if key not in _NOT_FIELDS and value is not None}


Record = Callable[[Event], None]


def discard(event: Event) -> None:
    """A sink that keeps nothing."""


class SessionStarted(NamedTuple):
    """A client connected: who it says it is, and the protocol version in force."""

    client: str | None
    client_version: str | None
    protocol_version: str
    transport: str
    name: str = "mcp.session.started"
    level: str = "info"


class ManifestFetched(NamedTuple):
    """A manifest arrived or was found unchanged. *duration_ms* is the whole fetch; *bytes* what came decoded."""

    duration_ms: float
    bytes: int
    tools: int
    etag: str | None
    unchanged: bool
    name: str = "manifest.fetched"
    level: str = "info"


class ManifestFailed(NamedTuple):
    """A refresh failed; *serving* is the number of tools of the last good copy, None where there is none."""

    error: str
    retry_in_s: float
    serving: int | None
    name: str = "manifest.failed"
    level: str = "warning"


class ManifestPinned(NamedTuple):
    """Another manifest than the gateway's may be served. *added*, *removed* and *changed* count how they differ.

    They are None where that is not known, for the reason *error*.
    """

    pin: str
    etag: str | None
    tools: int
    added: int | None = None
    removed: int | None = None
    changed: int | None = None
    error: str | None = None
    name: str = "manifest.pinned"
    level: str = "info"


class ToolLeftOut(NamedTuple):
    """One tool of the manifest cannot be offered; the others are."""

    tool: str
    reason: str
    name: str = "manifest.tool_left_out"
    level: str = "warning"


class ToolRewritten(NamedTuple):
    """A tool is shown with another schema than its own, whose form clients refuse; calls are held to its own."""

    tool: str
    reason: str
    name: str = "manifest.tool_rewritten"
    level: str = "warning"


class ToolInvoked(NamedTuple):
    """A call ended. *sync* is true where the first answer of the gateway was the last."""

    slug: str
    sync: bool
    latency_ms: float
    status: str
    error: str | None = None
    name: str = "mcp.tool.invoked"
    level: str = "info"


class Warned(NamedTuple):
    """Something that an operator should know and can mend."""

    message: str
    name: str = "mcp.warning"
    level: str = "warning"


class Failed(NamedTuple):
    """A fault of this program itself, with its traceback for the log alone."""

    error: str
    traceback: str | None = None
    name: str = "mcp.internal_error"
    level: str = "error"


class FrameSeen(NamedTuple):
    """One JSON-RPC frame as it crossed the wire; recorded only with ``log_jsonrpc``."""

    direction: str
    frame: str
    name: str = "mcp.jsonrpc"
    level: str = "info"
