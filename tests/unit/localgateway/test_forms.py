"""Forms of several parts, byte for byte, and the tables in them."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.localgateway.forms import Form, Upload, describe_table, parse_form
from colabhive_mcp.localgateway.wire import RefusedError, Request

from .conftest import build_form


def parse(body: bytes, kind: str) -> Form:
    """The form of a request."""
    return parse_form(Request("POST", "/x", headers={"content-type": kind}, body=body))


def test_fields_and_files() -> None:
    """Text is a field, and what has a file's name is a file."""
    body, kind = build_form({"note": "ä b"}, {"up": b"1;2\r\n"})
    assert parse(body, kind) == Form({"note": "ä b"}, {"up": Upload("up.bin", "application/x-test", b"1;2\r\n")})


@given(st.binary())
def test_content_survives(content: bytes) -> None:
    """A file's bytes are what was sent, line ends and all."""
    body, kind = build_form({}, {"up": content})
    assert parse(body, kind).files["up"].content == content


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", "application/json"),
        (b"", ""),
        (b"--x--", "multipart/form-data"),
        (b"--x--", "multipart/mixed; boundary=x"),
    ],
)
def test_what_is_no_form(body: bytes, kind: str) -> None:
    """Another type, or a form without its boundary, is refused."""
    with pytest.raises(RefusedError):
        parse(body, kind)


@pytest.mark.parametrize("body", [b"", b"--x--", b"--x\r\n\r\n", b"--x\r\nno colon\r\n\r\nv\r\n--x--"])
def test_broken_forms(body: bytes) -> None:
    """A form that ends too early or has parts without a name is read as far as it goes."""
    form = parse(body, "multipart/form-data; boundary=x")
    assert form.files == {}


def test_a_table() -> None:
    """Empty lines are no rows, quotes may hold commas, and a byte order mark is no part of a name."""
    content = '\ufefftext,label\r\n"a, b",1\r\n\r\nc,0\r\n'.encode()
    assert describe_table(Upload("t.csv", "text/csv", content)) == {
        "name": "t.csv",
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "columns": ["text", "label"],
        "rows": 2,
    }


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff", b"a,b\n" + b"x" * 200_000])
def test_no_table(content: Any) -> None:
    """What cannot be read as a table says what is wanted."""
    with pytest.raises(ValueError, match="table"):
        describe_table(Upload("t", "text/csv", content))
