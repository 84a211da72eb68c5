"""What the gateway's bytes hold: a body to a JSON value or to text.

Pure: it must not know how an answer came. It never guesses an encoding: JSON is UTF-8 (RFC 8259 section 8.1), whatever
a header says.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from colabhive_mcp.errors import BadAnswer
from colabhive_mcp.gateway.plaintext import Redact, describe_page, is_page

_BOM = b"\xef\xbb\xbf"
_HINT = "check the setting `api_url`, and whether a proxy or a login page stands in between."

Note = Callable[[str], None]
Parse = Callable[[str], Any]


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


_DEEPEST = 400  # levels that the decoder reads wherever it is called from, and four times what a schema may have
_MARKS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]')  # strings, whose brackets are none, and brackets
_OPENING, _CLOSING = ("[", "{"), ("]", "}")

# NaN, Infinity and -Infinity become the strings of those names: strict parsers refuse a document with the numbers.
_DECODER = json.JSONDecoder(parse_constant=str, parse_float=_to_float)
_LONG_DECODER = json.JSONDecoder(parse_constant=str, parse_float=_to_float, parse_int=_to_int)


def parse_json(text: str) -> Any:
    """The JSON value of *text*.

    Integers are exact; a number that no double can hold becomes its own text as a string. Raises ValueError.
    """
    try:
        return _decode_json(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def parse_deep_json(text: str) -> Any:
    """As `parse_json`, with a text that says so in place of whatever is nested deeper than 400 levels."""
    try:
        return _decode_json(text)
    except RecursionError:
        return parse_json(_cut_depth(text))


def _cut_depth(text: str) -> str:
    """JSON *text* without what is too deep; text that ends within that is cut off before it, so that it is no JSON."""
    kept, end, depth = [], 0, 0
    for mark in _MARKS.finditer(text):
        if mark[0] in _OPENING:
            depth += 1
            if depth == _DEEPEST + 1:
                kept.append(text[end : mark.start()])
                end = len(text)
        elif mark[0] in _CLOSING:
            depth -= 1
            if depth == _DEEPEST:
                kept.append(f'"(nested deeper than {_DEEPEST} levels)"')
                end = mark.end()
    return "".join([*kept, text[end:]])


def _decode_json(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of thousands of digits: so rare that only then each integer costs a call
        return _LONG_DECODER.decode(text)


def to_value(answer: Answer, *, note: Note, redact: Redact, parse: Parse = parse_json) -> Any:
    """The JSON value of a good answer. *note* is told of bytes that are no UTF-8.

    Raises BadAnswer; *redact* takes keys out of what it quotes.
    """
    text = _decode_answer(answer, note)
    try:
        return parse(text)
    except ValueError as error:
        raise _to_bad_answer(answer, text, redact) from error


def to_loose_value(answer: Answer, *, note: Note, redact: Redact) -> Any:
    """What an operation's good answer holds: JSON, else text; ``{"status": "ok"}`` where the body is empty.

    Raises BadAnswer for a web page, and for a body that claims to be JSON and is not.
    """
    text = _decode_answer(answer, note)
    if not text.strip():
        return {"status": "ok"}
    try:
        return parse_json(text)
    except ValueError as error:
        if is_page(text) or "json" in answer.headers.get("Content-Type", "").lower():
            raise _to_bad_answer(answer, text, redact) from error
        return text


def to_object(answer: Answer, *, note: Note, redact: Redact, parse: Parse = parse_json) -> dict[str, Any]:
    """The JSON object of a good answer. Raises BadAnswer."""
    value = to_value(answer, note=note, redact=redact, parse=parse)
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "a single value"
        raise BadAnswer(f"{answer.host} answered with {kind} where an object is due: {_HINT}", status=answer.status)
    return value


def _decode_answer(answer: Answer, note: Note) -> str:
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
