"""Runs one server and writes down that it began and how it ended: two JSON lines a process, appended to the record.

Owns nothing of the session: standard input, output and error are the server's own. A signal sent to this process is
passed on, so that a client can stop the server as if it were its own child. Must not import anything but the
standard library: it runs without a site directory, to add as little as it can to the server's start.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

_HANG_UP = select.POLLHUP | getattr(select, "POLLRDHUP", 0)


def run_watched(record: Path, command: list[str]) -> int:
    """Run `command` to its end: `{pid}` is appended to `record`, then `{pid, code, hung_up, signalled, exited}`.

    The times are seconds of one clock; `hung_up` and `signalled` are empty lists where that never happened.
    """
    received: dict[int, float] = {}
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int, _frame: FrameType | None) -> None:
        received.setdefault(number, time.monotonic())
        if child is not None:
            child.send_signal(number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, forward)
    hung_up: list[float] = []
    _append(record, {"pid": os.getpid()})
    child = subprocess.Popen(command)
    for number in list(received):
        child.send_signal(number)
    threading.Thread(target=_watch_input, args=[hung_up], daemon=True).start()
    code = child.wait()
    end = {"code": code, "hung_up": hung_up, "signalled": list(received.values()), "exited": time.monotonic()}
    _append(record, {"pid": os.getpid(), **end})
    return code if code >= 0 else 128 - code


def _watch_input(hung_up: list[float]) -> None:
    """Note when the client lets go of the server's input. Polling reads nothing of it."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), _HANG_UP)
    while not hung_up:
        if any(mask & _HANG_UP for _, mask in poll.poll()):
            hung_up.append(time.monotonic())


def _append(record: Path, line: dict[str, object]) -> None:
    """One write: several servers of one client share the record."""
    handle = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, (json.dumps(line) + "\n").encode())
    finally:
        os.close(handle)


if __name__ == "__main__":
    sys.exit(run_watched(Path(sys.argv[1]), sys.argv[2:]))
