"""Text for people: what others wrote is cleaned, tables fit, and nothing is drawn where nobody looks."""

from __future__ import annotations

import io

import pytest

from colabhive_mcp.cli.terminal import (
    ProgressBar,
    clean,
    clean_lines,
    cut,
    get_mark,
    measure,
    print_table,
    to_size,
    to_time,
)


class DummyTerminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", "a[2Jb"),
        ("one\ntwo\r\n  three", "one two three"),
        ("a\u202eb\x00c\x9bd", "abcd"),
        (5, "5"),
    ],
)
def test_clean(text: object, shown: str) -> None:
    """No control character of somebody else reaches a terminal, and no line break forges a line."""
    assert clean(text) == shown


def test_clean_lines() -> None:
    """The text of a result keeps its lines and tabs, and loses every other control character."""
    assert clean_lines("a\tb\n\x1b]0;evil\x07c\r\x08 é漢") == "a\tb\n]0;evilc é漢"


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("漢字", 4), ("e\u0301", 1), ("", 0)])
def test_measure(text: str, columns: int) -> None:
    """Wide characters take two columns, combining ones none."""
    assert measure(text) == columns


@pytest.mark.parametrize(("text", "shown"), [("abcdef", "abcdef"), ("abcdefg", "abcde…"), ("漢字漢字", "漢字…")])
def test_cut(text: str, shown: str) -> None:
    """A text is cut to the columns that it has, with an ellipsis."""
    assert cut(text, 6) == shown
    assert measure(cut(text, 6)) <= 6


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_table_fits(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    """No line of a table is wider than the terminal, and the columns stand under their heads."""
    rows = [("n" * 30, "kind", "x, " * 20, "words " * 40), ("a", "漢字", "", "b\nc")]
    print_table(("name", "kind", "effects", "description"), rows, width=width)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert max(measure(line) for line in lines) <= width
    place = lines[0].index("description")
    assert lines[2].endswith("b c")
    assert measure(lines[2][: -len("b c")]) == place


def test_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A table without rows is its head."""
    print_table(("a", "b"), [])
    assert capsys.readouterr().out.split() == ["a", "b"]


def test_progress_needs_a_terminal() -> None:
    """Progress is drawn over one line of a terminal and is gone at the end; elsewhere nothing is written."""
    pipe = io.StringIO()
    with ProgressBar("tool", stream=pipe) as bar:
        bar.show("half", progress=1, total=2)
    assert pipe.getvalue() == ""
    terminal = DummyTerminal()
    with ProgressBar("tool", stream=terminal) as bar:
        for _ in range(60):
            bar.show("running\x1b[2J")
        bar.show("half", progress=1, total=2)
    text = terminal.getvalue()
    assert "[############............] half" in text
    assert "\n" not in text
    assert "\x1b[2J" not in text
    assert text.endswith("\r\x1b[2K")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (1 << 20, "1.0 MiB"), (3 << 30, "3.0 GiB")],
)
def test_sizes(count: int, text: str) -> None:
    """Sizes are said in binary units."""
    assert to_size(count) == text


def test_times() -> None:
    """Durations are said in milliseconds below a second."""
    assert (to_time(0.0123), to_time(2.34)) == ("12 ms", "2.3 s")


def test_marks_without_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the output has no ticks, marks are words."""
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert "ok" in get_mark(good=True)
    assert "failed" in get_mark(good=False)
    assert "-" in get_mark(good=None)
