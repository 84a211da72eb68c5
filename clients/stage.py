"""The gateway process, and for each client a folder with its plan, its log and the record of its servers.

Owns processes and files of one run; a client's steps are none of its business. The key is made for the run, and only
the gateway, the server's environment and the check of the logs know it.
"""

import json
import os
import queue
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from clients.report import Step
from clients.toolchains import ROOT

_SERVER = (sys.executable, "-m", "colabhive_mcp")
_START_LIMIT = 20.0
_STOP_LIMIT = 10.0
_EXIT_LIMIT = 2.0
_PATIENCE = 1.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


class StageError(Exception):
    """The gateway did not start, or did not end as it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running gateway: its address, its key, and the folder of this run."""

    address: str
    key: str
    folder: Path

    def rehearse(self, client: str, *, mode: str, revision: str) -> "Rehearsal":
        """The place of one client's run, with its plan written."""
        folder = self.folder / client
        folder.mkdir()
        settings = folder / "settings"
        settings.mkdir()
        environment = {
            "COLABHIVE_API_URL": self.address,
            "COLABHIVE_API_KEY": self.key,
            "XDG_CONFIG_HOME": str(settings),
        }
        rehearsal = Rehearsal(folder=folder, key=self.key)
        watched = (sys.executable, "-I", "-S", str(ROOT / "clients" / "watched.py"), str(rehearsal.record))
        plan = {"command": (*watched, *_SERVER), "environment": environment, "mode": mode, "revision": revision}
        rehearsal.plan.write_text(json.dumps(plan))
        return rehearsal


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What one client needs, and what is left behind by it."""

    folder: Path
    key: str

    @property
    def plan(self) -> Path:
        """The file that tells a driver everything (`scenario.Plan`)."""
        return self.folder / "plan.json"

    @property
    def record(self) -> Path:
        """What `watched` writes of each server."""
        return self.folder / "servers.jsonl"

    @property
    def log(self) -> Path:
        """The client's standard error, and with it the servers'."""
        return self.folder / "stderr.log"

    def check_servers(self) -> Step:
        """Every server of this client ended by itself with 0, soon after the client let it go."""
        lines = self.record.read_text().splitlines() if self.record.is_file() else []
        ends = [end for end in map(json.loads, lines) if "code" in end]
        missing = len(lines) - 2 * len(ends)
        took = max((_measure_exit(end) for end in ends), default=0.0)
        codes = sorted({end["code"] for end in ends})
        killed = f", {missing} killed" if missing else ""
        note = f"{len(ends)} processes, exit codes {codes}, the slowest {took:.2f} s after it was let go{killed}"
        passed = codes == [0] and took <= _EXIT_LIMIT and not missing and not any(map(_was_forced, ends))
        return Step(name="server exit code 0 within 2 s", passed=passed, note=note)

    def check_log(self) -> Step:
        """The servers wrote no traceback, no complaint of the interpreter, no part of the key, and no mark of one."""
        text = self.log.read_text(errors="replace") if self.log.is_file() else ""
        found = [word for word in ("Traceback", "Exception ignored", "[redacted]") if word in text]
        found += ["the key"] if self.key[5:] in text else []
        note = f"found {', '.join(found)} in {self.log}" if found else ""
        return Step(name="quiet on standard error", passed=not found, note=note)


def _measure_exit(end: dict[str, Any]) -> float:
    """Seconds from the client's first sign that it is done to the server's exit."""
    signs = [*end["hung_up"], *end["signalled"]]
    return float(end["exited"] - min(signs)) if signs else 0.0


def _was_forced(end: dict[str, Any]) -> bool:
    """Whether the client lost patience: it had closed the input, and sent a signal a good while later."""
    return bool(end["hung_up"] and end["signalled"]) and min(end["signalled"]) - min(end["hung_up"]) > _PATIENCE


@contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    """A gateway of this run's own, stopped at the end. Raises `StageError` when it does not come up or down."""
    key = f"hive_{secrets.token_hex(16)}"
    command = [*_SERVER, "gateway", "--port", "0", "--db", str(folder / "gateway.db")]
    environment = _build_environment(key)
    with (folder / "gateway.log").open("wb") as log:
        gateway = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        try:
            yield Stage(address=_read_address(gateway), key=key, folder=folder)
        finally:
            _stop(gateway)


def _build_environment(key: str) -> dict[str, str]:
    """This process's environment with the gateway's key, and without any settings of the user's own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("COLABHIVE_")}
    return {**own, "COLABHIVE_GATEWAY_KEY": key}


def _read_address(gateway: "subprocess.Popen[str]") -> str:
    lines: queue.Queue[str] = queue.Queue()
    assert gateway.stdout is not None
    threading.Thread(target=_drain, args=[gateway.stdout, lines], daemon=True).start()
    while line := _next_line(lines):
        if found := _ADDRESS.search(line):
            return found[0]
    raise StageError("the gateway ended or printed no address")


def _next_line(lines: "queue.Queue[str]") -> str:
    try:
        return lines.get(timeout=_START_LIMIT)
    except queue.Empty:
        raise StageError(f"the gateway printed no address in {_START_LIMIT:.0f} s") from None


def _drain(stream: IO[str], lines: "queue.Queue[str]") -> None:
    """Keep the pipe empty for as long as the gateway lives; an empty string marks its end."""
    for line in stream:
        lines.put(line)
    lines.put("")


def _stop(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(_STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if code:
        raise StageError(f"the gateway ended with exit code {code}")
