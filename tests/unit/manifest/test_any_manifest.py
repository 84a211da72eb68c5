"""Whatever a gateway calls its manifest: it is refused in words, or all that is made of it is in order."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colabhive_mcp.calls import directory, lookup
from colabhive_mcp.calls.arguments import repair_arguments
from colabhive_mcp.calls.terms import load_output_checker, load_terms
from colabhive_mcp.errors import BadAnswer, ToolError
from colabhive_mcp.gateway.answers import Answer, parse_deep_json, to_object
from colabhive_mcp.gateway.endpoints import find_endpoint_fault
from colabhive_mcp.gateway.pages import Page, join_pages
from colabhive_mcp.manifest.filters import build_filters
from colabhive_mcp.manifest.inventory import Form, Inventory, build_inventory
from colabhive_mcp.manifest.model import Manifest, Tool, build_manifest
from colabhive_mcp.manifest.names import is_portable
from colabhive_mcp.manifest.nesting import find_deep
from colabhive_mcp.manifest.queries import Query
from colabhive_mcp.manifest.resources import complete_slug, parse_uri, render_index, render_tool, to_uri
from colabhive_mcp.manifest.schemas import UnusableSchema
from colabhive_mcp.manifest.search import build_index
from colabhive_mcp.manifest.views import Views
from colabhive_mcp.protocol.messages import Encoded, Response, encode
from colabhive_mcp.protocol.revisions import REVISIONS
from colabhive_mcp.telemetry.events import Event, to_fields
from tests.harness import spec
from tests.harness.client import to_messages
from tests.unit.manifest.generated import DRAFT7, DRAFT2020, schemas
from tests.unit.manifest.samples import GOOD, OPERATION, SEED

FORMS = (
    Form(),
    Form(exact_names=True, exact_schemas=True, page_size=2),
    Form(name_length=24, dropped=frozenset({"pattern", "enum"}), listing="search"),
)
RULES = ({}, {"allow_tools": ("*o*",), "deny_side_effects": ("network",), "stability": "beta", "hide_deprecated": True})
OWN = (lookup.DEFINITION,)
NEWEST = REVISIONS[spec.MODERN]
MOST_LEVELS = 127  # of a message; the JSON parser that many clients in Rust use gives up at 128
SECONDS = 5.0  # a hang, on the busiest machine

TEXTS = st.sampled_from(
    [
        *(
            "",
            " ",
            "a",
            "object",
            "int",
            "name",
            "network",
            "\ud800",
            "a\u2028b",
            "\x85",
            "\0",
            "\ufeff",
            "🎉",
            "x" * 300,
        ),
        *(
            "#",
            "#/$defs/d0",
            "#/properties/text",
            "http://127.0.0.1:9/x",
            "file:///etc/passwd",
            "(a+)+$",
            "[",
            r"\p{L}",
        ),
        *("search_tools", lookup.NAME, "count-words", "count.words", "count_words", DRAFT7, DRAFT2020),
    ]
)
NUMBERS = st.sampled_from([0, 1, -1, 2, 1.5, 1e308, -0.0, 10**400, math.nan, math.inf, -math.inf, 20_001])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
FIELDS = [*GOOD, "endpoint", "longDescription", "tools"]
KEYWORDS = ["type", "properties", "items", "$ref", "$defs", "anyOf", "allOf", "enum", "required", "pattern", "$id", "x"]
SLUGS = st.sampled_from(["a.b", "a/b", "a_b", "a b", "modèle", lookup.NAME, "call_tool", "x" * 70, "x" * 71])
NAMES = st.sampled_from([*FIELDS, *KEYWORDS]) | TEXTS
WILD = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def wrap(draw: st.DrawFn) -> Any:
    """A value within many others."""
    value = draw(SCALARS)
    keys = draw(st.lists(st.sampled_from([None, "properties", "items", "a", "allOf"]), min_size=1, max_size=3))
    for _ in range(draw(st.sampled_from([1, 30, 60, 130, 300]))):
        for key in keys:
            value = [value] if key is None else {key: value}
    return value


@st.composite
def entries(draw: st.DrawFn) -> Any:
    """A manifest of one tool with generated schemas, in which a few fields are anything at all."""
    tool = {**copy.deepcopy(draw(st.sampled_from([SEED, GOOD, OPERATION]))), "name": draw(SLUGS)}
    for field in draw(st.lists(st.sampled_from(["inputSchema", "outputSchema"]), max_size=2)):
        tool[field] = draw(schemas(draw(st.sampled_from([DRAFT7, DRAFT2020]))))
    for field in draw(st.lists(st.sampled_from(FIELDS[1:]), max_size=2)):
        tool[field] = draw(WILD | wrap())
    return tool


def find_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each object and array in *value* with each of its keys."""
    pending = [value]
    while pending:
        holder = pending.pop()
        for key, part in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            yield holder, key
            if isinstance(part, dict | list):
                pending.append(part)


def change(draw: st.DrawFn, value: Any) -> None:
    """Replace, remove, rename or repeat something anywhere in *value*."""
    places = list(find_places(value))
    if not places:
        return
    holder, key = draw(st.sampled_from(places))
    part = holder.pop(key)
    match draw(st.sampled_from(["replace", "remove", "rename", "repeat"])), holder:
        case "replace", dict():
            holder[key] = draw(WILD | wrap())
        case "replace", list():
            holder.insert(key, draw(WILD | wrap()))
        case "rename", dict():
            holder[draw(NAMES)] = part
        case "repeat", list():
            holder += [part, copy.deepcopy(part)]


@st.composite
def manifests(draw: st.DrawFn) -> Any:
    """A discovery response in which anything may be anything else."""
    tools: Any = draw(st.lists(entries(), max_size=4)) + draw(st.lists(WILD, max_size=1))
    for _ in range(draw(st.integers(0, 3))):
        change(draw, tools)
    document = {"protocolVersion": "2026-01-01", "tools": tools}
    if draw(st.integers(0, 9)) == 9:
        change(draw, document)
    return document


def to_bytes(document: Any) -> bytes:
    """As a gateway would write it that knows no better."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def read(body: bytes) -> Manifest:
    """The manifest as the bridge gets it from these bytes. Raises BadAnswer."""
    notes: list[str] = []
    value = to_object(
        Answer(200, {}, body, "gateway"), note=notes.append, redact=lambda text: text, parse=parse_deep_json
    )
    whole = join_pages(Page(value, None, len(body), "gateway"), lambda cursor, size: Page({"tools": []}, None, 0, ""))
    return build_manifest(whole.document, etag=None)


def read_list(inventory: Inventory, revision: str) -> list[dict[str, Any]]:
    """All pages of the list in a revision, each held to its schema as the message that it becomes."""
    tools, cursor, first = [], None, True
    while first or cursor is not None:
        page, cursor = inventory.read_page(REVISIONS[revision], cursor)
        rest = {"nextCursor": cursor} if cursor else {}
        modern = {"resultType": "complete", "ttlMs": 1, "cacheScope": "private"} if revision == spec.MODERN else {}
        line = encode(Response(1, Encoded("tools", page, {**rest, **modern})))
        [message] = to_messages(line)
        spec.check(message, revision=revision, method="tools/list")
        assert find_deep(message, MOST_LEVELS) is None
        tools += message["result"]["tools"]
        first = False
    return tools


def check_lists(manifest: Manifest) -> None:
    """Every list is in order, and what is on it can be called; what is not has a reason with its place."""
    for form in FORMS:
        for rules in RULES:
            inventory = build_inventory(
                manifest,
                build_filters(**rules),
                form,
                own=OWN,
                searching=directory.DEFINITIONS,
                check_endpoint=find_endpoint_fault,
            )
            for revision in spec.REVISIONS:
                check_list(inventory, revision)


def check_list(inventory: Inventory, revision: str) -> None:
    """One list."""
    names = [tool["name"] for tool in read_list(inventory, revision)]
    assert len(set(names)) == len(names)
    assert all(is_portable(name, length=inventory.form.name_length) for name in names) or inventory.form.exact_names
    left_out = {entry.name: entry.reason for entry in inventory.encode(REVISIONS[revision]).left_out}
    assert all("(at /" in reason for reason in left_out.values())
    for tool in () if inventory.searched else inventory.offered.values():
        name = inventory.find_name(tool.slug)
        assert (name in names) is (tool.slug not in left_out)
        assert inventory.find_slug(name) == inventory.find_slug(tool.slug) == tool.slug
        check_offer(tool, left_out.get(tool.slug))
    assert len(names) == len(inventory.own) + (0 if inventory.searched else len(inventory.offered) - len(left_out))


def check_offer(tool: Tool, reason: str | None) -> None:
    """What is listed can be called; what is left out is refused with the same words."""
    if reason is None:
        load_terms(tool)
    elif not reason.startswith("as clients would be shown it"):
        with pytest.raises(UnusableSchema) as refusal:
            load_terms(tool)
        assert str(refusal.value) == reason


def check_calls(tool: Tool, arguments: dict[str, Any]) -> None:
    """Arguments are taken or refused, and so is any result."""
    with contextlib.suppress(UnusableSchema):
        terms = load_terms(tool)
        with contextlib.suppress(ToolError):
            assert isinstance(repair_arguments(arguments, terms.schema, terms.arguments), dict)
        for revision in REVISIONS.values():
            for exact in (False, True):
                checker = load_output_checker(tool, revision, exact=exact)
                assert checker is None or checker.accepts(arguments) in {True, False}


def check_words(manifest: Manifest, words: str) -> None:
    """The index, each tool's own manifest, its description for a model, and what a search tells."""
    inventory = build_inventory(manifest, (), FORMS[0], own=OWN)
    left_out = {entry.name for entry in inventory.encode(NEWEST).left_out}
    index = json.loads(render_index(inventory, NEWEST))
    assert {entry["slug"] for entry in index["tools"]} == manifest.tools.keys() - left_out
    for tool in manifest.tools.values():
        assert json.loads(render_tool(tool))["name"] == tool.slug
        assert parse_uri(to_uri(tool.slug)) == tool.slug
        assert (tool.slug in complete_slug(inventory, tool.slug[:3], NEWEST)) is (tool.slug not in left_out)
        for exact in (False, True):
            try:
                text = directory.to_description(tool, "x", limit=2000, exact_schemas=exact)
            except UnusableSchema:
                continue
            assert json.loads(text)["name"] == "x"
    check_search(inventory, words)


def check_search(inventory: Inventory, words: str) -> None:
    """Everything is found without a word, and any word is a search."""
    index = build_index(inventory.offered.in_order, {slug: inventory.find_name(slug) for slug in inventory.offered})
    assert len(index.find(Query(), limit=100).hits) == len(inventory.offered)
    query = Query(words=words, kind=words, tags=(words,), max_cost="low", without_side_effects=(words,))
    for each in (Query(words=words), query):
        found = index.find(each)
        assert directory.say_found(found, each, kinds=index.kinds).encode("utf-8", "surrogatepass")


def check_events(manifest: Manifest) -> None:
    """Whatever is told of it names its tool and says why, once."""
    events: list[Event] = []
    views = Views(
        (), Form(), own=OWN, searching=directory.DEFINITIONS, check_endpoint=find_endpoint_fault, record=events.append
    )
    for _ in range(2):
        views.tell(views.build(manifest), NEWEST)
    told = [json.dumps(to_fields(event)) for event in events]
    assert len(set(told)) == len(told)
    assert all(entry.name.strip() and entry.reason for entry in manifest.left_out)


def check(manifest: Manifest, arguments: dict[str, Any], words: str) -> None:
    """All that is made of a manifest, within the time that a client waits."""
    started = time.thread_time()
    check_lists(manifest)
    check_words(manifest, words)
    check_events(manifest)
    for tool in manifest.tools.values():
        check_calls(tool, arguments)
    assert time.thread_time() - started < SECONDS


SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
ARGUMENTS = st.dictionaries(NAMES, WILD, max_size=4)


@SETTINGS
@given(document=manifests(), arguments=ARGUMENTS, words=TEXTS)
def test_any_manifest_is_in_order_or_refused(document: Any, arguments: dict[str, Any], words: str) -> None:
    """However wrong a manifest is, each list, call, resource and search made of it is in order, or is none in words."""
    with contextlib.suppress(BadAnswer):
        manifest = read(to_bytes(document))
        assert len(manifest.tools) + len(manifest.left_out) == len(document["tools"])
        check(manifest, arguments, words)


@settings(SETTINGS, max_examples=20)
@given(document=manifests(), data=st.data())
def test_any_bytes_are_a_manifest_or_none(document: Any, data: st.DataObject) -> None:
    """Bytes that were changed on their way are another manifest, or are refused in words."""
    body = bytearray(to_bytes(document))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(body)))
        body[start : start + data.draw(st.integers(0, 4))] = data.draw(
            st.binary(max_size=4)
            | st.sampled_from([b"[" * 5000, b'"', b"}", b",", b"NaN", b"9" * 5000, b"\xef\xbb\xbf"])
        )
    with contextlib.suppress(BadAnswer):
        check(read(bytes(body)), {}, "a")


def test_a_manifest_that_was_cut_is_none() -> None:
    """A manifest that ends anywhere before its end is refused, and never taken for a smaller one."""
    body = to_bytes({"tools": [SEED, OPERATION], "etag": "é🎉"})
    assert len(read(body).tools) == 2
    for end in range(len(body)):
        with pytest.raises(BadAnswer):
            read(body[:end])


VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "a number": 7,
    "a fraction": 0.5,
    "a text": "x",
    "no text": "",
    "a list": [],
    "a list of anything": [None, 1, "x", {}],
    "an object": {},
    "an object of anything": {"a": None, "type": 5, "properties": [], "readOnly": "yes", "deprecatedAt": 1, "in": {}},
}


@pytest.mark.parametrize("field", [*OPERATION, "longDescription", "unknown"])
def test_any_field_may_have_any_type(field: str) -> None:
    """A field of the wrong type costs nothing but what it says; only what no call can do without costs the tool."""
    entries_ = [
        {**OPERATION, "name": f"t{number}", field: value} if field != "name" else {**OPERATION, "name": value}
        for number, value in enumerate(VALUES.values())
    ]
    manifest = read(to_bytes({"tools": entries_}))
    check(manifest, {"merge_id": "m"}, "merge")
    left_out = build_inventory(manifest, (), Form(), check_endpoint=find_endpoint_fault).encode(NEWEST).left_out
    reasons = [entry.reason for entry in (*manifest.left_out, *left_out)]
    assert all(f"(at /{field}" in reason for reason in reasons)
    assert bool(reasons) is (field in ("name", "inputSchema", "endpoint"))


OPENINGS = ("open", "socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system")


@pytest.fixture(scope="module")
def opened() -> list[str]:
    """What this process opens from now on; nothing takes such a hook away again."""
    events: list[str] = []
    sys.addaudithook(lambda event, _: events.append(event) if event in OPENINGS else None)
    return events


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema", "$id"])
@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:9/x", "https://169.254.169.254/x", "file:///etc/passwd", "//h/x", "x.json", "urn:x:y"]
)
def test_nothing_is_ever_opened(keyword: str, place: str, opened: list[str]) -> None:
    """Whatever address a schema names, no file and no connection is opened for it."""
    entry = {**GOOD, "inputSchema": {keyword: place}, "outputSchema": {"properties": {"a": {keyword: place}}}}
    manifest = read(to_bytes({"tools": [GOOD, entry, {**entry, "name": "other", "inputSchema": {}}]}))
    check(manifest, {}, "a")  # what is loaded late is loaded now
    anew = to_bytes({"tools": [{**tool.load(), "version": "2.0.0"} for tool in manifest.tools.values()]})
    opened.clear()
    check(read(anew), {}, "a")
    assert opened == []
