"""The real local gateway as a process of its own, with faults on request."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from colabhive_mcp.localgateway.store import Store

KEY = "hive_" + "testKey0123456789abcdef"


class GatewayProcess:
    """``colabhive-mcp gateway`` on a free port of 127.0.0.1."""

    def __init__(self, folder: Path, *, port: int = 0, arguments: tuple[str, ...] = ()) -> None:
        self.database = folder / "hive.db"
        self._folder = folder
        self._arguments = ("--port", str(port), "--db", str(self.database), "--faults", *arguments)
        self.key = KEY
        self.url = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Start it and wait until it has said where it listens."""
        command = [sys.executable, "-m", "colabhive_mcp", "gateway", *self._arguments]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self._folder), "COLABHIVE_GATEWAY_KEY": self.key}
        with (self._folder / "gateway.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("Local gateway: "), (self._folder / "gateway.log").read_text()
        self.url = line.removeprefix("Local gateway: ").strip()
        return self

    @property
    def port(self) -> int:
        """Where it listens."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def stop(self) -> None:
        """End it, by its own process id."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def restart(self, port: int) -> Self:
        """Start it again where clients know it to be."""
        self._arguments = ("--port", str(port), *self._arguments[2:])
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request with the right key, answered as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"X-API-Key": self.key, "Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status < 400, (answer.status, content)
            return json.loads(content) if content else None
        finally:
            connection.close()

    def fault(self, **fault: Any) -> None:
        """Ask for a fault; see ``localgateway/faults.py`` for the words."""
        self.ask("POST", "/_faults", fault)

    def clear(self) -> None:
        """No faults any more, and nothing seen."""
        self.ask("DELETE", "/_faults")
        self.ask("DELETE", "/_faults/requests")

    def seen(self, fragment: str = "") -> list[dict[str, Any]]:
        """The requests whose path holds *fragment*, in the order in which they came."""
        answer = self.ask("GET", "/_faults/requests")
        requests = answer["requests"] if isinstance(answer, dict) else answer
        return [each for each in requests if fragment in each["path"]]

    def wait_seen(self, path: str, *, at_least: int = 1, timeout: float = 15.0) -> list[dict[str, Any]]:
        """The requests whose path matches the glob *path*, as soon as there are *at_least* so many."""
        query = urlencode({"path": path, "at_least": at_least, "timeout": timeout})
        seen: list[dict[str, Any]] = self.ask("GET", f"/_faults/requests?{query}")
        assert len(seen) >= at_least, f"{path} was asked for {len(seen)} times within {timeout} s"
        return seen

    def register(self, *manifests: Mapping[str, Any]) -> None:
        """Add or change endpoints, as an author would: in the database, which is the only source of truth."""
        with Store(self.database) as store:
            for manifest in manifests:
                store.register_endpoint({"action": "echo", **manifest})

    def remove(self, *slugs: str) -> None:
        """Take endpoints away."""
        with Store(self.database) as store:
            for slug in slugs:
                store.remove_endpoint(slug)


def manifest(name: str, **fields: Any) -> dict[str, Any]:
    """A manifest with everything that is required, and *fields* in place of what it has."""
    return {
        "name": name,
        "displayName": name.title(),
        "version": "1.0.0",
        "stability": "stable",
        "description": f"What {name} does.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "sideEffects": [],
        "costHint": "free",
        "latencyClass": "instant",
        "annotations": {"readOnly": True, "idempotent": True, "destructive": False, "openWorld": False},
        **fields,
    }
