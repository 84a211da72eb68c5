"""The processes of ours that a client meets: the gateway and the relay. Each prints where it listens.

Owns how they are started, found and stopped. What is asked of them is none of its business.
"""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
SERVER = (sys.executable, "-m", "colabhive_mcp")
# Manifests are read again soon, so that a change of the tools is noticed soon.
SETTINGS = {"COLABHIVE_MANIFEST_TTL": "1"}
_START_LIMIT = 20.0
_STOP_LIMIT = 10.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


class ServerError(Exception):
    """A process of ours did not start, or did not end as it should."""


class Listening:
    """A process that prints where it listens; its standard error goes to `log`, which later ones continue."""

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str], log: Path) -> None:
        self._command = command
        self._environment = {**_build_environment(), **environment}
        self._log = log
        self._process: subprocess.Popen[str]

    def start(self, *options: str) -> str:
        """Start it; the address that it prints. Raises `ServerError` when it prints none in time."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                start_new_session=True,
            )
        try:
            return self._read_address()
        except ServerError:
            self._kill()
            raise

    def stop(self) -> None:
        """End it as an operator does. Raises `ServerError` when that takes too long or goes wrong."""
        self._process.terminate()
        try:
            code = self._process.wait(_STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self._kill()
            raise ServerError(f"a server had not ended {_STOP_LIMIT:.0f} s after SIGTERM: see {self._log}") from None
        if code:
            raise ServerError(f"a server ended with exit code {code}: see {self._log}")

    def _kill(self) -> None:
        """End it and whatever it has started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read_address(self) -> str:
        lines: queue.Queue[str] = queue.Queue()
        assert self._process.stdout is not None
        threading.Thread(target=_drain, args=[self._process.stdout, lines], daemon=True).start()
        deadline = time.monotonic() + _START_LIMIT
        while line := _next_line(lines, deadline):
            if found := _ADDRESS.search(line):
                return found[0]
        raise ServerError(f"a server ended, or printed no address in {_START_LIMIT:.0f} s: see {self._log}")


class Relay:
    """A relay of one client's own. `watch` is the command that each of its processes runs under."""

    def __init__(self, gateway: str, *, watch: Sequence[str], log: Path) -> None:
        settings = {
            "COLABHIVE_API_URL": gateway,
            "COLABHIVE_LOG_LEVEL": "debug",
            "COLABHIVE_LOG_FORMAT": "json",
            "COLABHIVE_TRUSTED_PROXY": "127.0.0.1",
            **SETTINGS,
        }
        self._server = Listening((*watch, *SERVER, "serve"), environment=settings, log=log)
        self.address = self._server.start("--port", "0")

    def stop(self) -> None:
        """End it. Raises `ServerError`."""
        self._server.stop()

    def restart(self) -> None:
        """End it, and start it where clients know it to be. Raises `ServerError`."""
        self.stop()
        self._server.start("--port", self.address.rpartition(":")[2])


def _build_environment() -> dict[str, str]:
    """This process's environment, without any settings of the user's own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COLABHIVE_")}


@contextmanager
def open_gateway(folder: Path, key: str) -> Iterator[str]:
    """A gateway with its database in `folder`: its address. Raises `ServerError` when it doesn't come up or down."""
    command = (*SERVER, "gateway", "--port", "0", "--db", str(folder / "gateway.db"))
    gateway = Listening(command, environment={"COLABHIVE_GATEWAY_KEY": key}, log=folder / "gateway.log")
    address = gateway.start()
    try:
        yield address
    finally:
        gateway.stop()


def _next_line(lines: "queue.Queue[str]", deadline: float) -> str:
    try:
        return lines.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        return ""


def _drain(stream: IO[str], lines: "queue.Queue[str]") -> None:
    """Keep the pipe empty for as long as the process lives; an empty string marks its end."""
    with stream:
        for line in stream:
            lines.put(line)
    lines.put("")
