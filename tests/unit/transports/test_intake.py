"""An HTTP request as it is read: headers, key, trace, body."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.transports.intake import CHALLENGE, LONGEST_KEY, Unidentified, read_intake, read_key, refuse_key

KEY = "hive_abc123"


def build_environ(**more: Any) -> dict[str, Any]:
    """What a WSGI server gives for a plain POST."""
    return {"REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", "wsgi.input": BytesIO(b"0123456789"), **more}


def test_a_request_is_read() -> None:
    """Header names are in lower case with hyphens, whatever is no header is none."""
    environ = build_environ(
        HTTP_MCP_PROTOCOL_VERSION="v", HTTP_X_API_KEY="k", CONTENT_TYPE="t", REMOTE_ADDR="1.2.3.4", CONTENT_LENGTH="4"
    )
    intake = read_intake(environ)
    assert (intake.method, intake.path, intake.peer, intake.length) == ("POST", "/mcp", "1.2.3.4", 4)
    assert intake.headers == {"mcp-protocol-version": "v", "x-api-key": "k"}
    assert intake.body() == b"0123"
    assert intake.is_gone() is False


def test_a_body_can_be_read_again() -> None:
    """Who is refused after the body was read is still answered with the id in it."""
    intake = read_intake(build_environ(CONTENT_LENGTH="10"))
    assert [intake.body(), intake.body()] == [b"0123456789"] * 2


@pytest.mark.parametrize("length", [{}, {"CONTENT_LENGTH": ""}, {"CONTENT_LENGTH": "0"}])
def test_there_may_be_no_body(length: dict[str, str]) -> None:
    """Then it is empty, and the stream is not waited for."""
    assert read_intake(build_environ(**length)).body() == b""


def test_the_server_tells_who_has_gone() -> None:
    """Where the server can tell it, it is asked each time."""
    gone: list[int] = []
    intake = read_intake(build_environ(**{"waitress.client_disconnected": lambda: bool(gone)}))
    assert intake.is_gone() is False
    gone.append(1)
    assert intake.is_gone() is True


def test_traces_go_on_and_nothing_else() -> None:
    """The two headers of W3C Trace Context are for the gateway; no other header of a client is."""
    environ = build_environ(
        HTTP_TRACEPARENT="00-a-b-01", HTTP_TRACESTATE="x=1", HTTP_COOKIE="c", HTTP_AUTHORIZATION="a", HTTP_BAGGAGE="b"
    )
    assert read_intake(environ).trace == {"traceparent": "00-a-b-01", "tracestate": "x=1"}
    assert read_intake(build_environ()).trace == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer  {KEY} "},
        {"authorization": f" BEARER {KEY}"},
        {"x-api-key": KEY},
        {"x-api-key": f" {KEY}\t"},
        {"authorization": f"Bearer {KEY}", "x-api-key": KEY},
        {"authorization": "Basic abc", "x-api-key": KEY},
        {"authorization": f"Bearer {KEY}", "x-api-key": ""},
    ],
)
def test_a_key_is_read_from_either_header(headers: dict[str, str]) -> None:
    """The scheme in any case, with white space around; both headers may have it where they agree."""
    assert read_key(headers) == KEY


@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        ({}, CHALLENGE),
        ({"authorization": ""}, CHALLENGE),
        ({"authorization": KEY}, CHALLENGE),
        ({"authorization": f"Basic {KEY}"}, CHALLENGE),
        ({"authorization": "Bearer"}, CHALLENGE),
        ({"x-api-key": "  "}, CHALLENGE),
        ({"cookie": KEY}, CHALLENGE),
        ({"authorization": f"Bearer {KEY}", "x-api-key": KEY + "x"}, refuse_key("two keys")),
        ({"x-api-key": "two words"}, refuse_key("malformed")),
        ({"x-api-key": "k\u00e9y"}, refuse_key("malformed")),
        ({"x-api-key": "k\x00y"}, refuse_key("malformed")),
        ({"x-api-key": "x" * (LONGEST_KEY + 1)}, refuse_key("malformed")),
    ],
)
def test_what_is_no_key_is_challenged(headers: dict[str, str], challenge: str) -> None:
    """Who has none is asked for one; two that differ, or one that can be none, are an invalid token (RFC 6750, 3.1)."""
    with pytest.raises(Unidentified) as caught:
        read_key(headers)
    assert caught.value.headers == [("WWW-Authenticate", challenge)]
    assert "X-API-Key" in str(caught.value)
    assert KEY not in str(caught.value)


@given(st.dictionaries(st.sampled_from(["authorization", "x-api-key"]), st.text()))
def test_a_key_is_never_more_than_a_header_can_carry(headers: dict[str, str]) -> None:
    """Whatever comes, what is taken for a key is visible ASCII, of a length that has an end."""
    try:
        key = read_key(headers)
    except Unidentified:
        return
    assert 0 < len(key) <= LONGEST_KEY
    assert all("!" <= character <= "~" for character in key)
