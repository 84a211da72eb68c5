"""Where the time goes: of a start by import, of a call and of a list by function.

The bridge is run as it is: the start under the interpreter's own `-X importtime`, the rest under `bench.tracer`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench import floors, stdio
from bench.figures import align
from bench.hosted import Visitor, open_relay
from bench.session import Session, open_session, to_call
from bench.tracer import Row

if TYPE_CHECKING:
    from bench.child import Child
    from bench.place import Place
    from bench.upstream import Upstream

_IMPORT = re.compile(r"^import time:\s+(\d+) \|\s+(\d+) \| (\s*)(\S+)$", re.MULTILINE)
_WAITS = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)
_WAITING = {"lock.acquire", "RLock.acquire", "read", "poll.poll", "socket.recv_into", "socket.recv", "SimpleQueue.get"}
_SHOWN = 25
_RUNS = 300
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of the start: milliseconds since the spawn, and how far the interpreter had told its imports."""

    name: str
    milliseconds: float
    told: int


@dataclass(frozen=True, slots=True)
class Use:
    """Nanoseconds of CPU time of a process, and how often one of its threads gave up its core to wait."""

    cpu: int
    waits: int

    def __sub__(self, before: Use) -> Use:
        return Use(self.cpu - before.cpu, self.waits - before.waits)


@dataclass(frozen=True, slots=True)
class Tracing:
    """The two pipes to a traced bridge."""

    commands: int
    reports: Iterator[str]

    def take(self) -> list[Row]:
        """What the bridge did since the last time."""
        os.write(self.commands, b".")
        return [Row(*row) for row in json.loads(next(self.reports))]


def profile_start(place: Place, upstream: Upstream) -> str:
    """The imports before the first answer, and those between it and the first list."""
    bare = min(floors.measure_start(place) for _ in range(10)) * 1e3
    with open_session(place, upstream, options=("-X", "importtime", "-m", "colabhive_mcp")) as session:
        moments = [_to_moment(session, "spawn")]
        session.initialize()
        moments.append(_to_moment(session, "initialize answered"))
        session.confirm()
        session.list_tools()
        moments.append(_to_moment(session, "tools/list answered"))
        told = session.child.read_errors(limit=1 << 24)
    parts = [f"python -c pass: {bare:.1f} ms; under -X importtime every start is slower than it is alone"]
    for before, after in itertools.pairwise(moments):
        found = _IMPORT.findall(told[before.told : after.told])
        took = sum(int(own) for own, *_ in found) / 1e3
        parts.append(
            f"\n{after.name} at {after.milliseconds:.1f} ms; {len(found)} imports since then took {took:.1f} ms"
        )
        parts.append(_to_import_table(found))
    return "\n".join(parts)


def profile_call(place: Place, upstream: Upstream) -> str:
    """The time of a call that the gateway answers at once."""
    return _profile_request(place, upstream, lambda session: session.call(stdio.INSTANT).seconds)


def profile_list(place: Place, upstream: Upstream) -> str:
    """The time of a list that is already made."""
    return _profile_request(place, upstream, lambda session: session.list_tools().seconds)


def profile_relay_call(place: Place, upstream: Upstream) -> str:
    """The time of a call over HTTP that the gateway answers at once."""
    return _profile_visit(place, upstream, lambda visitor: visitor.ask("tools/call", to_call(stdio.INSTANT)))


def profile_relay_list(place: Place, upstream: Upstream) -> str:
    """The time of a list over HTTP that is already made."""
    return _profile_visit(place, upstream, lambda visitor: visitor.ask("tools/list"))


PROFILES: Mapping[str, Callable[[Place, Upstream], str]] = {
    "start": profile_start,
    "list": profile_list,
    "call": profile_call,
    "relay-list": profile_relay_list,
    "relay-call": profile_relay_call,
}
"""The profiles by the name that `--profile` takes."""


def _profile_request(place: Place, upstream: Upstream, ask: Callable[[Session], float]) -> str:
    with stdio.open_ready(place, upstream) as session:
        alone, use = _measure_use(session.child, lambda: ask(session))
    with open_traced(place, upstream) as (session, tracing):
        traced, rows = _trace(tracing, lambda: ask(session))
    return _tell(alone, use, traced, rows)


def _profile_visit(place: Place, upstream: Upstream, ask: Callable[[Visitor], float]) -> str:
    with open_relay(place, upstream) as relay, Visitor(relay.port) as visitor:
        alone, use = _measure_use(relay.child, lambda: ask(visitor))
    with open_pipes() as (options, fds, tracing), open_relay(place, upstream, options=options, pass_fds=fds) as relay:
        for fd in fds:
            os.close(fd)
        with Visitor(relay.port) as visitor:
            traced, rows = _trace(tracing, lambda: ask(visitor))
    return _tell(alone, use, traced, rows)


def _measure_use(child: Child, ask: Callable[[], float]) -> tuple[float, Use]:
    """Milliseconds of a request, and what all of them use."""
    alone = _to_median(ask)
    before = _read_use(child)
    _to_median(ask)
    return alone, _read_use(child) - before


def _trace(tracing: Tracing, ask: Callable[[], float]) -> tuple[float, list[Row]]:
    """Milliseconds of a traced request, and what all of them did."""
    _to_median(ask, pause=_PAUSE_SECONDS)
    tracing.take()
    return _to_median(ask, pause=_PAUSE_SECONDS), tracing.take()


def _tell(alone: float, use: Use, traced: float, rows: list[Row]) -> str:
    head = (
        f"a median request takes {alone:.2f} ms, for {use.cpu / _RUNS / 1e3:.0f} µs of CPU time in the bridge, whose "
        f"threads wait {use.waits / _RUNS:.1f} times\n"
        f"below: microseconds a request, traced, where it takes {traced:.2f} ms; shares say more than sizes\n"
    )
    working = [row for row in rows if not is_waiting(row)]
    return f"{head}\n{_to_group_table(working)}\n\n{_to_function_table(rows)}"


def _to_median(ask: Callable[[], float], *, pause: float = 0) -> float:
    """Milliseconds of a request, of many.

    With a pause the threads that are slow by being traced come to rest before the next request, instead of waiting for
    each other.
    """
    taken = []
    for _ in range(_RUNS):
        taken.append(ask())
        time.sleep(pause)
    return statistics.median(taken) * 1e3


def is_waiting(row: Row) -> bool:
    return row.in_c and row.name in _WAITING


@contextmanager
def open_traced(place: Place, upstream: Upstream) -> Iterator[tuple[Session, Tracing]]:
    """A ready bridge under the tracer, and the pipes to it."""
    with (
        open_pipes() as (options, fds, tracing),
        open_session(place, upstream, options=options, pass_fds=fds) as session,
    ):
        for fd in fds:
            os.close(fd)
        session.get_ready(stdio.INSTANT)
        yield session, tracing


@contextmanager
def open_pipes() -> Iterator[tuple[tuple[str, ...], tuple[int, ...], Tracing]]:
    """What starts a bridge under the tracer, the ends of the pipes that are the bridge's, and ours.

    Theirs are to be closed here once it has started.
    """
    their_commands, commands = os.pipe()
    reports, their_reports = os.pipe()
    options = ("-m", "bench.tracer", str(their_commands), str(their_reports), "colabhive_mcp")
    with os.fdopen(reports) as told, os.fdopen(commands, "wb"):
        yield options, (their_commands, their_reports), Tracing(commands, told)


def _read_use(child: Child) -> Use:
    """What the threads that the bridge has came to so far."""
    tasks = list(Path(f"/proc/{child.process.pid}/task").iterdir())
    cpu = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
    waits = sum(int(_WAITS.findall((task / "status").read_text())[0]) for task in tasks)
    return Use(cpu, waits)


def _to_moment(session: Session, name: str) -> Moment:
    told = session.child.size_of_errors()
    return Moment(name, (time.perf_counter() - session.child.started) * 1e3, told)


def _to_import_table(found: Iterable[tuple[str, str, str, str]]) -> str:
    dearest = sorted(found, key=lambda each: -int(each[0]))[:_SHOWN]
    rows = [(f"{int(own):,}", f"{int(total):,}", name) for own, total, _, name in dearest]
    return align([("own µs", "with its own", "module"), *rows], right={0, 1})


def _to_group_table(rows: Sequence[Row]) -> str:
    groups: dict[str, int] = defaultdict(int)
    for row in rows:
        groups[to_group(row.file)] += row.own
    total = sum(groups.values()) or 1
    ordered = sorted(groups.items(), key=lambda item: -item[1])
    lines = [(_to_microseconds(own), f"{own / total:.0%}", name) for name, own in ordered if own * 200 > total]
    return align([("own", "share", "package"), *lines, (_to_microseconds(total), "", "all")], right={0, 1})


def _to_function_table(rows: Sequence[Row]) -> str:
    merged: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in rows:
        entry = merged["C" if row.in_c else to_group(row.file), row.name]
        for place, value in enumerate((row.own, row.total, row.calls)):
            entry[place] += value
    dearest = sorted(merged.items(), key=lambda item: -item[1][0])[:_SHOWN]
    lines = [
        (_to_microseconds(own), _to_microseconds(total), f"{calls / _RUNS:.1f}", group, name)
        for (group, name), (own, total, calls) in dearest
    ]
    return align([("own", "total", "calls", "package", "function"), *lines], right={0, 1, 2})


def to_group(file: str) -> str:
    """The package that a source file is of; of the bridge itself, its room."""
    parts = Path(file).with_suffix("").parts
    if "colabhive_mcp" in parts:
        return ".".join(parts[parts.index("colabhive_mcp") :][:3])
    if "site-packages" in parts:
        return parts[parts.index("site-packages") + 1]
    if any(part.startswith("python3") for part in parts):
        return parts[-1] if parts[-2].startswith("python3") else parts[-2]
    return file


def _to_microseconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e3 / _RUNS:.1f}"
