"""What one tenant's callers are offered: the manifest, fetched or pinned, seen through the filters and a profile.

It decides which tools a caller sees, which one a name means, and which copy of it the caller's calls are held to. It
calls no tool, and writes to no client.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Lock

from colabhive_mcp.calls import directory, lookup
from colabhive_mcp.calls.terms import load_terms
from colabhive_mcp.config import Settings
from colabhive_mcp.errors import ClientError, ConfigError, GatewayError
from colabhive_mcp.gateway.client import GatewayClient
from colabhive_mcp.gateway.endpoints import find_endpoint_fault
from colabhive_mcp.kinds import is_etag
from colabhive_mcp.manifest.cache import Fetched, ManifestCache, NotModified
from colabhive_mcp.manifest.filters import build_filters
from colabhive_mcp.manifest.inventory import Form, Inventory
from colabhive_mcp.manifest.model import LeftOut, Manifest, Tool
from colabhive_mcp.manifest.pins import Lag, Pin, parse_pin
from colabhive_mcp.manifest.profiles import PROFILES, Profile, find_profile
from colabhive_mcp.manifest.queries import Found, Query
from colabhive_mcp.manifest.schemas import UnusableSchema
from colabhive_mcp.manifest.views import Views
from colabhive_mcp.protocol.toolbox import Caller, Changed, KeepAlive
from colabhive_mcp.telemetry.events import Record

LOOK_EVERY = 1.0  # seconds between two looks at whether anybody still waits for a change
PEEK_SECONDS = 2.0  # for a look at how far a pin is behind: a first list may have to wait for it
_NEVER = Event()


@dataclass(slots=True)
class Shown:
    """What a session was shown: the *inventory* that it last listed, None where that could not be had.

    Where tools are searched, *described* are those whose manifests it was given since, by slug.
    """

    inventory: Inventory | None
    described: dict[str, Tool] = field(default_factory=dict)

    def find_slug(self, name: str) -> str | None:
        """The slug behind *name*, as it was when it was shown."""
        return self.inventory.find_slug(name) if self.inventory else None

    def find_tool(self, slug: str) -> Tool | None:
        """The copy of the tool *slug* that was shown."""
        if self.inventory is None or self.inventory.searched:
            return self.described.get(slug)
        return self.inventory.offered.get(slug)

    def shows_same(self, other: Inventory) -> bool:
        """Whether *other* would be listed the same; where nothing was had, any tools at all are news."""
        return self.inventory.shows_same(other) if self.inventory else not other.offered


class Offer:
    """The tools of one gateway as one key's callers see them, for any number of threads."""

    def __init__(
        self,
        settings: Settings,
        client: GatewayClient,
        *,
        record: Record,
        clock: Callable[[], float] = time.monotonic,
        pin: Fetched | None = None,
    ) -> None:
        """*pin* is the manifest of the file that ``manifest_pin`` names."""
        self._settings = settings
        self._client = client
        self._record = record
        self._clock = clock
        self._pin = self._build_pin(settings.manifest_pin, pin) if settings.manifest_pin else None
        self._cache = ManifestCache(self._pin or self._fetch, ttl=settings.manifest_ttl, record=record, clock=clock)
        self._views = _build_views(settings, record)
        self._showing = Lock()  # two workers may describe tools to one session at once

    @property
    def ttl_ms(self) -> int:
        """For how long what is told here may be kept."""
        return math.ceil(self._settings.manifest_ttl * 1000)

    def find_profile(self, caller: Caller | None) -> Profile:
        """The profile that is set, or that of the client that shook hands: 2026-07-28 lets nothing be inferred."""
        wanted = self._settings.client_profile
        if wanted != "auto":
            return PROFILES[wanted]
        session = caller.session if caller is not None else None
        return find_profile(session.client.name if session is not None else None)

    def view(self, caller: Caller | None) -> Inventory:
        """What *caller* sees now; the manifest is fetched where there is no fresh copy. Raises BridgeError."""
        return self._see(self._cache.get(), caller)

    def measure_lag(self) -> Lag | None:
        """How far the pinned manifest is behind the gateway's; None where none is pinned."""
        return self._pin.measure() if self._pin else None

    def list_page(self, cursor: str | None, caller: Caller) -> tuple[Sequence[bytes], str | None]:
        """A page of tools, each as JSON, and the next cursor; the session is from then on held to what it was shown."""
        try:
            inventory = self.view(caller)
        except GatewayError:
            if caller.session is not None:
                caller.session.listed = caller.session.listed or Shown(None)
            raise
        page = inventory.read_page(caller.revision, cursor)
        self._views.tell(inventory, caller.revision)
        if caller.session is not None:
            caller.session.listed = Shown(inventory)
        return page

    def is_searched(self, caller: Caller) -> bool:
        """Whether *caller* was shown the tools that search for all others; before it has listed, whether it would."""
        shown = _find_shown(caller)
        return (shown.inventory if shown and shown.inventory else self.view(caller)).searched

    def find(self, name: str, caller: Caller) -> Tool:
        """The tool that *name* means to this caller, in the copy that its calls are held to.

        Raises ClientError where it is not offered.
        """
        shown = _find_shown(caller)
        slug, current = self._locate(name, caller)
        tool = (shown.find_tool(slug) if shown else None) or current.offered[slug]
        return self._vouch(tool, name)

    def describe(self, name: str, caller: Caller) -> tuple[Tool, str]:
        """The tool that *name* means, as it is now, and its name on lists.

        The session's calls of it are held to that from then on. Raises ClientError as `find`.
        """
        slug, current = self._locate(name, caller)
        tool = self._vouch(current.offered[slug], name)
        if caller.session is not None:
            with self._showing:
                caller.session.listed = caller.session.listed or Shown(current)
                caller.session.listed.described[slug] = tool
        return tool, current.find_name(slug)

    def search(self, query: Query, caller: Caller) -> tuple[Found, Sequence[str]]:
        """The best tools for *query*, but for those that could not be called, and the kinds that one may ask for."""
        index = self._views.index(self.view(caller))
        found = index.find(query)
        usable = tuple(hit for hit in found.hits if self._find_fault(hit.tool) is None)
        return found._replace(hits=usable, total=found.total - len(found.hits) + len(usable)), index.kinds

    @property
    def age(self) -> float:
        """Seconds since the tools at hand were known to be the gateway's."""
        return self._cache.age

    def refresh(self) -> tuple[Manifest, str | None]:
        """The manifest after a look at the gateway now, and why that failed. Raises BridgeError where there is none."""
        return self._cache.renew()

    def look_again(self, slug: str) -> None:
        """Refresh the manifest, since the gateway does not know the tool *slug* any more."""
        self._cache.refresh_for(slug)

    def changes(self, caller: Caller) -> Iterator[Changed | KeepAlive]:
        """A mark whenever this caller's list has changed; keeps the manifest fresh meanwhile.

        A change is measured against what was listed or told of last, or else against what was there when the watch
        began; a session that has not said ``notifications/initialized`` hears of it when it has.
        """
        known, listed = self._cache.copy, None
        told = self._find_told(known, caller)
        while not (caller.cancel.is_set() or caller.stopping()):
            known = self._await_copy(known)
            yield KeepAlive.MARK
            if known is None:
                told = told or self._find_told(None, caller)
                continue
            if caller.session is not None and not caller.session.initialized:
                continue
            if caller.session is not None and caller.session.listed is not listed:
                told = listed = caller.session.listed
            current = self._see(known, caller)
            if told is not None and not told.shows_same(current):
                current.encode(caller.revision)
                yield Changed.MARK
            told = Shown(current)

    def _find_told(self, known: Manifest | None, caller: Caller) -> Shown | None:
        """What *caller* may know where it has listed nothing: who could not list may have given up."""
        if known is not None:
            return Shown(self._see(known, caller))
        return Shown(None) if self._cache.is_failing else None

    def _await_copy(self, known: Manifest | None) -> Manifest | None:
        """Another copy than *known* as soon as there is one, fetched here when due; the same one after a while."""
        wait = min(max(self._cache.until_due(), 0.05), LOOK_EVERY)
        copy = self._cache.wait_change(known, wait)
        if copy is not known or self._cache.until_due() > 0:
            return copy
        try:
            return self._cache.get()
        except GatewayError:
            return known  # the cache has recorded it, and tries again when it is due

    def _build_pin(self, name: str, file: Fetched | None) -> Pin:
        peek = partial(self._fetch, patience=PEEK_SECONDS)
        return Pin(name, file, fetch=self._fetch, peek=peek, record=self._record)

    def _fetch(self, etag: str | None, *, patience: float = math.inf) -> Fetched | NotModified:
        settings = self._settings
        wait = min(settings.connect_timeout + settings.http_timeout, patience)
        known = etag if settings.use_etag else None
        answer = self._client.fetch_manifest(known, cancel=_NEVER, deadline=self._clock() + wait)
        if answer is None:
            return NotModified()
        return Fetched(answer.document, answer.etag, answer.size, answer.pages)

    def _see(self, manifest: Manifest, caller: Caller | None) -> Inventory:
        return self._views.build(manifest, self.find_profile(caller))

    def _locate(self, name: str, caller: Caller) -> tuple[str, Inventory]:
        """The slug behind *name*, and the inventory that offers it; for an unknown one the gateway is asked again."""
        shown, current = _find_shown(caller), self.view(caller)
        slug = (shown.find_slug(name) if shown else None) or current.find_slug(name)
        if slug is None and any(name == own["name"] for own in current.own):
            raise ClientError(f"{name} is called directly, not by way of another tool")
        if slug is None or slug not in current.manifest.tools:
            current = self._see(self._cache.refresh_for(slug or name), caller)
            slug = current.find_slug(slug or name)
        if slug is None:
            hint = f"; {directory.SEARCH} finds what there is" if current.searched else ""
            raise ClientError(f"Unknown tool: {name[:80]}" + _say_departure(shown, name) + hint)
        if slug in current.refused:
            raise ClientError(f"Tool {name[:80]} is not offered: {current.refused[slug]}")
        return slug, current

    def _vouch(self, tool: Tool, name: str) -> Tool:
        """*tool*, of which a call could be checked and sent. Raises ClientError where none could."""
        fault = self._find_fault(tool)
        if fault is not None:
            raise ClientError(f"Tool {name[:80]} is not offered: {fault}")
        return tool

    def _find_fault(self, tool: Tool) -> str | None:
        """Why *tool* is left out, which is told once; None where it can be called."""
        try:
            load_terms(tool)
        except UnusableSchema as error:
            self._views.tell_left_out(LeftOut(tool.slug, str(error)))
            return str(error)
        return None


def _find_shown(caller: Caller) -> Shown | None:
    """What the caller's session was shown; None where it has no session, or has listed nothing."""
    shown: Shown | None = caller.session.listed if caller.session is not None else None
    return shown


def _build_views(settings: Settings, record: Record) -> Views:
    rules = build_filters(
        allow_tools=settings.allow_tools,
        deny_tools=settings.deny_tools,
        allow_kinds=settings.allow_kinds,
        deny_side_effects=settings.deny_side_effects,
        stability=settings.stability,
        hide_deprecated=settings.deprecated == "hide",
    )
    form = Form(
        exact_names=settings.tool_names == "exact",
        exact_schemas=settings.schemas == "exact",
        page_size=settings.page_size,
        listing=settings.listing,
        most=settings.listing_threshold,
    )
    return Views(
        rules,
        form,
        own=(lookup.DEFINITION,),
        searching=directory.DEFINITIONS,
        check_endpoint=find_endpoint_fault,
        record=record,
    )


def load_pin(settings: Settings) -> Fetched | None:
    """The manifest of the file that ``manifest_pin`` names; None where it names none. Raises ConfigError."""
    name = settings.manifest_pin
    if name is None or is_etag(name):
        return None
    try:
        return parse_pin(Path(name).read_text("utf-8-sig"), name)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"manifest_pin: {name} cannot be read: {reason}.") from error


def _say_departure(shown: Shown | None, name: str) -> str:
    """What took the place of a tool that this session was shown and that has left."""
    slug = shown.find_slug(name) if shown else None
    tool = shown.find_tool(slug) if shown and slug else None
    if tool is None:
        return ""
    return f" (it left the manifest; use {tool.replaced_by} instead)" if tool.replaced_by else " (it left the manifest)"
