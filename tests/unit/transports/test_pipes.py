"""Lines over real pipes: where one ends, how large it may be, and what a slow or closed reader does to the writer."""

import fcntl
import gc
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabhive_mcp.transports.pipes import CHUNK, LineWriter, TooLong, read_lines

PATIENCE = 10.0
MIB = 1024 * 1024
BOM = b"\xef\xbb\xbf"


class Pipe:
    """Both ends of a pipe; each is closed once."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self._open = {self.reader, self.writer}

    def close(self, *ends: int) -> None:
        """Close these ends, or all that are still open."""
        for end in ends or tuple(self._open):
            if end in self._open:
                self._open.remove(end)
                os.close(end)

    def feed(self, *pieces: bytes, ends: bool = True) -> threading.Thread:
        """Write *pieces* one after the other, and end."""

        def work() -> None:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[os.write(self.writer, view) :]
            if ends:
                self.close(self.writer)

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def drain(self) -> bytes:
        """All that comes until the end."""
        parts = []
        while part := os.read(self.reader, MIB):
            parts.append(part)
        return b"".join(parts)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe that is closed at the end of the test."""
    with ExitStack() as stack:
        made = Pipe()
        stack.callback(made.close)
        yield made


def read(pieces: list[bytes], limit: int = MIB) -> list[Any]:
    """The lines in *pieces*, a line that was too long as None."""
    pipe = Pipe()
    feeder = pipe.feed(*pieces)
    try:
        return [None if isinstance(line, TooLong) else line for line in read_lines(pipe.reader, limit=limit)]
    finally:
        feeder.join(PATIENCE)
        pipe.close()


# Reading


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\n", [b"a"]),
        (b"a", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\n\n\r\n \t\n", []),
        (b" a \n", [b"a"]),
        (BOM + b"a\n", [BOM + b"a"]),
        (BOM + b"\n" + BOM + b"\r\n" + BOM + b" \na\n" + BOM, [b"a"]),
        (b"a\rb\n", [b"a\rb"]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode(), ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg".encode()]),
        (b"\xff\xfe\x00\n", [b"\xff\xfe\x00"]),
        (b"\x00\n", [b"\x00"]),
    ],
)
def test_lines(data: bytes, lines: list[bytes]) -> None:
    """A line ends at byte 0x0A and nowhere else; blank ones and lone byte order marks are none."""
    assert read([data]) == lines


@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(st.binary(max_size=6) | st.sampled_from([b"\n", b"a\nb", b"\r\n"]), max_size=12))
def test_lines_however_they_come(pieces: list[bytes]) -> None:
    """How the bytes are cut up on their way makes no difference."""
    assert read(pieces) == read([b"".join(pieces)])


def test_a_line_of_eight_megabytes() -> None:
    """A large line within the limit is whole, and so is the one behind it."""
    large = os.urandom(8 * MIB).replace(b"\n", b".").replace(b"\r", b".").strip() + b"."
    assert read([large, b"\nnext\n"], limit=9 * MIB) == [large, b"next"]


@pytest.mark.parametrize("limit", [1, 10, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_the_limit_is_exact(limit: int) -> None:
    """A line of exactly the limit is served, one of a byte more is told as too long, and the next one is served."""
    fits, over = b"x" * limit, b"x" * (limit + 1)
    assert read([fits, b"\n", over, b"\n", b"y\n"], limit) == [fits, None, b"y"]
    assert read([fits], limit) == [fits]
    assert read([over], limit) == [None]
    assert read([over, b"\n\n", over, b"\nz"], limit) == [None, None, b"z"]


def test_a_line_over_the_limit_is_not_kept(pipe: Pipe) -> None:
    """However long a line over the limit is, skipping it takes no memory."""
    chunk = b"x" * MIB
    feeder = pipe.feed(*[chunk] * 40, b"\nnext\n")
    gc.collect()
    tracemalloc.start()
    try:
        lines = list(read_lines(pipe.reader, limit=MIB))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    feeder.join(PATIENCE)
    assert isinstance(lines[0], TooLong)
    assert lines[1:] == [b"next"]
    assert peak < 4 * MIB


def test_a_pipe_that_does_not_block(pipe: Pipe) -> None:
    """A pipe that the client made non-blocking is waited on like any other."""
    flags = fcntl.fcntl(pipe.reader, fcntl.F_GETFL)
    fcntl.fcntl(pipe.reader, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    lines = read_lines(pipe.reader, limit=MIB)
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(next(lines)))
    waiting.start()
    feeder = pipe.feed(b"a\nb\n")
    waiting.join(PATIENCE)
    feeder.join(PATIENCE)
    assert got + list(lines) == [b"a", b"b"]


def test_lines_come_as_they_are_there(pipe: Pipe) -> None:
    """A line is served as soon as it has ended, and not when more has come."""
    lines = read_lines(pipe.reader, limit=MIB)
    pipe.feed(b"a\n", ends=False).join(PATIENCE)
    assert next(lines) == b"a"
    pipe.feed(b"b\nc", ends=False).join(PATIENCE)
    assert next(lines) == b"b"
    pipe.feed(b"\n").join(PATIENCE)
    assert list(lines) == [b"c"]


# Writing


def never() -> None:
    """What is called when the reader has gone, where it must not."""
    raise AssertionError("the reader is there")


def collect(pipe: Pipe, into: list[bytes]) -> threading.Thread:
    """Read to the end in the background."""
    thread = threading.Thread(target=lambda: into.append(pipe.drain()))
    thread.start()
    return thread


@pytest.mark.parametrize("line", [b"", b"a", b"x" * 100_000, "é\u2028".encode(), b"x" * (8 * MIB)])
def test_a_line_is_whole(pipe: Pipe, line: bytes) -> None:
    """A line of any size arrives with its end."""
    got: list[bytes] = []
    reader = collect(pipe, got)
    LineWriter(pipe.writer, on_closed=never).send(line)
    pipe.close(pipe.writer)
    reader.join(PATIENCE)
    assert got == [line + b"\n"]


@pytest.mark.parametrize("blocking", [True, False])
def test_many_threads_write_whole_lines(pipe: Pipe, blocking: bool) -> None:
    """Lines that many threads send and post at once arrive whole, each once, and those of one thread in their order."""
    if not blocking:
        flags = fcntl.fcntl(pipe.writer, fcntl.F_GETFL)
        fcntl.fcntl(pipe.writer, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    writer = LineWriter(pipe.writer, on_closed=never)
    got: list[bytes] = []
    reader = collect(pipe, got)
    sizes = (1, 50, 70_000)

    def work(name: int) -> None:
        for turn in range(30):
            send = writer.post if name % 4 == 0 else writer.send
            send(b"%d:%d:" % (name, turn) + b"x" * sizes[turn % 3])

    threads = [threading.Thread(target=work, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    writer.flush(PATIENCE)
    pipe.close(pipe.writer)
    reader.join(PATIENCE)
    turns: dict[int, list[int]] = {name: [] for name in range(16)}
    for line in got[0].splitlines():
        name, turn, filler = line.split(b":")
        assert filler == b"x" * sizes[int(turn) % 3]
        turns[int(name)].append(int(turn))
    assert all(order == list(range(30)) for order in turns.values())


def is_set_soon(condition: Callable[[], bool]) -> bool:
    """Whether *condition* holds before patience ends."""
    bell = threading.Event()
    for _ in range(int(PATIENCE * 100)):
        if condition():
            return True
        bell.wait(0.01)
    return False


def test_posting_never_waits(pipe: Pipe) -> None:
    """While a slow reader holds a sender back, posting returns at once, and all of it arrives."""
    writer = LineWriter(pipe.writer, on_closed=never)
    large = b"L" * (4 * MIB)
    sender = threading.Thread(target=writer.send, args=(large,))
    sender.start()
    assert is_set_soon(writer._lock.locked)
    for turn in range(1000):
        writer.post(b"%d" % turn)
    assert sender.is_alive()
    writer.flush(0.01)
    got: list[bytes] = []
    reader = collect(pipe, got)
    sender.join(PATIENCE)
    writer.flush(PATIENCE)
    pipe.close(pipe.writer)
    reader.join(PATIENCE)
    assert got[0] == b"\n".join([large, *(b"%d" % turn for turn in range(1000)), b""])


def test_short_lines_are_posted_at_once(pipe: Pipe) -> None:
    """Where nobody writes and there is room, a short line is there when posting it returns."""
    writer = LineWriter(pipe.writer, on_closed=never)
    for turn in range(3):
        writer.post(b"%d" % turn)
    assert os.read(pipe.reader, 100) == b"0\n1\n2\n"


def test_posting_to_a_full_pipe(pipe: Pipe) -> None:
    """Where there is no room a short line waits for it in its turn, while posting returns at once."""
    writer = LineWriter(pipe.writer, on_closed=never)
    lines = [b"%04d" % turn + b"x" * 3000 for turn in range(100)]
    for line in lines:
        writer.post(line)
    got: list[bytes] = []
    reader = collect(pipe, got)
    writer.flush(PATIENCE)
    pipe.close(pipe.writer)
    reader.join(PATIENCE)
    assert got[0].splitlines() == lines


def test_only_what_is_still_wanted_is_written(pipe: Pipe) -> None:
    """Whether a line is wanted is asked when its turn has come, and not when it was sent."""
    writer = LineWriter(pipe.writer, on_closed=never)
    assert writer.send(b"a", lambda: True) is True
    assert writer.send(b"b", lambda: False) is False
    first = threading.Thread(target=writer.send, args=(b"L" * (4 * MIB),))
    first.start()
    assert is_set_soon(writer._lock.locked)
    cancelled = threading.Event()
    answers: list[bool] = []
    second = threading.Thread(target=lambda: answers.append(writer.send(b"c", lambda: not cancelled.is_set())))
    second.start()
    cancelled.set()
    got: list[bytes] = []
    reader = collect(pipe, got)
    for thread in (first, second):
        thread.join(PATIENCE)
    pipe.close(pipe.writer)
    reader.join(PATIENCE)
    assert answers == [False]
    assert got[0].split(b"\n")[0] == b"a"
    assert {len(line) for line in got[0].split(b"\n")} == {0, 1, 4 * MIB}
    assert b"b" not in got[0]
    assert b"c" not in got[0]


def test_flushing_nothing_is_over_at_once(pipe: Pipe) -> None:
    """Where nothing was posted there is nothing to wait for."""
    LineWriter(pipe.writer, on_closed=never).flush(PATIENCE)


def test_a_slow_reader_gets_all(pipe: Pipe) -> None:
    """A reader that takes a little at a time gets a large line whole."""
    writer = LineWriter(pipe.writer, on_closed=never)
    line = os.urandom(MIB).replace(b"\n", b".")

    def work() -> None:
        writer.send(line)
        pipe.close(pipe.writer)

    sender = threading.Thread(target=work)
    sender.start()
    parts = []
    while part := os.read(pipe.reader, 1024):
        parts.append(part)
    sender.join(PATIENCE)
    assert b"".join(parts) == line + b"\n"


@pytest.mark.parametrize("how", ["send", "post"])
def test_a_closed_reader_is_told_once(pipe: Pipe, how: str) -> None:
    """When the reader has gone that is told once, and whatever is written after it is dropped in silence."""
    closed: list[int] = []
    writer = LineWriter(pipe.writer, on_closed=lambda: closed.append(1))
    pipe.close(pipe.reader)
    threads = [threading.Thread(target=getattr(writer, how), args=(b"x" * 1000,)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    writer.flush(PATIENCE)
    assert closed == [1]
    assert writer.send(b"y") is False
    writer.post(b"z")
    writer.flush(PATIENCE)
    assert closed == [1]


def test_a_reader_that_goes_while_a_line_is_written(pipe: Pipe) -> None:
    """A sender that is held back is let go when the reader closes its end."""
    closed = threading.Event()
    writer = LineWriter(pipe.writer, on_closed=closed.set)
    sender = threading.Thread(target=writer.send, args=(b"x" * (4 * MIB),))
    sender.start()
    assert os.read(pipe.reader, 10) == b"x" * 10
    pipe.close(pipe.reader)
    sender.join(PATIENCE)
    assert closed.is_set()
    assert not sender.is_alive()


def test_who_is_told_may_write(pipe: Pipe) -> None:
    """What is called when the reader has gone may itself write, and is not locked out for ever."""
    calls: list[int] = []

    def on_closed() -> None:
        calls.append(1)
        writer.send(b"bye")
        writer.post(b"bye")

    writer = LineWriter(pipe.writer, on_closed=on_closed)
    pipe.close(pipe.reader)
    sender = threading.Thread(target=writer.send, args=(b"x",), daemon=True)
    sender.start()
    sender.join(PATIENCE)
    assert not sender.is_alive()
    assert calls == [1]


def test_a_full_device_is_a_closed_reader() -> None:
    """What cannot be written for any reason is as good as a reader that has gone."""
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("there is no device that is always full")
    closed: list[int] = []
    with device.open("wb", buffering=0) as full:
        LineWriter(full.fileno(), on_closed=lambda: closed.append(1)).send(b"x")
    assert closed == [1]
