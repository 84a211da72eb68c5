"""The local gateway on waitress, in a thread of its own, for `gateway` and `demo`.

Owns what has to be started and in which order it stops. Prints nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from waitress.server import create_server
from waitress.wasyncore import close_all, loop

from colabhive_mcp.errors import ConfigError
from colabhive_mcp.localgateway.app import build_app
from colabhive_mcp.localgateway.catalogue import seed
from colabhive_mcp.localgateway.chat import ChatServer
from colabhive_mcp.localgateway.faults import Faults
from colabhive_mcp.localgateway.runtime import Runtime
from colabhive_mcp.localgateway.store import Store

THREADS = 64  # a caller who waits for a result holds one
CONNECTIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to host: the database's *path*, where to listen, the first *key* (one is made where None), who chats."""

    path: str
    host: str = "127.0.0.1"
    port: int = 0
    key: str | None = field(default=None, repr=False)
    chat: ChatServer | None = None
    page_size: int | None = None
    faults: bool = False

    @property
    def shown_host(self) -> str:
        """The host as it stands in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host


class HostedGateway:
    """A gateway that listens as soon as it is made; use it as a context manager, which stops it.

    *key* is the API key that was given or made; None where the plan's database was there already and it gives none.
    Raises `ConfigError` where the address or the database cannot be used.
    """

    def __init__(self, plan: Plan) -> None:
        is_fresh = not os.path.exists(plan.path) or os.path.getsize(plan.path) == 0
        self.store = _open_store(plan.path)
        seed(self.store)
        self.key = self.store.create_key(plan.key) if plan.key or is_fresh else None
        self._runtime = Runtime(self.store, chat=plan.chat)
        self._faults = Faults() if plan.faults else None
        app = build_app(self.store, self._runtime, faults=self._faults, page_size=plan.page_size)
        try:
            self._server = _listen(plan, app)
        except ConfigError:
            self.store.close()
            raise
        self.address = f"http://{plan.shown_host}:{self._server.effective_port}"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="gateway", daemon=True)

    def __enter__(self) -> Self:
        self._runtime.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wake those who wait for a result and let them be answered, then end the loop, then close what it used."""
        self._runtime.close()
        if self._faults is not None:
            self._faults.clear()
        self._server.task_dispatcher.shutdown()
        self._stopping.set()
        self._server.pull_trigger()
        self._thread.join()
        close_all(self._server._map)
        self.store.close()

    def _loop(self) -> None:
        """waitress's own `run` ends only by an exception, which a thread cannot be given."""
        while not self._stopping.is_set():
            loop(timeout=1, use_poll=True, map=self._server._map, count=1)

    def wait(self) -> None:
        """Until the gateway ends by itself, which it does not: what a signal raises gets out of here."""
        while self._thread.is_alive():
            self._thread.join(1)  # without a time-out Windows would not let Ctrl-C through


def _listen(plan: Plan, app: Any) -> Any:
    """A waitress server that holds the port and does not answer yet."""
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a short queue is no news
    family = socket.AF_INET6 if ":" in plan.host else socket.AF_INET
    try:
        listener = socket.create_server((plan.host, plan.port), family=family)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"The gateway cannot listen on {plan.host}, port {plan.port}: {error}.") from error
    return create_server(app, sockets=[listener], threads=THREADS, connection_limit=CONNECTIONS)


def _open_store(path: str) -> Store:
    try:
        return Store(path)
    except Exception as error:
        raise ConfigError(f"{path} cannot be used as the gateway's database: {error}.") from error


def build_chat(url: str | None, model: str | None) -> ChatServer | None:
    """The OpenAI-compatible server at *url*; `ConfigError` where that is no address."""
    if url is None:
        return None
    try:
        return ChatServer(url, model)
    except ValueError as error:
        raise ConfigError(f"--openai-url: {error}.") from error


@contextlib.contextmanager
def open_database(path: str | None) -> Iterator[str]:
    """*path*, or without one a file that is gone at the end."""
    if path is not None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="colabhive-gateway-") as folder:
        yield os.path.join(folder, "gateway.db")


class Stopped(BaseException):
    """Somebody asked to end: SIGINT or SIGTERM."""


@contextlib.contextmanager
def until_stopped() -> Iterator[None]:
    """Run the block until a signal asks to end it; the next signal has its usual effect."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        for name, handler in before.items():
            signal.signal(name, handler)
        raise Stopped

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    except Stopped:
        return
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
