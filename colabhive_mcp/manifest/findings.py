"""What is found wrong with a manifest, as frozen values: a stable code, how bad it is, where, what, and how to mend it.

Knows nothing of what is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

ERROR = "error"
WARNING = "warning"
NOTE = "note"
SEVERITIES = (ERROR, WARNING, NOTE)
"""From the worst down."""
LIMIT = 100  # findings of one rule, or of one check, in one manifest


class Rule(NamedTuple):
    """One thing that is looked for: its stable code, how bad it is, and one line of documentation."""

    code: str
    severity: str
    summary: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a manifest.

    *pointer* is the place (RFC 6901), *message* says what is wrong, *mend* what to do. What *breaks* a tool makes the
    server leave it out.
    """

    code: str
    severity: str
    pointer: str
    message: str
    mend: str
    breaks: bool = False

    def __post_init__(self) -> None:
        assert self.severity in SEVERITIES
        assert self.pointer == "" or self.pointer.startswith("/")


def build_finding(rule: Rule, pointer: str, message: str, mend: str, *, breaks: bool = False) -> Finding:
    """A finding of *rule*."""
    return Finding(rule.code, rule.severity, pointer, message, mend, breaks)


def to_pointer(steps: Iterable[str | int]) -> str:
    """A place as a JSON pointer (RFC 6901); the root is the empty string."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def is_at_least(severity: str, bound: str) -> bool:
    """Whether *severity* is as bad as *bound*, or worse."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(bound)
