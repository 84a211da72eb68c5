"""The manifest as frozen values: what the gateway says of each tool, checked where it is made.

A tool keeps its manifest as bytes: small, comparable, and shared by every copy and every tenant that has the very
same tool. What the manifest doesn't say, or says in the wrong type, is missing here too: nothing about a tool is
invented.
"""

from __future__ import annotations

import json
import weakref
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from json.scanner import make_scanner
from operator import attrgetter
from threading import Lock
from typing import Any, NamedTuple

from colabhive_mcp.errors import BadAnswer
from colabhive_mcp.manifest.nesting import READABLE_LEVELS, find_deep, find_unwritable, may_be_deep, say_deep
from colabhive_mcp.manifest.wording import to_pointer
from colabhive_mcp.protocol.messages import dump_json

MAX_SLUG = 200


class UnusableTool(ValueError):
    """One entry of a manifest cannot be offered; the words say why. The others can."""


class Members(NamedTuple):
    """The members of a manifest: their *values*, and the *spans* where they stand in the JSON *text*."""

    text: str
    values: Mapping[str, Any]
    spans: Mapping[str, tuple[int, int]]

    def copy(self, name: str) -> str:
        """The JSON of the member *name*, which there must be."""
        start, end = self.spans[name]
        return self.text[start:end]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Tool:
    """One tool. *source* is its manifest as compact JSON; the other fields are what filters and tables look at.

    Two tools are the same when their sources are. *derived* is what was made of it, under keys of the makers', and is
    kept as long as the tool: it is made once for all copies and tenants that have it.
    """

    slug: str
    source: bytes = field(repr=False)
    kind: str | None
    stability: str | None
    side_effects: tuple[str, ...] | None
    cost: str | None
    latency: str | None
    description: str | None
    deprecated: bool
    replaced_by: str | None
    derived: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tool) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)

    def load(self) -> dict[str, Any]:
        """The whole manifest, anew at each call: the caller may keep or change it."""
        manifest: dict[str, Any] = json.loads(self.source)
        return manifest

    def members(self) -> Members:
        """The whole manifest, anew at each call, with the text of each member, which can be written again as it is."""
        text = self.source.decode()
        values: dict[str, Any] = {}
        spans: dict[str, tuple[int, int]] = {}
        place = 1
        while text[place] != "}":
            name, colon = _scan(text, place)
            start = colon + 1
            values[name], end = _scan(text, start)
            spans[name] = (start, end)
            place = end + 1 if text[end] == "," else end
        return Members(text, values, spans)


_DECODER: Any = json.JSONDecoder()
_scan: Any = make_scanner(_DECODER)  # raw_decode's layer of Python costs more than a short value

_shared: weakref.WeakValueDictionary[bytes, Tool] = weakref.WeakValueDictionary()
_shared_lock = Lock()


def build_tool(manifest: Any) -> Tool:
    """The tool that *manifest* describes; the very same object for the very same bytes. Raises UnusableTool."""
    if not isinstance(manifest, dict):
        raise UnusableTool("it is not an object")
    slug = manifest.get("name")
    if not isinstance(slug, str) or not slug.strip():
        raise UnusableTool("it has no name (at /name)")
    if len(slug) > MAX_SLUG or not slug.isprintable():
        raise UnusableTool(f"its name is longer than {MAX_SLUG} characters or holds control characters (at /name)")
    source = _write(manifest)
    with _shared_lock:
        return _shared.get(source) or _shared.setdefault(source, _parse_tool(slug, source, manifest))


def _write(manifest: Mapping[str, Any]) -> bytes:
    """*manifest* as JSON that can be read again wherever that is done."""
    try:
        source = dump_json(manifest)
    except (ValueError, RecursionError) as error:
        raise UnusableTool(_say_unwritable(manifest)) from error
    if may_be_deep(source, READABLE_LEVELS) and (place := find_deep(manifest, READABLE_LEVELS)) is not None:
        raise UnusableTool(say_deep(place, READABLE_LEVELS))
    return source


def _say_unwritable(manifest: Mapping[str, Any]) -> str:
    number = find_unwritable(manifest)
    if number is not None:
        return f"it holds a number that JSON cannot (at {to_pointer(number)})"
    return say_deep(find_deep(manifest, READABLE_LEVELS), READABLE_LEVELS)


def _parse_tool(slug: str, source: bytes, manifest: Mapping[str, Any]) -> Tool:
    effects = manifest.get("sideEffects")
    deprecation = manifest.get("deprecation")
    return Tool(
        slug=slug,
        source=source,
        kind=_text(manifest, "kind"),
        stability=_text(manifest, "stability"),
        side_effects=tuple(effects) if isinstance(effects, list) and all(map(_is_text, effects)) else None,
        cost=_text(manifest, "costHint"),
        latency=_text(manifest, "latencyClass"),
        description=_text(manifest, "description"),
        deprecated=isinstance(deprecation, dict) and bool(deprecation),
        replaced_by=_text(deprecation, "replacedBy") if isinstance(deprecation, dict) else None,
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _text(members: Mapping[str, Any], name: str) -> str | None:
    value = members.get(name)
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An entry that is not offered: its name, or its place where it has none, and why."""

    name: str
    reason: str


class Tools(Mapping[str, Tool]):
    """Tools by slug, in the order of their slugs, so that a reordered manifest is the same.

    One tuple, *in_order*, and no dictionary: of many tenants each keeps a copy, while the tools are shared.
    """

    __slots__ = ("in_order",)

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.in_order = tuple(sorted(tools, key=_get_slug))

    def __getitem__(self, slug: str) -> Tool:
        place = bisect_left(self.in_order, slug, key=_get_slug)
        if place < len(self.in_order) and self.in_order[place].slug == slug:
            return self.in_order[place]
        raise KeyError(slug)

    def __iter__(self) -> Iterator[str]:
        return map(_get_slug, self.in_order)

    def __len__(self) -> int:
        return len(self.in_order)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tools) and self.in_order == other.in_order

    def __hash__(self) -> int:
        return hash(self.in_order)


_get_slug = attrgetter("slug")


@dataclass(frozen=True, slots=True)
class Manifest:
    """An immutable copy of what the gateway says."""

    tools: Tools
    left_out: tuple[LeftOut, ...]
    etag: str | None
    pages: int


def build_manifest(document: Any, *, etag: str | None, pages: int = 1) -> Manifest:
    """The manifest in a discovery response. Raises BadAnswer where it is none; one bad entry takes no other with it."""
    entries = document.get("tools") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise BadAnswer('The gateway\'s manifest is not of the right shape: an object with a list "tools" was expected')
    tools: dict[str, Tool] = {}
    left_out = []
    for place, entry in enumerate(entries):
        try:
            tool = build_tool(entry)
            if tool.slug in tools:
                raise UnusableTool(f"its name was seen before; the first is kept (at /tools/{place})")
            tools[tool.slug] = tool
        except UnusableTool as error:
            left_out.append(LeftOut(_name_entry(entry, place), str(error)))
    return Manifest(Tools(tools.values()), tuple(left_out), etag, pages)


def _name_entry(entry: Any, place: int) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name[:MAX_SLUG] if isinstance(name, str) and name.strip() else f"tools[{place}]"
