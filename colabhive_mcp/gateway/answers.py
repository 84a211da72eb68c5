"""What the gateway's bytes hold: a body to a JSON value or to text.

Pure: it must not know how an answer came. It never guesses an encoding: JSON is UTF-8 (RFC 8259 section 8.1), whatever
a header says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from colabhive_mcp.errors import BadAnswer
from colabhive_mcp.gateway.plaintext import Redact, describe_page, is_page

_BOM = b"\xef\xbb\xbf"
_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_OVERFLOWS = (b"e000", b"e+000", b"0" * 309)  # only a number written so can be more than a double, or int(), takes
_HINT = "check the setting `api_url`, and whether a proxy or a login page stands in between."

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer of *host* to a request for *subject*, read to its end.

    *headers* finds names in any case; *sent* is the size of the request's body in bytes.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    host: str
    subject: str = "this"
    sent: int = 0


class Text(NamedTuple):
    """Decoded bytes; *damaged* when some of them were no UTF-8 and stand as U+FFFD."""

    text: str
    damaged: bool


def decode_text(body: bytes) -> Text:
    """*body* as UTF-8, without a byte order mark."""
    body = body.removeprefix(_BOM)
    try:
        return Text(body.decode(), damaged=False)
    except UnicodeDecodeError:
        return Text(body.decode(errors="replace"), damaged=True)


def _to_float(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _to_int(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:  # more digits than the interpreter converts
        return text


# NaN, Infinity and -Infinity become the strings of those names: strict parsers refuse a document with the numbers.
_FAST = json.JSONDecoder(parse_constant=str)
_CAREFUL = json.JSONDecoder(parse_constant=str, parse_float=_to_float, parse_int=_to_int)


def parse_json(text: str, *, body: bytes) -> Any:
    """The JSON value of *text*, which is *body* decoded.

    Integers are exact; a number that no double can hold becomes its own text as a string. Raises ValueError.
    """
    try:
        return _pick_decoder(body).decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _pick_decoder(body: bytes) -> json.JSONDecoder:
    """The decoder of C speed, unless a cheap look at the shape of the bytes finds what may overflow."""
    shape = body.translate(_SHAPE)
    return _CAREFUL if any(mark in shape for mark in _OVERFLOWS) else _FAST


def to_value(answer: Answer, *, note: Note, redact: Redact) -> Any:
    """The JSON value of a good answer. *note* is told of bytes that are no UTF-8.

    Raises BadAnswer; *redact* takes keys out of what it quotes.
    """
    text = _decode(answer, note)
    try:
        return parse_json(text, body=answer.body)
    except ValueError as error:
        raise _to_bad_answer(answer, text, redact) from error


def to_loose_value(answer: Answer, *, note: Note, redact: Redact) -> Any:
    """What an operation's good answer holds: JSON, else text; ``{"status": "ok"}`` where the body is empty.

    Raises BadAnswer for a web page, and for a body that claims to be JSON and is not.
    """
    text = _decode(answer, note)
    if not text.strip():
        return {"status": "ok"}
    try:
        return parse_json(text, body=answer.body)
    except ValueError as error:
        if is_page(text) or "json" in answer.headers.get("Content-Type", "").lower():
            raise _to_bad_answer(answer, text, redact) from error
        return text


def to_object(answer: Answer, *, note: Note, redact: Redact) -> dict[str, Any]:
    """The JSON object of a good answer. Raises BadAnswer."""
    value = to_value(answer, note=note, redact=redact)
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "a single value"
        raise BadAnswer(f"{answer.host} answered with {kind} where an object is due: {_HINT}", status=answer.status)
    return value


def _decode(answer: Answer, note: Note) -> str:
    text, damaged = decode_text(answer.body)
    if damaged:
        note(f"An answer of {answer.host} holds bytes that are no UTF-8; they were replaced.")
    return text


def _to_bad_answer(answer: Answer, text: str, redact: Redact) -> BadAnswer:
    if not text.strip():
        fault = f"an empty body where JSON is due: {_HINT}"
    elif is_page(text):
        fault = f"{redact(describe_page(text))} instead of JSON: {_HINT}"
    else:
        fault = f"a body of {len(answer.body)} bytes that is no JSON, or was cut off: {_HINT}"
    return BadAnswer(f"{answer.host} answered HTTP {answer.status} with {fault}", status=answer.status)
