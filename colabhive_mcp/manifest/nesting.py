"""How deep JSON is nested: where a value is too deep, or holds what JSON cannot. Knows nothing of what a value means.

Every walk here keeps its own stack, so that no depth is too much for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from colabhive_mcp.manifest.wording import Trail, to_pointer, to_trail

READABLE_LEVELS = 400  # that the decoder reads wherever it is called from
# Some clients' parsers give up at 128 levels of a message, and lose the whole list.
MAX_LEVELS = 100  # of a tool's manifest, and of a schema whose references were inlined
SHOWN_LEVELS = 120  # of a tool as it is listed

_LARGEST_BITS = 14_000  # of an integer; Python writes no more than 4,300 digits


def find_deep(value: Any, levels: int) -> Trail:
    """The first object or array in *value* that is deeper than so many levels; None where there is none."""
    if not _is_deep(value, levels):
        return None
    return _find_part(value, lambda part, level: level > levels and isinstance(part, dict | list))


def find_unwritable(value: Any) -> Trail:
    """The first number in *value* that JSON cannot hold, or Python not write; None where there is none."""
    return _find_part(value, lambda part, level: _is_unwritable(part))


def may_be_deep(text: bytes, levels: int) -> bool:
    """Whether the JSON *text* has more brackets than levels; most has fewer, and need not be looked through."""
    return text.count(b"{") + text.count(b"[") > levels


def say_deep(place: Trail, levels: int) -> str:
    """Why something cannot be used of which *place* is deeper than so many levels."""
    return f"it is nested deeper than {levels} levels (at {to_pointer(place)})"


def _is_deep(value: Any, levels: int) -> bool:
    """As `find_deep`, without the place: a level at a time, which is quick where there is none."""
    level = [value]
    for _ in range(levels):
        level = [part for holder in level for part in _to_parts(holder) if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _to_parts(holder: Any) -> Iterable[Any]:
    return holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ()


def _is_unwritable(part: Any) -> bool:
    if isinstance(part, int):
        return part.bit_length() > _LARGEST_BITS
    return isinstance(part, float) and not math.isfinite(part)


def _find_part(value: Any, is_wanted: Callable[[Any, int], bool]) -> Trail:
    """The place of the first part, which has a level (that of *value* itself is 1), that is wanted."""
    steps: list[Any] = []
    open_parts = [iter(_to_members(value))]
    while open_parts:
        for step, part in open_parts[-1]:
            if is_wanted(part, len(open_parts) + 1):
                return to_trail([*steps, step])
            if isinstance(part, dict | list):
                steps.append(step)
                open_parts.append(iter(_to_members(part)))
                break
        else:
            open_parts.pop()
            del steps[-1:]
    return None


def _to_members(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()
