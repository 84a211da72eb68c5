"""A manifest that comes in pages, joined to one. It must not know how a page is fetched, nor what a tool looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from colabhive_mcp.errors import BadAnswer

MAX_PAGES = 1000


@dataclass(frozen=True, slots=True)
class Page:
    """One page as it came: its object, its ETag, and its size in decoded bytes. *host* is for messages.

    Raises BadAnswer where it is made, when it is no page of a manifest.
    """

    document: dict[str, Any] = field(repr=False)
    etag: str | None
    size: int
    host: str

    def __post_init__(self) -> None:
        if not isinstance(self.document.get("tools"), list):
            raise BadAnswer(f"{self.host} answered with something that is no manifest: it has no list `tools`.")
        cursor = self.document.get("nextCursor")
        if not isinstance(cursor, str | None) or (self.document.get("hasMore") and not cursor):
            raise BadAnswer(f"{self.host} says that the manifest has more pages, and not how to ask for them.")

    @property
    def next_cursor(self) -> str | None:
        """How to ask for the page after this one; None where this is the last."""
        return None if self.document.get("hasMore") is False else self.document.get("nextCursor") or None


@dataclass(frozen=True, slots=True)
class ManifestAnswer:
    """A manifest as it came: the first page's envelope with the tools of all *pages*, and its ETag exactly as received.

    *size* is the decoded bytes of all pages. Where there are several, the ETag covers the first alone.
    """

    document: dict[str, Any] = field(repr=False)
    etag: str | None
    size: int
    pages: int


def join_pages(first: Page, fetch_page: Callable[[str, int], Page]) -> ManifestAnswer:
    """*first* and all pages after it; *fetch_page* takes a cursor and the bytes read so far.

    A cursor seen before, or more than 1,000 pages, is a broken gateway: BadAnswer.
    """
    page, pages, size = first, 1, first.size
    tools, seen = list(first.document["tools"]), set[str]()
    while (cursor := page.next_cursor) is not None:
        if cursor in seen or pages == MAX_PAGES:
            fault = "repeats a cursor" if cursor in seen else f"has more than {MAX_PAGES} pages"
            raise BadAnswer(f"The manifest of {first.host} {fault}, so it cannot be read to its end.")
        seen.add(cursor)
        page = fetch_page(cursor, size)
        tools += page.document["tools"]
        pages, size = pages + 1, size + page.size
    whole = {"hasMore": False, "nextCursor": None} if pages > 1 else {}
    return ManifestAnswer({**first.document, **whole, "tools": tools}, first.etag, size, pages)
