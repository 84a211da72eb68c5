"""The stdio server: settings → log, toolbox, protocol, transport → exit code.

It must not import click: a client waits for this start. The bridge, and with it `requests` and `jsonschema`, is loaded
when its tools are first asked for, which is after the first answer.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any

from colabhive_mcp import __version__
from colabhive_mcp.cli.assembly import load_bridge, open_log
from colabhive_mcp.cli.exits import leave_at_signals, run_guarded
from colabhive_mcp.config import Settings, load_settings
from colabhive_mcp.errors import EXIT_OK, ConfigError
from colabhive_mcp.protocol.revisions import Revision
from colabhive_mcp.protocol.server import (
    Caller,
    Changed,
    Client,
    KeepAlive,
    Listing,
    Progress,
    Server,
    Toolbox,
    ToolResult,
)
from colabhive_mcp.telemetry.events import Failed, Record, SessionStarted, Warned
from colabhive_mcp.transports.stdio import Options, StdioServer, claim_descriptors

INFO = {
    "name": "colabhive-mcp",
    "title": "ColabHive",
    "version": __version__,
    "description": "Every model and tool of a ColabHive gateway as an MCP tool.",
}
INSTRUCTIONS = (
    "Each tool runs a model or a tool of the ColabHive platform; its description says its side-effects, cost and "
    "latency. A call may take minutes while a model is loaded. A result that is cut or takes too long names an "
    "invocation id: get_invocation_result reads it on at no new cost, while calling the tool again would start the "
    "work again."
)
GREETING = (
    "colabhive-mcp is an MCP server and waits for a client on standard input. "
    "Ctrl-D ends it; colabhive-mcp --help shows what else there is."
)


class LazyToolbox:
    """A toolbox that is built when it is first asked for something; thread-safe."""

    def __init__(self, build: Callable[[], Toolbox]) -> None:
        self._build = build
        self._lock = Lock()
        self._toolbox: Toolbox | None = None

    def list_tools(self, cursor: str | None, caller: Caller) -> Listing:
        """As the toolbox itself."""
        return self._load().list_tools(cursor, caller)

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> Iterator[Progress | KeepAlive | ToolResult]:
        """As the toolbox itself."""
        return self._load().call_tool(name, arguments, caller)

    def changes(self, caller: Caller) -> Iterator[Changed | KeepAlive]:
        """As the toolbox itself."""
        return self._load().changes(caller)

    def _load(self) -> Toolbox:
        with self._lock:
            if self._toolbox is None:
                self._toolbox = self._build()
            return self._toolbox


def run_alone() -> int:
    """The server of a command line without arguments."""
    return run_guarded(lambda: run_server(load_settings(flags={})))


def run_server(settings: Settings) -> int:
    """Serve one client on stdin and stdout until it is done. Raises ConfigError where the server cannot start."""
    leave_at_signals()
    settings.require_key()
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None:
        print(GREETING, file=sys.stderr)
    descriptors = _claim_descriptors()  # before anything is loaded that may print
    with open_log(settings) as record:
        for sentence in settings.warnings:
            record(Warned(sentence))
        build_stdio(settings, record, descriptors).run()
        _leave()
    return EXIT_OK


def build_stdio(settings: Settings, record: Record, descriptors: tuple[int, int]) -> StdioServer:
    """The server on *descriptors*, which are its alone."""
    options = Options(
        workers=settings.workers,
        drain_timeout=settings.drain_timeout,
        max_line=settings.max_message_bytes,
        log_frames=settings.log_jsonrpc,
    )
    return StdioServer(build_server(settings, record), options, record=record, descriptors=descriptors)


def _claim_descriptors() -> tuple[int, int]:
    try:
        return claim_descriptors()
    except OSError as error:
        raise ConfigError("Standard input and output must be open: a client talks to this server there.") from error


def build_server(settings: Settings, record: Record) -> Server:
    """The protocol over a bridge that is loaded when it is needed."""

    def greet(client: Client, revision: Revision) -> None:
        record(SessionStarted(client.name, client.version, revision.name, "stdio"))

    def report(error: Exception) -> None:
        trace = "".join(traceback.format_exception(error))
        record(Failed(f"{type(error).__name__}: {error}", trace))

    toolbox = LazyToolbox(lambda: load_bridge(settings, record))
    return Server(toolbox, info=INFO, instructions=INSTRUCTIONS, report=report, greet=greet)


def _leave() -> None:
    """End here and now: threads that wait for the gateway must not delay it, nor write into a dying interpreter."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody may read it, or it was never open
        sys.stderr.flush()
    os._exit(EXIT_OK)
