"""The stdio server: settings → log, toolbox, protocol, transport → exit code.

It must not import click: a client waits for this start. The bridge, and with it `requests` and `jsonschema`, is loaded
when its tools are first asked for, which is after the first answer.
"""

from __future__ import annotations

import contextlib
import os
import sys

from colabhive_mcp.cli.assembly import Log, load_bridge, prepare_log
from colabhive_mcp.cli.exits import leave_at_signals, run_guarded
from colabhive_mcp.config import Settings, load_settings
from colabhive_mcp.errors import EXIT_OK, ConfigError
from colabhive_mcp.kinds import is_etag
from colabhive_mcp.telemetry.events import Warned
from colabhive_mcp.transports.identity import build_server
from colabhive_mcp.transports.late import LateToolbox
from colabhive_mcp.transports.stdio import Options, StdioServer, claim_descriptors

GREETING = (
    "colabhive-mcp is an MCP server and waits for a client on standard input. "
    "Ctrl-D ends it; colabhive-mcp --help shows what else there is."
)


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
    _check_pin(settings)
    with prepare_log(settings) as log:
        for sentence in settings.warnings:
            log(Warned(sentence))
        build_stdio(settings, log, descriptors).run()
        _leave()
    return EXIT_OK


def _check_pin(settings: Settings) -> None:
    """Refuse a pin that is none before a client waits for the tools in it."""
    if settings.manifest_pin is not None and not is_etag(settings.manifest_pin):
        from colabhive_mcp.offer import load_pin  # noqa: PLC0415 - imports requests

        load_pin(settings)


def build_stdio(settings: Settings, log: Log, descriptors: tuple[int, int]) -> StdioServer:
    """The server on *descriptors*, which are its alone."""
    options = Options(
        workers=settings.workers,
        drain_timeout=settings.drain_timeout,
        max_line=settings.max_message_bytes,
        log_frames=settings.log_jsonrpc,
    )
    toolbox = LateToolbox(lambda: load_bridge(settings, log.open()))
    server = build_server(toolbox, transport="stdio", record=log)
    return StdioServer(server, options, record=log, descriptors=descriptors, leave=_leave)


def _claim_descriptors() -> tuple[int, int]:
    try:
        return claim_descriptors()
    except OSError as error:
        raise ConfigError("Standard input and output must be open: a client talks to this server there.") from error


def _leave() -> None:
    """End here and now: threads that wait for the gateway must not delay it, nor write into a dying interpreter."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody may read it, or it was never open
        sys.stderr.flush()
    os._exit(EXIT_OK)
