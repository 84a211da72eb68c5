"""The revisions of MCP and what each has, as one table. No handler compares dates: it asks for a feature by name."""

from __future__ import annotations

from typing import Any, NamedTuple

from colabhive_mcp.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND


class Revision(NamedTuple):
    """One revision of the specification.

    *modern* revisions carry their version in every request's ``_meta``; the others begin with ``initialize``.
    """

    name: str
    modern: bool = False
    batches: bool = False
    annotations: bool = False  # ToolAnnotations
    audio: bool = False
    progress_message: bool = False
    titles: bool = False  # Tool.title and Implementation.title
    tool_meta: bool = False  # Tool._meta
    structured: bool = False  # outputSchema and structuredContent, objects only
    any_structured: bool = False  # … of any JSON type
    resource_links: bool = False
    websites: bool = False  # Implementation.websiteUrl and .description
    errors_without_id: bool = False  # an error to an unreadable frame has no id; before, JSON-RPC's null
    completions: bool = False  # the capability; the method itself is in every revision
    not_found: int = RESOURCE_NOT_FOUND  # the code for a resource that there is not

    @property
    def shape(self) -> tuple[bool, ...]:
        """What tool definitions depend on: revisions of one shape share one encoded list."""
        return (self.annotations, self.titles, self.tool_meta, self.structured, self.any_structured)


_2025_03_26: dict[str, Any] = {"annotations": True, "audio": True, "progress_message": True, "completions": True}
_2025_06_18 = {**_2025_03_26, "titles": True, "tool_meta": True, "structured": True, "resource_links": True}
_2025_11_25 = {**_2025_06_18, "websites": True, "errors_without_id": True}
_2026_07_28 = {
    **_2025_11_25,
    "modern": True,
    "any_structured": True,
    "not_found": INVALID_PARAMS,
}

REVISIONS: dict[str, Revision] = {
    revision.name: revision
    for revision in (
        Revision("2026-07-28", **_2026_07_28),
        Revision("2025-11-25", **_2025_11_25),
        Revision("2025-06-18", **_2025_06_18),
        Revision("2025-03-26", **_2025_03_26, batches=True),
        Revision("2024-11-05"),
    )
}
SUPPORTED = tuple(REVISIONS)  # newest first
LATEST_LEGACY = next(revision for revision in REVISIONS.values() if not revision.modern)
OLDEST = REVISIONS[SUPPORTED[-1]]


def negotiate(requested: str) -> Revision:
    """The revision for an ``initialize`` that asks for *requested*: that one, or else the newest with a handshake.

    Lifecycle, version negotiation: "If the server supports the requested protocol version, it MUST respond with the
    same version. Otherwise, the server MUST respond with another protocol version it supports."
    """
    revision = REVISIONS.get(requested)
    return LATEST_LEGACY if revision is None or revision.modern else revision
