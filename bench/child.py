"""A child process that is spoken to in lines of bytes over its pipes.

It owns the clock of every figure: a line is timed from before it is written to the arrival of the last byte of its
answer. It knows nothing of what the lines say.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, Self

PATIENCE_SECONDS = 30.0
_CHUNK_BYTES = 1 << 20


class ChildError(Exception):
    """The child went away, said nothing for too long, or did not end well."""


class Child:
    """One running child, in the home folder of its environment.

    `started` is the clock just before it was made. What it writes to stderr is kept in a file.
    """

    def __init__(self, command: list[str], *, env: dict[str, str], pass_fds: tuple[int, ...] = ()) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it is open as long as the child
        self._pending: list[bytes] = []
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=env,
            cwd=env["HOME"],
            pass_fds=pass_fds,
            bufsize=0,
        )
        assert self.process.stdin
        assert self.process.stdout
        self._stdin = self.process.stdin
        self._output = self.process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN | select.POLLHUP)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        """Write these bytes whole; the caller ends each line."""
        view = memoryview(data)
        while view:
            view = view[self._stdin.write(view) or 0 :]

    def receive(self, *, until: float | None = None) -> tuple[bytes, float] | None:
        """Read one line, and the clock at its last byte; None when `until` (on that clock) comes first."""
        limit = time.perf_counter() + PATIENCE_SECONDS if until is None else until
        while True:
            if self._pending and b"\n" in self._pending[-1]:
                arrived = time.perf_counter()
                return self._take_line(), arrived
            if not self._poll.poll(max(0.0, limit - time.perf_counter()) * 1000):
                if until is None:
                    raise ChildError(f"no answer in {PATIENCE_SECONDS:.0f} s; {self.read_errors()}")
                return None
            if not (chunk := os.read(self._output, _CHUNK_BYTES)):
                raise ChildError(f"it closed its output; {self.read_errors()}")
            self._pending.append(chunk)

    def exchange(self, data: bytes) -> tuple[bytes, float]:
        """Write a line and read one; the line and the seconds between."""
        begun = time.perf_counter()
        self.send(data)
        received = self.receive()
        assert received
        return received[0], received[1] - begun

    def read_memory(self, field: str = "VmRSS") -> int:
        """A memory figure of the kernel's about this process, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(f"{field}:"))
        return int(line.split()[1]) * 1024

    def read_cpu(self) -> float:
        """Seconds of CPU time that it has taken so far, all its threads together."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime, fields 14 and 15

    def read_errors(self, *, limit: int = 600) -> str:
        """The end of what it wrote to stderr, at most this many bytes. Its own place in the file is left alone."""
        size = self.size_of_errors()
        told = os.pread(self._errors.fileno(), limit, max(0, size - limit))
        return told.decode(errors="replace").strip() or "nothing on stderr"

    def size_of_errors(self) -> int:
        return os.fstat(self._errors.fileno()).st_size

    def close(self) -> int:
        """End its input, wait for it, and give its exit code; one that stays is killed."""
        self._stdin.close()
        try:
            return self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            assert self.process.stdout
            self.process.stdout.close()
            self._errors.close()

    def _take_line(self) -> bytes:
        line, _, rest = b"".join(self._pending).partition(b"\n")
        self._pending = [rest] if rest else []
        return line
