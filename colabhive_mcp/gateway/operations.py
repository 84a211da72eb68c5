"""An operation's endpoint block and a call's arguments → the request that they mean.

Pure: it must not know how a request is sent, nor how a file is read. Nothing that an argument holds can leave the path
or replace a header of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from colabhive_mcp.errors import BadAnswer, ToolError
from colabhive_mcp.gateway.endpoints import (
    PLACEHOLDER,
    PLACES,
    WITH_BODY,
    Endpoint,
    Place,
    has_step,
    parse_endpoint,
    to_slot,
)
from colabhive_mcp.gateway.parts import MAX_UPLOAD, LoadFile, parse_file, refuse_path
from colabhive_mcp.gateway.values import to_text

KEY_HEADER = "Idempotency-Key"
_IDEMPOTENT = ("DELETE", "GET", "PUT")  # RFC 9110 section 9.2.2, of the methods that an endpoint may have
_UNSAFE_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")
_DOT = re.compile("%2e", re.IGNORECASE)  # in the template; who resolves steps has spelled it out before
_LITERAL = "/%:@!$&'()*+,;=~"  # what may stand in a path as it is


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
    *idempotent*: sent twice it does what it does once.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any | None = field(default=None, repr=False)
    has_body: bool = False
    fields: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    files: tuple[FilePart, ...] = field(default=(), repr=False)
    idempotent: bool = False


class _Given(NamedTuple):
    """One argument of a call, with its place."""

    argument: str
    place: Place
    value: Any


def build_request(
    endpoint: Any,
    arguments: Mapping[str, Any],
    *,
    schema: Any = None,
    idempotent: bool | None = None,
    idempotency_key: str | None = None,
    load_file: LoadFile = refuse_path,
) -> OperationRequest:
    """The request that *arguments* make of an operation's *endpoint* block.

    *schema* is the tool's input schema, which may say that a file's text is base64. *idempotent* is what the manifest's
    annotations say, None where they say nothing. *idempotency_key* travels with every request but a GET, and alone
    makes none safe to repeat, since no contract says that operations heed it; one that the operation itself declares as
    an argument does. *load_file* reads the path of a file argument.

    Raises ToolError that names an argument which is missing or cannot go where it has to, and BadAnswer for a block
    that cannot be used.
    """
    parsed = _parse(endpoint)
    given = _sort(parsed, arguments)
    headers = dict(_to_headers(given["header"]))
    own_key = next((text for name, text in headers.items() if name.lower() == KEY_HEADER.lower()), None)
    if own_key is None and idempotency_key is not None and parsed.method != "GET":
        headers[KEY_HEADER] = idempotency_key
    body = {item.place.name: item.value for item in given["body"]}
    has_json = parsed.encoding == "json" and (bool(body) or parsed.method in WITH_BODY)
    return OperationRequest(
        method=parsed.method,
        path=_fill(parsed, given["path"]),
        query=tuple(_to_pairs(given["query"])),
        headers=headers,
        json=body if has_json else None,
        has_body=has_json,
        fields=() if parsed.encoding == "json" else tuple(_to_pairs(given["body"])),
        files=tuple(_to_files(given["file"], schema, load_file)),
        idempotent=bool(own_key) or (parsed.method in _IDEMPOTENT if idempotent is None else idempotent),
    )


def _parse(endpoint: Any) -> Endpoint:
    try:
        return parse_endpoint(endpoint)
    except ValueError as error:
        raise BadAnswer(f"The manifest describes this operation in a way that cannot be used: {error}.") from error


def _sort(endpoint: Endpoint, arguments: Mapping[str, Any]) -> dict[str, list[_Given]]:
    """The arguments by where they go. Raises ToolError for two that meet."""
    given: dict[str, list[_Given]] = {where: [] for where in PLACES}
    taken: dict[Place, str] = {}
    for argument, value in arguments.items():
        place = endpoint.find_place(argument)
        first = taken.setdefault(to_slot(place), argument) if endpoint.is_single(place) else argument
        if first != argument:
            raise ToolError(f"The arguments {first!r} and {argument!r} mean the same: give one of them.")
        given[place.where].append(_Given(argument, place, value))
    return given


def _fill(endpoint: Endpoint, given: list[_Given]) -> str:
    """The template with its placeholders replaced, all of it percent-encoded."""
    owners = {place.name: argument for argument, place in endpoint.places.items() if place.where == "path"}
    items = {item.place.name: item for item in given}
    path, end = "", 0
    for hole in PLACEHOLDER.finditer(endpoint.template):
        item = items.get(hole[1])
        text = "" if item is None or item.value is None else to_text(item.value)
        if not text:
            raise ToolError(f"The argument {owners.get(hole[1], hole[1])!r} is missing: this operation needs it.")
        keeps = hole[2] is not None or (item is not None and item.place.keeps_slashes)
        path += quote(endpoint.template[end : hole.start()], safe=_LITERAL)
        path += quote(text, safe="/" if keeps else "")
        end = hole.end()
    path += quote(endpoint.template[end:], safe=_LITERAL)
    if has_step(_DOT.sub(".", path)):
        raise ToolError("An argument of this operation is a step in its path (`.` or `..`), which is refused.")
    return path


def _spread(given: list[_Given]) -> Iterator[_Given]:
    """The single values of what is given: a list is several, null is none."""
    for item in given:
        for value in item.value if isinstance(item.value, list) else [item.value]:
            if value is not None:
                yield item._replace(value=value)


def _to_pairs(given: list[_Given]) -> Iterator[tuple[str, str]]:
    return ((item.place.name, to_text(item.value)) for item in _spread(given))


def _to_headers(given: list[_Given]) -> Iterator[tuple[str, str]]:
    for item in given:
        text = "" if item.value is None else to_text(item.value)
        if _UNSAFE_HEADER.search(text):
            raise ToolError(
                f"The argument {item.argument!r} holds a line break or a character that no header can carry."
            )
        if item.value is not None:
            yield item.place.name, text.strip()


def _to_files(given: list[_Given], schema: Any, load_file: LoadFile) -> Iterator[FilePart]:
    """The parts of file arguments, one by one, so that not much more is read than may be sent."""
    left = MAX_UPLOAD
    for item in _spread(given):
        try:
            is_base64 = _is_base64(_find_member(_find_member(schema, "properties"), item.argument))
            file = parse_file(item.value, is_base64=is_base64, load_file=load_file)
        except ValueError as error:
            raise ToolError(f"The argument {item.argument!r} {error}.") from error
        left -= len(file.content)
        if left < 0:
            raise ToolError(f"The files of this call have more than {MAX_UPLOAD // 1024**2} MiB: send fewer at a time.")
        yield FilePart(item.place.name, file.name or item.place.name, file.content, file.media_type)


def _is_base64(schema: Any, depth: int = 3) -> bool:
    """Whether *schema* calls text base64: an argument's, one of its list's, or that of an alternative to null.

    Two keywords say so: ``contentEncoding`` (JSON Schema Validation, section 8.3) and OpenAPI 3.0's format ``byte``.
    """
    inner = [_find_member(schema, "items")]
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = _find_member(schema, keyword)
        inner += branches if isinstance(branches, list) else []
    return (
        _find_member(schema, "contentEncoding") == "base64"
        or _find_member(schema, "format") == "byte"
        or (depth > 0 and any(_is_base64(each, depth - 1) for each in inner))
    )


def _find_member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None
