"""Semantic Versioning 2.0.0: versions, their order, and the step from one to the next.

Knows nothing of what a version is of.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, NamedTuple

_NUMBER = r"(0|[1-9][0-9]*)"
_LABEL = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_LABEL}(?:\.{_LABEL})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_LONGEST = 200  # characters; more is no version that anybody reads, and Python refuses to read numbers of thousands


class Step(IntEnum):
    """How far one version is from the next."""

    NONE = 0
    PATCH = 1
    MINOR = 2
    MAJOR = 3

    def __str__(self) -> str:
        return self.name.lower()


class Version(NamedTuple):
    """A version without its build metadata, which says nothing of its order (SemVer 10)."""

    major: int
    minor: int
    patch: int
    labels: tuple[str, ...] = ()

    @property
    def core(self) -> tuple[int, int, int]:
        """The three numbers."""
        return self[:3]

    @property
    def unstable(self) -> bool:
        """Whether "anything may change at any time" (SemVer 4)."""
        return self.major == 0

    def precedes(self, other: Version) -> bool:
        """Whether this is the older one (SemVer 11)."""
        return self._rank() < other._rank()

    def _rank(self) -> tuple[object, ...]:
        """Numbers are below words, fewer labels below more, and any label below none."""
        ranks = tuple((0, int(label), "") if label.isdecimal() else (1, 0, label) for label in self.labels)
        return (*self.core, not self.labels, ranks)


def parse_version(text: Any) -> Version | None:
    """The version that *text* states; None where it states none."""
    match = _VERSION.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
    if match is None:
        return None
    major, minor, patch, labels = match.groups()
    return Version(int(major), int(minor), int(patch), tuple(labels.split(".")) if labels else ())


def to_step(old: Version, new: Version) -> Step | None:
    """The step from *old* to *new*; None where *new* precedes *old*.

    Between pre-releases of one version, or from one to the version itself, it is the step that this version announces:
    2.0.0-rc.1 to 2.0.0-rc.2 is major.
    """
    if new.precedes(old):
        return None
    if not old.precedes(new):
        return Step.NONE
    if old.core == new.core:
        return Step.PATCH if new.patch else Step.MINOR if new.minor else Step.MAJOR
    if old.major != new.major:
        return Step.MAJOR
    return Step.MINOR if old.minor != new.minor else Step.PATCH
