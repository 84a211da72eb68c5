"""What can happen, as frozen values. One event goes to many sinks; an event never holds a key or a payload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Event:
    """The root: a *name* as the architecture gives it, and fields that are plain JSON."""

    name: ClassVar[str]
    level: ClassVar[str] = "info"

    def to_fields(self) -> dict[str, Any]:
        """The event's fields without those that are unknown."""
        return {key: value for key, value in asdict(self).items() if value is not None}


Record = Callable[[Event], None]


def discard(event: Event) -> None:
    """A sink that keeps nothing."""


@dataclass(frozen=True, slots=True)
class SessionStarted(Event):
    """A client connected: who it says it is, and the protocol version in force."""

    name = "mcp.session.started"
    client: str | None
    client_version: str | None
    protocol_version: str
    transport: str


@dataclass(frozen=True, slots=True)
class ManifestFetched(Event):
    """A manifest arrived or was found unchanged. *duration_ms* is the whole fetch; *bytes* what came decoded."""

    name = "manifest.fetched"
    duration_ms: float
    bytes: int
    tools: int
    etag: str | None
    unchanged: bool


@dataclass(frozen=True, slots=True)
class ManifestFailed(Event):
    """A refresh failed; *serving* is the number of tools of the last good copy, None where there is none."""

    name = "manifest.failed"
    level = "warning"
    error: str
    retry_in_s: float
    serving: int | None


@dataclass(frozen=True, slots=True)
class ToolLeftOut(Event):
    """One tool of the manifest cannot be offered; the others are."""

    name = "manifest.tool_left_out"
    level = "warning"
    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolRewritten(Event):
    """A tool's advertised schema says less than its own, since clients refuse its form; calls are checked against its
    own.
    """

    name = "manifest.tool_rewritten"
    level = "warning"
    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolInvoked(Event):
    """A call ended. *sync* is true where the first answer of the gateway was the last."""

    name = "mcp.tool.invoked"
    slug: str
    sync: bool
    latency_ms: float
    status: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something that an operator should know and can mend."""

    name = "mcp.warning"
    level = "warning"
    message: str


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """A fault of this program itself, with its traceback for the log alone."""

    name = "mcp.internal_error"
    level = "error"
    error: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class FrameSeen(Event):
    """One JSON-RPC frame as it crossed the wire; recorded only with ``log_jsonrpc``."""

    name = "mcp.jsonrpc"
    direction: str
    frame: str
