"""What is asked of a search among tools, and what comes of it. Apart from the search itself, which few servers load."""

from __future__ import annotations

from typing import NamedTuple

from colabhive_mcp.manifest.model import Tool

COSTS = ("free", "low", "medium", "high")  # training_quota is not a price: no limit on the price lets it pass
LATENCIES = ("instant", "fast", "slow", "batch", "minutes", "long")  # the last two are the labels of operations


class Query(NamedTuple):
    """What is looked for: words, of which any may match, and limits, all of which must hold.

    *max_cost* is one of COSTS and *max_latency* one of LATENCIES, each of which rises. A tool that doesn't state what
    a limit is about, or states a label that no order knows, does not pass it.
    """

    words: str | None = None
    kind: str | None = None
    tags: tuple[str, ...] = ()
    max_cost: str | None = None
    max_latency: str | None = None
    without_side_effects: tuple[str, ...] = ()


class Hit(NamedTuple):
    """A tool that was found, and the name under which the client knows it."""

    name: str
    tool: Tool


class Found(NamedTuple):
    """The best hits, and how many tools match in all: *total*, or more where *at_least* is set."""

    hits: tuple[Hit, ...]
    total: int
    at_least: bool = False
