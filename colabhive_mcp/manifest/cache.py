"""The current manifest: fresh for a while, then checked with one conditional GET, never worse than it was.

All that it knows of the gateway is ``fetch(etag) -> Fetched | NotModified``. The lock is never held while that runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
from typing import Any

from cachetools import TTLCache

from colabhive_mcp.errors import BadAnswer, BridgeError, GatewayError
from colabhive_mcp.manifest.model import Manifest, build_manifest
from colabhive_mcp.telemetry.events import ManifestFailed, ManifestFetched, Record, ToolLeftOut

FIRST_BACKOFF = 1.0
LAST_BACKOFF = 60.0
LONGEST_ORDER = 86_400.0  # of a wait that the gateway asks for; more is a slip that must not stop refreshes for good
_KEY = "manifest"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole manifest: the response, its ETag exactly as received, its size in bytes, the pages it came in."""

    document: Any
    etag: str | None
    size: int
    pages: int = 1


@dataclass(frozen=True, slots=True)
class NotModified:
    """The copy with the ETag that was sent is still the gateway's."""


Fetch = Callable[[str | None], Fetched | NotModified]


class _Backoff:
    """When the next try may be: 1 s after a first failure, twice as long after each more, at most a minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._delay = 0.0
        self.until = self._eager = float("-inf")

    def extend(self, *, ordered: float = 0.0) -> float:
        """Count a failure; answers the seconds to wait, which are never less than the gateway *ordered*."""
        self._delay = min(max(self._delay * 2, FIRST_BACKOFF), LAST_BACKOFF)
        ordered = min(ordered, LONGEST_ORDER)
        now = self._clock()
        self.until, self._eager = now + max(self._delay, ordered), now + max(FIRST_BACKOFF, ordered)
        return max(self._delay, ordered)

    def reset(self) -> None:
        """Forget the failures."""
        self._delay = 0.0
        self.until = self._eager = float("-inf")

    def is_early(self, *, eager: bool = False) -> bool:
        """Whether it is too early for a try; an *eager* one, by who has nothing yet, waits no longer each time."""
        return self._clock() < (self._eager if eager else self.until)


class ManifestCache:
    """One tenant's manifest, for any number of threads.

    *ttl* is in seconds on *clock*. A cold start is one fetch for all who wait; at expiry one thread fetches while the
    others are served the copy at hand.
    """

    def __init__(
        self,
        fetch: Fetch,
        *,
        ttl: float,
        record: Record,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._ttl = ttl
        self._record = record
        self._clock = clock
        self._changed = Condition()
        self._fresh: TTLCache[str, Manifest] = TTLCache(maxsize=1, ttl=ttl, timer=clock)
        self._copy: Manifest | None = None
        self._error: BridgeError | None = None
        self._failures = _Backoff(clock)
        self._unknown = _Backoff(clock)
        self._fetching = False
        self._emptied = False
        self._expires = float("-inf")

    @property
    def copy(self) -> Manifest | None:
        """The copy at hand, however old; None before the first."""
        return self._copy

    @property
    def is_failing(self) -> bool:
        """Whether the last look at the gateway had no success."""
        return self._error is not None

    @property
    def age(self) -> float:
        """Seconds since the copy at hand was known to be the gateway's; 0 where there is none."""
        return max(0.0, self._clock() - self._expires + self._ttl) if self._copy is not None else 0.0

    def renew(self) -> tuple[Manifest, str | None]:
        """The manifest after a look at the gateway, or one that another thread has begun, and why that failed.

        Raises what the fetch raised where there is no copy.
        """
        with self._changed:
            looking = self._fetching
            self._changed.wait_for(lambda: not self._fetching)
            early = looking or self._failures.is_early()
            self._fetching = not early
        manifest = self.get() if early else self._refresh()
        return manifest, None if self._error is None else str(self._error)

    def get(self) -> Manifest:
        """The manifest, from the gateway only where there is no fresh copy.

        Raises what the fetch raised where there is none.
        """
        with self._changed:
            while self._copy is None and self._fetching:
                self._changed.wait()
            copy = self._fresh.get(_KEY)
            if copy is None and (self._fetching or self._failures.is_early(eager=self._copy is None)):
                copy = self._copy
                if copy is None:
                    assert self._error is not None
                    raise self._error.with_traceback(None)  # else each thread would add its own frames to it
            if copy is not None:
                return copy
            self._fetching = True
        return self._refresh()

    def refresh_for(self, slug: str) -> Manifest:
        """The manifest after a look for *slug*, which the copy at hand lacks; at most one look a back-off period.

        A look that another thread has begun is waited for, and is enough.
        """
        with self._changed:
            known, looking = self._copy, self._fetching
            self._changed.wait_for(lambda: not self._fetching)
            early = known is None or looking or self._unknown.is_early() or self._failures.is_early()
            if not early:
                self._fetching = True
                self._unknown.extend()
        if early:
            return self.get()
        manifest = self._refresh()
        if manifest is not known and slug in manifest.tools:
            with self._changed:
                self._unknown.reset()
        return manifest

    def wait_change(self, known: Manifest | None, timeout: float) -> Manifest | None:
        """The copy at hand as soon as it isn't *known* any more, after *timeout* seconds at the latest."""
        with self._changed:
            self._changed.wait_for(lambda: self._copy is not known, timeout)
            return self._copy

    def until_due(self) -> float:
        """Seconds until the copy at hand should be looked at again; 0 where it is overdue."""
        with self._changed:
            return max(0.0, max(self._expires, self._failures.until) - self._clock())

    def _refresh(self) -> Manifest:
        """One fetch by the thread that set *_fetching*; the last good copy where it fails."""
        try:
            manifest, event = self._fetch_once()
        except BridgeError as error:
            return self._keep(error)
        except BaseException:
            self._settle()
            raise
        self._accept(manifest)
        self._record(event)
        return manifest

    def _fetch_once(self) -> tuple[Manifest, ManifestFetched]:
        copy, started = self._copy, self._clock()
        answer = self._fetch(copy.etag if copy is not None and copy.pages == 1 else None)
        if isinstance(answer, NotModified):
            if copy is None:
                raise BadAnswer("The gateway answered 304 to an unconditional request for the manifest")
            manifest, size = copy, 0
            self._emptied = False
        else:
            manifest, size = self._read(answer), answer.size
        duration_ms = round((self._clock() - started) * 1000, 1)
        unchanged = manifest is copy
        return manifest, ManifestFetched(duration_ms, size, len(manifest.tools), manifest.etag, unchanged)

    def _read(self, answer: Fetched) -> Manifest:
        """The fetched manifest; the copy at hand where nothing but the order differs.

        No tools after some is believed when the gateway says it a second time: a hiccup must not empty a client's list.
        """
        manifest = build_manifest(answer.document, etag=answer.etag, pages=answer.pages)
        copy = self._copy
        if copy is not None and copy.tools and not manifest.tools and not self._emptied:
            self._emptied = True
            raise BadAnswer(
                "The gateway's manifest holds no tools any more; it is believed when the next one says so too"
            )
        self._emptied = False
        known = frozenset(() if copy is None else copy.left_out)
        for entry in manifest.left_out:
            if entry not in known:
                self._record(ToolLeftOut(entry.name, entry.reason))
        if copy is not None and (copy.tools, copy.etag, copy.pages) == (manifest.tools, manifest.etag, manifest.pages):
            return copy
        return manifest

    def _accept(self, manifest: Manifest) -> None:
        with self._changed:
            self._fetching = False
            self._copy = self._fresh[_KEY] = manifest
            self._expires = self._clock() + self._ttl
            self._error = None
            self._failures.reset()
            self._changed.notify_all()

    def _keep(self, error: BridgeError) -> Manifest:
        with self._changed:
            self._fetching = False
            delay = self._failures.extend(ordered=_find_order(error))
            self._error, copy = error, self._copy
            self._changed.notify_all()
        status = error.status if isinstance(error, GatewayError) else None
        self._record(ManifestFailed(error.message, delay, None if copy is None else len(copy.tools), status))
        if copy is None:
            raise error
        return copy

    def _settle(self) -> None:
        with self._changed:
            self._fetching = False
            self._changed.notify_all()


def _find_order(error: BridgeError) -> float:
    """The seconds for which the gateway asked not to be asked."""
    return (error.retry_after or 0.0) if isinstance(error, GatewayError) else 0.0
