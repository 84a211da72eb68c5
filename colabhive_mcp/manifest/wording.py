"""How values, places and lists are shown in a sentence: short and bounded, however large they are.

Knows nothing of schemas. Everything here may be read by a model, so a place is written as a program would write it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

SHOWN_LENGTH = 80
SHOWN_NAMES = 10

Trail = tuple[Any, Any] | None
"""A place as a chain of links, the last step first: ``(the chain before, the step)``; None is the root."""

_PLAIN_NAME = re.compile(r"[A-Za-z_$][\w$-]{0,79}", re.ASCII)
_LARGE_BITS = 256


def to_words(value: Any) -> str:
    """*value* for a sentence: JSON for a scalar, cut at 80 characters; its kind and size for an object or an array."""
    if isinstance(value, str):
        return _cut(json.dumps(value[:SHOWN_LENGTH], ensure_ascii=False), whole=len(value) <= SHOWN_LENGTH)
    if isinstance(value, dict):
        return f"an object with {to_count(len(value), 'property', 'properties')}"
    if isinstance(value, list):
        return f"an array of {to_count(len(value), 'item', 'items')}"
    if type(value) is int and value.bit_length() > _LARGE_BITS:
        return "a very large number"  # Python refuses to print an integer of thousands of digits
    return json.dumps(value) if value is None or isinstance(value, bool | int | float) else type(value).__name__


def to_quoted(value: Any) -> str:
    """As `to_words`, but a string as it stands, between single quotes: the name of something, not a value to send."""
    return f"'{value[:SHOWN_LENGTH]}'" if isinstance(value, str) else to_words(value)


def to_list(values: Iterable[str], *, joined: str = "or") -> str:
    """Names or values as one phrase: ``a, b or c``; at most ten, then how many more."""
    every = list(values)
    shown = every[:SHOWN_NAMES]
    if len(every) > SHOWN_NAMES:
        return f"{', '.join(shown)} {joined} {len(every) - SHOWN_NAMES} more"
    return f" {joined} ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def to_trail(steps: Iterable[str | int]) -> Trail:
    """A place that is given by its steps from the root."""
    trail: Trail = None
    for step in steps:
        trail = (trail, step)
    return trail


def to_path(trail: Trail) -> str:
    """A place in a value as a program would write it: ``messages[0].role``; the root is the empty string."""
    return "".join(_to_step(step) for step in list_steps(trail)).removeprefix(".")


def to_pointer(trail: Trail) -> str:
    """A place in a schema as a JSON pointer (RFC 6901), cut in the middle when it is very long."""
    pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in list_steps(trail))
    if len(pointer) > 2 * SHOWN_LENGTH:
        return f"{pointer[:SHOWN_LENGTH]}…{pointer[-SHOWN_LENGTH:]}"
    return pointer or "the root"


def list_steps(trail: Trail) -> Sequence[Any]:
    """The steps of a place, from the root."""
    steps = []
    while trail is not None:
        trail, step = trail
        steps.append(step)
    return steps[::-1]


def _to_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{to_words(step)}]"


def _cut(text: str, *, whole: bool) -> str:
    return text if whole and len(text) <= SHOWN_LENGTH + 2 else f'{text[:SHOWN_LENGTH]}…"'


def to_count(number: int, one: str, many: str) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many}"
