"""Where in the text of a JSON document a JSON pointer leads: line and column.

One pass over tokens that keeps its own stack; the text has to be JSON. Knows nothing of what stands in it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class Position(NamedTuple):
    """A place in a text; both count from 1, columns in code points."""

    line: int
    column: int


@dataclass(slots=True)
class _Holder:
    """An open object or array: its pointer (None where nobody asks for what is in it), and the next value's step."""

    pointer: str | None
    is_object: bool
    step: str = "0"
    before_key: bool = True

    def find_child(self) -> str | None:
        return None if self.pointer is None else f"{self.pointer}/{self.step}"


def find_positions(text: str, pointers: Collection[str]) -> Mapping[str, Position]:
    """The position of each of *pointers* in *text*; of one that leads nowhere, that of the nearest value around it."""
    wanted = {around for pointer in pointers for around in _find_around(pointer)}
    offsets = dict(_scan(text, wanted))
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found = {}
    for pointer in pointers:
        offset = next((offsets[around] for around in _find_around(pointer) if around in offsets), 0)
        line = bisect_right(starts, offset)
        found[pointer] = Position(line, offset - starts[line - 1] + 1)
    return found


def _find_around(pointer: str) -> Iterator[str]:
    """*pointer* and all that lead to it, the longest first."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


def _scan(text: str, wanted: Collection[str]) -> Iterator[tuple[str, int]]:
    """The wanted pointers with the offsets of their values; of a repeated key the last counts, as for readers."""
    holders: list[_Holder] = []
    for match in _TOKEN.finditer(text):
        word, inner = match[0], holders[-1] if holders else None
        if word in "}]":
            holders.pop()
        elif word == ":":
            assert inner is not None
            inner.before_key = False
        elif word == ",":
            assert inner is not None
            inner.before_key = True
            inner.step = inner.step if inner.is_object else str(int(inner.step) + 1)
        elif inner is not None and inner.is_object and inner.before_key:
            inner.step = json.loads(word).replace("~", "~0").replace("/", "~1")
        else:
            pointer = "" if inner is None else inner.find_child()
            pointer = pointer if pointer in wanted else None
            if pointer is not None:
                yield pointer, match.start()
            if word in "{[":
                holders.append(_Holder(pointer, word == "{"))
