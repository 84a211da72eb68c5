"""Which form a client takes, and what an answer in each form looks like."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.protocol.messages import ErrorResponse, dump_json
from colabhive_mcp.transports.replies import (
    GZIP_FROM,
    STREAM_HEADERS,
    Accepted,
    Reply,
    build_empty,
    build_error,
    build_json,
    build_refusal,
    build_stream,
    build_value,
    read_accepted,
    to_event,
)

JSON, EVENTS = "application/json", "text/event-stream"
NAMES = st.sampled_from([JSON, EVENTS, "text/html", "*/*", "application/*", "text/*", "a/b"])
WEIGHTS = st.sampled_from(
    [
        *((weight, True) for weight in ("", ";q=1", ";q=.2", "; q=0.01", ";charset=utf-8")),
        *((weight, False) for weight in (";q=0", "; q=0.0", ";Q=0.000")),
    ]
)


def find_headers(reply: Reply, name: str) -> list[str]:
    """The values of a header."""
    return [value for known, value in reply.headers if known == name]


def read_body(reply: Reply) -> bytes:
    """The body of an answer that is no stream."""
    assert isinstance(reply.body, bytes)
    return reply.body


@pytest.mark.parametrize(
    ("accept", "taken"),
    [
        (None, (True, True)),
        ("", (True, True)),
        ("*/*", (True, True)),
        ("*", (True, True)),
        (f"{JSON}, {EVENTS}", (True, True)),
        (f"{EVENTS};q=0.9,{JSON}", (True, True)),
        (JSON, (True, False)),
        ("application/*;q=0.5", (True, False)),
        (EVENTS, (False, True)),
        ("TEXT/*", (False, True)),
        (f"{JSON};q=0, */*", (False, True)),
        (f"*/*;q=0, {JSON}", (True, False)),
        (f"{EVENTS} ; q = 0.00 , {JSON}", (True, False)),
        (f"{JSON};v=1;q=0.0", (False, False)),
        ("text/html", (False, False)),
        (",;,", (False, False)),
    ],
)
def test_the_form_is_read_leniently(accept: str | None, taken: tuple[bool, bool]) -> None:
    """Without the header a client takes all; else what the most exact of its members says, in any writing."""
    headers = {} if accept is None else {"accept": accept}
    assert read_accepted(headers)[:2] == taken


@pytest.mark.parametrize(
    ("encoding", "taken"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("br, GZIP;q=0.2", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip;q=0.0, *", False),
        ("*;q=0, gzip", True),
        ("identity", False),
    ],
)
def test_compression_is_for_who_asks(encoding: str | None, taken: bool) -> None:
    """Nothing is compressed for a client that does not say that it may be."""
    headers = {} if encoding is None else {"accept-encoding": encoding}
    assert read_accepted(headers).gzip is taken


@given(st.lists(st.tuples(NAMES, WEIGHTS)))
def test_what_is_named_with_a_weight_is_taken(members: list[tuple[str, tuple[str, bool]]]) -> None:
    """A form is taken where the most exact name for it that stands there, its last one, has a weight."""
    weights = {name: taken for name, (_, taken) in members}
    got = read_accepted({"accept": ", ".join(name + text for name, (text, _) in members) or "a/b"})
    for taken, names in ((got.json, (JSON, "application/*", "*/*")), (got.events, (EVENTS, "text/*", "*/*"))):
        assert taken is next((weights[name] for name in names if name in weights), False)


@given(st.text())
def test_any_header_is_read(value: str) -> None:
    """Whatever a client writes, it takes something or nothing."""
    assert isinstance(read_accepted({"accept": value, "accept-encoding": value}), Accepted)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("size", [2, GZIP_FROM - 1, GZIP_FROM, 100_000])
def test_json_is_compressed_where_it_is_worth_it(size: int, zipped: bool) -> None:
    """From 1 KiB on it depends on the client, of which caches are told; the length is that of what is sent."""
    body = b'"' + b"x" * (size - 2) + b'"'
    reply = build_json(body, zipped=zipped)
    sent = read_body(reply)
    assert find_headers(reply, "Content-Length") == [str(len(sent))]
    assert find_headers(reply, "Content-Type") == [JSON]
    assert find_headers(reply, "Vary") == (["Accept-Encoding"] if size >= GZIP_FROM else [])
    packed = zipped and size >= GZIP_FROM
    assert find_headers(reply, "Content-Encoding") == (["gzip"] if packed else [])
    assert (gzip.decompress(sent) if packed else sent) == body


def test_what_is_compressed_twice_is_the_same() -> None:
    """No time stands in it (RFC 1952, 2.3.1), so that a cache can tell whether it has changed."""
    assert read_body(build_json(b"x" * 5000, zipped=True))[4:8] == bytes(4)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 406, 429, 500, 502, 503])
@pytest.mark.parametrize("request_id", [None, 0, "", "a", 7])
def test_a_refusal_is_an_error_that_clients_can_show(status: int, request_id: str | int | None) -> None:
    """It has the id of the request where that is known, 0 and the empty one included, and says whose fault it is."""
    code = -32603 if status == 429 or status >= 500 else -32600
    reply = build_refusal(status, "Words.", headers=[("Retry-After", "1")], request_id=request_id)
    body = read_body(reply)
    known = {} if request_id is None else {"id": request_id}
    assert json.loads(body) == {"jsonrpc": "2.0", **known, "error": {"code": code, "message": "Words."}}
    assert reply.status_line.startswith(f"{status} ")
    assert find_headers(reply, "Retry-After") == ["1"]


def test_an_error_without_an_id_has_none() -> None:
    """JSON-RPC's null is not a type of MCP's ids, so over HTTP the member is left out."""
    assert "id" not in json.loads(read_body(build_error(400, ErrorResponse(None, -32700, "Parse error"))))


def test_a_stream_is_held_back_by_nothing() -> None:
    """Its headers keep proxies from buffering, changing or keeping it; it has no length."""
    reply = build_stream(iter([b":\n\n"]))
    assert reply.status_line == "200 OK"
    assert reply.headers == STREAM_HEADERS
    assert reply.headers is not STREAM_HEADERS
    assert not find_headers(reply, "Content-Length")


def test_an_answer_may_be_empty_or_a_value() -> None:
    """202 has a length of 0 and no type; a value is JSON."""
    assert build_empty(202) == Reply(202, [("Content-Length", "0")])
    assert json.loads(read_body(build_value({"status": "ok"}, status=503))) == {"status": "ok"}


@given(st.text())
def test_an_event_is_one_line(text: str) -> None:
    """Whatever a message holds, no reader finds more than one line of data in its event."""
    event = to_event(dump_json({"text": text})).decode()
    assert event.endswith("\n\n")
    assert event[:-2].splitlines() == [event[:-2]]
    assert event.startswith("data: ")
