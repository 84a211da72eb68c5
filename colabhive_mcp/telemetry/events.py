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
    """A refresh failed; *serving* is the number of tools of the last good copy, None where there is none.

    *status* is the gateway's, None where it gave none.
    """

    error: str
    retry_in_s: float
    serving: int | None
    status: int | None = None
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
    """A tool is shown with another schema than its own, for which clients refuse it; calls are held to its own."""

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


class TenantAdded(NamedTuple):
    """A key that the gateway accepted has a place in the relay; *resident* counts the places taken."""

    resident: int
    name: str = "pool.tenant_added"
    level: str = "info"


class TenantEvicted(NamedTuple):
    """A tenant has lost its place: to another one, since its key was refused, or since the relay was set up anew."""

    resident: int
    reason: str
    name: str = "pool.tenant_evicted"
    level: str = "info"


class KeyTurnedAway(NamedTuple):
    """The gateway refused a key (*status* 401 or 403), which is remembered for a while."""

    status: int
    name: str = "pool.key_refused"
    level: str = "info"


class RequestServed(NamedTuple):
    """One HTTP request has been answered, its stream included. *rpc* is the method of the JSON-RPC message in it."""

    method: str
    path: str
    status: int
    duration_ms: float
    rpc: str | None = None
    name: str = "http.request"
    level: str = "debug"


class RequestRefused(NamedTuple):
    """A request was turned away at once: *reason* names the limit (REFUSALS) that it met."""

    reason: str
    status: int
    name: str = "http.refused"
    level: str = "debug"


REFUSALS = ("threads", "tenant", "streams", "rate", "stopping")


class RelayStarted(NamedTuple):
    """The relay listens."""

    address: str
    threads: int
    name: str = "relay.started"
    level: str = "info"


class RelayReloaded(NamedTuple):
    """Settings were read again. *changed* are in force; *ignored* ones need a restart."""

    changed: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    name: str = "relay.reloaded"
    level: str = "info"


class RelayStopped(NamedTuple):
    """The relay has stopped; *unfinished* requests were given up after *duration_ms*."""

    unfinished: int
    duration_ms: float
    name: str = "relay.stopped"
    level: str = "info"


class OfTenant:
    """An *event* of one *tenant*, named by 16 hex digits of its key's SHA-256; its words hold no part of the key."""

    __slots__ = ("event", "tenant")

    def __init__(self, event: Event, tenant: str) -> None:
        self.event = event
        self.tenant = tenant

    @property
    def name(self) -> str:
        """The event's own."""
        return self.event.name

    @property
    def level(self) -> str:
        """The event's own."""
        return self.event.level

    def _asdict(self) -> dict[str, Any]:
        return {**self.event._asdict(), "tenant": self.tenant}


class FrameSeen(NamedTuple):
    """One JSON-RPC frame as it crossed the wire; recorded only with ``log_jsonrpc``."""

    direction: str
    frame: str
    name: str = "mcp.jsonrpc"
    level: str = "info"
