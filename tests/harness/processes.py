"""Server processes as bare as a client's own: their pipes, signals, exit codes and memory."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from typing import Any

from tests.harness.gateway import GatewayProcess

COMMAND = (sys.executable, "-m", "colabhive_mcp")
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"tests","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


def build_environment(gateway: GatewayProcess | str, home: Path, **settings: Any) -> dict[str, str]:
    """What a client gives: PATH, HOME, the gateway (or its URL) with the key, and *settings*."""
    url, key = (gateway, "hive_0123456789") if isinstance(gateway, str) else (gateway.url, gateway.key)
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "COLABHIVE_API_URL": url, "COLABHIVE_API_KEY": key}
    return own | {f"COLABHIVE_{name.upper()}": str(value) for name, value in settings.items()}


@contextmanager
def spawn(environment: Mapping[str, str], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A server with pipes for stdin and stdout and *log* for stderr; *options* are Popen's. Never left behind."""
    with log.open("wb") as stderr:
        given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr, **options}
        process = subprocess.Popen(COMMAND, env=environment, cwd="/", **given)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            with suppress(BrokenPipeError):
                pipe.close()


def wait_until(condition: Callable[[], bool], timeout: float = 15.0) -> None:
    """Look again and again, up to *timeout* seconds."""
    pause = threading.Event()
    for _ in range(int(timeout / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it has not come true in time")


def count_waiting(descriptor: int) -> int:
    """The bytes that can be read at once."""
    return int.from_bytes(ioctl(descriptor, termios.FIONREAD, bytes(4)), "little")


def wait_for_end(pid: int, timeout: float) -> bool:
    """Whether the process, which may be nobody's child any more, ends within *timeout* seconds."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], timeout)[0])
    finally:
        os.close(descriptor)


def read_peak(pid: int) -> int:
    """The most memory that the process has had at a time, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
