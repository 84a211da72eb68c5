"""Server processes that the tests of a module share: one for each revision and set of settings, started when asked."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.harness.client import StdioClient
from tests.harness.gateway import GatewayProcess
from tests.harness.processes import build_environment


class Sessions:
    """``sessions(revision, **settings)``: an open client, the same one for the same words.

    Each has to end well: with exit code 0, without a traceback, nothing said that nobody asked for.
    """

    def __init__(self, gateway: GatewayProcess, folder: Path) -> None:
        self.gateway = gateway
        self._folder = folder
        self._clients: dict[tuple[Any, ...], StdioClient] = {}
        self._stack = ExitStack()

    def __call__(self, revision: str = "2025-11-25", **settings: Any) -> StdioClient:
        key = (revision, *sorted(settings.items()))
        if key not in self._clients:
            environment = build_environment(self.gateway, self._folder, **{"poll_interval": 0.1, **settings})
            client = StdioClient(self._folder, environment=environment, revision=revision)
            self._clients[key] = self._stack.enter_context(client).open()
        return self._clients[key]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        with self._stack:
            if failure == (None, None, None):
                for client in self._clients.values():
                    assert client.close() == 0
                    assert client.drain() == []
                    assert "Traceback" not in client.stderr
