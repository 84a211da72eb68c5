"""The headers that repeat parts of a message, held against it as 2026-07-28 has it ("Request Metadata").

What stands between a client and this server may route and limit by these headers, so they must say what the body says.
It knows headers and requests, and must not know schemas or how a request came.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from colabhive_mcp.errors import HEADER_MISMATCH, ClientError
from colabhive_mcp.protocol.messages import Request, dump_json

SHOWN = 80  # characters of a value, in a message
_NAMED = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}  # method -> what Mcp-Name repeats
_PLAIN = re.compile(r"[\t -~]*")  # RFC 9110, 5.5, less obs-text
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")  # JSON's, less exponents that take long
_OBJECT_TEXT = re.compile(r"[\ufeff\s]*\{")

HeaderParameters = Sequence[tuple[str, tuple[str, ...]]]
"""Arguments of a tool that clients repeat: each header, such as ``Mcp-Param-Region``, and the path to its argument."""


def check_headers(
    headers: Mapping[str, str], request: Request, version: str, parameters: Callable[[], HeaderParameters]
) -> None:
    """Refuse a *request* whose *headers*, by lower-case names, do not say what its body says.

    *version* is the one in its ``_meta``. *parameters* are asked for only where a tool is called and all else is right.
    A header that repeats nothing known is ignored. Raises ClientError with the code of a header mismatch.
    """
    check_version(headers, version)
    _compare("Mcp-Method", _read(headers, "Mcp-Method"), request.method)
    if request.method in _NAMED:
        _compare("Mcp-Name", _read_encoded(headers, "Mcp-Name"), request.params.get(_NAMED[request.method]))
    if request.method == "tools/call":
        _check_parameters(headers, request.params.get("arguments"), parameters())


def check_version(headers: Mapping[str, str], version: str) -> None:
    """Refuse a request whose header names another version than its body. Raises ClientError as `check_headers`."""
    _compare("MCP-Protocol-Version", _read(headers, "MCP-Protocol-Version"), version)


def _check_parameters(headers: Mapping[str, str], arguments: Any, parameters: HeaderParameters) -> None:
    """A null is as good as no argument. Arguments that are no object are the method's to refuse."""
    given = {} if arguments is None else arguments
    if not isinstance(given, dict):
        return
    for name, path in parameters:
        text, value = _read_encoded(headers, name), _find_argument(given, path, name)
        if text is not None or value is not None:
            _compare(name, text, value)


def _find_argument(arguments: Any, path: tuple[str, ...], name: str) -> Any:
    """The value at exactly *path*, None where there is none that a header can have.

    No client sends a header for a list or an object in place of a value, and the tool's schema refuses it with words
    for models. An object that is written as a text is mended, so its members would reach the tool with no header.
    """
    value = arguments
    for place, step in enumerate(path):
        if isinstance(value, str) and _OBJECT_TEXT.match(value):
            raise _mismatch(
                f"{name} repeats a member of {'.'.join(path[:place])!r}: send that as an object, not a text"
            )
        value = value.get(step) if isinstance(value, dict) else None
    return None if isinstance(value, dict | list) else value


def _read(headers: Mapping[str, str], name: str) -> str | None:
    """A header's value without the white space around it (RFC 9110, 5.5); None where it is missing."""
    value = headers.get(name.lower())
    if value is None:
        return None
    if not _PLAIN.fullmatch(value):
        raise _mismatch(f"{name} header value {_show(value)} has characters other than visible ASCII, space and tab")
    return value.strip(" \t")


def _read_encoded(headers: Mapping[str, str], name: str) -> str | None:
    """As `_read`, for a header whose value may come as ``=?base64?…?=``."""
    value = _read(headers, name)
    encoded = None if value is None else _ENCODED.fullmatch(value)
    if encoded is None:
        return value
    try:
        return _decode(encoded[1])
    except ValueError as error:
        raise _mismatch(f"{name} header value {_show(value)} is not the base64 form of a text in UTF-8") from error


def _decode(text: str) -> str:
    """The text that *text* encodes. Raises ValueError where it is not exactly what an encoder writes."""
    data = b64decode(text, validate=True)
    if b64encode(data).decode() != text:
        raise ValueError("there are bits that mean nothing")
    return data.decode("utf-8")


def _compare(name: str, text: str | None, value: Any) -> None:
    """Refuse the header *name*, which says *text*, where the body has another *value*; None is neither's."""
    if text is None:
        raise _mismatch(f"{name} header is missing" + ("" if value is None else f"; the body value is {_show(value)}"))
    if value is None:
        raise _mismatch(f"{name} header value {_show(text)} repeats nothing: the body has no such value")
    if not _is_same(text, value):
        raise _mismatch(f"{name} header value {_show(text)} does not match body value {_show(value)}")


def _is_same(text: str, value: Any) -> bool:
    """Whether *text* is *value* as a header has it; numbers are compared as numbers, whatever their size."""
    match value:
        case bool():
            return text == ("true" if value else "false")
        case int():
            return _NUMBER.fullmatch(text) is not None and Decimal(text) == value
        case float():
            return _NUMBER.fullmatch(text) is not None and Decimal(text) == Decimal(repr(value))
        case _:
            return bool(text == value)


def _show(value: Any) -> str:
    return repr((value if isinstance(value, str) else dump_json(value).decode())[:SHOWN])


def _mismatch(words: str) -> ClientError:
    return ClientError(f"Header mismatch: {words}", code=HEADER_MISMATCH)
