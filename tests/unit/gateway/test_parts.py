"""The values of file arguments: what is content, what is a path, and what is refused because it may be either."""

from __future__ import annotations

import base64
import time
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.gateway.parts import OCTETS, File, parse_file, refuse_path

TEXT = "text/plain; charset=utf-8"
PNG = base64.b64encode(b"\x89PNG\r\n").decode()


def load(path: str) -> File:
    """A loader that has every file; its content is its path."""
    return File(path.rpartition("/")[2], path.encode(), "x/loaded")


def parse(value: Any, *, is_base64: bool = False) -> File:
    """The file of *value*, whose paths are all there."""
    return parse_file(value, is_base64=is_base64, load_file=load)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("data:text/csv;name=a%20b.csv;base64,MTsy", File("a b.csv", b"1;2", "text/csv")),
        ("data:,a%20b", File("", b"a b", "text/plain")),
        ("data:,report.csv", File("", b"report.csv", "text/plain")),
        ("data:,", File("", b"", "text/plain")),
        ("DATA:text/csv;Base64,MTsy", File("", b"1;2", "text/csv")),
        ("\n data:text/csv;base64,MTsy \n", File("", b"1;2", "text/csv")),
        ("data:text/csv;base64,MT\n sy", File("", b"1;2", "text/csv")),
        ("data:text/csv;base64,MQ%3D%3D", File("", b"1", "text/csv")),
        ("data:text/plain; charset=utf-8; name=n,x", File("n", b"x", "text/plain")),
        (f"data:image/png;base64,{PNG}", File("", b"\x89PNG\r\n", "image/png")),
        ("data:a/b c;base64,MTsy", File("", b"1;2", "text/plain")),
        ("data:;name=a\ud83d,x\ud83d", File("a?", b"x?", "text/plain")),
    ],
)
def test_data_urls(value: str, expected: File) -> None:
    """A data: URL is content, with its type where that is one and the name that it gives (RFC 2397)."""
    assert parse(value) == expected


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("file:a.csv", "a.csv"),
        ("file:///tmp/a%20b.csv", "/tmp/a b.csv"),
        ("file://localhost/tmp/a", "/tmp/a"),
        ("FILE:/tmp/a", "/tmp/a"),
        (" file:my table.csv\n", "my table.csv"),
        ("file:///tmp/a#1?.csv", "/tmp/a#1?.csv"),
        ("file:///C:/data/a.csv", "C:/data/a.csv"),
        ({"path": "a.csv"}, "a.csv"),
        ({"path": "file:a%20b.csv"}, "a b.csv"),
        ({"path": "a%20b.csv"}, "a%20b.csv"),
        ({"path": "a.csv", "name": None}, "a.csv"),
    ],
)
def test_paths(value: Any, path: str) -> None:
    """A file: URL (RFC 8089) and an object with a path name a file; neither is sent as content."""
    assert parse(value) == File(path.rpartition("/")[2], path.encode(), "x/loaded")
    with pytest.raises(ValueError, match="upload_dir"):
        parse_file(value, is_base64=False, load_file=refuse_path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"data": "MTsy"}, File("", b"1;2", OCTETS)),
        ({"data": "MTsy", "name": "a.csv", "mime_type": "text/csv"}, File("a.csv", b"1;2", "text/csv")),
        ({"data": "", "mime_type": "a/b\r\nX: y"}, File("", b"", OCTETS)),
        ({"path": "p/q", "name": "n", "mime_type": "a/b"}, File("n", b"p/q", "a/b")),
        ({"a": 2}, File("", b'{"a": 2}', "application/json")),
        ({"data": [1]}, File("", b'{"data": [1]}', "application/json")),
        (1.5, File("", b"1.5", "application/json")),
        (True, File("", b"true", "application/json")),
    ],
)
def test_other_values(value: Any, expected: File) -> None:
    """An object that describes a file is that file; every other value is its JSON."""
    assert parse(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "plain ä",
        "hello",
        "",
        "a;b\n1;2\n",
        "/etc/passwd\nis a path",
        "See https://example.com for more.",
        "data: 5\nname: a, b",
        "file: a\n",
        "1.5",
        "deadbeef" * 7,
        "Ends with a sentence.",
        '{"a":"b/c"}',
        '{"a":"b.csv"}',
        "<note/>",
        "<a>b.c",
        "-" * 5000,
    ],
)
def test_text_is_content(value: str) -> None:
    """Text that is clearly no path is sent as it stands."""
    assert parse(value) == File("", value.encode(), TEXT)


@pytest.mark.parametrize(
    "value",
    [
        "/etc/passwd",
        "/etc/my file",
        "~/a",
        "./a",
        "../a b",
        "\\\\host\\share",
        "C:\\Users\\me\\a b.txt",
        "c:/a",
        "a/b",
        "report.csv",
        "my report.final.pdf",
        "archive.7z",
        "data/*.csv",
        " /etc/passwd \n",
        "https://example.com",
        "data:text/csv",
        "file:",
        PNG * 8,
        base64.b64encode(bytes(range(256)) * 8).decode(),
    ],
)
def test_text_that_may_be_a_path_is_refused(value: str) -> None:
    """What may be a path or base64 is never sent as content in silence; the words say both ways to send it."""
    with pytest.raises(ValueError, match=r"data: URL .*file: URL .*`upload_dir`"):
        parse(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("data:;base64,@@@", "base64"),
        ("data:;base64,A", "base64"),
        ({"data": "@@@"}, "base64"),
        ({"data": "MTsy", "path": "a"}, '"path" or "data"'),
        ({"path": "a", "content": "b"}, '"path" or "data"'),
        ({"path": "a", "name": 7}, '"path" or "data"'),
        ("file://elsewhere/a", "another machine"),
        ("file://report.csv", "another machine"),
    ],
)
def test_what_is_wrong_is_told(value: Any, words: str) -> None:
    """A description that cannot be followed says what it should be."""
    with pytest.raises(ValueError, match=words):
        parse(value)


@pytest.mark.parametrize(
    ("value", "content"), [("MTsy", b"1;2"), ("MT\nsy", b"1;2"), ("/9j/", b"\xff\xd8\xff"), ("data:,MTsy", b"MTsy")]
)
def test_text_that_the_schema_calls_base64(value: str, content: bytes) -> None:
    """Where the schema says that the text is base64 it is decoded; a data: URL says itself what it is."""
    assert parse(value, is_base64=True).content == content
    with pytest.raises(ValueError, match="base64"):
        parse("two words", is_base64=True)


@given(st.binary(), st.text(st.characters(exclude_categories=["Cs"])))
def test_whatever_is_sent_as_a_data_url_arrives(content: bytes, name: str) -> None:
    """Any content under any name survives a data: URL and an object alike."""
    data = base64.b64encode(content).decode()
    assert parse(f"data:a/b;name={quote(name, safe='')};base64,{data}") == File(name, content, "a/b")
    assert parse({"data": data, "name": name, "mime_type": "a/b"}) == File(name, content, "a/b")


@given(st.text())
def test_any_text_is_content_or_refused(text: str) -> None:
    """No text is anything but itself, a URL that says so, or refused: it is never a path by itself."""
    try:
        file = parse_file(text, is_base64=False, load_file=refuse_path)
    except ValueError:
        return
    assert file.content == text.encode(errors="replace") or text.strip().lower().startswith("data:")


@pytest.mark.parametrize("text", ["a/" * 10**6 + " x", "Ab3+" * 10**6 + "!", "x." * 10**6 + " y", "data:a/" * 10**6])
def test_long_text_takes_no_time(text: str) -> None:
    """The time to look at a text grows no faster than the text, also where it fits nearly every form."""
    started = time.process_time()
    with suppress(ValueError):
        parse(text)
    assert time.process_time() - started < 2
