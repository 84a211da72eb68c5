"""An operation's endpoint block and a call's arguments → the request that they mean.

Pure: it must not know how a request is sent. Nothing that an argument holds can leave the path, replace a header of
ours, or name a file of this machine: a file argument carries its content.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

from colabhive_mcp.errors import BadAnswer, ToolError

WITH_BODY = ("PATCH", "POST", "PUT")
METHODS = ("DELETE", "GET", *WITH_BODY)
PLACES = ("body", "file", "header", "path", "query")
ENCODINGS = ("json", "multipart", "none")
_HOP_BY_HOP = ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
_CREDENTIALS = ("x-api-key", "authorization", "cookie", "proxy-authenticate", "proxy-authorization")
PROTECTED_HEADERS = frozenset((*_CREDENTIALS, *_HOP_BY_HOP, "host", "content-length", "content-type"))

_PLACEHOLDER = re.compile(r"\{([^{}:/]+)(:path)?\}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_UNSAFE_PATH = re.compile(r"[\x00-\x20\x7f\\?#{}]|//|%(?![0-9A-Fa-f]{2})|^[^/]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")
_LITERAL = "/%:@!$&'()*+,;=~"  # what may stand in a path as it is
_DATA_URL = re.compile(r"data:([^,]*),(.*)", re.DOTALL)
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


class FilePart(NamedTuple):
    """One file of a multipart body: the part's *name*, and what the gateway is told of the file."""

    name: str
    filename: str
    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """A request to be sent: *path* is percent-encoded and relative to the gateway's prefix.

    With *has_body* the body is *json*, whatever its value; else it is multipart where there are *fields* or *files*.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any | None = field(default=None, repr=False)
    has_body: bool = False
    fields: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    files: tuple[FilePart, ...] = field(default=(), repr=False)


class _Place(NamedTuple):
    """Where an argument goes, and its name there."""

    where: str
    name: str
    keeps_slashes: bool = False


class _Given(NamedTuple):
    """One argument of a call, with its place."""

    argument: str
    place: _Place
    value: Any


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """An endpoint block that has been checked. *template* begins with a slash; *holes* are its placeholders' names."""

    method: str
    template: str
    encoding: str
    places: Mapping[str, _Place]
    holes: frozenset[str]

    def __post_init__(self) -> None:
        _check(self.method in METHODS, f"its method is none of {', '.join(METHODS)}")
        _check(self.encoding in ENCODINGS, f"its encoding is none of {', '.join(ENCODINGS)}")
        for argument, place in self.places.items():
            self._check_place(place, f"its argument {argument!r}")

    def _check_place(self, place: _Place, name: str) -> None:
        _check(place.where in PLACES, f"{name} goes to none of {', '.join(PLACES)}")
        _check(place.where != "path" or place.name in self.holes, f"{name} has no placeholder in the path")
        _check(place.where != "file" or self.encoding == "multipart", f"{name} is a file, and nothing is multipart")
        _check(place.where != "body" or self.encoding != "none", f"{name} goes to the body, and there is none")
        _check(
            place.where != "header"
            or (bool(_TOKEN.fullmatch(place.name)) and place.name.lower() not in PROTECTED_HEADERS),
            f"{name} would set the header {place.name!r}, which it may not",
        )

    def find_place(self, argument: str) -> _Place:
        """Where *argument* goes: as declared, else to a placeholder of its name, else to the body or the query."""
        if argument in self.places:
            return self.places[argument]
        if argument in self.holes:
            return _Place("path", argument)
        return _Place("body" if self.method in WITH_BODY and self.encoding != "none" else "query", _to_text(argument))


def _check(fine: bool, reason: str) -> None:
    if not fine:
        raise ValueError(reason)


def check_endpoint(endpoint: Mapping[str, Any]) -> None:
    """Raise ValueError with the reason why this endpoint block cannot be used."""
    _parse_endpoint(endpoint)


def _parse_endpoint(endpoint: Any) -> _Endpoint:
    _check(isinstance(endpoint, Mapping), "it is no object")
    declared = endpoint.get("args") or {}
    _check(isinstance(declared, Mapping), "its args are no object")
    template = _parse_template(endpoint.get("path"))
    return _Endpoint(
        method=str(endpoint.get("method")).upper(),
        template=template,
        encoding=endpoint.get("encoding") or "json",
        places={argument: _parse_place(argument, place) for argument, place in declared.items()},
        holes=frozenset(match[1] for match in _PLACEHOLDER.finditer(template)),
    )


def _parse_template(path: Any) -> str:
    """The path with a leading slash. It stays below the prefix: no scheme, host, query or step up, encoded or not."""
    _check(isinstance(path, str) and path.strip("/") != "", "it has no path")
    bare = _PLACEHOLDER.sub("x", path)
    plain = unquote(bare).replace("\\", "/")
    unsafe = _UNSAFE_PATH.search(bare) or _CONTROL.search(plain) or _has_step(plain)
    _check(not unsafe, "its path holds a scheme, a host, a query, a step up, or a character that no path has")
    return path if path.startswith("/") else f"/{path}"


def _has_step(path: str) -> bool:
    return any(segment in {".", ".."} for segment in path.split("/"))


def _parse_place(argument: str, place: Any) -> _Place:
    _check(isinstance(place, Mapping), f"its argument {argument!r} is described by no object")
    name = place.get("name") or argument
    _check(isinstance(name, str) and _to_text(name) == name, f"its argument {argument!r} has a name that is no text")
    return _Place(str(place.get("in")), name, place.get("pathType") == "path")


def build_request(endpoint: Mapping[str, Any], arguments: Mapping[str, Any]) -> OperationRequest:
    """The request that *arguments* make of an operation's *endpoint* block.

    Raises ToolError that names an argument which is missing or cannot go where it has to, and BadAnswer for a block
    that cannot be used.
    """
    try:
        parsed = _parse_endpoint(endpoint)
    except ValueError as error:
        raise BadAnswer(f"The manifest describes this operation in a way that cannot be used: {error}.") from error
    given: dict[str, list[_Given]] = {place: [] for place in PLACES}
    for argument, value in arguments.items():
        place = parsed.find_place(argument)
        given[place.where].append(_Given(argument, place, value))
    body = {item.place.name: item.value for item in given["body"]}
    has_json = parsed.encoding == "json" and (bool(body) or parsed.method in WITH_BODY)
    return OperationRequest(
        method=parsed.method,
        path=_fill(parsed, given["path"]),
        query=tuple(_to_pairs(given["query"])),
        headers=dict(_to_headers(given["header"])),
        json=body if has_json else None,
        has_body=has_json,
        fields=() if parsed.encoding == "json" else tuple(_to_pairs(given["body"])),
        files=tuple(_to_part(item) for item in _spread(given["file"])),
    )


def _fill(endpoint: _Endpoint, given: list[_Given]) -> str:
    """The template with its placeholders replaced, all of it percent-encoded."""
    owners = {place.name: argument for argument, place in endpoint.places.items() if place.where == "path"}
    items = {item.place.name: item for item in given}
    path, end = "", 0
    for hole in _PLACEHOLDER.finditer(endpoint.template):
        item = items.get(hole[1])
        text = "" if item is None or item.value is None else _to_text(item.value)
        if not text:
            raise ToolError(f"The argument {owners.get(hole[1], hole[1])!r} is missing: this operation needs it.")
        keeps = hole[2] is not None or (item is not None and item.place.keeps_slashes)
        path += quote(endpoint.template[end : hole.start()], safe=_LITERAL)
        path += quote(text, safe="/" if keeps else "")
        end = hole.end()
    path += quote(endpoint.template[end:], safe=_LITERAL)
    if _has_step(path):
        raise ToolError("An argument of this operation is a step in its path (`.` or `..`), which is refused.")
    return path


def _to_text(value: Any) -> str:
    """A value as paths, queries, forms and headers carry it: text as it is, everything else as JSON.

    Halves of surrogate pairs, which no encoding has, become question marks.
    """
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ToolError("The arguments hold a value that JSON cannot carry.") from error
    return text.encode(errors="replace").decode()


def _spread(given: list[_Given]) -> Iterator[_Given]:
    """The single values of what is given: a list is several, null is none."""
    for item in given:
        for value in item.value if isinstance(item.value, list) else [item.value]:
            if value is not None:
                yield item._replace(value=value)


def _to_pairs(given: list[_Given]) -> Iterator[tuple[str, str]]:
    return ((item.place.name, _to_text(item.value)) for item in _spread(given))


def _to_headers(given: list[_Given]) -> Iterator[tuple[str, str]]:
    for item in given:
        text = "" if item.value is None else _to_text(item.value)
        if _UNSAFE_HEADER.search(text):
            raise ToolError(
                f"The argument {item.argument!r} holds a line break or a character that no header can carry."
            )
        if item.value is not None:
            yield item.place.name, text.strip()


def _to_part(item: _Given) -> FilePart:
    """A ``data:`` URL (RFC 2397) is decoded, its ``name`` parameter being the file's; other values are sent as text."""
    name = item.place.name
    match = _DATA_URL.fullmatch(item.value) if isinstance(item.value, str) else None
    if match is None:
        return FilePart(name, name, _to_text(item.value).encode(), "text/plain; charset=utf-8")
    media_type, *parameters = match[1].split(";")
    options = dict(parameter.partition("=")[::2] for parameter in parameters)
    try:
        content = (
            base64.b64decode(unquote(match[2]), validate=True) if "base64" in options else unquote_to_bytes(match[2])
        )
    except (binascii.Error, ValueError) as error:
        raise ToolError(f"The argument {item.argument!r} is a data: URL whose base64 cannot be decoded.") from error
    filename = _to_text(unquote(options.get("name", ""))) or name
    return FilePart(name, filename, content, media_type if _MEDIA_TYPE.fullmatch(media_type) else "text/plain")
