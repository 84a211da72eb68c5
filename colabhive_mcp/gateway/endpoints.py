"""An operation's endpoint block, checked: the request that it describes, and why it cannot be used.

Pure. It must not know the arguments of a call: what is wrong here is wrong for all of them. No block may lead out of
the gateway's prefix, or set a header that is ours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from colabhive_mcp.gateway.values import to_text

WITH_BODY = ("PATCH", "POST", "PUT")
METHODS = ("DELETE", "GET", *WITH_BODY)
PLACES = ("body", "file", "header", "path", "query")
ENCODINGS = ("json", "multipart", "none")
_HOP_BY_HOP = ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
_CREDENTIALS = ("x-api-key", "authorization", "cookie", "proxy-authenticate", "proxy-authorization")
PROTECTED_HEADERS = frozenset((*_CREDENTIALS, *_HOP_BY_HOP, "host", "content-length", "content-type"))
PLACEHOLDER = re.compile(r"\{([^{}:/]+)(:path)?\}")

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_UNSAFE_PATH = re.compile(r"[\x00-\x20\x7f\\?#{}]|//|%(?![0-9A-Fa-f]{2})|^[^/]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHOWN = 80  # characters of a name, which may have any length
_SINGLE = ("header", "path")  # places where a name can be filled only once; a JSON body is the third


class Place(NamedTuple):
    """Where an argument goes, and its name there."""

    where: str
    name: str
    keeps_slashes: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint block that has been checked. *template* begins with a slash; *holes* are its placeholders' names.

    Raises ValueError with the reason why it cannot be used.
    """

    method: str
    template: str
    encoding: str
    places: Mapping[str, Place]
    holes: frozenset[str]

    def __post_init__(self) -> None:
        _check(self.method in METHODS, f"its method is none of {', '.join(METHODS)}")
        _check(self.encoding in ENCODINGS, f"its encoding is none of {', '.join(ENCODINGS)}")
        for argument, place in self.places.items():
            self._check_place(place, _say_argument(argument))
        counts = Counter(to_slot(place) for place in self.places.values() if self.is_single(place))
        twice = next((slot for slot, count in counts.items() if count > 1), None)
        _check(twice is None, f"two of its arguments go to the same name in the {'' if twice is None else twice.where}")

    def _check_place(self, place: Place, name: str) -> None:
        _check(place.where in PLACES, f"{name} goes to none of {', '.join(PLACES)}")
        _check(place.where != "path" or place.name in self.holes, f"{name} has no placeholder in the path")
        _check(place.where != "file" or self.encoding == "multipart", f"{name} is a file, and nothing is multipart")
        _check(place.where != "body" or self.encoding != "none", f"{name} goes to the body, and there is none")
        _check(
            place.where != "header"
            or (bool(_TOKEN.fullmatch(place.name)) and place.name.lower() not in PROTECTED_HEADERS),
            f"{name} would set the header {place.name[:_SHOWN]!r}, which it may not",
        )

    def find_place(self, argument: str) -> Place:
        """Where *argument* goes: as declared, else to a placeholder of its name, else to the body or the query."""
        if argument in self.places:
            return self.places[argument]
        if argument in self.holes:
            return Place("path", argument)
        return Place("body" if self.method in WITH_BODY and self.encoding != "none" else "query", to_text(argument))

    def is_single(self, place: Place) -> bool:
        """Whether *place* takes one argument; a query and a form may repeat a name."""
        return place.where in _SINGLE or (place.where == "body" and self.encoding == "json")


def to_slot(place: Place) -> Place:
    """What two arguments share that meet at one place: header names are the same in any case."""
    return Place(place.where, place.name.lower() if place.where == "header" else place.name)


def find_endpoint_fault(block: Any) -> str | None:
    """Why no call can use this endpoint block, as words that follow "cannot be used:"; None where it is in order.

    Quick, and without arguments, so that a tool with such a block can be left out of every list.
    """
    try:
        parse_endpoint(block)
    except ValueError as error:
        return str(error)
    return None


def parse_endpoint(block: Any) -> Endpoint:
    """The endpoint that *block*, as it stands in the manifest, describes. Raises ValueError with the reason."""
    _check(isinstance(block, Mapping), "it is no object")
    declared = block.get("args") or {}
    _check(isinstance(declared, Mapping), "its args are no object")
    template = _parse_template(block.get("path"))
    return Endpoint(
        method=_to_word(block.get("method")).upper(),
        template=template,
        encoding=block.get("encoding") or "json",
        places={argument: _parse_place(argument, place) for argument, place in declared.items()},
        holes=frozenset(match[1] for match in PLACEHOLDER.finditer(template)),
    )


def _check(fine: bool, reason: str) -> None:
    if not fine:
        raise ValueError(reason)


def _parse_template(path: Any) -> str:
    """The path with a leading slash. It stays below the prefix: no scheme, host, query or step up, encoded or not."""
    _check(isinstance(path, str) and path.strip("/") != "", "it has no path")
    bare = PLACEHOLDER.sub("x", path)
    plain = unquote(bare).replace("\\", "/")
    unsafe = _UNSAFE_PATH.search(bare) or _CONTROL.search(plain) or has_step(plain)
    _check(not unsafe, "its path holds a scheme, a host, a query, a step up, or a character that no path has")
    return path if path.startswith("/") else f"/{path}"


def has_step(path: str) -> bool:
    """Whether a segment of *path* is a step, ``.`` or ``..``, which a server would resolve (RFC 3986 section 5.2.4)."""
    return any(segment in {".", ".."} for segment in path.split("/"))


def _parse_place(argument: str, place: Any) -> Place:
    _check(isinstance(place, Mapping), f"{_say_argument(argument)} is described by no object")
    name = place.get("name") or argument
    _check(isinstance(name, str) and to_text(name) == name, f"{_say_argument(argument)} has a name that is no text")
    return Place(_to_word(place.get("in")), name, place.get("pathType") == "path")


def _to_word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _say_argument(argument: str) -> str:
    return f"its argument {argument[:_SHOWN]!r}"
