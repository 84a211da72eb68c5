"""Text for people: tables that fit, marks, sizes and progress; plain where the output is no terminal.

Knows nothing of tools or gateways. Text of other people is cleaned here before a terminal could obey it.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TextIO

import click

GAP = "  "
LEAST_WIDTH = 60
LEAST_COLUMN = 6
LAST_COLUMN = 24
PIPE_WIDTH = 10_000  # nobody's window limits it, and a script wants the whole text
_BAR = 24


def clean(text: Any) -> str:
    """*text* as one line without control characters: what others wrote must not move a cursor or forge a line."""
    return strip(" ".join(str(text).split()))


def strip(text: str) -> str:
    """*text* without control characters, line ends included; its spaces stay."""
    return "".join(character for character in text if character.isprintable())


def clean_lines(text: str) -> str:
    """*text* with its line ends and tabs, and no other control character."""
    return "".join(
        character for character in text if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf")
    )


def to_size(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def to_time(seconds: float) -> str:
    """A duration for people."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def get_width(stream: TextIO | None = None) -> int:
    """The columns that a line may have."""
    if not is_terminal(stream or sys.stdout):
        return PIPE_WIDTH
    return max(LEAST_WIDTH, shutil.get_terminal_size().columns)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody looks at *stream*, which is None where it was closed from the start."""
    return stream is not None and stream.isatty()


def measure(text: str) -> int:
    """The columns that *text* takes: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def cut(text: str, width: int) -> str:
    """*text* in at most *width* columns, with an ellipsis where something is missing."""
    if measure(text) <= width:
        return text
    kept = ""
    for character in text:
        if measure(kept + character) >= width:
            break
        kept += character
    return kept + "…"


def print_table(head: Sequence[str], rows: Sequence[Sequence[Any]], *, width: int | None = None) -> None:
    """Columns under *head* within *width*; the last one takes the room that is left."""
    width = width or get_width()
    cells = [[clean(cell) for cell in row] for row in rows]
    sizes = [max(measure(row[place]) for row in [list(head), *cells]) for place in range(len(head) - 1)]
    rest = _narrow(sizes, width - len(GAP) * len(sizes))
    click.echo(click.style(_join(head, sizes, rest), bold=True))
    for row in cells:
        click.echo(_join(row, sizes, rest))


def _narrow(sizes: list[int], width: int) -> int:
    """Take from the widest columns until the last one has its least room; answers that room."""
    while width - sum(sizes) < LAST_COLUMN and max(sizes) > LEAST_COLUMN:
        sizes[sizes.index(max(sizes))] -= 1
    return max(LAST_COLUMN, width - sum(sizes))


def _join(row: Sequence[str], sizes: Sequence[int], rest: int) -> str:
    parts = [_pad(cut(cell, size), size) for cell, size in zip(row, sizes, strict=False)]
    return GAP.join([*parts, cut(row[-1], rest)]).rstrip()


def _pad(text: str, size: int) -> str:
    return text + " " * (size - measure(text))


def get_mark(*, good: bool | None) -> str:
    """A tick, a cross, or a dash for what was not tried; letters where the output has no such characters."""
    symbol, letters, colour = {
        True: ("✓", "ok", "green"),
        False: ("✗", "failed", "red"),
        None: ("\N{EN DASH}", "-", "bright_black"),
    }[good]
    return click.style(symbol if can_print(symbol) else letters, fg=colour)


def can_print(text: str) -> bool:
    """Whether stdout can show *text*."""
    try:
        text.encode(sys.stdout.encoding)
    except (UnicodeEncodeError, LookupError, AttributeError, TypeError):  # or stdout is closed, or not a text stream
        return False
    return True


class ProgressBar:
    """One line on stderr that is written over, and gone at the end; nothing at all where stderr is no terminal."""

    def __init__(self, label: str, *, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._label = label
        self._steps = 0
        self._shown = is_terminal(self._stream)

    def __enter__(self) -> Self:
        self.show("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def show(self, message: str, *, progress: float = 0.0, total: float | None = None) -> None:
        """Draw how far it is; without *total* the bar only shows that something goes on."""
        self._steps += 1
        bar = _draw_share(progress / total) if total else _draw_step(self._steps)
        line = f"{clean(self._label)} {bar} {clean(message)}"
        self._write(cut(line, get_width(self._stream) - 1))

    def _write(self, line: str) -> None:
        if self._shown:
            self._stream.write(f"\r\x1b[2K{line}")
            self._stream.flush()


def _draw_share(share: float) -> str:
    filled = round(max(0.0, min(1.0, share)) * _BAR)
    return f"[{'#' * filled}{'.' * (_BAR - filled)}]"


def _draw_step(step: int) -> str:
    place = step % (_BAR - 2)
    return f"[{'.' * place}###{'.' * (_BAR - 3 - place)}]" if place <= _BAR - 3 else f"[{'.' * (_BAR - 3)}###]"
