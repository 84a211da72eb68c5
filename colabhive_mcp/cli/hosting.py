"""The local gateway on waitress, in a thread of its own, for `gateway` and `demo`.

Owns what has to be started and in which order it stops. Prints nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import NoReturn, Self

from colabhive_mcp.cli.listening import Listener
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
            self._listener = Listener(
                app, host=plan.host, port=plan.port, name="gateway", threads=THREADS, connections=CONNECTIONS
            )
        except ConfigError:
            self.store.close()
            raise
        self.address = self._listener.address

    def __enter__(self) -> Self:
        self._runtime.start()
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wake those who wait for a result and let them be answered, then end the loop, then close what it used."""
        self._runtime.close()
        if self._faults is not None:
            self._faults.clear()
        self._listener.close()
        self.store.close()

    def wait(self) -> None:
        """Until the gateway ends by itself, which it does not: what a signal raises gets out of here."""
        self._listener.wait()


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
