"""What one client sees of a manifest: names, pages, cursors, and what is left out."""

import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from colabhive_mcp.errors import ClientError
from colabhive_mcp.manifest.document import MAX_SUBSCHEMAS
from colabhive_mcp.manifest.filters import build_filters
from colabhive_mcp.manifest.inventory import Form, Inventory, build_inventory
from colabhive_mcp.manifest.model import build_manifest
from colabhive_mcp.manifest.names import is_portable
from colabhive_mcp.manifest.nesting import MAX_LEVELS
from colabhive_mcp.protocol.revisions import REVISIONS
from tests.harness import spec

LATEST = REVISIONS["2025-11-25"]
OWN = {
    "name": "own_tool",
    "title": "Own",
    "inputSchema": {"type": "object", "properties": {}},
    "annotations": {"readOnlyHint": True},
}


def tool(name: str, **more: Any) -> dict[str, Any]:
    """An entry of a manifest."""
    return {"name": name, "inputSchema": {"type": "object", "properties": {}}, **more}


def take(*entries: Any, rules: dict[str, Any] | None = None, own: Any = (), **form: Any) -> Inventory:
    """What a client sees of a manifest with these entries."""
    manifest = build_manifest({"tools": list(entries)}, etag=None)
    return build_inventory(manifest, build_filters(**(rules or {})), Form(**form), own=own)


def read(inventory: Inventory, cursor: str | None = None, revision: str = "2025-11-25") -> tuple[list[str], str | None]:
    """The names on one page, and the cursor of the next."""
    page, following = inventory.read_page(REVISIONS[revision], cursor)
    return [json.loads(entry)["name"] for entry in page], following


def test_one_page_by_default() -> None:
    """However many tools there are, they are one page without a next one."""
    names, following = read(take(*(tool(f"t{n:03}") for n in range(150))))
    assert (names, following) == ([f"t{n:03}" for n in range(150)], None)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 100])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_pages(size: int, count: int) -> None:
    """Pages are of the size that was asked for, in order, and end; the bridge's own tool comes last."""
    inventory = take(*(tool(f"t{n}") for n in range(count)), own=(OWN,), page_size=size)
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        names, cursor = read(inventory, cursor)
        assert 1 <= len(names) <= size
        seen += names
        pages += 1
        assert pages <= count + 1
    assert seen == [*(f"t{n}" for n in range(count)), "own_tool"]
    assert pages == -(-(count + 1) // size)


def test_an_empty_list_is_a_page() -> None:
    """Without any tool the list is one empty page."""
    assert read(take()) == ([], None)
    assert read(take(page_size=5)) == ([], None)


@pytest.mark.parametrize("cursor", ["", "junk", "0", "1", "AAAA", "é", "\ud83d", "x" * 10_000])
def test_cursors_that_were_never_given(cursor: str) -> None:
    """What is no cursor of this list is refused as bad params."""
    for inventory in (take(tool("a"), tool("b"), page_size=1), take(tool("a"))):
        with pytest.raises(ClientError, match="cursor") as refused:
            inventory.read_page(LATEST, cursor)
        assert refused.value.code == -32602


def test_cursors_of_another_list() -> None:
    """A cursor of an older manifest, or of other filters, is none of this list."""
    before = take(tool("a"), tool("b"), tool("c"), page_size=1)
    cursor = read(before)[1]
    assert read(before, cursor)[0] == ["b"]
    for after in (
        take(tool("a"), tool("b"), tool("c", description="new"), page_size=1),
        take(tool("a"), tool("b"), tool("c"), page_size=2),
        take(tool("a"), tool("b"), tool("c"), page_size=1, rules={"deny_tools": ["a"]}),
    ):
        with pytest.raises(ClientError):
            after.read_page(LATEST, cursor)


def test_cursors_of_the_same_list() -> None:
    """The same tools in another order, or fetched again, are the same list with the same cursors."""
    cursor = read(take(tool("a"), tool("b"), page_size=1))[1]
    assert read(take(tool("b"), tool("a"), page_size=1), cursor)[0] == ["b"]


def test_pages_do_not_read_the_whole_list_again() -> None:
    """What cursors know a list by is made once, not with each page of it."""
    inventory = take(*(tool(f"t{n}") for n in range(5)), page_size=1)
    encoded = inventory.encode(LATEST)
    before = encoded.digest
    cursor = inventory.read_page(LATEST, None)[1]
    inventory.read_page(LATEST, cursor)
    assert inventory.encode(LATEST) is encoded
    assert encoded.digest is before


# Names


def test_names() -> None:
    """Each tool is listed under a name that every client takes, and is found by that name and by its slug."""
    slugs = ["qwen-2.5-7b", "training.merge", "plain", "a b/c", "ü", "x" * 100]
    inventory = take(*map(tool, slugs))
    names = {slug: inventory.find_name(slug) for slug in slugs}
    assert all(map(is_portable, names.values()))
    assert len(set(names.values())) == len(slugs)
    assert names["qwen-2.5-7b"] == "qwen-2_5-7b"
    for slug, name in names.items():
        assert inventory.find_slug(slug) == inventory.find_slug(name) == slug
    assert inventory.find_slug("qwen") is None
    assert sorted(read(inventory)[0]) == sorted(names.values())


def test_exact_names() -> None:
    """On request names are the slugs, but for one that is the name of a tool of the bridge's own."""
    inventory = take(tool("qwen-2.5"), tool("own_tool"), own=(OWN,), exact_names=True)
    assert inventory.find_name("qwen-2.5") == "qwen-2.5"
    other = inventory.find_name("own_tool")
    assert other != "own_tool"
    assert inventory.find_slug(other) == "own_tool"
    assert sorted(read(inventory)[0]) == sorted(["qwen-2.5", other, "own_tool"])


def test_own_names_are_reserved() -> None:
    """A tool of the gateway never takes the name of one of the bridge's own."""
    for slug in ("own_tool", "own.tool"):
        names = read(take(tool(slug), own=(OWN,)))[0]
        assert len(set(names)) == 2
        assert names[-1] == "own_tool"


def test_refused_tools_are_known_and_not_listed() -> None:
    """A tool that is filtered out is not listed, is found by its slug, and has its reason."""
    inventory = take(tool("a"), tool("b.c"), tool("d"), rules={"deny_tools": ["b*"]})
    assert read(inventory)[0] == ["a", "d"]
    assert inventory.find_slug("b.c") == "b.c"
    assert inventory.find_slug("b_c") is None
    assert inventory.refused == {"b.c": "matched by deny_tools 'b*'"}


def test_order_is_that_of_the_slugs() -> None:
    """The list is in the same order however the manifest was."""
    entries = [tool(name) for name in ("b", "a", "c.d", "C")]
    assert take(*entries).encode(LATEST).tools == take(*entries[::-1]).encode(LATEST).tools


def test_what_a_client_sees_as_the_same() -> None:
    """Two inventories look the same when the offered tools are the same, whatever was filtered out or reordered."""
    rules = {"deny_tools": ["x*"]}
    one = take(tool("a"), tool("b"), tool("x1"), rules=rules)
    assert one.shows_same(one)
    assert one.shows_same(take(tool("b"), tool("a"), tool("x2"), tool("x3"), rules=rules))
    assert not one.shows_same(take(tool("a"), rules=rules))
    assert not one.shows_same(take(tool("a"), tool("b", description="new"), rules=rules))


def test_a_tool_that_cannot_be_shown_is_no_change() -> None:
    """Tools that are left out come, change and go unseen, but not where one takes another's place or its name."""
    bad, worse = tool("b/c", inputSchema={"type": "int"}), tool("b/c", inputSchema=[])
    one = take(tool("a"))
    assert one.shows_same(take(tool("a"), bad))
    assert take(tool("a"), bad).shows_same(one)
    assert take(tool("a"), bad).shows_same(take(tool("a"), worse))
    assert not take(tool("a"), bad).shows_same(take(tool("a"), tool("b/c")))
    assert not take(tool("a"), tool("b/c")).shows_same(take(tool("a"), bad))
    assert not take(tool("b.c")).shows_same(take(tool("b.c"), bad))


# What is left out


def test_one_bad_tool_takes_no_other_with_it() -> None:
    """Tools that no client could be shown are left out with a reason, and all others are listed."""
    bad = {
        "bad-type": {"type": "int"},
        "bad-ref": {"$ref": "https://x.test/s"},
        "bad-list": [],
        "bad-false": False,
    }
    inventory = take(tool("a"), *(tool(name, inputSchema=schema) for name, schema in bad.items()), tool("z"))
    encoded = inventory.encode(LATEST)
    assert read(inventory)[0] == ["a", "z"]
    assert sorted(entry.name for entry in encoded.left_out) == sorted(bad)
    assert all(entry.reason for entry in encoded.left_out)


def test_a_tool_nested_beyond_reading_takes_no_other_with_it() -> None:
    """A tool that is deeper than the parsers of some clients read is left out like any other bad one."""
    lists = {levels: json.loads("[" * levels + "]" * levels) for levels in (MAX_LEVELS - 1, MAX_LEVELS)}
    inventory = take(*(tool(f"t{levels}", tags=tags) for levels, tags in lists.items()))
    assert read(inventory)[0] == [f"t{MAX_LEVELS - 1}"]
    [entry] = inventory.encode(LATEST).left_out
    assert entry.name == f"t{MAX_LEVELS}"
    assert entry.reason.startswith(f"it is nested deeper than {MAX_LEVELS} levels (at /tags/0/0/")


def test_a_schema_too_large_to_check_takes_no_other_with_it() -> None:
    """What could be shown and not checked is not shown: whatever is listed can be called."""
    schema = {"type": "object", "properties": {f"p{n}": {} for n in range(MAX_SUBSCHEMAS)}}
    inventory = take(tool("a"), tool("large", inputSchema=schema))
    assert read(inventory)[0] == ["a"]
    [entry] = inventory.encode(LATEST).left_out
    assert entry.reason == "its inputSchema cannot be used: has more than 20,000 subschemas (at /inputSchema)"


def test_a_form_that_is_too_deep_takes_no_other_with_it() -> None:
    """A tool that only its form for clients makes too deep is left out too; the exact schema is shown."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(40):
        schema = {"type": ["object", "array"], "properties": {"a": schema}}
    entries = (tool("a"), tool("deep", inputSchema={"type": "object", "properties": {"a": schema}}))
    [entry] = take(*entries).encode(LATEST).left_out
    assert entry.name == "deep"
    assert "it is nested deeper than 120 levels (at /inputSchema/properties/a/anyOf/" in entry.reason
    assert read(take(*entries, exact_schemas=True))[0] == ["a", "deep"]


def test_rewriting_is_told() -> None:
    """A tool whose schema is shown in another form is named with what was done, and only then."""
    schema = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {}}}
    entries = (tool("a"), tool("b", inputSchema=schema))
    assert [entry.name for entry in take(*entries).encode(LATEST).rewritten] == ["b"]
    assert take(*entries, exact_schemas=True).encode(LATEST).rewritten == ()


# Encoding


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_lists_fit_their_revision(revision: str) -> None:
    """The list is one that the revision allows, the bridge's own tool included."""
    inventory = take(tool("a", displayName="A", annotations={"readOnly": True}), own=(OWN,))
    page, _ = inventory.read_page(REVISIONS[revision], None)
    modern = {"resultType": "complete", "ttlMs": 1, "cacheScope": "private"} if revision == spec.MODERN else {}
    message = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [json.loads(entry) for entry in page], **modern}}
    spec.check(message, revision=revision, method="tools/list")
    own = message["result"]["tools"][-1]
    assert ("title" in own, "annotations" in own) == (revision >= "2025-06-18", revision >= "2025-03-26")


def test_lists_are_encoded_once() -> None:
    """However many ask at once, all get one and the same list, and revisions of one shape share it."""
    inventory = take(*(tool(f"t{n}") for n in range(50)))
    names = [*spec.REVISIONS] * 4
    start = threading.Barrier(len(names))
    seen: dict[str, set[int]] = {name: set() for name in spec.REVISIONS}

    def work(name: str) -> None:
        start.wait(10)
        seen[name].add(id(inventory.encode(REVISIONS[name])))

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert all(len(lists) == 1 for lists in seen.values())
    assert len(set().union(*seen.values())) == 4
    assert seen["2025-06-18"] == seen["2025-11-25"]


def test_an_inventory_keeps_its_manifest() -> None:
    """The copy that a session was shown stays with its inventory."""
    inventory = take(tool("a"))
    assert inventory.manifest.tools["a"] is inventory.offered["a"]


# Deprecated tools


OLD = {"deprecatedAt": "2026-03-01T00:00:00Z", "replacedBy": "z"}


def test_deprecated_tools_come_last() -> None:
    """Who reads the list from the top meets the current tools first, then the bridge's own, then what is deprecated."""
    inventory = take(tool("a", deprecation=OLD), tool("b"), tool("c", deprecation={"deprecatedAt": "x"}), own=(OWN,))
    assert read(inventory)[0] == ["b", "own_tool", "a", "c"]


def test_deprecated_tools_can_be_left_out() -> None:
    """On request they are not offered, and the reason names what replaces them."""
    inventory = take(tool("a", deprecation=OLD), tool("b", deprecation={}), rules={"hide_deprecated": True})
    assert read(inventory)[0] == ["b"]
    assert inventory.refused == {"a": "deprecated is hide and it is deprecated (use z)"}


# Searching instead of listing

FINDER = {"name": "find", "inputSchema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("listing", "count", "searched"),
    [("all", 9, False), ("search", 0, True), ("search", 9, True), ("auto", 5, False), ("auto", 6, True)],
)
def test_tools_are_searched_where_there_are_too_many(listing: str, count: int, searched: bool) -> None:
    """Where tools are searched, the list has the bridge's own alone, and every tool can still be called by its name."""
    manifest = build_manifest({"tools": [tool(f"t{n}") for n in range(count)]}, etag=None)
    inventory = build_inventory(manifest, (), Form(listing=listing, most=5), own=(OWN,), searching=(FINDER,))
    assert inventory.searched is searched
    assert read(inventory)[0] == (["find", "own_tool"] if searched else [*(f"t{n}" for n in range(count)), "own_tool"])
    assert all(inventory.find_slug(f"t{n}") == f"t{n}" for n in range(count))


def test_a_list_of_finders_never_changes() -> None:
    """Whatever becomes of the tools, a client that searches for them sees the same list."""
    one, other = (take(tool(name), listing="search") for name in "ab")
    assert one.shows_same(other)
    assert not one.shows_same(take(tool("a")))
    assert not take(tool("a")).shows_same(one)


# What is shared


def test_copies_share_the_parts_of_their_lists() -> None:
    """A tool's part of a list is made once for all copies that have the same tool under the same name."""
    entries = [tool(f"t{n}") for n in range(20)]
    one, other = take(*entries), take(*entries, tool("more"))
    assert {id(each) for each in one.encode(LATEST).tools} <= {id(each) for each in other.encode(LATEST).tools}


def test_a_clients_form_is_its_own() -> None:
    """Names and schemas of one form never turn up in the list of another."""
    entry = tool("a-name-of-twenty-letters", inputSchema={"type": "object", "properties": {"n": {"multipleOf": 2}}})
    plain = json.loads(take(entry).read_page(LATEST, None)[0][0])
    short = json.loads(take(entry, name_length=12, dropped=frozenset({"multipleOf"})).read_page(LATEST, None)[0][0])
    assert plain["inputSchema"]["properties"] == {"n": {"multipleOf": 2}}
    assert short["inputSchema"]["properties"] == {"n": {}}
    assert (plain["name"], len(short["name"])) == ("a-name-of-twenty-letters", 12)


def test_an_operation_that_cannot_be_sent_is_left_out() -> None:
    """The endpoint of an operation is checked before it is listed; other kinds have none, whatever they say."""
    entries = [
        tool("bad", kind="operation", endpoint={"path": "bad"}),
        tool("good", kind="operation", endpoint={"path": "good"}),
        tool("none", kind="operation", endpoint=None),
        tool("other", kind="llm", endpoint={"path": "bad"}),
    ]
    manifest = build_manifest({"tools": entries}, etag=None)
    check = lambda block: "it is bad" if block["path"] == "bad" else None  # noqa: E731
    inventory = build_inventory(manifest, (), Form(), check_endpoint=check)
    assert read(inventory)[0] == ["good", "none", "other"]
    left_out = inventory.encode(LATEST).left_out
    assert [(entry.name, entry.reason) for entry in left_out] == [
        ("bad", "its endpoint cannot be used: it is bad (at /endpoint)")
    ]


def test_a_handshake_loads_nothing_of_the_manifest() -> None:
    """What answers ``initialize`` is there before anything that reads a manifest, calls a tool or asks the gateway."""
    code = "import sys, colabhive_mcp.__main__, colabhive_mcp.cli.server; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    rooms = tuple(f"colabhive_mcp.{room}" for room in ("manifest", "calls", "gateway", "offer", "bridge"))
    assert [name for name in ran.stdout.split() if name.startswith(rooms)] == []


def test_a_first_list_loads_no_more_than_it_needs() -> None:
    """What serves a list loads neither what checks values or searches, nor what only authors use."""
    code = "import sys, colabhive_mcp.bridge; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    rooms = {
        "contract",
        "fields",
        "authoring",
        "curation",
        "reception",
        "drafts",
        "changes",
        "compatibility",
        "inclusion",
    }
    late = {"jsonschema", "referencing", "sqlite3", *(f"colabhive_mcp.manifest.{name}" for name in rooms)}
    assert not late.intersection(ran.stdout.split())
