"""Settings → the parts that a command runs: the log, the gateway's client, the bridge.

The one place of the command line that knows how the rooms are put together. It must not import click, nor anything that
imports `requests` before it is asked for.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from threading import Lock
from typing import IO, TYPE_CHECKING

from colabhive_mcp.errors import BadAnswer, ConfigError, GatewayError, GatewayUnreachable, KeyRefused
from colabhive_mcp.telemetry.events import discard

if TYPE_CHECKING:
    from colabhive_mcp.bridge import Bridge
    from colabhive_mcp.config import Settings
    from colabhive_mcp.gateway.client import GatewayClient
    from colabhive_mcp.telemetry.events import Event, Record


class Log:
    """A sink of events, set up with the first one or by ``open``: no handshake waits for ``logging`` to load."""

    def __init__(self, build: Callable[[], Record]) -> None:
        self._build = build
        self._lock = Lock()
        self._record: Record | None = None

    def open(self) -> Record:
        """The sink itself; what libraries log goes there too from then on."""
        with self._lock:
            if self._record is None:
                self._record = self._build()
            return self._record

    def __call__(self, event: Event) -> None:
        self.open()(event)


@contextlib.contextmanager
def open_log(settings: Settings, *, quiet: bool = False) -> Iterator[Record]:
    """The log of a command; *quiet* keeps to warnings where nobody set a level."""
    with prepare_log(settings, quiet=quiet) as log:
        yield log.open()


@contextlib.contextmanager
def prepare_log(settings: Settings, *, quiet: bool = False) -> Iterator[Log]:
    """The sink of events, on stderr or in ``log_file``, for somebody to open."""
    level = "warning" if quiet and settings.source("log_level") == "default" else settings.log_level
    with _open_stream(settings.log_file) as stream:
        log_format = settings.log_format
        if log_format == "auto":
            log_format = "text" if stream.isatty() else "json"

        def build() -> Record:
            from colabhive_mcp.telemetry.logs import Redaction, build_record  # noqa: PLC0415 - imports logging

            redact = Redaction([settings.api_key] if settings.api_key else [])
            return build_record(level=level, log_format=log_format, stream=stream, redact=redact)

        yield Log(build)


@contextlib.contextmanager
def _open_stream(path: str | None) -> Iterator[IO[str]]:
    if path is None and sys.stderr is not None:
        yield sys.stderr
        return
    try:
        stream = open(path or os.devnull, "a", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115 - see below
    except OSError as error:
        raise ConfigError(f"log_file {path} cannot be written: {error.strerror}.") from error
    with stream:
        yield stream


def build_client(settings: Settings) -> GatewayClient:
    """The gateway's client. Raises ConfigError where there is no key."""
    from colabhive_mcp import bridge  # noqa: PLC0415 - imports requests

    return bridge.build_client(settings, discard)


def load_bridge(settings: Settings, record: Record) -> Bridge:
    """The bridge, and with it the rooms that take long to import. Raises ConfigError where there is no key."""
    settings.require_key()
    from colabhive_mcp.bridge import build_bridge  # noqa: PLC0415 - imports requests

    return build_bridge(settings, record)


@contextlib.contextmanager
def open_bridge(settings: Settings, record: Record) -> Iterator[Bridge]:
    """The bridge, closed at the end."""
    bridge = load_bridge(settings, record)
    try:
        yield bridge
    finally:
        bridge.close()


@contextlib.contextmanager
def expecting_manifest() -> Iterator[None]:
    """Within, any answer of the gateway that is no manifest is a BadAnswer, whatever its status."""
    try:
        yield
    except (GatewayUnreachable, KeyRefused, BadAnswer):
        raise
    except GatewayError as error:
        raise BadAnswer(error.message) from error
