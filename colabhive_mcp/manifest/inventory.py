"""What one client sees of a manifest: the tools that pass the filters, under their advertised names, encoded.

An inventory is immutable but for the lists, which are encoded when a revision first asks for them and then kept.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from colabhive_mcp.errors import ClientError
from colabhive_mcp.manifest.adapter import build_definition
from colabhive_mcp.manifest.filters import Rule, find_refusal
from colabhive_mcp.manifest.model import LeftOut, Manifest, Tool
from colabhive_mcp.manifest.names import build_names
from colabhive_mcp.manifest.schemas import UnusableSchema
from colabhive_mcp.protocol.messages import dump_json
from colabhive_mcp.protocol.revisions import Revision

Definition = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """How tools are shown: names and schemas as the manifest has them or as every client takes them; 0 is one page."""

    exact_names: bool = False
    exact_schemas: bool = False
    page_size: int = 0


@dataclass(frozen=True, slots=True)
class Encoded:
    """One revision's list: pages as JSON arrays, tools that no client can be shown, and what was told in words."""

    pages: tuple[bytes, ...]
    left_out: tuple[LeftOut, ...]
    rewritten: tuple[LeftOut, ...]
    digest: str


@dataclass(frozen=True, slots=True, eq=False)
class Inventory:
    """The tools of *manifest* that are *offered*, by slug, their *names*, and why the others are *refused*.

    *extras* are definitions of tools that the bridge has itself; they come last on the list.
    """

    manifest: Manifest
    offered: Mapping[str, Tool]
    refused: Mapping[str, str]
    names: Mapping[str, str]
    slugs: Mapping[str, str]
    extras: Sequence[Definition]
    form: Form
    _lists: dict[tuple[bool, ...], Encoded] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def find_slug(self, name: str) -> str | None:
        """The slug behind an advertised name or an exact slug; None where neither is known, offered or not."""
        slug = self.slugs.get(name)
        if slug is not None:
            return slug
        return name if name in self.offered or name in self.refused else None

    def shows_same(self, other: Inventory) -> bool:
        """Whether a client would see the same tools in both."""
        return self is other or dict(self.offered) == dict(other.offered)

    def encode(self, revision: Revision) -> Encoded:
        """The list in the shape of *revision*; encoded once."""
        encoded = self._lists.get(revision.shape)
        if encoded is None:
            with self._lock:
                encoded = self._lists.get(revision.shape) or self._encode(revision)
                self._lists[revision.shape] = encoded
        return encoded

    def read_page(self, revision: Revision, cursor: str | None) -> tuple[bytes, str | None]:
        """The page at *cursor*, and the cursor of the next.

        Raises ClientError for a cursor that this list never gave.
        """
        encoded = self.encode(revision)
        page = 0 if cursor is None else _parse_cursor(cursor, encoded)
        last = page + 1 >= len(encoded.pages)
        return encoded.pages[page], None if last else _to_cursor(page + 1, encoded)

    def _encode(self, revision: Revision) -> Encoded:
        definitions: list[bytes] = []
        left_out: list[LeftOut] = []
        rewritten: list[LeftOut] = []
        for slug, tool in self.offered.items():
            try:
                definition = build_definition(tool, self.names[slug], revision, exact_schemas=self.form.exact_schemas)
                definitions.append(dump_json(definition.body))
            except UnusableSchema as error:
                left_out.append(LeftOut(slug, str(error)))
                continue
            except RecursionError:
                left_out.append(LeftOut(slug, "it is nested too deep"))
                continue
            if definition.rewriting is not None:
                rewritten.append(LeftOut(slug, definition.rewriting))
        definitions += [dump_json(extra) for extra in self._shape_extras(revision)]
        pages = tuple(_paginate(definitions, self.form.page_size))
        digest = hashlib.sha256(b"".join(pages)).hexdigest()[:16]
        return Encoded(pages, tuple(left_out), tuple(rewritten), digest)

    def _shape_extras(self, revision: Revision) -> Iterator[Definition]:
        hidden = (set() if revision.annotations else {"annotations"}) | (set() if revision.titles else {"title"})
        for extra in self.extras:
            yield {key: value for key, value in extra.items() if key not in hidden}


def _paginate(definitions: list[bytes], size: int) -> Iterator[bytes]:
    """The definitions as JSON arrays of *size*; at least one, perhaps empty."""
    size = size or max(len(definitions), 1)
    for start in range(0, max(len(definitions), 1), size):
        yield b"[" + b",".join(definitions[start : start + size]) + b"]"


def _to_cursor(page: int, encoded: Encoded) -> str:
    """An opaque place in exactly this list: a cursor of another list is no cursor here."""
    return base64.urlsafe_b64encode(f"{encoded.digest}:{page}".encode()).decode()


def _parse_cursor(cursor: str, encoded: Encoded) -> int:
    for page in range(1, len(encoded.pages)):
        if cursor == _to_cursor(page, encoded):
            return page
    raise ClientError("The cursor is not one of this list: the tools may have changed; list again from the beginning")


def build_inventory(
    manifest: Manifest, rules: Sequence[Rule], form: Form, *, extras: Sequence[Definition] = ()
) -> Inventory:
    """The view of *manifest* through *rules*."""
    reasons = {slug: find_refusal(tool, rules) for slug, tool in manifest.tools.items()}
    refused = {slug: reason for slug, reason in reasons.items() if reason is not None}
    offered = {slug: tool for slug, tool in manifest.tools.items() if slug not in refused}
    reserved = [extra["name"] for extra in extras]
    names = _exact_names(offered, reserved) if form.exact_names else build_names(offered, reserved=reserved)
    return Inventory(manifest, offered, refused, names, {name: slug for slug, name in names.items()}, extras, form)


def _exact_names(offered: Mapping[str, Tool], reserved: Sequence[str]) -> dict[str, str]:
    """Slugs as they are; one that is the name of a tool of the bridge's own gets another."""
    portable = build_names([slug for slug in offered if slug in reserved], reserved=reserved)
    return {slug: portable.get(slug, slug) for slug in offered}
