"""What one client sees of a manifest: the tools that pass the filters, under their advertised names, encoded.

An inventory is immutable but for the lists, which are encoded when a revision first asks for them and then kept. Each
tool's part of a list is kept with the tool, so that copies share it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

from colabhive_mcp.errors import ClientError
from colabhive_mcp.manifest.adapter import Definition, Shape, build_definition
from colabhive_mcp.manifest.document import load_document
from colabhive_mcp.manifest.filters import Rule, find_refusal
from colabhive_mcp.manifest.model import LeftOut, Manifest, Tool, Tools
from colabhive_mcp.manifest.names import MAX_LENGTH, build_names
from colabhive_mcp.manifest.nesting import MAX_LEVELS, SHOWN_LEVELS, find_deep, may_be_deep, say_deep
from colabhive_mcp.manifest.schemas import UnusableSchema
from colabhive_mcp.manifest.wording import to_pointer
from colabhive_mcp.protocol.messages import dump_json
from colabhive_mcp.protocol.revisions import LATEST_LEGACY, Revision

Own = Mapping[str, Any]
"""The definition of a tool that the bridge has itself, as MCP has it in its newest revision."""

CheckEndpoint = Callable[[Any], str | None]
"""Why an operation with such an endpoint block cannot be called, None where it can."""


@dataclass(frozen=True, slots=True)
class Form:
    """How tools are shown to one kind of client.

    Names and schemas are as the manifest has them (*exact*) or as every client takes them; names have at most
    *name_length* characters, and schemas none of the keywords *dropped*. *page_size* 0 is one page. *listing* says
    whether all tools are listed, or those that search for them; ``auto`` searches where there are more than *most*.
    """

    exact_names: bool = False
    exact_schemas: bool = False
    page_size: int = 0
    name_length: int = MAX_LENGTH
    dropped: frozenset[str] = frozenset()
    listing: str = "all"
    most: int = 100


@dataclass(frozen=True)
class Encoded:
    """One revision's list: each tool as JSON, those that no client can be shown, and what was told in words."""

    tools: tuple[bytes, ...]
    left_out: tuple[LeftOut, ...] = ()
    rewritten: tuple[LeftOut, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The same for the same list alone; made once, since every page asks for it."""
        state = hashlib.sha256()
        for tool in self.tools:
            state.update(tool)
        return state.hexdigest()[:16]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Inventory:
    """The tools of *manifest* that are *offered*, and why the others are *refused*, by slug.

    *renamed* has the advertised names of the slugs that are not listed as they are, *slugs* the way back. *own* are
    the tools that the bridge has itself. Where the tools are *searched*, these are all that is listed.
    """

    manifest: Manifest
    offered: Tools
    refused: Mapping[str, str]
    renamed: Mapping[str, str]
    slugs: Mapping[str, str]
    own: Sequence[Own]
    searched: bool
    form: Form
    check_endpoint: CheckEndpoint
    _lists: dict[tuple[bool, ...], Encoded] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def find_name(self, slug: str) -> str:
        """The name under which the tool *slug* is offered."""
        return self.renamed.get(slug, slug)

    def find_slug(self, name: str) -> str | None:
        """The slug behind an advertised name or an exact slug; None where neither is known, offered or not."""
        slug = self.slugs.get(name)
        if slug is not None:
            return slug
        return name if name in self.offered or name in self.refused else None

    def shows_same(self, other: Inventory) -> bool:
        """Whether a client would see the same list of tools in both."""
        if self is other or (self.searched and other.searched):
            return True
        changed = set(self.offered.in_order) ^ set(other.offered.in_order)
        if self.searched != other.searched or any(each._shows(tool) for each in (self, other) for tool in changed):
            return False
        others = (self.renamed.keys() | other.renamed.keys()) - {tool.slug for tool in changed}
        return all(self.find_name(slug) == other.find_name(slug) for slug in others)

    def _shows(self, tool: Tool) -> bool:
        """Whether *tool*, as it is, stands on the list; that is the same in every revision."""
        if self.offered.get(tool.slug) != tool:
            return False
        shape = Shape(LATEST_LEGACY, self.form.exact_schemas, self.form.dropped)
        return isinstance(_load_definition(tool, self.find_name(tool.slug), shape, self.check_endpoint), Definition)

    def encode(self, revision: Revision) -> Encoded:
        """The list in the shape of *revision*; encoded once."""
        encoded = self._lists.get(revision.shape)
        if encoded is None:
            with self._lock:
                encoded = self._lists.get(revision.shape) or self._encode(revision)
                self._lists[revision.shape] = encoded
        return encoded

    def read_page(self, revision: Revision, cursor: str | None) -> tuple[tuple[bytes, ...], str | None]:
        """The tools of the page at *cursor*, each as JSON, and the cursor of the next.

        Raises ClientError for a cursor that this list never gave.
        """
        encoded = self.encode(revision)
        size = self.form.page_size or max(len(encoded.tools), 1)
        start = 0 if cursor is None else _parse_cursor(cursor, encoded, size)
        end = start + size
        return encoded.tools[start:end], _to_cursor(end, encoded) if end < len(encoded.tools) else None

    def _encode(self, revision: Revision) -> Encoded:
        """The current tools, then the bridge's own, and last those that nobody should begin with."""
        own = tuple(dump_json(each) for each in self._shape_own(revision))
        if self.searched:
            return Encoded(own)
        shape = Shape(revision, self.form.exact_schemas, self.form.dropped)
        shown = [
            (tool, _load_definition(tool, self.find_name(tool.slug), shape, self.check_endpoint))
            for tool in self.offered.in_order
        ]
        kept = [(tool.deprecated, entry.body) for tool, entry in shown if isinstance(entry, Definition)]
        return Encoded(
            (*(body for old, body in kept if not old), *own, *(body for old, body in kept if old)),
            tuple(LeftOut(tool.slug, reason) for tool, reason in shown if isinstance(reason, str)),
            tuple(
                LeftOut(tool.slug, entry.rewriting)
                for tool, entry in shown
                if isinstance(entry, Definition) and entry.rewriting is not None
            ),
        )

    def _shape_own(self, revision: Revision) -> Iterator[Own]:
        hidden = (set() if revision.annotations else {"annotations"}) | (set() if revision.titles else {"title"})
        for each in self.own:
            yield {key: value for key, value in each.items() if key not in hidden}


def _load_definition(tool: Tool, name: str, shape: Shape, check_endpoint: CheckEndpoint) -> Definition | str:
    """The definition of *tool*, made once for all copies that have it; the reason where no client can be shown it."""
    key = (name, *shape.key)
    found: Definition | str | None = tool.derived.get(key)
    if found is None:
        found = find_fault(tool, check_endpoint) or _try_definition(tool, name, shape)
        tool.derived[key] = found
    return found


def say_left_out(tool: Tool, check_endpoint: CheckEndpoint) -> str | None:
    """Why no client is shown *tool*; None where it is listed."""
    found = _load_definition(tool, tool.slug, Shape(LATEST_LEGACY), check_endpoint)
    return None if isinstance(found, Definition) else found


def find_fault(tool: Tool, check: CheckEndpoint) -> str | None:
    """Why *tool* can be neither shown nor called: it is too deep or too large, or no call of it could be sent."""
    beyond = _find_excess(tool.load()) if may_be_deep(tool.source, MAX_LEVELS) else None
    if beyond is not None:
        return beyond
    block = tool.load().get("endpoint") if tool.kind == "operation" else None
    fault = None if block is None else check(block)
    return None if fault is None else f"its endpoint cannot be used: {fault} (at /endpoint)"


def _find_excess(manifest: Mapping[str, Any]) -> str | None:
    """Why a tool is too deep for clients, or its input too large to check by, which who only shows it would not see."""
    place = find_deep(manifest, MAX_LEVELS)
    if place is not None:
        return say_deep(place, MAX_LEVELS)
    schema = manifest.get("inputSchema")
    try:
        load_document({} if schema is None else schema)
    except UnusableSchema as error:
        return say_unusable(error)
    return None


def say_unusable(fault: UnusableSchema) -> str:
    """Why the input schema of a tool cannot be used, with the place in its manifest."""
    place = fault.place
    words = str(fault).removesuffix(f" (at {to_pointer(place[0])})") if place else str(fault)
    return f"its inputSchema cannot be used: {words} (at /inputSchema{to_pointer(place) if place else ''})"


def _try_definition(tool: Tool, name: str, shape: Shape) -> Definition | str:
    try:
        definition = build_definition(tool, name, shape)
    except UnusableSchema as error:
        return say_unusable(error)
    if may_be_deep(definition.body, SHOWN_LEVELS):
        place = find_deep(json.loads(definition.body), SHOWN_LEVELS)
        if place is not None:
            return f"as clients would be shown it, {say_deep(place, SHOWN_LEVELS)}"
    return definition


def _to_cursor(start: int, encoded: Encoded) -> str:
    """An opaque place in exactly this list: a cursor of another list is no cursor here."""
    return base64.urlsafe_b64encode(f"{encoded.digest}:{start}".encode()).decode()


def _parse_cursor(cursor: str, encoded: Encoded, size: int) -> int:
    with contextlib.suppress(ValueError):
        digest, _, start = base64.urlsafe_b64decode(cursor).decode().partition(":")
        if start in map(str, range(size, len(encoded.tools), size)) and digest == encoded.digest:
            return int(start)
    raise ClientError("The cursor is not one of this list: the tools may have changed; list again from the beginning")


def build_inventory(
    manifest: Manifest,
    rules: Sequence[Rule],
    form: Form,
    *,
    own: Sequence[Own] = (),
    searching: Sequence[Own] = (),
    check_endpoint: CheckEndpoint = lambda block: None,
) -> Inventory:
    """The view of *manifest* through *rules*; *own* are always listed, *searching* where tools are searched for."""
    reasons = {tool.slug: find_refusal(tool, rules) for tool in manifest.tools.in_order}
    refused = {slug: reason for slug, reason in reasons.items() if reason is not None}
    offered = Tools(tool for tool in manifest.tools.in_order if tool.slug not in refused) if refused else manifest.tools
    searched = form.listing == "search" or (form.listing == "auto" and len(offered) > form.most)
    listed = (*searching, *own) if searched else tuple(own)
    renamed = _rename(offered, form, [each["name"] for each in listed])
    slugs = {name: slug for slug, name in renamed.items()}
    return Inventory(manifest, offered, refused, renamed, slugs, listed, searched, form, check_endpoint)


def _rename(offered: Tools, form: Form, reserved: Sequence[str]) -> dict[str, str]:
    """The slugs that get another name; with exact names only those that a tool of the bridge's own has."""
    slugs = [slug for slug in offered if slug in reserved] if form.exact_names else list(offered)
    names = build_names(slugs, reserved=reserved, length=form.name_length)
    return {slug: name for slug, name in names.items() if name != slug}
