"""Answers as HTTP has them: JSON, event streams, refusals; what a client takes, and how its answer travels.

It knows WSGI's parts (a status, headers, an iterable of bytes) and must not know which method was asked.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from colabhive_mcp.errors import INTERNAL_ERROR, INVALID_REQUEST
from colabhive_mcp.protocol.messages import ErrorResponse, RequestId, dump_json, encode

JSON = "application/json"
EVENTS = "text/event-stream"
GZIP_FROM = 1024  # bytes; below, the header costs what is saved
COMMENT = b":\n\n"
STREAM_HEADERS = [("Content-Type", EVENTS), ("Cache-Control", "no-cache, no-transform"), ("X-Accel-Buffering", "no")]
Headers = list[tuple[str, str]]
_NONE = re.compile(r"q=0(\.0*)?")  # the weight of what is not taken (RFC 9110, 12.4.2)


class Reply(NamedTuple):
    """An HTTP answer; *body* is all of it, or a stream of pieces that may take long."""

    status: int
    headers: Headers
    body: bytes | Iterator[bytes] = b""

    @property
    def status_line(self) -> str:
        """As WSGI wants it."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"


class Accepted(NamedTuple):
    """What a client takes, read leniently: many name one form only, or none, and mean both."""

    json: bool
    events: bool
    gzip: bool


def read_accepted(headers: Mapping[str, str]) -> Accepted:
    """The forms that the client names; without a header, all."""
    kinds, codings = _read_list(headers.get("accept") or "*/*"), _read_list(headers.get("accept-encoding", ""))
    return Accepted(
        _takes(kinds, JSON, "application/*", "*/*", "*"),
        _takes(kinds, EVENTS, "text/*", "*/*", "*"),
        _takes(codings, "gzip", "*"),
    )


def _read_list(value: str) -> dict[str, bool]:
    """The members of a header with weights, and whether each has another one than 0."""
    members = ("".join(member.lower().split()).split(";") for member in value.split(","))
    return {name: not any(map(_NONE.fullmatch, rest)) for name, *rest in members}


def _takes(members: Mapping[str, bool], *names: str) -> bool:
    """Whether what is called by *names*, the most exact one first, is taken: the first that is there decides."""
    return next((members[name] for name in names if name in members), False)


def build_json(
    body: bytes, *, status: int = 200, zipped: bool = False, headers: Iterable[tuple[str, str]] = ()
) -> Reply:
    """One JSON value, compressed where the client takes that and it is worth it."""
    extra = list(headers)
    if len(body) >= GZIP_FROM:
        extra.append(("Vary", "Accept-Encoding"))
        if zipped:
            body = gzip.compress(body, compresslevel=1, mtime=0)
            extra.append(("Content-Encoding", "gzip"))
    return Reply(status, [("Content-Type", JSON), ("Content-Length", str(len(body))), *extra], body)


def build_value(value: Any, *, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Reply:
    """A small JSON value that is no message of MCP."""
    return build_json(dump_json(value), status=status, headers=headers)


def build_stream(pieces: Iterator[bytes]) -> Reply:
    """An event stream, which nothing on the way may hold back, change or compress."""
    return Reply(200, list(STREAM_HEADERS), pieces)


def build_empty(status: int, headers: Iterable[tuple[str, str]] = ()) -> Reply:
    """An answer without a body."""
    return Reply(status, [("Content-Length", "0"), *headers])


def build_refusal(
    status: int, message: str, *, headers: Iterable[tuple[str, str]] = (), request_id: RequestId | None = None
) -> Reply:
    """A request that is not served, as an error that MCP's clients can show; without an id where none is known."""
    code = INTERNAL_ERROR if status >= 500 or status == HTTPStatus.TOO_MANY_REQUESTS else INVALID_REQUEST
    return build_error(status, ErrorResponse(request_id, code, message), headers=headers)


def build_error(status: int, error: ErrorResponse, *, headers: Iterable[tuple[str, str]] = ()) -> Reply:
    """A JSON-RPC error under an HTTP *status*. One to what has no id has none."""
    return build_json(encode(error._replace(id_required=False)), status=status, headers=headers)


def to_event(message: bytes) -> bytes:
    """One message as an event. It is one line: what readers take for the end of one is escaped in it."""
    return b"data: %b\n\n" % message
