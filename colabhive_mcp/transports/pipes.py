"""Bytes over pipes: lines in, lines out. It knows file descriptors and framing, and nothing of what a line says.

A line ends at byte 0x0A and nowhere else; what comes out is whole lines, one after the other.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Callable, Iterator
from threading import Condition, Lock, Thread

CHUNK = 256 * 1024


class TooLong:
    """A line over the limit; it was read to its end and not kept."""


def read_lines(descriptor: int, *, limit: int) -> Iterator[bytes | TooLong]:
    """Each line without its end, blank ones left out, until the end of input; the last one needs no line end.

    A line of more than *limit* bytes is skipped without being kept, and told as TooLong.
    """
    parts: list[bytes] = []
    size = 0
    while chunk := _read(descriptor):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield from _finish(parts, end, size, limit)
            parts, size = [], 0
        size += len(rest)
        if size <= limit:
            parts.append(rest)
        else:
            parts = []
    yield from _finish(parts, b"", size, limit)


def _read(descriptor: int) -> bytes:
    """The next bytes; none at the end of input, to which a connection that was reset has come too."""
    while True:
        try:
            return os.read(descriptor, CHUNK)
        except BlockingIOError:  # the client made the pipe non-blocking
            select.select([descriptor], [], [])
        except OSError:
            return b""


def _finish(parts: list[bytes], end: bytes, size: int, limit: int) -> Iterator[bytes | TooLong]:
    if size + len(end) > limit:
        yield TooLong()
        return
    line = b"".join((*parts, end)).strip(b" \t\r\n")
    if line and line != b"\xef\xbb\xbf":
        yield line


def _always() -> bool:
    return True


class LineWriter:
    """Writes whole lines to one descriptor, from any thread.

    ``send`` waits for a slow reader, which is how a worker is held back; ``post`` never waits, for the thread that
    must go on reading. *on_closed* is called once, when the reader has gone; what is written after that is dropped.
    """

    def __init__(self, descriptor: int, *, on_closed: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_closed = on_closed
        self._lock = Lock()
        self._closed = False
        self._posted: deque[bytes] = deque()
        self._posting = Condition()
        self._busy = False

    def send(self, line: bytes, wanted: Callable[[], bool] = _always) -> bool:
        """Write *line* and its end, if it is still *wanted* when its turn has come; answers whether it was written."""
        with self._lock:
            if self._closed or not wanted():
                return False
            try:
                self._write(line)
            except OSError:
                self._closed = True
            else:
                return True
        self._on_closed()
        return False

    def post(self, line: bytes) -> None:
        """Have *line* written, after those posted before: at once where that can't wait, else soon."""
        if len(line) < select.PIPE_BUF and not self._posted and self._send_at_once(line):
            return
        with self._posting:
            self._posted.append(line)
            if not self._busy:
                self._busy = True
                Thread(target=self._send_posted, name="writer", daemon=True).start()
            self._posting.notify_all()

    def _send_at_once(self, line: bytes) -> bool:
        """Write a short line where nobody writes and the pipe has room: POSIX, a write up to PIPE_BUF is whole then."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            has_room = select.select([], [self._descriptor], [], 0)[1]
            if has_room and not self._closed:
                self._write(line)
            return bool(has_room)
        except OSError:
            return False  # the one who posts it will find the same, and say so
        finally:
            self._lock.release()

    def flush(self, timeout: float) -> None:
        """Wait until what was posted is written, *timeout* seconds at the longest."""
        with self._posting:
            self._posting.wait_for(lambda: not self._posted, timeout)

    def _send_posted(self) -> None:
        while True:
            with self._posting:
                self._posting.wait_for(lambda: self._posted)
                line = self._posted[0]
            self.send(line)
            with self._posting:
                self._posted.popleft()
                self._posting.notify_all()

    def _write(self, line: bytes) -> None:
        """All of it, whatever a single write takes; small lines in one piece, large ones without a copy."""
        pending = [memoryview(line), memoryview(b"\n")]
        while pending:
            try:
                written = os.writev(self._descriptor, pending)
            except BlockingIOError:  # the client made the pipe non-blocking
                select.select([], [self._descriptor], [])
                continue
            while pending and written >= len(pending[0]):
                written -= len(pending.pop(0))
            if pending:
                pending[0] = pending[0][written:]
