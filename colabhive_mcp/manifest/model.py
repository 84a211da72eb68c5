"""The manifest as frozen values: what the gateway says of each tool, checked where it is made.

A tool keeps its manifest as bytes: small, comparable, and shared by every copy and every tenant that has the very
same tool. What the manifest doesn't say, or says in the wrong type, is missing here too: nothing about a tool is
invented.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import Any

from colabhive_mcp.errors import BadAnswer
from colabhive_mcp.protocol.messages import dump_json

MAX_SLUG = 200


class UnusableTool(ValueError):
    """One entry of a manifest cannot be offered; the words say why. The others can."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Tool:
    """One tool. *source* is its manifest as compact JSON; the other fields are what filters and tables look at.

    Two tools are the same when their sources are.
    """

    slug: str
    source: bytes = field(repr=False)
    kind: str | None
    stability: str | None
    side_effects: tuple[str, ...] | None
    cost: str | None
    latency: str | None
    description: str | None
    replaced_by: str | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tool) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)

    def load(self) -> dict[str, Any]:
        """The whole manifest, anew at each call: the caller may keep or change it."""
        manifest: dict[str, Any] = json.loads(self.source)
        return manifest


_shared: weakref.WeakValueDictionary[bytes, Tool] = weakref.WeakValueDictionary()
_shared_lock = Lock()


def build_tool(manifest: Any) -> Tool:
    """The tool that *manifest* describes; the very same object for the very same bytes. Raises UnusableTool."""
    if not isinstance(manifest, dict):
        raise UnusableTool("it is not an object")
    slug = manifest.get("name")
    if not isinstance(slug, str) or not slug.strip():
        raise UnusableTool("it has no name")
    if len(slug) > MAX_SLUG or not slug.isprintable():
        raise UnusableTool(f"its name is longer than {MAX_SLUG} characters or holds control characters")
    try:
        source = dump_json(manifest)
    except (ValueError, RecursionError) as error:
        raise UnusableTool("it is nested too deep, or holds what JSON cannot") from error
    with _shared_lock:
        return _shared.get(source) or _shared.setdefault(source, _parse_tool(slug, source, manifest))


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


@dataclass(frozen=True, slots=True)
class Manifest:
    """An immutable copy: tools by slug in the order of their slugs, so that a reordered manifest is the same."""

    tools: Mapping[str, Tool]
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
                raise UnusableTool("its name was seen before")
            tools[tool.slug] = tool
        except UnusableTool as error:
            left_out.append(LeftOut(_name_entry(entry, place), str(error)))
    return Manifest(MappingProxyType(dict(sorted(tools.items()))), tuple(left_out), etag, pages)


def _name_entry(entry: Any, place: int) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name[:MAX_SLUG] if isinstance(name, str) and name.strip() else f"tools[{place}]"
