"""The manifest as encoded pages, each with its ETag.

Owns the envelope, the cursors, and the copies that are kept while nothing that a manifest shows has changed. Must not
know HTTP beyond the two values that it makes for it.
"""

import base64
import hashlib
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from colabhive_mcp.localgateway.store import Store
from colabhive_mcp.localgateway.wire import compress, to_text

PROTOCOL_VERSION = "2026-01-01"
SERVER = {"name": "colabhive-local", "version": "1.0.0", "vendor": "ColabHive"}
MAX_KEPT = 256


@dataclass(frozen=True)
class Page:
    """One page of the manifest: its weak ETag and its JSON, plain and compressed."""

    etag: str
    body: bytes

    @cached_property
    def zipped(self) -> bytes:
        """The body as gzip, made once."""
        return compress(self.body)


class Pages:
    """What each account may see of one store's endpoints, encoded."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[tuple[str, str, int | None], Page] = {}
        self._revision = -1
        self._lock = threading.Lock()

    def page(self, account: str, *, after: str = "", limit: int | None = None) -> Page:
        """The tools that follow the slug *after*, at most *limit* of them; None is all."""
        with self._lock:
            # Read before the rows are: a change in between is then seen by the next request.
            revision = self._store.manifest_revision()
            if revision != self._revision or len(self._kept) >= MAX_KEPT:
                self._kept.clear()
                self._revision = revision
            name = (account, after, limit)
            if name not in self._kept:
                self._kept[name] = self._derive(account, after, limit)
            return self._kept[name]

    def _derive(self, account: str, after: str, limit: int | None) -> Page:
        rows = self._store.manifest_texts(account, after=after, limit=-1 if limit is None else limit + 1)
        has_more = limit is not None and len(rows) > limit
        rows = rows[:limit]
        return _build_page([text for _, text in rows], to_cursor(rows[-1][0]) if has_more else None)


def to_cursor(slug: str) -> str:
    """The cursor of the page after *slug*."""
    return base64.urlsafe_b64encode(slug.encode()).decode()


def parse_cursor(cursor: str) -> str:
    """The slug after which the page starts; one that is gone still has its place in the order. Raises ValueError."""
    return base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode()


def _build_page(tools: list[str], cursor: str | None) -> Page:
    text = "[" + ",".join(tools) + "]"
    # What follows is part of what the page says: a page that stops being the last one is another page.
    digest = hashlib.sha256((cursor or "").encode() + text.encode()).hexdigest()
    etag = f'W/"sha256:{digest}"'
    envelope: dict[str, Any] = {
        "protocolVersion": PROTOCOL_VERSION,
        "server": SERVER,
        "generatedAt": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "etag": etag,
        "hasMore": cursor is not None,
        "nextCursor": cursor,
    }
    return Page(etag, f'{to_text(envelope)[:-1]},"tools":{text}}}'.encode())
