"""Tools found by words and limits: what matches, in which order, and that no search at all goes wrong."""

import gc
import random
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colabhive_mcp.errors import ConfigError
from colabhive_mcp.manifest import search
from colabhive_mcp.manifest.model import build_manifest
from colabhive_mcp.manifest.names import build_names
from colabhive_mcp.manifest.queries import COSTS, LATENCIES, Query
from colabhive_mcp.manifest.search import (
    MAX_COUNTED,
    MAX_WORDS,
    Index,
    build_index,
    parse_words,
)

KINDS = ("llm", "tool", "operation")
TAGS = ("text", "Image", "é")
EFFECTS = ("network", "cost")
WORDS = ("translate", "image", "speech", "getWeather", "detect", "画像", "naïve")


def tool(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    """An entry of a manifest."""
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": {}}, **more}


def index(*entries: dict[str, Any]) -> Index:
    """An index of a manifest with these entries."""
    tools = build_manifest({"tools": list(entries)}, etag=None).tools
    return build_index(tools.values(), build_names(tools))


def find(found_in: Index, words: str | None = None, *, limit: int = 10, **limits: Any) -> list[str]:
    """The slugs of the hits, best first."""
    return [hit.tool.slug for hit in found_in.find(Query(words, **limits), limit=limit).hits]


# What matches


@pytest.mark.parametrize(
    "words",
    [
        "weather-report",
        "weather",
        "WEATHER",
        "report weather",
        "Forecaster",  # displayName
        "forecast",  # by its stem
        "forecasting",
        "temperature",  # description
        "precipitation",  # longDescription
        "meteorology",  # a tag
        "meteorologies",
        "geography",  # the category
        "specialist",  # the kind
        "city",  # a property, and one within it
        "cityName",
        "name of the town",
        "postcode",
        "street",
        "celsius",  # what a property's description says
        "precip",  # the beginning of a word that is in none
        "züri",
        "zürich",
        "zurich",
        "東京",
        "京の天気",
        "nothing but weather",
    ],
)
def test_where_words_are_found(words: str) -> None:
    """A tool is found by what it is called, what is said of it, and what it takes."""
    wanted = tool(
        "weather-report",
        "Tells the temperature, in Zürich too. 東京の天気。",
        displayName="Forecaster",
        longDescription="Also precipitation.",
        tags=["meteorology"],
        category="geography",
        kind="specialist",
        inputSchema={
            "type": "object",
            "properties": {
                "cityName": {"type": "string", "description": "Where, the name of a town."},
                "units": {"anyOf": [{"description": "Degrees Celsius."}, {"properties": {"postcode": {}}}]},
                "places": {"type": "array", "items": {"properties": {"street": True}}},
            },
        },
    )
    others = [tool("echo", "Returns what it is given.", kind="tool"), tool("noise-image", "Draws.", kind="tool")]
    assert find(index(*others, wanted), words) == ["weather-report"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("qwen-2.5-7b", "qwen"),
        ("qwen-2.5-7b", "7b"),
        ("text_to_speech", "speech"),
        ("training.merge", "merge"),
        ("getWeather", "weather"),
        ("getWeather", "getweather"),
        ("getWeather", "GetWeather"),
        ("get-weather", "getWeather"),
        ("HTTPServer", "server"),
        ("llama3", "llama"),
    ],
)
def test_names_are_split(name: str, words: str) -> None:
    """The parts of a name are words, whatever joins them."""
    assert find(index(tool(name), tool("other")), words) == [name]


@pytest.mark.parametrize("words", ["zebra", "ec", "éc", "z" * 10_000, "\x00x\x00", "\ud83dx"])
def test_no_match(words: str) -> None:
    """What no tool has is found in none; so is a beginning too short to tell anything."""
    assert find(index(tool("echo"), tool("chat")), words) == []


def test_beginnings_of_very_many_words() -> None:
    """What begins very many words, or words of very many tools, tells nothing, and matches none of them."""
    few, many_more = (index(tool("t", " ".join(f"abc{n}" for n in range(100, end)))) for end in (164, 165))
    assert (find(few, "abc"), find(many_more, "abc"), find(many_more, "abc10")) == (["t"], [], ["t"])
    rare, common = (index(*(tool(f"t{n}", "abcd") for n in range(count))) for count in (3000, 3001))
    assert (len(find(rare, "abc")), find(common, "abc")) == (10, [])


HUGE: tuple[dict[str, Any], ...] = (
    {"longDescription": "word " * 1_000_000},
    {"tags": [f"tag{n}" for n in range(100_000)]},
    {"inputSchema": {"properties": {f"p{n}": {"description": "word"} for n in range(100_000)}}},
    {"inputSchema": {"anyOf": [{"description": "word"}] * 100_000}},
)


@pytest.mark.parametrize("more", HUGE, ids=lambda more: next(iter(more)))
def test_huge_tools(more: dict[str, Any]) -> None:
    """Of a tool that says very much only a part is read; it is found, and so are the others."""
    tools = index(tool("huge", **more), tool("other"))
    assert (find(tools, "huge"), find(tools, "other")) == (["huge"], ["other"])
    assert len(tools._words) < 5000


@pytest.mark.parametrize("words", [None, "", "  ", "🎉", '"*():^-{}', "\x00"])
def test_without_words(words: str | None) -> None:
    """Without a word all tools are found, by slug."""
    assert find(index(tool("b"), tool("c"), tool("a")), words) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "words",
    [
        "NOT echo",
        'echo"',
        '"echo',
        "echo*",
        "echo AND",
        "NEAR(echo chat, 0)",
        "name : echo",
        "-echo",
        "^echo",
        "{echo}",
        "echo + x",
        "echo'; DROP TABLE found; --",
    ],
)
def test_words_are_no_commands(words: str) -> None:
    """The query language of FTS5 is neither obeyed nor an error."""
    assert "echo" in find(index(tool("echo"), tool("other")), words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the weather in a town", ("weather", "town")),
        ("what is the", ("what", "is", "the")),
        ("Echo echo ECHO", ("Echo",)),
        ("a_b-c.d", ("b", "c", "d")),
        ("getWeather2", ("getWeather2", "get", "Weather")),
        (" ".join(f"w{n}" for n in range(100)), tuple(f"w{n}" for n in range(MAX_WORDS))),
        (None, ()),
    ],
)
def test_words(text: str | None, expected: tuple[str, ...]) -> None:
    """A search has a few distinct words, and those that say nothing only where there are no others."""
    assert parse_words(text) == expected


# In which order


def test_names_count_most() -> None:
    """A word in a name counts more than one in a tag, in the description, or in the details, whatever else is said."""
    entries = [
        tool("a", "Short.", longDescription="Image."),
        tool("b", "An image, and a little more."),
        tool("c", "Much more than is said of the others here.", tags=["image"]),
        tool("image", "Much more than is said of all the others together, since it is very, very long."),
        tool("other", "Something else."),
    ]
    assert find(index(*entries), "image") == ["image", "c", "b", "a"]


def test_more_words_first() -> None:
    """A tool that matches two words by the way is better than one that has a single rare one for its name."""
    common = [tool(f"common{n}", ("image", "sound")[n % 2]) for n in range(20)]
    both = tool("z-both", "It is long, and says at its very end.", longDescription="An image with a sound.")
    assert find(index(*common, tool("zebra"), both), "zebra image sound", limit=2) == ["z-both", "zebra"]


def test_rare_words_count_more() -> None:
    """Of two tools that match one word each, the one with the rarer word is better."""
    entries = [*(tool(f"common{n}", "image") for n in range(9)), tool("z-rare", "sound"), tool("none", "other")]
    assert find(index(*entries), "image sound", limit=2) == ["z-rare", "common0"]


def test_equal_tools_by_slug() -> None:
    """Tools that match alike are in the order of their slugs, whatever that of the manifest."""
    entries = [tool(f"t{n}", "image") for n in range(9)]
    assert find(index(*reversed(entries)), "image") == find(index(*entries), "image") == [f"t{n}" for n in range(9)]


@pytest.mark.parametrize("deprecation", [{"replacedBy": "better"}, {"deprecatedAt": "2026-01-01T00:00:00Z"}])
@pytest.mark.parametrize("words", [None, "image", "image old"])
def test_deprecated_last(words: str | None, deprecation: dict[str, str]) -> None:
    """A deprecated tool comes after all others, also with no replacement, and where it matches best."""
    entries = [tool("an-image-old", "image old", deprecation=deprecation), tool("z-image", "image")]
    assert find(index(*entries), words) == ["z-image", "an-image-old"]


# Within limits


@pytest.mark.parametrize("words", [None, "thing"])
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"kind": "llm"}, ["a"]),
        ({"kind": "LLM"}, ["a"]),
        ({"kind": "other"}, []),
        ({"tags": ("text",)}, ["a", "b"]),
        ({"tags": ("Text", "IMAGE")}, ["b"]),
        ({"tags": ("text", "other")}, []),
        ({"max_cost": "free"}, ["a"]),
        ({"max_cost": "medium"}, ["a", "b"]),
        ({"max_cost": "high"}, ["a", "b"]),
        ({"max_cost": "training_quota"}, []),
        ({"max_latency": "instant"}, ["a"]),
        ({"max_latency": "minutes"}, ["a", "b", "c"]),
        ({"max_latency": "batch"}, ["a", "b"]),
        ({"without_side_effects": ("network",)}, ["a", "c"]),
        ({"without_side_effects": ("Network", "creates_job")}, ["a"]),
        ({"without_side_effects": ("unheard",)}, ["a", "b", "c"]),
        ({"without_side_effects": ("unheard", "network")}, ["a", "c"]),
        ({"tags": ("text",) * 9}, ["a", "b"]),
        ({"kind": "tool", "tags": ("image",), "max_cost": "high", "max_latency": "slow"}, ["b"]),
    ],
)
def test_limits(limits: dict[str, Any], expected: list[str], words: str | None) -> None:
    """All limits hold; a tool that does not state what one is about, or in an unknown label, does not pass it."""
    entries = [
        tool("a", kind="llm", tags=["text"], costHint="free", latencyClass="instant", sideEffects=[]),
        tool("b", kind="tool", tags=["text", "Image"], costHint="medium", latencyClass="slow", sideEffects=["network"]),
        tool("c", kind="operation", costHint="training_quota", latencyClass="minutes", sideEffects=["creates_job"]),
        tool("d", kind=5, tags="text", costHint="cheap", latencyClass=[], sideEffects="network"),
        tool("e"),
    ]
    hits = find(index(*({**entry, "displayName": "Thing"} for entry in entries)), words, **limits)
    assert sorted(hits) == expected


def test_the_orders() -> None:
    """A limit lets its own label pass, and all before it."""
    entries = [tool(f"{place}-{label}", costHint=label) for place, label in enumerate(COSTS)]
    entries += [tool(f"{place}-{label}", latencyClass=label) for place, label in enumerate(LATENCIES)]
    tools = index(*entries)
    for order, name in ((COSTS, "max_cost"), (LATENCIES, "max_latency")):
        for place, label in enumerate(order):
            assert find(tools, **{name: label}) == [f"{n}-{each}" for n, each in enumerate(order[: place + 1])]


@pytest.mark.parametrize("limit", [0, 1, 3, 100])
def test_how_many(limit: int) -> None:
    """No more hits than asked for are told, and how many match in all."""
    tools = index(*(tool(f"t{n}", "image", kind="tool" if n % 2 else "llm") for n in range(20)))
    for query, total in (
        (Query("image"), 20),
        (Query(), 20),
        (Query(kind="llm"), 10),
        (Query("image", kind="llm"), 10),
    ):
        found = tools.find(query, limit=limit)
        assert len(found.hits) == min(limit, total)
        assert (found.total if found.hits else total, found.at_least) == (total, False)


def test_names_and_kinds() -> None:
    """A hit has the client's name of its tool; the kinds are those that tools state."""
    tools = index(tool("qwen-2.5", kind="llm"), tool("b", kind="tool"), tool("c"))
    assert [hit.name for hit in tools.find(Query("qwen")).hits] == ["qwen-2_5"]
    assert tools.kinds == ("llm", "tool")


def test_no_tools() -> None:
    """Nothing is found in nothing."""
    for query in (Query(), Query("x"), Query(kind="llm"), Query("x", without_side_effects=("cost",))):
        assert index().find(query) == ((), 0, False)


# Any search


MANIFESTS = st.lists(
    st.fixed_dictionaries(
        {"description": st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)},
        optional={
            "kind": st.sampled_from(KINDS),
            "tags": st.lists(st.sampled_from(TAGS), max_size=3),
            "costHint": st.sampled_from([*COSTS, "training_quota", "other"]),
            "latencyClass": st.sampled_from([*LATENCIES, "other"]),
            "sideEffects": st.lists(st.sampled_from(EFFECTS), max_size=2),
            "deprecation": st.sampled_from([None, {}, {"replacedBy": "t0"}]),
            "longDescription": st.text(max_size=20),
            "displayName": st.none() | st.integers() | st.text(max_size=20),
            "inputSchema": st.recursive(
                st.booleans() | st.text(max_size=5),
                lambda inner: st.dictionaries(
                    st.sampled_from(["properties", "items", "anyOf", "description"]),
                    inner | st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
                    max_size=3,
                ),
                max_leaves=6,
            ),
        },
    ),
    max_size=8,
)
QUERIES = st.builds(
    Query,
    words=st.none() | st.text(max_size=40) | st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join),
    kind=st.none() | st.sampled_from(KINDS) | st.text(max_size=5),
    tags=st.lists(st.sampled_from(TAGS) | st.text(max_size=5), max_size=2).map(tuple),
    max_cost=st.none() | st.sampled_from(COSTS),
    max_latency=st.none() | st.sampled_from(LATENCIES),
    without_side_effects=st.lists(st.sampled_from(EFFECTS), max_size=2).map(tuple),
)


def passes(entry: dict[str, Any], query: Query) -> bool:
    """Whether an entry is within the limits, by the letter of the rule."""
    tags = {tag.casefold() for tag in entry.get("tags", ())}
    cost, latency, effects = entry.get("costHint"), entry.get("latencyClass"), entry.get("sideEffects")
    return (
        query.kind in (None, entry.get("kind"))
        and all(tag.casefold() in tags for tag in query.tags)
        and (query.max_cost is None or cost in COSTS[: COSTS.index(query.max_cost) + 1])
        and (query.max_latency is None or latency in LATENCIES[: LATENCIES.index(query.max_latency) + 1])
        and (not query.without_side_effects or (effects is not None and not {*effects} & {*query.without_side_effects}))
    )


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(entries=MANIFESTS, query=QUERIES, limit=st.integers(0, 9))
def test_any_search(entries: list[dict[str, Any]], query: Query, limit: int) -> None:
    """No search raises; its hits are within the limits, distinct, the deprecated last, and the same each time."""
    manifest = {f"t{n}": {"name": f"t{n}", **entry} for n, entry in enumerate(entries)}
    tools = index(*manifest.values())
    found = tools.find(query, limit=limit)
    slugs = [hit.tool.slug for hit in found.hits]
    assert tools.find(query, limit=limit) == found == index(*reversed(manifest.values())).find(query, limit=limit)
    within = [slug for slug, entry in manifest.items() if passes(entry, query)]
    assert {*slugs} <= {*within}
    assert len(slugs) == len({*slugs}) <= limit
    assert [hit.tool.deprecated for hit in found.hits] == sorted(hit.tool.deprecated for hit in found.hits)
    wanted = {word.casefold() for word in parse_words(query.words)}
    having = {slug for slug in within if wanted & {*manifest[slug]["description"].casefold().split()}}
    assert having <= {hit.tool.slug for hit in tools.find(query).hits}
    if not wanted:
        assert found.total == len(within)
        assert len(slugs) == min(limit, len(within))


SMALL = index(tool("echo", "AND OR NOT NEAR é 画 0"), tool("other"))


@settings(max_examples=150, deadline=None)
@given(words=st.text() | st.text("\"*:^-+(){}' ANDORNOTEAR,019\x00\ud800é画", max_size=60))
def test_any_words(words: str) -> None:
    """No text at all is an error."""
    assert {hit.name for hit in SMALL.find(Query(words)).hits} <= {"echo", "other"}


# Very many tools


def many(count: int) -> Iterable[dict[str, Any]]:
    """Tools of which all have the word `colabhive`, every second `even`, and a few a word in their names."""
    for n in range(count):
        more = {"deprecation": {"replacedBy": "t00000"}} if n % 100 == 50 else {}
        kind = "llm" if n % 1000 == 7 else "tool"
        name = f"t{n:05}-pose" if n % 500 == 499 else f"t{n:05}"
        words = f"ColabHive {'even' if n % 2 == 0 else 'odd'} w{n % 50}{' unicorn' if n == 2901 else ''}"
        yield tool(name, words, kind=kind, **more)


@pytest.fixture(scope="module")
def crowd() -> Index:
    """An index of more tools than can be ranked at once."""
    return index(*many(3000))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query("colabhive"), ["t00000", "t00001"]),
        (Query("colabhive even"), ["t00000", "t00002"]),
        (Query("odd even colabhive pose"), ["t00499-pose", "t00999-pose"]),
        (Query("even colabhive w3 w4"), ["t00004", "t00054"]),
        (Query("even unicorn"), ["t02901", "t00000"]),
        (Query("colabhive", kind="llm"), ["t00007", "t01007"]),
        (Query("even odd", kind="llm"), ["t00007", "t01007"]),
        (Query("colabhive odd pose", kind="llm"), ["t00007", "t01007"]),
        (Query("even odd", kind="none"), []),
    ],
)
def test_common_words(crowd: Index, query: Query, expected: list[str]) -> None:
    """Where more tools match than can be ranked, those with all words and with rare words are still the first."""
    found = crowd.find(query, limit=2)
    assert [hit.tool.slug for hit in found.hits] == expected
    assert len({hit.name for hit in crowd.find(query, limit=20).hits}) == min(20, found.total)


def test_names_first_among_many() -> None:
    """A word in almost all tools finds those first that have it in their names, wherever they stand."""
    entries = [tool(f"t{n:04}", "Reads an image.") for n in range(2000)]
    tools = index(*entries, tool("z-image"), tool("y-image", deprecation={"replacedBy": "z-image"}))
    found = tools.find(Query("image"), limit=2000)
    assert found.hits[0].tool.slug == "z-image"
    assert (found.total, found.at_least) == (MAX_COUNTED, True)
    assert find(tools, "image", limit=2) == ["z-image", "t0000"]


def test_many_threads(crowd: Index) -> None:
    """Any number of threads search one index at once, and each gets its own answer."""
    wanted = {f"w{n} odd": crowd.find(Query(f"w{n} odd")) for n in range(8)}
    wrong: list[str] = []

    def search_all(seed: int) -> None:
        order = random.Random(seed).sample([*wanted], len(wanted)) * 3
        wrong.extend(words for words in order if crowd.find(Query(words)) != wanted[words])

    threads = [threading.Thread(target=search_all, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []


def test_first_searches_at_once() -> None:
    """Threads that come first together share one building of the index."""
    tools = index(*many(200))
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(tools.find(Query("w7")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8
    assert len({each.hits for each in found}) == 1


# The library


def test_it_is_built_late_and_closed() -> None:
    """Nothing is read before the first search, and the connection is closed with the index."""
    tools = index(tool("echo"))
    assert tools._connection is None
    tools.find(Query("echo"))
    connection = tools._connection
    assert connection is not None
    del tools
    gc.collect()
    with pytest.raises(Exception, match="closed"):
        connection.execute("SELECT 1")


def test_without_fts5() -> None:
    """Where SQLite lacks FTS5, the error says so, and what to do."""
    with pytest.raises(ConfigError, match=r"FTS5.*fts0.*listing = all"):
        search._connect("fts0")
