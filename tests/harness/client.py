"""A client of the stdio server as a real process: what it sends, what comes back, each message held to its revision."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.harness import spec

PATIENCE = 20.0
META = "io.modelcontextprotocol/"


def refuse_constant(name: str) -> Any:
    """What a strict JSON parser does with NaN."""
    raise AssertionError(f"{name} is not JSON")


def to_messages(line: bytes) -> list[dict[str, Any]]:
    """The message, or the messages of a batch, on one line."""
    text = line.decode("utf-8", "strict")
    assert len(text.splitlines()) == 1, f"a reader with universal line breaks splits this line: {text!r}"
    value = json.loads(text, parse_constant=refuse_constant)
    return value if isinstance(value, list) else [value]


class StdioClient:
    """One server process. ``revision`` decides the era; ``open`` does the handshake where the era has one."""

    def __init__(
        self,
        folder: Path,
        *,
        environment: Mapping[str, str],
        arguments: tuple[str, ...] = (),
        revision: str = "2025-11-25",
    ) -> None:
        self.revision = revision
        self.notifications: list[dict[str, Any]] = []
        """All that were read, also those before an answer that was waited for."""
        self._methods: dict[Any, str] = {}
        self._next = 0
        self._log = folder / f"server-{time.monotonic_ns()}.log"
        self._queue: queue.Queue[bytes | None] = queue.Queue()
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "colabhive_mcp", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder), **environment},
                cwd=folder,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line)
        self._queue.put(None)

    @property
    def modern(self) -> bool:
        """Whether requests carry their version themselves."""
        return self.revision == spec.MODERN

    @property
    def stderr(self) -> str:
        """What the server has logged so far."""
        return self._log.read_text("utf-8", "replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        """The logged events of that name."""
        lines = [json.loads(line) for line in self.stderr.splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == name]

    def wait_event(self, name: str, *, at_least: int = 1, timeout: float = PATIENCE) -> list[dict[str, Any]]:
        """The logged events of that name, as soon as there are *at_least* so many."""
        pause, deadline = threading.Event(), time.monotonic() + timeout
        while len(events := self.events(name)) < at_least:
            assert time.monotonic() < deadline, f"no {name} within {timeout} s; the log:\n{self.stderr}"
            pause.wait(0.02)
        return events

    def send_raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: Any) -> None:
        """Write one message."""
        self.note(message)
        self.send_raw(json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")

    def note(self, message: Any) -> None:
        """Remember which method a request is of, to know what its response has to be."""
        if isinstance(message, dict) and isinstance(message.get("method"), str) and "id" in message:
            self._methods[_key(message["id"])] = message["method"]

    def request(self, method: str, params: Mapping[str, Any] | None = None, *, request_id: Any = None) -> Any:
        """Send a request and answer its id at once."""
        if request_id is None:
            self._next += 1
            request_id = self._next
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        params = self._with_meta(params) if method != "initialize" else params
        if params is not None:
            message["params"] = params
        self.send(message)
        return request_id

    def _with_meta(self, params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if not self.modern:
            return params
        params = dict(params or {})
        meta = {
            META + "protocolVersion": self.revision,
            META + "clientCapabilities": {},
            META + "clientInfo": {"name": "tests", "version": "1"},
        }
        return {**params, "_meta": {**meta, **params.get("_meta", {})}}

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def receive(self, timeout: float = PATIENCE) -> dict[str, Any]:
        """The next message. Fails where none comes in time."""
        messages = to_messages(self.receive_line(timeout))
        assert len(messages) == 1
        return self.check(messages[0])

    def receive_line(self, timeout: float = PATIENCE) -> bytes:
        """The next line as it came."""
        try:
            line = self._queue.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"no message within {timeout} s; the log:\n{self.stderr}") from None
        assert line is not None, f"the server has closed stdout; the log:\n{self.stderr}"
        return line

    def check(self, message: dict[str, Any]) -> dict[str, Any]:
        """*message*, held to the schema of the revision in force."""
        method = self._methods.get(_key(message["id"])) if "method" not in message and "id" in message else None
        spec.check(message, revision=self.revision, method=method)
        if "method" in message:
            self.notifications.append(message)
        return message

    def wait(self, request_id: Any, timeout: float = PATIENCE) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The response to *request_id*, and all that came before it."""
        before: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout
        while True:
            message = self.receive(max(deadline - time.monotonic(), 0.01))
            if "method" not in message and _key(message.get("id")) == _key(request_id):
                return message, before
            before.append(message)

    def ask(self, method: str, params: Mapping[str, Any] | None = None, timeout: float = PATIENCE) -> dict[str, Any]:
        """A request and its response."""
        return self.wait(self.request(method, params), timeout)[0]

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, timeout: float = PATIENCE) -> dict[str, Any]:
        """The result of a tool call."""
        params = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
        response = self.ask("tools/call", params, timeout)
        assert "result" in response, response
        result: dict[str, Any] = response["result"]
        return result

    def tools(self) -> dict[str, dict[str, Any]]:
        """The listed tools by name."""
        response = self.ask("tools/list")
        assert "result" in response, response
        return {tool["name"]: tool for tool in response["result"]["tools"]}

    def open(self, name: str = "tests") -> Self:
        """The handshake, where the era has one; *name* is what the client calls itself."""
        if not self.modern:
            response = self.ask(
                "initialize",
                {
                    "protocolVersion": self.revision,
                    "capabilities": {},
                    "clientInfo": {"name": name, "version": "1"},
                },
            )
            assert response["result"]["protocolVersion"] == self.revision
            self.notify("notifications/initialized")
        return self

    def drain(self, seconds: float = 0.0) -> list[dict[str, Any]]:
        """What has come by now, or comes within *seconds*."""
        messages = []
        while True:
            try:
                line = self._queue.get(timeout=seconds) if seconds else self._queue.get_nowait()
            except queue.Empty:
                return messages
            if line is None:
                self._queue.put(None)
                return messages
            messages += [self.check(message) for message in to_messages(line)]

    def close(self, timeout: float = PATIENCE) -> int:
        """End the input; the exit code."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        return self.process.wait(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        ended = self.process.poll() is not None
        try:
            self.close()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        if kind is None and not ended:  # a test that ends the process itself says how it has to end
            assert self.process.returncode == 0, f"exit code {self.process.returncode}; the log:\n{self.stderr}"
            assert "Traceback" not in self.stderr, self.stderr


def _key(request_id: Any) -> tuple[str, Any]:
    """Ids of different JSON types are different ids."""
    return type(request_id).__name__, request_id
