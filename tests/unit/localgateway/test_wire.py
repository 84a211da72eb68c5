"""JSON and HTTP as values."""

import io
import json
from typing import Any

import pytest

from colabhive_mcp.localgateway.wire import (
    MAX_BODY,
    RefusedError,
    Request,
    Response,
    parse_request,
    parse_text,
    to_text,
)


@pytest.mark.parametrize("value", ["é漢🎉", "\ud83d", {"a\udcaf": ["\u2028", 2**70, 0.1, None]}])
def test_text_survives(value: Any) -> None:
    """Whatever JSON can hold is encoded so that it can be sent and read back the same."""
    assert json.loads(to_text(value).encode()) == value


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "[1e999]", "{", "", "[" * 100_000, b"\xff"])
def test_what_is_no_json(text: str | bytes) -> None:
    """NaN, infinities, numbers that overflow and endless nesting are refused like any other bad JSON."""
    with pytest.raises(ValueError):  # noqa: PT011 - the kind is all that callers look at
        parse_text(text)


def test_too_large_a_body() -> None:
    """A body over the limit is refused before it is read."""
    environ = {"CONTENT_LENGTH": str(MAX_BODY + 1), "wsgi.input": None}
    with pytest.raises(RefusedError) as refused:
        parse_request(environ)
    assert refused.value.status == 413


def test_request_of_an_environment() -> None:
    """The path is decoded as UTF-8, header names are in lower case, and the query is by name."""
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/é".encode().decode("latin-1"),
        "QUERY_STRING": "a=1&b=",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": "2",
        "HTTP_X_API_KEY": "hive_x",
        "wsgi.input": io.BytesIO(b"{}more"),
    }
    request = parse_request(environ)
    assert (request.method, request.path, dict(request.query)) == ("POST", "/é", {"a": "1", "b": ""})
    assert request.headers == {"content-type": "application/json", "content-length": "2", "x-api-key": "hive_x"}
    assert request.body == b"{}"


def test_request_shows_no_secret() -> None:
    """The repr of a request has neither headers nor body."""
    assert "secret" not in repr(Request("GET", "/", headers={"x-api-key": "secret"}, body=b"secret"))


@pytest.mark.parametrize(("status", "line"), [(200, "200 OK"), (404, "404 Not Found"), (599, "599 Unknown")])
def test_status_line(status: int, line: str) -> None:
    """Every status has a phrase."""
    assert Response(status).line == line
