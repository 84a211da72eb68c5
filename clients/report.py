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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a client did: its name, whether it went as it must, and a few words on it."""

    name: str
    passed: bool
    note: str = ""


def write_step(step: Step) -> None:
    """Report a step to the process that started this driver."""
    sys.stdout.write(json.dumps({"step": step.name, "passed": step.passed, "note": step.note}) + "\n")
    sys.stdout.flush()


def build_failure(name: str, error: BaseException) -> Step:
    """A step that failed with `error`; of a group of errors the first that is none."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return Step(name=name, passed=False, note=f"{type(error).__name__}: {error}"[:_NOTE_LIMIT])


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
        print(f"  {'ok  ' if step.passed else 'FAIL'} {step.name}{': ' if step.note else ''}{step.note}")
    sys.stdout.flush()


def summarize(steps: Iterable[Step]) -> tuple[str, int]:
    """The last line and the exit code: `N passed, N failed`, 0 only when something ran and nothing failed."""
    results = [step.passed for step in steps]
    failed = results.count(False)
    return f"{results.count(True)} passed, {failed} failed", 1 if failed or not results else 0
