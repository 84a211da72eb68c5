"""How the real process ends: end of input, a signal, a client that has died, closed pipes. Soon, well and quietly."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.gateway import GatewayProcess
from tests.harness.processes import COMMAND, INITIALIZE, build_environment, spawn, wait_for_end, wait_until

SIGNALS = (signal.SIGTERM, signal.SIGINT)
SOON = 2.0  # what clients wait for before they send a signal
QUICK = {"drain_timeout": 0.3}  # where others try the default
Spawn = Callable[..., AbstractContextManager["Server"]]


class Server:
    """A process that has shaken hands, and the file that it logs to."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text("utf-8")

    def write(self, data: bytes) -> None:
        """Write to its input at once."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def request(self, request_id: int, method: str, **params: Any) -> None:
        """Send a request."""
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self.write(json.dumps(message).encode() + b"\n")

    def call(self, request_id: int, name: str, **arguments: Any) -> None:
        """Send a call."""
        self.request(request_id, "tools/call", name=name, arguments=arguments)

    def receive(self) -> dict[str, Any]:
        """The next message."""
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def open(self) -> Server:
        """Shake hands."""
        self.write(INITIALIZE)
        assert self.receive()["id"] == "init"
        return self

    def end_input(self) -> None:
        """Nothing more is coming."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def expect_end(self, within: float = SOON) -> list[dict[str, Any]]:
        """It ends within that time, with exit code 0 and no trace of trouble; answers what it still wrote."""
        started = time.monotonic()
        code = self.process.wait(within + 5)
        took = time.monotonic() - started
        assert (code, took < within) == (0, True), f"{code} after {took:.2f} s\n{self.log}"
        for trouble in ("Traceback", "Exception ignored", "Error", "Fatal", "BrokenPipe", "mcp.internal_error"):
            assert trouble not in self.log
        assert self.process.stdout is not None
        rest = b"" if self.process.stdout.closed else self.process.stdout.read()
        assert rest.endswith(b"\n") or not rest
        return [json.loads(line) for line in rest.splitlines()]


@pytest.fixture
def start(gateway: GatewayProcess, tmp_path: Path) -> Spawn:
    """``with start(setting=…) as server``: a process that has shaken hands, over the shared gateway."""

    @contextmanager
    def spawned(*, opened: bool = True, options: dict[str, Any] | None = None, **settings: Any) -> Iterator[Server]:
        environment = build_environment(gateway, tmp_path, poll_interval=0.1, **settings)
        with spawn(environment, tmp_path / "log", **(options or {})) as process:
            server = Server(process, tmp_path / "log")
            yield server.open() if opened else server

    return spawned


# In the middle of what

Busy = Callable[[Server, GatewayProcess], None]


def be_idle(server: Server, gateway: GatewayProcess) -> None:
    """Nothing is in flight."""


def poll(server: Server, gateway: GatewayProcess) -> None:
    """A job is polled, which takes a minute."""
    server.call(1, "slow-count", to=60, interval=1)
    gateway.wait_seen("*/invocations/*")


def wait_for_answer(server: Server, gateway: GatewayProcess) -> None:
    """The gateway takes a minute to answer."""
    gateway.fault(path="*echo:invoke", delay=60)
    server.call(1, "echo", text="x")
    gateway.wait_seen("*echo:invoke")


def wait_to_retry(server: Server, gateway: GatewayProcess) -> None:
    """The gateway asks to come again in a minute."""
    gateway.fault(path="*echo:invoke", status=429, headers={"Retry-After": "60"}, times=-1)
    server.call(1, "echo", text="x")
    gateway.wait_seen("*echo:invoke")


def fetch_manifest(server: Server, gateway: GatewayProcess) -> None:
    """The manifest takes a minute to come, and a list waits for it."""
    gateway.wait_seen("*/manifest")
    server.request(1, "tools/list")


def fill_workers(server: Server, gateway: GatewayProcess) -> None:
    """Every worker is taken by a long job, and more calls wait behind them."""
    for number in range(6):
        server.call(number, "slow-count", to=60, interval=1)
    gateway.wait_seen("*/invocations/*", at_least=4)


BUSY = [poll, wait_for_answer, wait_to_retry, fetch_manifest, fill_workers]


def be_busy(server: Server, gateway: GatewayProcess, busy: Busy) -> None:
    """Have *server* in the middle of something."""
    if busy is fetch_manifest:
        gateway.fault(path="*/manifest", delay=60, times=-1)
    server.open()
    busy(server, gateway)


@pytest.mark.parametrize("busy", [be_idle, *BUSY])
def test_the_end_of_input_is_the_end(busy: Busy, start: Spawn, gateway: GatewayProcess) -> None:
    """At the end of input the process is gone within 2 s, whatever it waits for."""
    with start(opened=False, workers=4, **(QUICK if busy in (wait_for_answer, wait_to_retry) else {})) as server:
        be_busy(server, gateway, busy)
        server.end_input()
        assert server.expect_end() == []


@pytest.mark.parametrize(
    ("busy", "number"),
    [*((busy, signal.SIGTERM) for busy in (be_idle, *BUSY)), (be_idle, signal.SIGINT), (poll, signal.SIGINT)],
)
def test_a_signal_is_the_end(busy: Busy, number: signal.Signals, start: Spawn, gateway: GatewayProcess) -> None:
    """SIGTERM and SIGINT end the process at once, without the time that calls have at the end of input."""
    with start(opened=False, workers=4, drain_timeout=30) as server:
        be_busy(server, gateway, busy)
        server.process.send_signal(number)
        assert server.expect_end(1.0) == []


def test_signals_and_the_end_of_input_may_come_together(start: Spawn, gateway: GatewayProcess) -> None:
    """The end of input and several signals at the same moment are one clean end."""
    with start(drain_timeout=30) as server:
        poll(server, gateway)
        server.end_input()
        for number in (*SIGNALS, *SIGNALS):
            server.process.send_signal(number)
        assert server.expect_end(1.0) == []


def test_a_signal_ends_the_time_to_drain(start: Spawn, gateway: GatewayProcess) -> None:
    """A signal after the end of input is not kept waiting for calls that still have time."""
    with start(drain_timeout=30) as server:
        poll(server, gateway)
        server.end_input()
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.3)
        server.process.terminate()
        assert server.expect_end(1.0) == []


HELD = """
import os, sys


class Finder:
    def find_spec(name, path=None, target=None):
        if name == os.environ["HELD_AT"]:
            os.write(2, b"held")
            os.read(os.open(os.environ["HELD_BY"], os.O_RDONLY), 1)


sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("module", ["colabhive_mcp.config", "colabhive_mcp.transports.stdio", "requests"])
def test_a_signal_during_the_start_is_the_end(
    module: str, number: signal.Signals, gateway: GatewayProcess, tmp_path: Path
) -> None:
    """A client that has seen enough before the server has started, or loaded its tools, gets a clean end at once."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "sitecustomize.py").write_text(HELD)
    environment = build_environment(gateway, tmp_path) | {
        "PYTHONPATH": str(tmp_path),
        "HELD_AT": module,
        "HELD_BY": str(tmp_path / "fifo"),
    }
    with spawn(environment, tmp_path / "log") as process:
        server = Server(process, tmp_path / "log")
        server.write(INITIALIZE)
        wait_until(lambda: "held" in server.log)
        before = server.log
        server.end_input()
        process.send_signal(number)
        process.send_signal(number)
        server.expect_end(1.0)
        assert server.log == before


# What is still answered


def test_calls_may_end_after_the_input(start: Spawn, gateway: GatewayProcess) -> None:
    """What is in flight at the end of input has ``drain_timeout`` to end, and is answered; then nothing waits."""
    with start(drain_timeout=20) as server:
        server.call(1, "slow-count", to=3, interval=0.2)
        server.call(2, "echo", text="x")
        gateway.wait_seen("*/invocations/*")
        server.end_input()
        assert {message["id"]: "result" in message for message in server.expect_end(10)} == {1: True, 2: True}


def test_what_has_time_left_is_answered_beside_what_has_not(start: Spawn, gateway: GatewayProcess) -> None:
    """A call too long for ``drain_timeout`` takes nothing from the others."""
    with start(drain_timeout=1) as server:
        server.call(1, "slow-count", to=60, interval=1)
        gateway.wait_seen("*/invocations/*")
        server.call(2, "echo", text="x")
        server.request(3, "ping")
        server.end_input()
        assert {message["id"] for message in server.expect_end()} == {2, 3}
        assert "unfinished (1)" in server.log


def test_no_time_to_drain_is_none(start: Spawn, gateway: GatewayProcess) -> None:
    """With ``drain_timeout`` 0 a call in flight is dropped at the end of input."""
    with start(drain_timeout=0) as server:
        poll(server, gateway)
        server.end_input()
        assert server.expect_end(1.0) == []


def test_a_batch_is_answered_at_the_end(start: Spawn, gateway: GatewayProcess) -> None:
    """Of a batch whose last call is too long, what is there at the end is written all the same."""
    with start(opened=False, drain_timeout=1) as server:
        server.write(INITIALIZE.replace(b"2025-11-25", b"2025-03-26"))
        assert server.receive()["id"] == "init"
        calls = [
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate([("echo", {"text": "x"}), ("slow-count", {"to": 60})])
        ]
        server.write(json.dumps(calls).encode() + b"\n")
        gateway.wait_seen("*/invocations/*")
        server.end_input()
        assert [[message["id"] for message in batch] for batch in server.expect_end()] == [[0]]


def test_a_reader_that_stopped_holds_nothing_up(start: Spawn, gateway: GatewayProcess) -> None:
    """Replies that the client doesn't take are given up in time: at the end of input, and at once for a signal."""
    with start(max_result_bytes=2**22, **QUICK) as server:
        for number in range(4):
            server.call(number, "echo", text="x" * 2**20)
            server.request(10 + number, "ping")
        gateway.wait_seen("*echo:invoke", at_least=4)
        server.end_input()
        server.process.wait(SOON)
        assert server.process.returncode == 0
        assert "Traceback" not in server.log


# The client dies

PARENT = """
import os, socket, subprocess, sys

if os.environ["STDIO"] == "sockets":
    ours, theirs = socket.socketpair()
    other, outs = socket.socketpair()
    child = subprocess.Popen(sys.argv[1:], stdin=theirs, stdout=outs)
    write, read = ours.sendall, other.makefile("rb").readline
    theirs.close(), outs.close()
else:
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    write, read = child.stdin.write, child.stdout.readline
print(child.pid, flush=True)
for line in sys.stdin.buffer:
    write(line)
    if b'"init"' in line:
        read()
        print("open", flush=True)
"""


@pytest.mark.parametrize(
    ("busy", "stdio"),
    [(be_idle, "pipes"), (poll, "pipes"), (poll, "sockets"), (wait_for_answer, "sockets"), (wait_to_retry, "pipes")],
)
def test_the_death_of_the_client_is_the_end(busy: Busy, stdio: str, gateway: GatewayProcess, tmp_path: Path) -> None:
    """A client that is killed, with answers unread, takes its server along within 2 s, whatever it waits for."""
    environment = build_environment(gateway, tmp_path, poll_interval=0.1, **({} if busy is poll else QUICK))
    environment["STDIO"] = stdio
    command = [sys.executable, "-c", PARENT, *COMMAND]
    with (tmp_path / "log").open("wb") as log:
        client = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd="/"
        )
    server = Server(client, tmp_path / "log")
    assert client.stdout is not None
    pid = int(client.stdout.readline())
    try:
        server.write(INITIALIZE)
        assert client.stdout.readline() == b"open\n"
        server.request(2, "ping")
        busy(server, gateway)
    finally:
        client.kill()
        client.wait()
        ended = wait_for_end(pid, SOON)
        if not ended:
            os.kill(pid, signal.SIGKILL)
        server.end_input()
        client.stdout.close()
    assert ended
    for trouble in ("Traceback", "Exception ignored", "mcp.internal_error"):
        assert trouble not in server.log


def test_a_reset_of_the_input_is_its_end(gateway: GatewayProcess, tmp_path: Path) -> None:
    """A socket that is closed with answers unread is reset instead of ended; that is a clean end too."""
    ours, theirs = socket.socketpair()
    with ours, spawn(build_environment(gateway, tmp_path), tmp_path / "log", stdin=theirs, stdout=theirs) as process:
        theirs.close()
        ours.sendall(INITIALIZE + b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
        assert select.select([ours], [], [], 15)[0]
        ours.close()
        assert process.wait(SOON) == 0
        assert "Traceback" not in (tmp_path / "log").read_text()


# Closed pipes


def close_reader(server: Server) -> None:
    """Read stdout no more."""
    assert server.process.stdout is not None
    server.process.stdout.close()


@pytest.mark.parametrize("name", ["slow-count", "echo"])
def test_a_closed_stdout_is_the_end(name: str, start: Spawn, gateway: GatewayProcess) -> None:
    """When the reader has gone, the first message that can't be written ends the process; one line says why."""
    with start() as server:
        server.call(1, name, **({"to": 2, "interval": 0.2} if name == "slow-count" else {"text": "x" * 500_000}))
        gateway.wait_seen(f"*{name}:invoke")
        close_reader(server)
        server.expect_end(5)
        warnings = [line for line in server.log.splitlines() if json.loads(line)["level"] == "WARNING"]
        assert ["closed its end of stdout" in line for line in warnings] == [True]


def test_a_closed_stdout_is_noticed_with_the_next_answer(start: Spawn) -> None:
    """An idle server notices that the reader has gone when it answers a ping, though its input stays open."""
    with start() as server:
        close_reader(server)
        server.request(1, "ping")
        server.expect_end()


def test_a_closed_stderr_changes_nothing(gateway: GatewayProcess, tmp_path: Path) -> None:
    """Nobody has to read the log: calls are served and the end is clean after its reader has gone."""
    environment = build_environment(gateway, tmp_path, log_level="debug", log_jsonrpc=True)
    with spawn(environment, tmp_path / "log", stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.close()
        server = Server(process, tmp_path / "log").open()
        for number in range(3):
            server.call(number, "echo", text="x")
            assert server.receive()["result"]["content"][0]["text"] == "x"
        server.write(b"{\n")
        assert server.receive()["error"]["code"] == -32700
        server.end_input()
        assert server.expect_end() == []


@pytest.mark.parametrize("log_format", ["auto", "text", "json"])
def test_stderr_may_be_closed_from_the_start(log_format: str, gateway: GatewayProcess, tmp_path: Path) -> None:
    """Without a stderr the server works, and what is logged or printed goes nowhere, least of all to stdout."""
    environment = build_environment(gateway, tmp_path, log_format=log_format, log_level="debug")
    with spawn(environment, tmp_path / "log", preexec_fn=lambda: os.close(2)) as process:
        server = Server(process, tmp_path / "log").open()
        server.call(1, "echo", text="x")
        assert server.receive()["result"]["content"][0]["text"] == "x"
        server.end_input()
        assert server.expect_end() == []


@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1), (0, 1, 2), (1, 2)])
def test_without_stdin_or_stdout_there_is_no_server(
    closed: tuple[int, ...], gateway: GatewayProcess, tmp_path: Path
) -> None:
    """A server that nobody can talk to refuses to start, and says so where it can; never on stdout."""

    def close() -> None:
        for number in closed:
            os.close(number)

    with spawn(build_environment(gateway, tmp_path), tmp_path / "log", preexec_fn=close) as process:
        assert process.wait(15) == 78
        assert process.stdout is not None
        assert process.stdout.read() == b""
        log = (tmp_path / "log").read_text()
        assert log == "" if 2 in closed else "must be open" in log


def test_a_log_that_nobody_reads_holds_nothing_up(gateway: GatewayProcess, tmp_path: Path) -> None:
    """A full stderr loses lines of the log, and neither calls nor the end wait for its reader."""
    read_log, write_log = os.pipe()
    fcntl.fcntl(write_log, fcntl.F_SETPIPE_SZ, 4096)
    environment = build_environment(gateway, tmp_path, log_level="debug", log_jsonrpc=True)
    with open(read_log, "rb"), spawn(environment, tmp_path / "log", stderr=write_log) as process:
        os.close(write_log)
        server = Server(process, tmp_path / "log").open()
        for number in range(20):
            server.call(number, "echo", text="x" * 2000)
            assert select.select([process.stdout], [], [], 15)[0]
            assert server.receive()["id"] == number
        poll(server, gateway)
        process.terminate()
        assert process.wait(SOON) == 0
