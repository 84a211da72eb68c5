"""Runs a module as `python -m` would, and counts the time of every function in every thread.

`python -m bench.tracer COMMAND_FD REPORT_FD MODULE [ARGUMENT …]`. For each byte that comes on the first descriptor one
line of JSON goes out on the second: what was counted since the last one. What the hook takes is left out: what runs in
it by the clock, the way into it and out of it by calibration. The clock is the wall's, since that of a thread costs
more than what is to be measured; where a thread waits, that time stands under the function in which it does.
"""

from __future__ import annotations

import json
import os
import runpy
import statistics
import sys
import threading
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any, NamedTuple


class Row(NamedTuple):
    """What one function took, in nanoseconds; what is written in C stands under the file of its caller."""

    file: str
    name: str
    in_c: bool
    calls: int
    own: int
    total: int


class Count:
    """What one function took so far."""

    __slots__ = ("calls", "code", "in_c", "name", "own", "total")

    def __init__(self, code: CodeType, name: str, *, in_c: bool) -> None:
        self.code, self.name, self.in_c = code, name, in_c
        self.calls = self.own = self.total = 0

    def to_row(self) -> Row:
        return Row(self.code.co_filename, self.name, self.in_c, self.calls, self.own, self.total)


class Trace:
    """The stack and the counts of one thread. `bias` is what the clock sees between two events with nothing between."""

    def __init__(self, *, bias: int = 0) -> None:
        self._bias = bias
        self.counts: dict[Any, Count] = {}
        self._stack: list[tuple[Count, int]] = []
        self._spent = 0
        self._left = perf_counter_ns()

    def hook(self, frame: FrameType, event: str, arg: Any) -> None:
        """Charge the time since the hook was last left to the function on top, then follow the event."""
        passed = perf_counter_ns() - self._left - self._bias
        self._spent += passed
        if self._stack:
            self._stack[-1][0].own += passed
        if event == "call":
            self._enter(id(frame.f_code), frame.f_code, frame.f_code.co_qualname, in_c=False)
        elif event == "c_call":
            name = getattr(arg, "__qualname__", repr(arg))
            self._enter((id(frame.f_code), name), frame.f_code, name, in_c=True)
        elif self._stack:
            count, begun = self._stack.pop()
            count.total += self._spent - begun
        self._left = perf_counter_ns()

    def _enter(self, key: object, code: CodeType, name: str, *, in_c: bool) -> None:
        if (count := self.counts.get(key)) is None:
            count = self.counts[key] = Count(code, name, in_c=in_c)
        count.calls += 1
        self._stack.append((count, self._spent))


class Tracer:
    """The traces of all threads."""

    def __init__(self, *, bias: int) -> None:
        self._bias = bias
        self._traces: list[Trace] = []

    def start(self, frame: FrameType, event: str, arg: Any) -> None:
        """The first hook of a thread: give it a trace of its own."""
        trace = Trace(bias=self._bias)
        self._traces.append(trace)
        sys.setprofile(trace.hook)
        trace.hook(frame, event, arg)

    def take(self) -> list[Row]:
        """What was counted since the last time."""
        rows = []
        for trace in list(self._traces):
            counts, trace.counts = trace.counts, {}
            rows += [count.to_row() for count in list(counts.values())]
        return rows

    def report(self, commands: int, reports: int) -> None:
        """Answer each byte, until there are no more."""
        with os.fdopen(reports, "w") as out:
            while os.read(commands, 1):
                json.dump(self.take(), out)
                print(file=out, flush=True)


def measure_bias() -> int:
    """What the time between two events comes to for a function that does nothing."""

    def do_nothing() -> None:
        return

    found = []
    for _ in range(1000):
        trace = Trace()
        sys.setprofile(trace.hook)
        do_nothing()
        sys.setprofile(None)
        found.append(trace.counts[id(do_nothing.__code__)].own)
    return statistics.median_low(found)


def run(commands: int, reports: int, module: str, arguments: list[str]) -> None:
    tracer = Tracer(bias=measure_bias())
    threading.Thread(target=tracer.report, args=(commands, reports), daemon=True).start()
    sys.argv = [module, *arguments]
    threading.setprofile(tracer.start)
    sys.setprofile(tracer.start)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
