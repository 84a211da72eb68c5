"""What each kind of client sees of the current manifest: an inventory for each profile, made when first asked for.

It also tells the operator, once, of what no client is shown and of lists that are too long for a client.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from colabhive_mcp.manifest.filters import Rule
from colabhive_mcp.manifest.inventory import CheckEndpoint, Form, Inventory, Own, build_inventory
from colabhive_mcp.manifest.model import LeftOut, Manifest
from colabhive_mcp.manifest.profiles import DEFAULT, PROFILES, Profile
from colabhive_mcp.protocol.revisions import Revision
from colabhive_mcp.telemetry.events import Record, ToolLeftOut, ToolRewritten, Warned

if TYPE_CHECKING:
    from colabhive_mcp.manifest.search import Index

MAX_TOLD = 10_000  # warnings that are remembered; a manifest that changes for ever must not fill the memory

_FEWEST = min((each for each in PROFILES.values() if each.max_tools), key=lambda each: each.max_tools or 0)


class Views:
    """The inventories of one tenant, for any number of threads.

    *own* are the definitions of tools that are always listed, *searching* of those that stand for all others.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        form: Form,
        *,
        own: Sequence[Own],
        searching: Sequence[Own],
        check_endpoint: CheckEndpoint,
        record: Record,
    ) -> None:
        self._rules = rules
        self._form = form
        self._own = own
        self._searching = searching
        self._check_endpoint = check_endpoint
        self._record = record
        self._lock = Lock()
        self._manifest: Manifest | None = None
        self._inventories: dict[str, Inventory] = {}
        self._indexes: WeakKeyDictionary[Inventory, Index] = WeakKeyDictionary()
        self._told: set[LeftOut] = set()

    def build(self, manifest: Manifest, profile: Profile = DEFAULT) -> Inventory:
        """What a client of *profile* sees of *manifest*; the same object until there is another manifest."""
        with self._lock:
            if self._manifest is not manifest:
                self._manifest, self._inventories = manifest, {}
            inventory = self._inventories.get(profile.name)
            if inventory is not None:
                return inventory
            inventory = self._inventories[profile.name] = self._build(manifest, profile)
        if not inventory.searched:
            self._hint(len(inventory.offered) + len(self._own), profile)
        return inventory

    def index(self, inventory: Inventory) -> Index:
        """The index of what *inventory* offers, kept as long as it."""
        from colabhive_mcp.manifest.search import build_index  # noqa: PLC0415 - few servers search

        with self._lock:
            index = self._indexes.get(inventory)
            if index is None:
                names = {slug: inventory.find_name(slug) for slug in inventory.offered}
                index = build_index(inventory.offered.in_order, names)
                self._indexes[inventory] = index
        return index

    def tell(self, inventory: Inventory, revision: Revision) -> None:
        """Tell of what the list of *inventory* does not show, or shows otherwise than the manifest."""
        encoded = inventory.encode(revision)
        news = self._find_news([*encoded.left_out, *encoded.rewritten])
        for entry in encoded.left_out:
            if entry in news:
                self._record(ToolLeftOut(entry.name, entry.reason))
        for entry in encoded.rewritten:
            if entry in news:
                self._record(ToolRewritten(entry.name, entry.reason))

    def tell_left_out(self, entry: LeftOut) -> None:
        """One warning for a tool and a reason, however often it is listed or called."""
        if self._find_news([entry]):
            self._record(ToolLeftOut(entry.name, entry.reason))

    def _build(self, manifest: Manifest, profile: Profile) -> Inventory:
        form = self._form
        most = form.most if profile.max_tools is None else min(form.most, profile.max_tools - len(self._own))
        form = replace(form, name_length=profile.name_length, dropped=frozenset(profile.dropped), most=most)
        return build_inventory(
            manifest,
            self._rules,
            form,
            own=self._own,
            searching=self._searching,
            check_endpoint=self._check_endpoint,
        )

    def _hint(self, count: int, profile: Profile) -> None:
        """One sentence where a client will not take all that it is offered."""
        known = _FEWEST if profile is DEFAULT else profile
        if known.max_tools is not None and count > known.max_tools and self._find_news([LeftOut(known.name, "many")]):
            who = f"{known.title} takes" if profile is known else f"some clients, such as {known.title}, take"
            self._record(
                Warned(
                    f"{count} tools are listed, and {who} at most {known.max_tools}: choose some with allow_tools, "
                    "deny_tools, allow_kinds or stability, or let the model find them with listing = search."
                )
            )

    def _find_news(self, entries: Collection[LeftOut]) -> set[LeftOut]:
        """Those of *entries* that were not told yet; they count as told from now on."""
        with self._lock:
            news = set(entries) - self._told
            if len(self._told) + len(news) > MAX_TOLD:
                self._told = set(entries)  # a longer list is still told of once
            self._told |= news
        return news
