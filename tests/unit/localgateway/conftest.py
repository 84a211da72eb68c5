"""A real gateway behind a real waitress on a free port, and a client that speaks plain HTTP to it."""

import gzip
import http.client
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest
from waitress.server import create_server
from waitress.wasyncore import close_all

from colabhive_mcp.localgateway.app import PREFIX, build_app
from colabhive_mcp.localgateway.catalogue import seed
from colabhive_mcp.localgateway.faults import Faults
from colabhive_mcp.localgateway.runtime import Runtime
from colabhive_mcp.localgateway.store import Store

IN_MEMORY = 64 * 1024 * 1024


@dataclass(frozen=True)
class Reply:
    """One answer of the gateway, its header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body)


class Gateway:
    """A running gateway; requests carry *key* unless they say otherwise."""

    def __init__(self, path: Path, *, page_size: int | None = None, **options: Any) -> None:
        self.path = path
        self.store = Store(path)
        self.key = self.store.create_key()
        self.runtime = Runtime(self.store, **options)
        self.faults = Faults()
        app = build_app(self.store, self.runtime, faults=self.faults, page_size=page_size)
        # Large bodies stay in memory: waitress leaves the temporary file of a connection open that ends with the loop.
        self.server = create_server(
            app, host="127.0.0.1", port=0, threads=20, inbuf_overflow=IN_MEMORY, outbuf_overflow=IN_MEMORY
        )
        self.thread = threading.Thread(target=self.server.run)

    def __enter__(self) -> Self:
        self.runtime.start()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.thread.is_alive():
            return
        self.faults.clear()
        self.runtime.close()
        self.server.task_dispatcher.shutdown()
        self.server.trigger.pull_trigger(lambda: close_all(self.server._map))
        self.thread.join()
        self.store.close()

    @property
    def address(self) -> tuple[str, int]:
        """Where the gateway listens."""
        return "127.0.0.1", int(self.server.effective_port)

    def send(self, method: str, path: str, body: Any = None, /, *, key: str | None = "", **headers: str) -> Reply:
        """Send one request on a connection of its own; *path* is taken under the prefix unless it starts with //."""
        connection = http.client.HTTPConnection(*self.address, timeout=20)
        try:
            content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            if key is not None:
                sent["X-API-Key"] = key or self.key
            connection.request(method, path[1:] if path.startswith("//") else PREFIX + path, content, sent)
            reply = connection.getresponse()
            return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def invoke(self, slug: str, arguments: Any = None, /, *, sync: bool = True, **headers: str) -> Reply:
        """Invoke an action and, unless told otherwise, wait for it."""
        body = {"input": arguments or {}, "sync": sync, "sync_timeout_s": 20}
        return self.send("POST", f"/actions/{slug}:invoke", body, **headers)

    def finished(self, invocation_id: str) -> Any:
        """The invocation's report once it has ended."""
        self.runtime.wait(invocation_id, 20)
        return self.send("GET", f"/invocations/{invocation_id}").json

    def fault(self, **fault: Any) -> int:
        """Ask for a fault; returns its id."""
        reply = self.send("POST", "//_faults", fault, key=None)
        assert reply.status == 201, reply.body
        return int(reply.json["id"])


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with the built-in endpoints, to be copied: making one takes longer than most tests."""
    path = tmp_path_factory.mktemp("seeded") / "gateway.db"
    with Store(path) as made:
        seed(made)
    return path


@pytest.fixture
def start_gateway(tmp_path: Path, seeded: Path) -> Iterator[Callable[..., Gateway]]:
    """Starts gateways, all on one database, that stop when the test ends."""
    running: list[Gateway] = []

    shutil.copy(seeded, tmp_path / "gateway.db")

    def start(**options: Any) -> Gateway:
        running.append(Gateway(tmp_path / "gateway.db", **options).__enter__())
        return running[-1]

    yield start
    for gateway in running:
        gateway.__exit__()


@pytest.fixture
def gateway(start_gateway: Callable[..., Gateway]) -> Gateway:
    """A running gateway with the built-in endpoints."""
    return start_gateway()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with Store(tmp_path / "store.db") as opened:
        yield opened


def build_form(fields: dict[str, str], files: dict[str, bytes]) -> tuple[bytes, str]:
    """A multipart body and its content type, written as RFC 7578 shows it; a file is named ``<part>.bin``."""
    body, mark = b"", "mark of the tests"
    for name, text in fields.items():
        body += f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode()
    for name, content in files.items():
        body += f'--{mark}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.bin"\r\n'.encode()
        body += b"Content-Type: application/x-test\r\n\r\n" + content + b"\r\n"
    return body + f"--{mark}--\r\n".encode(), f'multipart/form-data; boundary="{mark}"'
