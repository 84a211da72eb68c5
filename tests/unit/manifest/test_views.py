"""What each kind of client sees: one inventory a profile, and what the operator is told, once."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from colabhive_mcp.manifest.filters import build_filters
from colabhive_mcp.manifest.inventory import Form
from colabhive_mcp.manifest.model import LeftOut, Manifest, build_manifest
from colabhive_mcp.manifest.profiles import DEFAULT, PROFILES
from colabhive_mcp.manifest.queries import Query
from colabhive_mcp.manifest.views import MAX_TOLD, Views
from colabhive_mcp.protocol.revisions import REVISIONS
from colabhive_mcp.telemetry.events import Event, Record, ToolLeftOut, ToolRewritten, Warned

NEWEST = REVISIONS["2026-07-28"]
CURSOR, CLAUDE, WINDSURF = PROFILES["cursor"], PROFILES["claude-code"], PROFILES["windsurf"]


def many(count: int) -> Manifest:
    """A manifest of so many tools."""
    return build_manifest({"tools": [{"name": f"tool-{place:03}"} for place in range(count)]}, etag=None)


class Operator:
    """Views, and what the operator was told of them."""

    def __init__(self, *, form: Form | None = None, record: Record | None = None, **filters: Any) -> None:
        self.told: list[Event] = []
        self.views = Views(
            build_filters(**filters),
            form or Form(),
            own=({"name": "own"},),
            searching=({"name": "seek"},),
            check_endpoint=lambda block: None,
            record=record or self.told.append,
        )

    @property
    def hints(self) -> list[str]:
        """The sentences, up to the advice."""
        return [event.message.partition(":")[0] for event in self.told if isinstance(event, Warned)]


def test_one_inventory_for_a_profile() -> None:
    """An inventory is made once for a manifest and a profile, and anew for another of either."""
    views, first, second = Operator().views, many(1), many(2)
    one = views.build(first)
    assert views.build(first) is one
    assert views.build(first, CURSOR) is not one
    assert views.build(first, CURSOR) is views.build(first, CURSOR)
    assert views.build(second) is not one
    assert len(views.build(second).offered) == 2


def test_an_index_is_kept_as_long_as_its_inventory() -> None:
    """The index is made once, and finds tools by the names of its inventory's client."""
    views = Operator().views
    inventory = views.build(
        build_manifest({"tools": [{"name": "x" * 60, "description": "Otters."}]}, etag=None), CLAUDE
    )
    index = views.index(inventory)
    assert views.index(inventory) is index
    assert len(index.find(Query("otters")).hits[0].name) == CLAUDE.name_length


HINTS = {
    "just enough": (CURSOR, 39, None),
    "one more": (CURSOR, 40, "41 tools are listed, and Cursor takes at most 40"),
    "unknown, enough": (DEFAULT, 39, None),
    "unknown": (DEFAULT, 40, "41 tools are listed, and some clients, such as Cursor, take at most 40"),
    "takes all": (CLAUDE, 500, None),
    "takes more": (WINDSURF, 99, None),
    "another": (WINDSURF, 100, "101 tools are listed, and Windsurf takes at most 100"),
}


@pytest.mark.parametrize("case", HINTS)
def test_one_hint_where_there_are_too_many(case: str) -> None:
    """Where a client's limit is exceeded the operator is told once how to choose; where it is not, nothing."""
    profile, count, words = HINTS[case]
    operator = Operator()
    for _ in range(2):
        operator.views.build(many(count), profile)
    assert operator.hints == ([] if words is None else [words])


def test_each_client_has_one_hint() -> None:
    """A limit of another client is another hint."""
    operator = Operator()
    for profile in (CURSOR, WINDSURF, CURSOR, WINDSURF):
        operator.views.build(many(200), profile)
    assert len(operator.hints) == 2


def test_what_filters_leave_counts() -> None:
    """Where the filters leave few enough, or the tools are searched, there is no hint."""
    operator = Operator(allow_tools=("tool-00?",))
    operator.views.build(many(200), CURSOR)
    searching = Operator(form=Form(listing="search"))
    searching.views.build(many(200), CURSOR)
    assert operator.told == searching.told == []


AUTO = {
    "at the threshold": (DEFAULT, 100, 100, False),
    "over it": (DEFAULT, 101, 100, True),
    "a lower one": (CURSOR, 11, 10, True),
    "at the client's limit": (CURSOR, 39, 100, False),
    "over that": (CURSOR, 40, 100, True),
    "a client without one": (CLAUDE, 101, 1000, False),
    "none at all": (DEFAULT, 0, 0, False),
}


@pytest.mark.parametrize("case", AUTO)
def test_auto_searches_where_there_are_too_many(case: str) -> None:
    """``auto`` searches where more is offered than the threshold, or than fits a client's limit with the own tool."""
    profile, count, threshold, searched = AUTO[case]
    views = Operator(form=Form(listing="auto", most=threshold)).views
    assert views.build(many(count), profile).searched is searched


def test_what_is_not_shown_is_told_once() -> None:
    """A tool that is left out or shown otherwise is one event, however many clients and revisions list it."""
    broken = {"name": "broken", "inputSchema": 5}
    composed = {"name": "composed", "inputSchema": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}}
    manifest = build_manifest({"tools": [broken, composed]}, etag=None)
    operator = Operator()
    for profile in (DEFAULT, CLAUDE):
        for revision in REVISIONS.values():
            operator.views.tell(operator.views.build(manifest, profile), revision)
    told = {type(event): event.tool for event in operator.told if isinstance(event, ToolLeftOut | ToolRewritten)}
    assert told == {ToolLeftOut: "broken", ToolRewritten: "composed"}
    assert len(operator.told) == 2
    operator.views.tell_left_out(LeftOut("broken", "another reason"))
    assert len(operator.told) == 3


def test_a_list_of_very_many_faults_is_told_once() -> None:
    """A list with more warnings than are remembered has each of them once, however often it is asked for."""
    count = MAX_TOLD + 1
    entries = [{"name": f"tool-{place}", "inputSchema": 5} for place in range(count)]
    manifest = build_manifest({"tools": entries}, etag=None)
    operator = Operator()
    inventory = operator.views.build(manifest)
    for _ in range(2):
        operator.views.tell(inventory, NEWEST)
    left_out = [event for event in operator.told if isinstance(event, ToolLeftOut)]
    assert len(left_out) == len({event.tool for event in left_out}) == count


def test_whoever_hears_a_hint_may_look_at_the_views() -> None:
    """Nothing is recorded while the lock is held: a log may block, or ask for the same view."""
    seen: list[int] = []
    operator = Operator(record=lambda event: seen.append(len(operator.views.build(manifest, CURSOR).offered)))
    manifest = many(200)
    asking = Thread(target=operator.views.build, args=(manifest, CURSOR), daemon=True)
    asking.start()
    asking.join(10)
    assert seen == [200]
