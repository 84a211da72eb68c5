"""What stands between MCP and the tools: who asks, what is answered, and the interface that a toolbox has.

Knows no method and no wire: the server turns these values into messages, a toolbox makes them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from colabhive_mcp.protocol.revisions import Revision


class KeepAlive(enum.Enum):
    """A sign of life that is no message: a stream may write a comment for it, a pipe nothing."""

    MARK = enum.auto()


class Cancel(Protocol):
    """The wait and the way to end it; ``threading.Event`` is one."""

    def is_set(self) -> bool:
        """Whether the caller has lost interest."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep *timeout* seconds, or until cancelled; answers whether it was."""
        ...


class Changed(enum.Enum):
    """The list of tools is another than the caller knows."""

    MARK = enum.auto()


class Client(NamedTuple):
    """Who the client says it is."""

    name: str | None = None
    version: str | None = None


NOBODY = Client()


@dataclass(slots=True)
class Verbosity:
    """From which *level* on (one of LOG_LEVELS) a client is told what its calls do; None before it asked for any."""

    level: str | None = None


@dataclass(slots=True)
class Session:
    """What one connection remembers of the legacy handshake, and how much its client wants to be told.

    *listed* is the toolbox's own: the tools that this session was shown. Modern requests read nothing of it.
    """

    revision: Revision | None = None
    client: Client = NOBODY
    initialized: bool = False
    listed: Any = None
    verbosity: Verbosity = field(default_factory=Verbosity)


def _go_on() -> bool:
    return False


class Context(NamedTuple):
    """What a transport gives with each request.

    *stopping* tells whether the server is about to end: what can be finished later is then told so. *trace* are the
    headers of W3C Trace Context, for the gateway.
    """

    session: Session
    cancel: Cancel
    stopping: Callable[[], bool] = _go_on
    trace: Mapping[str, str] = MappingProxyType({})


class Caller(NamedTuple):
    """Who asks: the revision in force, the legacy session (None in the modern era) and the way to cancel.

    *progress* tells whether progress will reach anybody; *stopping* and *trace* are the context's.
    """

    revision: Revision
    session: Session | None
    cancel: Cancel
    progress: bool = False
    client: Client = NOBODY
    stopping: Callable[[], bool] = _go_on
    trace: Mapping[str, str] = MappingProxyType({})


class Listing(NamedTuple):
    """One page of tools, each already encoded as JSON for the caller's revision."""

    tools: Sequence[bytes]
    next_cursor: str | None
    ttl_ms: int


class Progress(NamedTuple):
    """How far a call is; *progress* only ever rises."""

    progress: float
    message: str
    total: float | None = None


class ToolResult(NamedTuple):
    """The end of a call, shaped for the caller's revision: ``content``, and what else a CallToolResult has."""

    body: Mapping[str, Any]


class ResourceText(NamedTuple):
    """What a resource holds: JSON, as text."""

    text: str
    ttl_ms: int


class Completion(NamedTuple):
    """The values that an argument may be completed to, best first, and how many there are in all."""

    values: Sequence[str]
    total: int


class Toolbox(Protocol):
    """One tenant's tools, and what can be read of them."""

    @property
    def resources(self) -> Sequence[Mapping[str, Any]]:
        """The resources that are listed, as MCP has them in its newest revision."""
        ...

    @property
    def resource_templates(self) -> Sequence[Mapping[str, Any]]:
        """Likewise the templates of the others."""
        ...

    def list_tools(self, cursor: str | None, caller: Caller) -> Listing:
        """A page of the tools; raises ClientError for a bad cursor, BridgeError where no list can be had."""
        ...

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> Iterator[Progress | KeepAlive | ToolResult]:
        """Progress and signs of life, then one result; raises ClientError for a tool that is not offered."""
        ...

    def read_resource(self, uri: str, caller: Caller) -> ResourceText | None:
        """What the resource *uri* holds; None where there is none. Raises BridgeError where it cannot be had."""
        ...

    def complete(self, template: str, argument: str, value: str, caller: Caller) -> Completion | None:
        """The values for *argument* of a resource *template* that go on from *value*; None where it has none such."""
        ...

    def header_parameters(self, name: str, caller: Caller) -> Sequence[tuple[str, tuple[str, ...]]]:
        """The arguments of the tool *name* that a client repeats in HTTP headers: each header, and the path to it.

        None for a tool that is not offered, and where no manifest can be had: the call itself tells of both.
        """
        ...

    def changes(self, caller: Caller) -> Iterator[Changed | KeepAlive]:
        """A mark whenever what this caller would list has changed and can be listed; signs of life between.

        It ends where the caller has cancelled or the server is stopping.
        """
        ...
