"""The manifest as a session sees it: refreshed, paged, pinned, changed and announced, and never worse than the last
good copy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Connect
from tests.harness import spec
from tests.harness.client import StdioClient
from tests.harness.gateway import GatewayProcess, manifest

PATH = "*/mcp/manifest"
BUSY = {"manifest_ttl": 0.1}  # a server that looks at the manifest all the time
LOOK_UP = "get_invocation_result"  # the tool that every list has
QUICK = 10.0  # seconds in which a crowd of answers must be there that wait for nothing
HELD = 60.0  # seconds for which a request is held, until the test lets go of it


def serve(gateway: GatewayProcess, *tools: Any, times: int = 1, etag: str = 'W/"made-up"', **envelope: Any) -> None:
    """Let the next *times* answers be a manifest of exactly these tools."""
    body = {"protocolVersion": "2026-01-01", "tools": list(tools), **envelope}
    gateway.fault(method="GET", path=PATH, times=times, headers={"ETag": etag}, body=body)


def spare(gateway: GatewayProcess, times: int = 1) -> None:
    """Let *times* requests pass before those that meet the faults asked for next."""
    gateway.fault(method="GET", path=PATH, times=times)


def looks(gateway: GatewayProcess) -> list[dict[str, Any]]:
    """The requests for the manifest."""
    return gateway.seen("/mcp/manifest")


def wait_looks(gateway: GatewayProcess, more: int) -> None:
    """Wait until the manifest was asked for *more* times from now on, and all but the last answer is dealt with."""
    gateway.wait_seen(PATH, at_least=len(looks(gateway)) + more)


def list_many(client: StdioClient, count: int) -> list[set[str]]:
    """The names on each of *count* lists that are asked for at once."""
    ids = [client.request("tools/list") for _ in range(count)]
    answers = {}
    while len(answers) < count:
        message = client.receive()
        if "id" in message:
            answers[message["id"]] = {tool["name"] for tool in message["result"]["tools"]}
    return [answers[each] for each in ids]


def read_error(client: StdioClient) -> dict[str, Any]:
    """The error that the list is answered with."""
    error: dict[str, Any] = client.ask("tools/list")["error"]
    return error


def announcements(client: StdioClient) -> int:
    """How many changes were announced until now."""
    client.ask("server/discover" if client.modern else "ping")  # their answers are written after what was announced
    return len(client.notifications)


def wait_announced(client: StdioClient) -> None:
    """Wait for the session's first change to be announced."""
    if not client.notifications:
        client.receive()
    assert [notice["method"] for notice in client.notifications] == ["notifications/tools/list_changed"]


# Refreshing


def test_at_expiry_one_asks_and_nobody_waits(gateway: GatewayProcess, connect: Connect) -> None:
    """At expiry one request is on its way to the gateway, and fifty lists are answered from the last copy meanwhile."""
    spare(gateway)
    gateway.fault(method="GET", path=PATH, delay=HELD)
    client = connect(gateway, **BUSY)
    tools = set(client.tools())
    gateway.wait_seen(PATH, at_least=2)
    started = time.monotonic()
    assert list_many(client, 50) == [tools] * 50
    assert time.monotonic() - started < QUICK
    assert client.call("echo", {"text": "a"})["isError"] is False
    assert len(looks(gateway)) == 2


@pytest.mark.parametrize("revision", ["2025-11-25", spec.MODERN])
def test_a_cold_start_asks_once(gateway: GatewayProcess, connect: Connect, revision: str) -> None:
    """Before the first manifest has come, all who want it wait for one request."""
    gateway.fault(method="GET", path=PATH, delay=0.5)
    client = connect(gateway, revision=revision)
    lists = list_many(client, 50)
    assert "echo" in lists[0]
    assert lists == lists[:1] * 50
    assert len(looks(gateway)) == 1


BAD_ANSWERS: dict[str, dict[str, Any]] = {
    "500": {"status": 500, "body": {"error": "boom"}},
    "503": {"status": 503, "body": "busy"},
    "429": {"status": 429, "body": {"detail": "slow down"}},
    "no answer in time": {"delay": HELD},
    "401": {"status": 401, "body": {"detail": "revoked"}},
    "a redirect": {"status": 302, "headers": {"Location": "/login"}, "body": ""},
    "a page": {"body": "<!doctype html><title>Log in</title>"},
    "no JSON": {"body": '{"tools": ['},
    "nothing": {"body": ""},
    "204": {"status": 204, "body": ""},
    "304 to no condition": {"status": 304, "body": ""},
    "a list": {"body": []},
    "no tools": {"body": {"hasMore": False}},
    "tools of the wrong shape": {"body": {"tools": {"echo": {}}}},
    "a connection that breaks": {"reset": "before"},
    "half an answer": {"truncate": 100},
}


@pytest.mark.parametrize("case", BAD_ANSWERS)
def test_a_failed_refresh_keeps_the_last_good_copy(gateway: GatewayProcess, connect: Connect, case: str) -> None:
    """Whatever is wrong with a refresh, the tools stay as they were, and one line tells of it and of the next try."""
    spare(gateway)
    gateway.fault(method="GET", path=PATH, times=-1, **BAD_ANSWERS[case])
    client = connect(gateway, **BUSY, use_etag=False, connect_timeout=0.2, http_timeout=0.2)
    tools = client.tools()
    failed = client.wait_event("manifest.failed")
    assert client.tools() == tools
    assert [(each["retry_in_s"], each["serving"]) for each in failed] == [(1.0, len(tools) - 1)]
    assert announcements(client) == 0


def test_after_a_failure_the_next_try_comes_soon(gateway: GatewayProcess, connect: Connect) -> None:
    """A refresh that failed is tried again after a second, then after two; a good one ends that."""
    spare(gateway)
    gateway.fault(method="GET", path=PATH, times=2, status=500, body="boom")
    client = connect(gateway, **BUSY)
    client.tools()
    gateway.wait_seen(PATH, at_least=6)
    at = [each["at"] for each in looks(gateway)]
    assert at[2] - at[1] >= 1
    assert at[3] - at[2] >= 2
    assert [each["retry_in_s"] for each in client.events("manifest.failed")] == [1.0, 2.0]


def test_no_tools_after_some_are_believed_the_second_time(gateway: GatewayProcess, connect: Connect) -> None:
    """An empty manifest after a full one changes nothing at first; when the next look finds it empty too, it is so."""
    spare(gateway)
    serve(gateway, times=-1)
    client = connect(gateway, **BUSY)
    tools = client.tools()
    assert "no tools" in client.wait_event("manifest.failed")[0]["error"]
    assert client.tools() == tools
    wait_announced(client)
    assert set(client.tools()) == {LOOK_UP}
    assert len(client.events("manifest.failed")) == 1


def test_a_hiccup_of_no_tools_is_forgotten(gateway: GatewayProcess, connect: Connect) -> None:
    """One empty manifest between two full ones is never seen by the client, nor does it count for the next time."""
    spare(gateway)
    serve(gateway)
    spare(gateway)
    serve(gateway)
    client = connect(gateway, **BUSY, use_etag=False)
    tools = client.tools()
    gateway.wait_seen(PATH, at_least=6)
    assert client.tools() == tools
    assert announcements(client) == 0


def test_an_unchanged_manifest_is_not_sent_again(gateway: GatewayProcess, connect: Connect) -> None:
    """The ETag goes back exactly as it came, and the answer 304 renews the copy at hand."""
    client = connect(gateway, **BUSY)
    tools = client.tools()
    gateway.wait_seen(PATH, at_least=4)
    first, *others = looks(gateway)
    assert "if-none-match" not in first["headers"]
    etag = client.events("manifest.fetched")[0]["etag"]
    assert {each["headers"].get("if-none-match") for each in others} == {etag}
    assert {each["unchanged"] for each in client.events("manifest.fetched")[1:]} == {True}
    assert client.tools() == tools
    assert announcements(client) == 0


def test_an_etag_of_any_form_goes_back_as_it_came(gateway: GatewayProcess, connect: Connect) -> None:
    """An ETag is the gateway's own word: no letter of it is changed on the way back."""
    etags = ['W/"a b,c"', '"strong"', "no-quotes", 'W/""', '"ü"', "a, b"]
    for etag in etags:
        serve(gateway, manifest("one"), etag=etag)
    client = connect(gateway, **BUSY)
    assert "one" in client.tools()
    sent = gateway.wait_seen(PATH, at_least=len(etags) + 1)
    assert [each["headers"].get("if-none-match") for each in sent[: len(etags) + 1]] == [None, *etags]
    assert client.events("manifest.failed") == []


def test_etags_can_be_switched_off(gateway: GatewayProcess, connect: Connect) -> None:
    """Without ``use_etag`` each manifest is asked for whole, and an equal one is no change."""
    client = connect(gateway, **BUSY, use_etag=False)
    client.tools()
    gateway.wait_seen(PATH, at_least=4)
    assert all("if-none-match" not in each["headers"] for each in looks(gateway))
    assert announcements(client) == 0


def test_a_small_ttl_and_many_callers(own_gateway: GatewayProcess, connect: Connect) -> None:
    """However many lists and calls meet however many refreshes and changes, each is answered, and as it should be."""
    client = connect(own_gateway, manifest_ttl=0.01, workers=32)
    wanted = {}
    for turn in range(6):
        for _ in range(10):
            wanted[client.request("tools/list")] = "tools"
            wanted[client.request("tools/call", {"name": "echo", "arguments": {"text": "a"}})] = "content"
            wanted[client.request("tools/call", {"name": "absent"})] = None
        own_gateway.register(manifest("changing", description=f"Turn {turn}."))
    while wanted:
        message = client.receive()
        if "id" in message:
            member = wanted.pop(message["id"])
            assert member in message["result"] if member else message["error"]["code"] == -32602
    assert client.events("mcp.internal_error") == []


# Changes


CHANGES: dict[str, list[dict[str, Any]]] = {
    "a tool is new": [manifest("one"), manifest("two")],
    "a tool is gone": [manifest("other")],
    "a description is another": [manifest("one", description="Something else.")],
    "a schema is another": [manifest("one", inputSchema={"type": "object", "required": ["text"]})],
    "a hint is another": [manifest("one", annotations={"readOnly": False})],
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_announced_once(gateway: GatewayProcess, connect: Connect, case: str) -> None:
    """A change of the tools is announced once, when they can be listed."""
    serve(gateway, manifest("one"), times=2)
    serve(gateway, *CHANGES[case], etag='"another"', times=-1)
    client = connect(gateway, **BUSY)
    before = client.tools()
    wait_announced(client)
    after = client.tools()
    assert after != before
    assert set(after) == {LOOK_UP, *(each["name"] for each in CHANGES[case])}
    wait_looks(gateway, 3)
    assert announcements(client) == 1


def test_what_is_no_change_is_not_announced(gateway: GatewayProcess, connect: Connect) -> None:
    """Nothing is announced where the client would see the same list."""
    one, two = manifest("one"), manifest("two")
    serve(gateway, one, two, etag='"1"')
    serve(gateway, one, two, etag='"2"')
    serve(gateway, two, one)
    serve(gateway, one, two, generatedAt="2031-01-01T00:00:00Z", server={"version": "7"})
    serve(gateway, one, two, manifest("hidden-1"))
    serve(gateway, one, two, manifest("hidden-1", description="Another."), manifest("young", stability="experimental"))
    serve(gateway, one, {"name": None}, two, 7)
    serve(gateway, one, two, manifest("one", description="The same name again."), etag='"8"')
    serve(gateway, one, {**two, "inputSchema": {**two["inputSchema"]}}, times=-1)
    client = connect(gateway, **BUSY, deny_tools="hidden-*")
    before = client.tools()
    gateway.wait_seen(PATH, at_least=11)
    assert announcements(client) == 0
    assert client.tools() == before
    assert set(before) == {"one", "two", LOOK_UP}


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_changes_are_announced_where_they_are_promised(
    own_gateway: GatewayProcess, connect: Connect, revision: str
) -> None:
    """Every session hears of changes as it was promised: a modern one on the subscription that it asks for."""
    client = connect(own_gateway, revision=revision, **BUSY, opened=False)
    if client.modern:
        promised = client.ask("server/discover")["result"]["capabilities"]["tools"]["listChanged"]
        client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert client.receive()["method"] == "notifications/subscriptions/acknowledged"
        client.notifications.clear()
    else:
        params = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        }
        promised = client.ask("initialize", params)["result"]["capabilities"]["tools"]["listChanged"]
        client.notify("notifications/initialized")
    assert "fresh" not in client.tools()
    own_gateway.register(manifest("fresh"))
    assert promised is True
    wait_announced(client)
    assert "fresh" in client.tools()
    assert announcements(client) == 1


def test_nothing_is_announced_before_the_session_has_begun(gateway: GatewayProcess, connect: Connect) -> None:
    """Before ``notifications/initialized`` no change is announced, however many there are."""
    for turn in range(4):
        serve(gateway, manifest(f"tool-{turn}"), etag=f'"{turn}"', times=1 if turn < 3 else -1)
    client = connect(gateway, **BUSY, opened=False)
    client.ask(
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}},
    )
    gateway.wait_seen(PATH, at_least=6)
    assert announcements(client) == 0
    client.notify("notifications/initialized")
    assert "tool-3" in client.tools()


def test_a_removed_tool_is_unknown(own_gateway: GatewayProcess, connect: Connect) -> None:
    """A tool that left the manifest is refused as unknown, says what takes its place, and nothing is sent."""
    own_gateway.register(manifest("old", deprecated_at="2026-01-01T00:00:00Z", replaced_by="echo"))
    client = connect(own_gateway, **BUSY)
    assert "old" in client.tools()
    own_gateway.remove("old")
    wait_announced(client)
    error = client.ask("tools/call", {"name": "old", "arguments": {"text": "a"}})["error"]
    assert error["code"] == -32602
    assert "echo" in error["message"]
    assert own_gateway.seen(":invoke") == []


def test_a_tool_that_the_gateway_denies_is_looked_for(own_gateway: GatewayProcess, connect: Connect) -> None:
    """When the gateway does not know a tool of the copy at hand, the manifest is refreshed, whatever its age."""
    own_gateway.register(manifest("old"))
    client = connect(own_gateway)
    assert "old" in client.tools()
    own_gateway.remove("old")
    assert client.call("old", {"text": "a"})["isError"] is True
    wait_announced(client)
    assert client.ask("tools/call", {"name": "old"})["error"]["code"] == -32602
    assert len(own_gateway.seen(":invoke")) == 1


def test_an_unknown_tool_is_looked_for_at_most_once_a_while(gateway: GatewayProcess, connect: Connect) -> None:
    """Calls of tools that nobody knows cost at most one look at the gateway in a back-off period."""
    client = connect(gateway)
    client.tools()
    ids = [client.request("tools/call", {"name": f"unknown-{number}"}) for number in range(20)]
    errors = [client.receive() for _ in ids]
    assert {each["error"]["code"] for each in errors} == {-32602}
    assert {each["id"] for each in errors} == set(ids)
    assert len(looks(gateway)) == 2
    assert gateway.seen(":invoke") == []


def test_a_new_tool_can_be_called_at_once(own_gateway: GatewayProcess, connect: Connect) -> None:
    """A call of a tool that the manifest has had only for a moment finds it, before anybody lists it."""
    client = connect(own_gateway)
    client.tools()
    own_gateway.register(manifest("fresh"))
    assert client.call("fresh", {"text": "here"})["isError"] is False
    wait_announced(client)


# Pins


def test_a_pinned_manifest_stays(own_gateway: GatewayProcess, connect: Connect) -> None:
    """With the ETag of what is served as pin, no change of the gateway is taken over, however often it is looked at."""
    with connect(own_gateway) as client:
        client.tools()
        etag = client.wait_event("manifest.fetched")[0]["etag"]
    pinned = connect(own_gateway, **BUSY, manifest_pin=etag)
    tools = pinned.tools()
    own_gateway.register(manifest("fresh"))
    assert pinned.ask("tools/call", {"name": "fresh"})["error"]["code"] == -32602
    assert pinned.tools() == tools
    assert pinned.call("echo", {"text": "a"})["isError"] is False
    assert announcements(pinned) == 0


@pytest.mark.parametrize("revision", ["2025-11-25", spec.MODERN])
def test_a_pin_that_is_no_longer_served(gateway: GatewayProcess, connect: Connect, revision: str) -> None:
    """A pinned ETag that the gateway does not serve is an error that names it, what is served, and the setting."""
    client = connect(gateway, revision=revision, manifest_pin='W/"sha256:gone"')
    error = read_error(client)
    assert error["code"] == -32603
    assert 'W/"sha256:gone"' in error["message"]
    assert "manifest_pin" in error["message"]
    assert client.wait_event("manifest.failed")[0]["error"] == error["message"]
    with connect(gateway) as other:
        other.tools()
        assert other.wait_event("manifest.fetched")[0]["etag"] in error["message"]


# Pages


@pytest.fixture(scope="module")
def paged_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway whose manifest comes in pages of three tools."""
    with GatewayProcess(tmp_path_factory.mktemp("paged-gateway"), arguments=("--page-size", "3")) as gateway:
        yield gateway


def test_all_pages_are_read(paged_gateway: GatewayProcess, gateway: GatewayProcess, connect: Connect) -> None:
    """A manifest of several pages is one list, read whole each time, since its ETag covers the first page alone."""
    paged_gateway.clear()
    client = connect(paged_gateway, **BUSY)
    assert set(client.tools()) == set(connect(gateway).tools())
    client.wait_event("manifest.fetched", at_least=3)
    asked = looks(paged_gateway)
    assert all("if-none-match" not in each["headers"] for each in asked)
    pages = -(-(len(client.tools()) - 1) // 3)  # all but the bridge's own tool
    assert [bool(each["query"]) for each in asked][: pages + 1] == [False, *[True] * (pages - 1), False]
    assert announcements(client) == 0


@pytest.mark.parametrize("case", ["status", "reset", "shape", "truncate"])
def test_a_page_that_fails_loses_no_tool(paged_gateway: GatewayProcess, connect: Connect, case: str) -> None:
    """Where one page cannot be had, nothing of the others is taken over."""
    paged_gateway.clear()
    faults: dict[str, dict[str, Any]] = {
        "status": {"status": 500, "body": "boom"},
        "reset": {"reset": "before", "times": 8},
        "shape": {"body": {"tools": None}},
        "truncate": {"truncate": 10, "times": 8},
    }
    spare(paged_gateway, 4)  # a whole manifest, and the first page of the next
    paged_gateway.fault(method="GET", path=PATH, **{"times": 1, **faults[case]})
    client = connect(paged_gateway, **BUSY, http_timeout=0.5, connect_timeout=0.5)
    tools = client.tools()
    client.wait_event("manifest.failed")
    assert client.tools() == tools
    assert announcements(client) == 0


LOST = {
    "the same cursor again": ({"nextCursor": "again"}, "cursor"),
    "more, and no cursor": ({"hasMore": True}, "pages"),
    "a cursor that is no text": ({"nextCursor": 7}, "pages"),
}


@pytest.mark.parametrize("case", LOST)
def test_pages_without_end_are_an_error(gateway: GatewayProcess, connect: Connect, case: str) -> None:
    """Pages that lead nowhere are an error of the gateway that says so, and not a loop."""
    envelope, word = LOST[case]
    serve(gateway, manifest("one"), times=-1, **envelope)
    error = read_error(connect(gateway))
    assert error["code"] == -32603
    assert word in error["message"]
    assert len(looks(gateway)) <= 2


def test_the_last_page_may_name_a_cursor(gateway: GatewayProcess, connect: Connect) -> None:
    """``hasMore: false`` is the last word, whatever cursor stands beside it; null is no cursor."""
    serve(gateway, manifest("one"), hasMore=True, nextCursor="b")
    serve(gateway, manifest("two"), hasMore=False, nextCursor="c")
    client = connect(gateway)
    assert set(client.tools()) == {"one", "two", LOOK_UP}
    assert [each["query"] for each in looks(gateway)] == [{}, {"cursor": "b"}]


# A gateway that is away at the start


AWAY: dict[str, tuple[dict[str, Any], str]] = {
    "500": ({"status": 500, "body": "boom"}, "500"),
    "503": ({"status": 503, "body": "busy"}, "503"),
    "silence": ({"delay": HELD}, "in time"),
    "a page": ({"body": "<html><title>Welcome</title></html>"}, "web page"),
    "an unknown key": ({"status": 401, "body": {"detail": "Unknown key."}}, "api_key"),
    "a forbidden key": ({"status": 403, "body": {"detail": "No."}}, "api_key"),
}


@pytest.mark.parametrize("case", AWAY)
def test_a_gateway_that_fails_at_the_start(gateway: GatewayProcess, connect: Connect, case: str) -> None:
    """A session begins all the same, its list says what is wrong, and the tools come once the gateway has them."""
    fault, word = AWAY[case]
    gateway.fault(method="GET", path=PATH, times=-1, **fault)
    legacy = connect(gateway, connect_timeout=0.3, http_timeout=0.3)
    modern = connect(gateway, revision=spec.MODERN, connect_timeout=0.3, http_timeout=0.3)
    assert "resultType" in modern.ask("server/discover")["result"]
    for client in (legacy, modern):
        error = read_error(client)
        assert error["code"] == -32603
        assert word in error["message"]
        assert "network" not in error["message"]
    gateway.clear()
    wait_announced(legacy)
    wait_until_listed(modern)
    assert "echo" in legacy.tools()
    assert modern.notifications == []


def wait_until_listed(client: StdioClient) -> None:
    """List until it is answered with tools."""
    deadline = time.monotonic() + 15
    while "error" in client.ask("tools/list"):
        assert time.monotonic() < deadline


def test_a_gateway_that_comes_later(own_gateway: GatewayProcess, connect: Connect) -> None:
    """Where nothing listens, list and call name the network; when the gateway is there, both work and it is told."""
    port = own_gateway.port
    own_gateway.stop()
    client = connect(own_gateway)
    error = read_error(client)
    assert error["code"] == -32603
    assert "refused the connection" in error["message"]
    assert client.ask("tools/call", {"name": "echo", "arguments": {"text": "a"}})["error"]["code"] == -32603
    assert client.ask("ping")["result"] == {}
    own_gateway.restart(port)
    wait_announced(client)
    assert "echo" in client.tools()
    assert client.call("echo", {"text": "a"})["isError"] is False


def test_a_gateway_that_goes_away_later(own_gateway: GatewayProcess, connect: Connect) -> None:
    """When the gateway goes, the list stays, a call says what is wrong, and all is well when it is back."""
    client = connect(own_gateway, **BUSY)
    tools = client.tools()
    port = own_gateway.port
    own_gateway.stop()
    client.wait_event("manifest.failed")
    assert client.tools() == tools
    result = client.call("echo", {"text": "a"})
    assert result["isError"] is True
    assert "refused the connection" in result["content"][0]["text"]
    own_gateway.restart(port)
    assert client.call("echo", {"text": "a"})["isError"] is False
    assert client.tools() == tools
    assert announcements(client) == 0


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_the_manifest_is_looked_at_in_the_background(gateway: GatewayProcess, connect: Connect, revision: str) -> None:
    """At each expiry the manifest is asked for, in both eras, though the client asks for nothing more."""
    client = connect(gateway, revision=revision, **BUSY)
    client.tools()
    wait_looks(gateway, 3)
