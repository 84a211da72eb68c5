"""Steps, the lines in which a driver reports them, and the count at the end.

A driver writes one JSON object a line: `{"step", "passed", "note"}`. Whatever else it prints is no report.
Standard library only: every driver's interpreter imports it.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_NOTE_LIMIT = 600
_STEP_KEYS = {"step", "passed", "note"}
_MARKS = {True: "ok  ", False: "FAIL", None: "skip"}


class SkippedError(Exception):
    """A step that cannot be played here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a client did: its name, whether it went as it must (None: not played), a few words on it."""

    name: str
    passed: bool | None
    note: str = ""


def write_step(step: Step) -> None:
    """Report a step to the process that started this driver."""
    sys.stdout.write(json.dumps({"step": step.name, "passed": step.passed, "note": step.note}) + "\n")
    sys.stdout.flush()


def build_failure(name: str, error: BaseException) -> Step:
    """What became of a step that ended with `error`: it failed, or was skipped."""
    if isinstance(error, SkippedError):
        return Step(name=name, passed=None, note=str(error))
    return Step(name=name, passed=False, note=say_error(error))


def say_error(error: BaseException) -> str:
    """The error in one line; of a group of errors the first that is none."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(f"{type(error).__name__}: {error}".split())[:_NOTE_LIMIT]


def parse_steps(lines: Iterable[str]) -> Iterator[Step]:
    """The steps among a driver's lines."""
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and value.keys() == _STEP_KEYS:
            yield Step(name=value["step"], passed=value["passed"], note=value["note"])


def print_steps(client: str, steps: Iterable[Step]) -> None:
    """A heading and one line a step."""
    print(client)
    for step in steps:
        print(f"  {_MARKS[step.passed]} {step.name}{': ' if step.note else ''}{step.note}")
    sys.stdout.flush()


def summarize(steps: Iterable[Step]) -> tuple[str, int]:
    """The last line and the exit code: `N passed, N failed`, 0 only when some passed and none failed."""
    results = [step.passed for step in steps]
    passed, failed, skipped = (results.count(result) for result in (True, False, None))
    line = f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")
    return line, 1 if failed or not passed else 0
