"""JSON-RPC messages as named tuples, and the one place where bytes become messages and messages bytes.

It knows JSON-RPC 2.0 and UTF-8; it does not know MCP's methods.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from colabhive_mcp.errors import INVALID_REQUEST, PARSE_ERROR, ClientError

RequestId = str | int
NO_PARAMS: Mapping[str, Any] = MappingProxyType({})


class Request(NamedTuple):
    """A call that wants exactly one response. *params* is ``{}`` where the wire has none."""

    id: RequestId
    method: str
    params: Mapping[str, Any] = NO_PARAMS


class Notification(NamedTuple):
    """A one-way message; nothing is ever answered to it."""

    method: str
    params: Mapping[str, Any] = NO_PARAMS


class Encoded(NamedTuple):
    """A result of which one member is an array whose entries are already JSON: ``{name: [*entries], **rest}``.

    A list of tools can be megabytes; each is encoded once, and an answer is one copy of them.
    """

    name: str
    entries: Sequence[bytes]
    rest: Mapping[str, Any]


class Response(NamedTuple):
    """A successful answer."""

    id: RequestId
    result: Mapping[str, Any] | Encoded


class ErrorResponse(NamedTuple):
    """A failed message. *id* is None where it could not be read; *id_required* writes JSON-RPC's null then."""

    id: RequestId | None
    code: int
    message: str
    data: Any = None
    id_required: bool = True


class Answered(NamedTuple):
    """A response of the peer. No request is ever sent to it, so there is nothing to correlate it with."""


class Malformed(NamedTuple):
    """A frame that is no message, with the error that it deserves."""

    error: ErrorResponse


class Batch(NamedTuple):
    """A JSON array of messages, in order; empty arrays are malformed frames, not batches."""

    messages: tuple[Incoming, ...]


Incoming = Request | Notification | Answered | Malformed
Frame = Incoming | Batch
Outgoing = Response | ErrorResponse | Notification

_LINE_ENDS = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"})


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large for a number")
    return number


_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)
_encoder = json.JSONEncoder(  # what came as JSON cannot hold itself, and to look for that takes a fifth of the time
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
)


def load_json(data: bytes) -> Any:
    """The JSON value in *data*: strict UTF-8 with an optional byte order mark, no NaN, no number beyond a double.

    Raises ValueError (RecursionError's cause included) with words for people.
    """
    try:
        return _decoder.decode(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError("the line is not UTF-8") from error
    except RecursionError as error:
        raise ValueError("the JSON is nested too deep") from error


def dump_json(value: Any) -> bytes:
    """*value* as one line of UTF-8 JSON that no reader splits or refuses.

    U+2028, U+2029 and U+0085 are escaped, since readers with universal line breaks split there; a lone surrogate, which
    UTF-8 cannot hold, becomes U+FFFD. Raises ValueError for NaN and infinities.
    """
    text = _encoder.encode(value)
    if text.isascii():
        return text.encode("ascii")
    text = text.translate(_LINE_ENDS) if any(mark in text for mark in "\u2028\u2029\x85") else text
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def decode(data: bytes) -> Frame:
    """The message in one frame. What cannot be read comes back as Malformed; this never raises.

    A response with the id of an earlier frame is never made: JSON-RPC 2.0 §5, "If there was an error in detecting the
    id in the Request object, it MUST be Null."
    """
    try:
        value = load_json(data)
    except ValueError as error:
        return Malformed(ErrorResponse(None, PARSE_ERROR, f"Parse error: {error}"))
    if isinstance(value, list):
        return Batch(tuple(map(_to_message, value))) if value else _malformed("an empty batch")
    return _to_message(value)


def _malformed(reason: str, request_id: RequestId | None = None) -> Malformed:
    return Malformed(ErrorResponse(request_id, INVALID_REQUEST, f"Invalid request: {reason}"))


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _to_message(value: Any) -> Incoming:
    """One JSON value as a message, by the members that JSON-RPC names."""
    if not isinstance(value, dict):
        return _malformed("a message is a JSON object")
    request_id = value.get("id")
    known_id = request_id if _is_id(request_id) else None
    if value.get("jsonrpc") != "2.0":
        return _malformed('"jsonrpc" must be "2.0"', known_id)
    method = value.get("method")
    if method is None and ("result" in value or "error" in value):
        return Answered()
    if method is None:  # no request, so the id is none of a request's; it may be that of one in flight
        return _malformed('"method" is missing')
    if not isinstance(method, str):
        return _malformed('"method" must be a string', known_id)
    params = value.get("params")
    if params is None:
        params = {}
    if "id" not in value:
        return Notification(method, params if isinstance(params, dict) else {})
    if known_id is None:
        return _malformed('"id" must be a string or an integer')
    if not isinstance(params, dict):
        return _malformed('"params" must be an object', known_id)
    return Request(known_id, method, params)


def encode(message: Outgoing) -> bytes:
    """One message as bytes without a line end. Raises ValueError where a result holds what JSON cannot."""
    match message:
        case Response(request_id, Encoded(name, entries, rest)):
            head = b'{"jsonrpc":"2.0","id":%b,"result":{%b:[' % (dump_json(request_id), dump_json(name))
            tail = b"],%b}" % dump_json(rest)[1:] if rest else b"]}}"
            return _join(head, entries, tail)
        case Response(request_id, result):
            return dump_json({"jsonrpc": "2.0", "id": request_id, "result": result})
        case ErrorResponse():
            return dump_json(_error_to_wire(message))
        case Notification(method, params):
            return dump_json({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})


def _join(head: bytes, entries: Sequence[bytes], tail: bytes) -> bytes:
    """The entries with commas between *head* and *tail*, each byte of them copied once."""
    if len(entries) < 2:
        return b"".join((head, *entries, tail))
    return b",".join((head + entries[0], *entries[1:-1], entries[-1] + tail))


def _error_to_wire(message: ErrorResponse) -> dict[str, Any]:
    error = {"code": message.code, "message": message.message}
    if message.data is not None:
        error["data"] = message.data
    wire: dict[str, Any] = {"jsonrpc": "2.0"}
    if message.id is not None or message.id_required:
        wire["id"] = message.id
    return {**wire, "error": error}


def to_error(request_id: RequestId, error: ClientError) -> ErrorResponse:
    """A client's error as the answer to its request."""
    return ErrorResponse(request_id, error.code, error.message, error.data)
