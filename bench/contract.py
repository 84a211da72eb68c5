"""Every figure of the manifest: reading, refreshing and searching it, checking arguments, and what its copies cost.

Measured in the benchmark's own process, by the package's own functions, since no client waits for any of it alone.
"""

from __future__ import annotations

import gc
import json
import math
import time
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from threading import Event
from typing import Any

import requests

from bench import tools
from bench.figures import Figure, Samples, Target
from bench.gateway import MANIFEST
from bench.stdio import TOOLS, Setting, alternate, to_spread
from bench.upstream import KEY, Upstream
from colabhive_mcp.calls import directory, lookup
from colabhive_mcp.gateway.client import GatewayClient, Options
from colabhive_mcp.manifest.cache import Fetched, ManifestCache, NotModified
from colabhive_mcp.manifest.inventory import Form, Inventory, build_inventory
from colabhive_mcp.manifest.model import build_manifest
from colabhive_mcp.manifest.queries import Query
from colabhive_mcp.manifest.schemas import build_checker
from colabhive_mcp.manifest.search import build_index
from colabhive_mcp.protocol.revisions import LATEST_LEGACY
from colabhive_mcp.telemetry.events import discard

COPIES = 64
MANY = 10_000
PROPERTIES = 10
SEARCHES = ("model", "text image tensor", "summary of a corpus", "instant-llm-00042", "nothing of the kind")
"""A word that every tool has, several such, a sentence, a name, and words that no tool has."""


def measure_reading(setting: Setting) -> list[Figure]:
    """A manifest's bytes to the list that a client gets, against parsing the same bytes."""
    body = to_body(tools.build_tools(TOOLS))
    read, parsed = alternate(
        lambda: time_once(lambda: read_manifest(body)),
        lambda: time_once(lambda: json.loads(body)),
        runs=setting.count(40),
    )
    return [
        Figure(
            f"{TOOLS} tools: parse, check and encode",
            Samples(measured=read, floor=parsed, floor_is="json.loads of the same bytes"),
            Target.times_floor(6),
        )
    ]


def measure_refresh(setting: Setting) -> list[Figure]:
    """A refresh that finds the manifest unchanged, against the same conditional GET alone."""
    with (
        closing(open_client(setting.upstream)) as client,
        closing(setting.upstream.connect()) as connection,
        requests.Session() as session,
    ):
        cache = open_cache(client)
        etag = cache.get().etag or ""
        headers = {"X-API-Key": KEY, "If-None-Match": etag, "Accept-Encoding": "gzip"}

        def get_with_requests() -> None:
            session.get(setting.upstream.url + MANIFEST, headers=headers, timeout=30)

        def get_with_library() -> None:
            connection.request("GET", MANIFEST, headers=headers)
            connection.getresponse().read()

        refreshed, bare, least = alternate(
            lambda: time_once(cache.get),
            lambda: time_once(get_with_requests),
            lambda: time_once(get_with_library),
            runs=setting.count(300),
        )
    note = f"http.client alone: {sorted(least)[len(least) // 2]:.2f} ms"
    return [
        Figure(
            "refresh answered 304",
            Samples(measured=refreshed, floor=bare, floor_is="the same GET with requests"),
            Target.times_floor(1.2),
            note,
        )
    ]


def measure_checking(setting: Setting) -> list[Figure]:
    """The arguments of a call against a schema of ten properties."""
    schema = build_schema()
    checker = build_checker(schema)
    arguments = {f"p{place}": place if place % 2 else f"word {place}" for place in range(PROPERTIES)}
    text = json.dumps(arguments)

    def check() -> None:
        assert checker.accepts(arguments)

    checked, parsed = alternate(
        lambda: time_once(check, times=50) * 1e3,
        lambda: time_once(lambda: json.loads(text), times=50) * 1e3,
        runs=setting.count(100),
    )
    return [
        Figure(
            f"arguments against {PROPERTIES} properties",
            Samples(measured=checked, floor=parsed, floor_is="json.loads of the arguments", unit="µs"),
            Target.at_most(100, "µs"),
        )
    ]


def measure_search(setting: Setting) -> list[Figure]:
    """A search over very many tools, and the list that a client has in their place."""
    manifest = build_manifest({"tools": [json.loads(each) for each in tools.build_tools(MANY)]}, etag=None)
    offered = manifest.tools.in_order
    index = build_index(offered, {tool.slug: tool.slug for tool in offered})
    built = time_once(lambda: index.find(Query("model")))
    figures = []
    for words in SEARCHES:
        found = [time_once(lambda words=words: index.find(Query(words))) * 1e3 for _ in range(setting.count(100))]
        floor = [time_once(lambda: sum(tool.slug == "x" for tool in offered)) * 1e3 for _ in range(5)]
        figures.append(
            Figure(
                f"search {MANY:,} tools: {words!r}",
                Samples(measured=found, floor=floor, floor_is="looking at each name once"),
                Target.at_most(5),
                to_spread(found),
            )
        )
    own, searching = (lookup.DEFINITION,), directory.DEFINITIONS
    inventory = build_inventory(manifest, (), Form(listing="search"), own=own, searching=searching)
    page, _ = inventory.read_page(LATEST_LEGACY, None)
    whole, _ = build_inventory(manifest, (), Form(), own=own).read_page(LATEST_LEGACY, None)
    short, long = (sum(map(len, tools)) / 1e3 for tools in (page, whole))
    sizes = Samples(measured=[short], floor=[long], floor_is="the whole list", unit="kB")
    note = f"the index is built in {built * 1e3:.0f} ms"
    return [*figures, Figure(f"list in place of {MANY:,} tools", sizes, Target.at_most(4.096, "kB"), note)]


def measure_copies(setting: Setting) -> list[Figure]:
    """What 64 tenants' copies keep that differ in one tool, lists included, against one copy."""
    listed = tools.build_tools(TOOLS)
    bodies = [
        to_body([tools.encode(tools.build_tool(0, version=f"1.0.{place}")), *listed[1:]]) for place in range(COPIES)
    ]
    read_manifest(bodies[0])  # what is loaded once is no copy's
    gc.collect()
    tracemalloc.start()
    try:
        copies = [read_manifest(bodies[0])]
        one = to_traced()
        copies += [read_manifest(body) for body in bodies[1:]]
        all_copies = to_traced()
    finally:
        tracemalloc.stop()
    samples = Samples(measured=[all_copies], floor=[one], floor_is="one copy", unit="MB")
    return [Figure(f"{COPIES} copies that differ in one of {TOOLS}", samples, Target.times_floor(1.5))]


def to_traced() -> float:
    """Megabytes that are in use."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / 1e6


def to_body(listed: list[bytes]) -> bytes:
    return b'{"tools":[%b]}' % b",".join(listed)


def read_manifest(body: bytes) -> Inventory:
    """The whole way from the bytes of a manifest to a client's list."""
    inventory = build_inventory(build_manifest(json.loads(body), etag=None), (), Form(), own=(lookup.DEFINITION,))
    inventory.encode(LATEST_LEGACY)
    return inventory


def build_schema() -> dict[str, Any]:
    numbers = {"type": "integer", "minimum": 0, "maximum": 100}
    words = {"type": "string", "minLength": 1, "maxLength": 100}
    properties = {f"p{place}": numbers if place % 2 else words for place in range(PROPERTIES)}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def open_client(upstream: Upstream) -> GatewayClient:
    return GatewayClient(Options(api_url=upstream.url, api_key=KEY, version="bench"))


def open_cache(client: GatewayClient) -> ManifestCache:
    """A cache whose copy is never fresh, so that each look is a refresh."""
    never = Event()

    def fetch(etag: str | None) -> Fetched | NotModified:
        answer = client.fetch_manifest(etag, cancel=never, deadline=math.inf)
        if answer is None:
            return NotModified()
        return Fetched(answer.document, answer.etag, answer.size, answer.pages)

    return ManifestCache(fetch, ttl=1e-9, record=discard)


def time_once(work: Callable[[], object], *, times: int = 1) -> float:
    """Seconds of one turn of *work*, on average of so many."""
    begun = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begun) / times


MEASUREMENTS = (measure_reading, measure_refresh, measure_checking, measure_search, measure_copies)
"""All of them, in the order in which they are printed."""
