"""`serve`: MCP over HTTP for many keys, from its settings to its end.

Owns what is started and in which order it stops: signals, reload, the time that calls are given. What is served is the
transports'.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from types import FrameType

import click

from colabhive_mcp.cli.assembly import open_log
from colabhive_mcp.cli.listening import Listener, raise_file_limit
from colabhive_mcp.cli.options import GROUPS, SettingsHelp, with_settings
from colabhive_mcp.config import SETTINGS, Settings
from colabhive_mcp.errors import EXIT_OK, BridgeError, ConfigError
from colabhive_mcp.telemetry.background import Background
from colabhive_mcp.telemetry.events import Event, Record, RelayReloaded, RelayStarted, RelayStopped, Warned
from colabhive_mcp.telemetry.logs import hold_lines
from colabhive_mcp.telemetry.metrics import Gauges, Metrics
from colabhive_mcp.transports.tenants import find_oldest_age
from colabhive_mcp.transports.wsgi import Relay

CONNECTIONS = 4096  # at the most; half of the files that may be open are for those to the gateway, and others
IDLE_SECONDS = 120  # for which an idle connection is kept: longer than a proxy in front keeps its own
LONGEST_HEADERS = 64 * 1024
DRAIN_SECONDS = 30.0  # that calls are given at the end where nobody set another time
LOOK = 0.2  # seconds between two looks for a signal
QUIET = 0.5  # seconds without a request after which none comes on a connection that somebody kept
LAST_WORDS = 2.5  # of those, what calls need to say how to fetch their results, and be written
FIXED = (  # what a restart alone can change
    *("host", "port", "threads", "max_body_bytes", "trusted_proxy", "metrics_listen"),
    *("log_level", "log_format", "log_file"),
)
NOT_FOR_MANY = {
    "artifact_dir": "it would put the results of every key into one folder",
    "upload_dir": "it would let every key read one folder",
    "manifest_pin": "it would show every key the tools of one",
}
SAME_SECONDS = 0.1  # within which a second signal is the first one again: a wrapper hands it on to its whole group
Load = Callable[[], Settings]
Signals = SimpleQueue[int]


@click.command("serve", cls=SettingsHelp, short_help="Serve many keys over HTTP.")
@with_settings(*GROUPS, later=True)
def serve_command(load: Load) -> int:
    """Serve many keys over HTTP, each with its own tools.

    It prints the address of its MCP endpoint and takes an API key from each request. SIGTERM and Ctrl-C end it once the
    calls in flight are done, a second one at once; SIGHUP has it read its settings again.
    """
    settings = _check(load())
    with (
        open_log(settings) as sink,
        contextlib.closing(Background(sink, together=hold_lines)) as log,
        _catch_signals() as signals,
    ):
        return _serve(settings, load, log, signals)


def _serve(settings: Settings, load: Load, log: Record, signals: Signals) -> int:
    """Serve until a signal ends it."""
    metrics = Metrics(
        Gauges(
            threads_busy=lambda: relay.gate.busy,
            threads_total=lambda: relay.gate.threads,
            streams_open=lambda: relay.gate.streams,
            queue_depth=lambda: listener.queue_depth,
            manifest_age=lambda: find_oldest_age(relay.tenants.resident),
        )
    )

    def record(event: Event) -> None:
        log(event)
        metrics.record(event)

    for sentence in (*settings.warnings, *_list_doubts(settings)):
        log(Warned(sentence))
    files = raise_file_limit()
    scrape = None if settings.metrics_listen else metrics.render
    relay = Relay(settings, record=record, scrape=scrape)
    listener = _listen(settings, relay, connections=min(CONNECTIONS, files // 2))
    with _serve_metrics(settings, metrics), contextlib.closing(listener):
        listener.start()
        click.echo(f"Relay: {listener.address}{settings.path}")
        sys.stdout.flush()
        record(RelayStarted(listener.address, settings.threads))
        while _await_signal(signals) == signal.SIGHUP:
            settings = _reload(settings, load, relay, record)
        _stop(settings, relay, listener, record)
    return EXIT_OK


def _check(settings: Settings) -> Settings:
    """The settings, where a relay can be run by them. Raises ConfigError where not."""
    for name, reason in NOT_FOR_MANY.items():
        if getattr(settings, name) is not None:
            raise ConfigError(f"{name} ({settings.source(name)}) is not for serve: {reason}.")
    if _is_anywhere(settings.host) and not settings.allowed_hosts:
        raise ConfigError(
            f"host {settings.host!r} listens on every address: name those by which clients reach it in allowed_hosts."
        )
    if settings.trusted_proxy is not None and _find_address(settings.trusted_proxy) is None:
        raise ConfigError(
            f"trusted_proxy ({settings.source('trusted_proxy')}) is {settings.trusted_proxy!r}, and no IP address: "
            "forwarded headers are believed from one alone."
        )
    return settings


def _is_anywhere(host: str) -> bool:
    """Whether who listens on *host* listens on every address, however that is written."""
    with contextlib.suppress(OSError):
        return not any(socket.inet_pton(socket.AF_INET6, host) if ":" in host else socket.inet_aton(host))
    return False


def _find_address(text: str) -> str | None:
    """An IP address as sockets write it; None where *text* is none."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(text))
    return None


def _list_doubts(settings: Settings) -> list[str]:
    """What is set and does nothing here."""
    if settings.api_key is None:
        return []
    return [f"api_key ({settings.source('api_key')}) is not used by serve: each request brings a key of its own."]


def _listen(settings: Settings, relay: Relay, *, connections: int) -> Listener:
    proxy = _find_address(settings.trusted_proxy or "")
    headers = {"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"} if proxy else set()
    return Listener(
        relay,
        host=settings.host,
        port=settings.port,
        name="relay",
        threads=settings.threads,
        connections=connections,
        channel_timeout=IDLE_SECONDS,
        channel_request_lookahead=1,  # else nobody would notice a client that has gone
        max_request_body_size=settings.max_body_bytes + 1,  # of which waitress takes one less
        max_request_header_size=LONGEST_HEADERS,
        trusted_proxy=proxy,
        trusted_proxy_headers=headers,
        clear_untrusted_proxy_headers=True,
    )


@contextlib.contextmanager
def _serve_metrics(settings: Settings, metrics: Metrics) -> Iterator[None]:
    """The metrics on an address of their own, where there is one."""
    if settings.metrics_listen is None:
        yield
        return
    host, _, port = settings.metrics_listen.rpartition(":")
    try:
        server = metrics.serve(host.strip("[]"), int(port))
    except OSError as error:
        raise ConfigError(f"metrics_listen {settings.metrics_listen} cannot be listened on: {error}.") from error
    with contextlib.closing(server):
        yield


@contextlib.contextmanager
def _catch_signals() -> Iterator[Signals]:
    """Signals as they come; of those that end the process the second does so at once."""
    signals: Signals = SimpleQueue()
    ending = (signal.SIGTERM, signal.SIGINT)
    first: list[float] = []

    def catch(number: int, frame: FrameType | None) -> None:
        if number in ending:
            first.append(time.monotonic())
            if first[-1] - first[0] > SAME_SECONDS:
                os._exit(EXIT_OK)
        signals.put(number)

    before = {number: signal.signal(number, catch) for number in (*ending, signal.SIGHUP)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _await_signal(signals: Signals) -> int:
    """The next signal. One that another thread was given does not wake this one, which alone can handle it."""
    while True:
        with contextlib.suppress(Empty):
            return signals.get(timeout=LOOK)


def _reload(settings: Settings, load: Load, relay: Relay, record: Record) -> Settings:
    """The settings that are in force from now on; those before where the file cannot be used."""
    try:
        fresh = _check(load())
        relay.reload(fresh)
    except BridgeError as error:
        record(Warned(f"The settings could not be read again, and stay as they were: {error.message}"))
        return settings
    changed = [row.name for row in SETTINGS if getattr(fresh, row.name) != getattr(settings, row.name)]
    record(RelayReloaded(tuple(n for n in changed if n not in FIXED), tuple(n for n in changed if n in FIXED)))
    return fresh


def _stop(settings: Settings, relay: Relay, listener: Listener, record: Record) -> None:
    """Take no more work, give calls their time, and let what is done be sent."""
    started = time.monotonic()
    chosen = settings.drain_timeout if settings.source("drain_timeout") != "default" else DRAIN_SECONDS
    listener.refuse_connections()
    relay.stop()
    _await_quiet(relay, listener, started + chosen - min(LAST_WORDS, chosen / 2))
    relay.hurry()
    relay.gate.await_idle(min(LAST_WORDS, chosen / 2))
    unfinished = relay.gate.busy
    relay.abandon()
    relay.gate.await_idle(LAST_WORDS / 2)
    listener.flush(max(1.0, started + chosen - time.monotonic()))
    relay.tenants.close("stop")
    record(RelayStopped(unfinished, round((time.monotonic() - started) * 1000, 1)))


def _await_quiet(relay: Relay, listener: Listener, end: float) -> None:
    """Wait until all is answered that was asked, also on connections that others kept, at the latest until *end*."""
    known = -1
    while time.monotonic() < end and (known != relay.gate.served or relay.gate.busy or listener.queue_depth):
        relay.gate.await_idle(end - time.monotonic())
        known = relay.gate.served
        relay.gate.await_more(known, min(QUIET, max(0.0, end - time.monotonic())))
