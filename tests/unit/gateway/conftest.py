"""What the tests of the gateway's client share: time that passes only when someone waits, and clients of a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from colabhive_mcp.gateway.client import GatewayClient, Options
from colabhive_mcp.telemetry.events import Event
from tests.unit.gateway.scripted import ScriptedServer, Step

KEY = "hive_" + "k3yOfTheTests0123456789"
AMPLE = 1000.0


@dataclass
class Time:
    """A clock and a cancel token in one: waiting moves the clock on. The wait number *cancelled_at* is cut short."""

    now: float = 0.0
    cancelled_at: int | None = None
    waits: list[float] = field(default_factory=list)
    cancelled: bool = False

    def clock(self) -> float:
        """Seconds."""
        return self.now

    def is_set(self) -> bool:
        """Called off?"""
        return self.cancelled

    def wait(self, timeout: float | None = None) -> bool:
        """Pass *timeout* at once."""
        assert timeout is not None
        self.waits.append(timeout)
        self.cancelled = self.cancelled or len(self.waits) == self.cancelled_at
        self.now += timeout
        return self.cancelled


@dataclass
class Bench:
    """A client, the script that it talks to, the time it lives in, and the events that it recorded."""

    client: GatewayClient
    server: ScriptedServer
    time: Time
    events: list[Event]

    def fetch_manifest(self, etag: str | None = None, *, deadline: float = AMPLE) -> Any:
        """As the client's."""
        return self.client.fetch_manifest(etag, cancel=self.time, deadline=deadline)

    def invoke(
        self, slug: str = "echo", arguments: Any = None, *, sync_timeout: float = 2.0, deadline: float = AMPLE
    ) -> Any:
        """As the client's, with one idempotency key."""
        return self.client.invoke(
            slug,
            arguments or {},
            sync_timeout=sync_timeout,
            idempotency_key="key-1",
            cancel=self.time,
            deadline=deadline,
        )

    def fetch_invocation(self, invocation_id: str = "i-1", *, deadline: float = AMPLE) -> Any:
        """As the client's."""
        return self.client.fetch_invocation(invocation_id, cancel=self.time, deadline=deadline)

    def perform(self, request: Any, *, deadline: float = AMPLE) -> Any:
        """As the client's."""
        return self.client.perform(request, cancel=self.time, deadline=deadline)


MakeBench = Callable[..., Bench]


def build_options(api_url: str, **options: Any) -> Options:
    """Options with a key, and time-outs that no good test reaches."""
    return Options(**{"api_url": api_url, "api_key": KEY, "version": "0.0.test", "read_timeout": 20.0, **options})


@pytest.fixture
def bench() -> Iterator[MakeBench]:
    """``bench(step, …, **options)``: a client of a script, both ended with the test."""
    with ExitStack() as stack:

        def make(*steps: Step, time: Time | None = None, tls: Any = None, api_url: str = "", **options: Any) -> Bench:
            server = stack.enter_context(ScriptedServer(list(steps), tls))
            time, events = time or Time(), []
            client = GatewayClient(
                build_options(api_url or server.url, **options),
                clock=time.clock,
                random=lambda: 0.0,
                record=events.append,
            )
            stack.callback(client.close)
            return Bench(client, server, time, events)

        yield make
