"""Both eras in one process: how a request of either comes, what each gets, and that neither changes the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Connect
from tests.harness import spec
from tests.harness.client import META, StdioClient
from tests.harness.gateway import GatewayProcess
from tests.harness.sessions import Sessions

VERSION, CAPABILITIES, CLIENT = META + "protocolVersion", META + "clientCapabilities", META + "clientInfo"
WHOLE_META: dict[str, Any] = {VERSION: spec.MODERN, CAPABILITIES: {}}
MODERN_MEMBERS = {"resultType", "ttlMs", "cacheScope", "_meta"}
METHODS = {  # method -> its params beside _meta; each is served in both eras
    "tools/list": {},
    "tools/call": {"name": "echo", "arguments": {"text": "hi"}},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "colabhive://manifest"},
    "prompts/list": {},
}
CACHEABLE = {"resources/read", *(method for method in METHODS if method.endswith("/list"))}
OWN = {"tools/list", "resources/read"}  # what a key may see is its owner's alone
LISTS = {  # method -> the member, and what it holds
    "resources/list": ("resources", ["colabhive://manifest"]),
    "resources/templates/list": ("resourceTemplates", ["colabhive://manifest/{slug}"]),
    "prompts/list": ("prompts", []),
}
NOT_OFFERED = [
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/get",
    "tasks/list",
    "tasks/get",
    "tasks/result",
    "tasks/cancel",
    "roots/list",
    "sampling/createMessage",
    "elicitation/create",
    "notifications/initialized",
    "tools/List",
    "TOOLS/LIST",
    "rpc.discover",
    "",
]


@pytest.fixture(scope="module")
def sessions(shared_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Sessions of this module."""
    with Sessions(shared_gateway, tmp_path_factory.mktemp("eras")) as sessions:
        yield sessions


def ask(client: StdioClient, method: str, meta: Any, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """A request with exactly this ``_meta`` and the answer to it, held to the modern schema."""
    before, client.revision = client.revision, spec.MODERN
    try:
        request_id = f"{method} {len(json.dumps(meta))}"
        request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**(params or {}), "_meta": meta}}
        client.send(request)
        return client.wait(request_id)[0]
    finally:
        client.revision = before


# What each era gets


@pytest.mark.parametrize("method", METHODS)
def test_a_modern_request_needs_nothing_before_it(method: str, gateway: GatewayProcess, connect: Connect) -> None:
    """The first line on the pipe may be any modern request: no handshake, no discovery."""
    response = ask(connect(gateway, opened=False), method, WHOLE_META, METHODS[method])
    assert response["result"]["resultType"] == "complete"


def test_discovery_tells_what_there_is(sessions: Sessions) -> None:
    """All revisions, capabilities of what works, hints for caching, and who answers, where clients look for it."""
    result = ask(sessions(), "server/discover", WHOLE_META)["result"]
    assert result["supportedVersions"] == list(reversed(spec.REVISIONS))
    promised = {"tools": {"listChanged": True}, "resources": {}, "completions": {}, "prompts": {}}
    assert result["capabilities"] == promised
    assert isinstance(result["ttlMs"], int)
    assert result["ttlMs"] >= 0
    assert result["cacheScope"] in ("public", "private")
    assert result["_meta"][META + "serverInfo"]["name"] == "colabhive-mcp"
    assert "serverInfo" not in result
    assert result["instructions"]


@pytest.mark.parametrize("method", METHODS)
def test_modern_results_say_what_they_are(method: str, sessions: Sessions) -> None:
    """Each is complete and tells who answered; each list says for how long and for whom it may be kept."""
    result = ask(sessions(), method, WHOLE_META, METHODS[method])["result"]
    assert result["resultType"] == "complete"
    assert result["_meta"].keys() == {META + "serverInfo"}
    assert ("ttlMs" in result) is ("cacheScope" in result) is (method in CACHEABLE)
    if method in OWN:
        assert (result["ttlMs"], result["cacheScope"]) == (300_000, "private")


@pytest.mark.parametrize("ttl", [0.5, 7, 600])
def test_a_list_may_be_kept_as_long_as_the_manifest(ttl: float, gateway: GatewayProcess, connect: Connect) -> None:
    """ttlMs is the manifest's own time to live, a whole number of milliseconds."""
    result = connect(gateway, revision=spec.MODERN, manifest_ttl=ttl).ask("tools/list")["result"]
    assert result["ttlMs"] == ttl * 1000
    assert type(result["ttlMs"]) is int


@pytest.mark.parametrize("revision", spec.LEGACY)
@pytest.mark.parametrize("method", METHODS)
def test_legacy_results_have_no_modern_members(method: str, revision: str, sessions: Sessions) -> None:
    """Nothing of the modern era is in the answers to a session, though modern requests came before on the same pipe."""
    client = sessions(revision)
    ask(client, method, WHOLE_META, METHODS[method])
    result = client.ask(method, METHODS[method] or None)["result"]
    assert MODERN_MEMBERS.isdisjoint(result)


@pytest.mark.parametrize("revision", spec.LEGACY)
def test_a_handshake_has_no_modern_members(revision: str, gateway: GatewayProcess, connect: Connect) -> None:
    """After a discovery and a modern list on the same process, the handshake is as if there had been none."""
    client = connect(gateway, revision=revision, opened=False)
    assert "result" in ask(client, "server/discover", WHOLE_META)
    assert "result" in ask(client, "tools/list", WHOLE_META)
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    result = client.ask("initialize", params)["result"]
    assert result.keys() == {"protocolVersion", "capabilities", "serverInfo", "instructions"}
    assert result["protocolVersion"] == revision
    client.notify("notifications/initialized")
    assert client.ask("ping")["result"] == {}
    assert client.ask("logging/setLevel", {"level": "debug"})["result"] == {}
    assert "result" in ask(client, "tools/list", WHOLE_META)
    assert ask(client, "ping", WHOLE_META)["error"]["code"] == -32601


def test_a_handshake_is_one_whatever_its_meta_says(gateway: GatewayProcess, connect: Connect) -> None:
    """initialize needs no modern fields, and is a handshake with them too."""
    client = connect(gateway, opened=False)
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**params, "_meta": WHOLE_META}}
    client.revision = "2025-06-18"
    client.send(request)
    assert client.wait(1)[0]["result"]["protocolVersion"] == "2025-06-18"
    assert "result" in client.ask("tools/list")


@pytest.mark.parametrize("revision", spec.LEGACY)
def test_the_same_tool_answers_in_both_eras(revision: str, sessions: Sessions) -> None:
    """Each request gets the shape of its own revision, in turns on one pipe."""
    client = sessions(revision)
    for _ in range(2):
        modern = ask(client, "tools/call", WHOLE_META, METHODS["tools/call"])["result"]
        assert modern["structuredContent"] == "hi"
        legacy = client.ask("tools/call", METHODS["tools/call"])["result"]
        assert legacy == {"content": [{"type": "text", "text": "hi"}], "isError": False}
        listed = {tool["name"]: tool for tool in ask(client, "tools/list", WHOLE_META)["result"]["tools"]}
        assert "outputSchema" in listed["echo"]
        assert "outputSchema" not in client.tools()["echo"]


def test_modern_calls_have_progress(sessions: Sessions) -> None:
    """Progress needs no session: the token in _meta is enough, and an invalid one is none."""
    client = sessions(spec.MODERN)
    for token, count in ((0, 1), ("", 1), ("7", 1), ({}, 0), (True, 0), (None, 0)):
        request_id = client.request("tools/call", {**METHODS["tools/call"], "_meta": {"progressToken": token}})
        response, before = client.wait(request_id)
        assert response["result"]["isError"] is False
        assert [message["params"]["progressToken"] for message in before] == [token] * count


@pytest.mark.parametrize("meta", [{}, WHOLE_META, None], ids=["empty", "whole", "none"])
def test_modern_calls_can_be_cancelled(meta: dict[str, Any] | None, sessions: Sessions) -> None:
    """The notification counts with and without _meta, and a cancelled call is answered by nothing."""
    client = sessions(spec.MODERN)
    call = client.request("tools/call", {"name": "slow-count", "arguments": {"to": 50, "interval": 0.2}})
    params = {"requestId": call, "reason": "caller cancelled"}
    client.notify("notifications/cancelled", params if meta is None else {**params, "_meta": meta})
    assert client.call("echo", {"text": "next"})["isError"] is False
    assert client.drain() == []


# What a modern request has to say of itself

UNSUPPORTED = ["2026-07-29", "2026-07-2", "1900-01-01", "DRAFT-2026-v1", "", "2026-07-28 ", "2025-11-25", "2024-11-05"]


@pytest.mark.parametrize("method", ["server/discover", *METHODS, "no/such"])
@pytest.mark.parametrize("version", UNSUPPORTED)
def test_a_version_that_is_not_served_is_refused_with_those_that_are(
    version: str, method: str, sessions: Sessions, gateway: GatewayProcess
) -> None:
    """Whatever is asked, the error has what was requested and all that is supported; nothing is executed."""
    error = ask(sessions(), method, {**WHOLE_META, VERSION: version}, METHODS.get(method))["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": list(reversed(spec.REVISIONS)), "requested": version}
    assert gateway.seen(":invoke") == []


def test_an_unknown_version_is_refused_before_the_rest_is_read(sessions: Sessions) -> None:
    """Of a version that is not served nobody knows what else it demands."""
    for meta in ({VERSION: "2030-01-01"}, {VERSION: "2030-01-01", CAPABILITIES: [], CLIENT: 5}):
        assert ask(sessions(), "tools/list", meta)["error"]["code"] == -32022


MALFORMED: list[Any] = [
    {CAPABILITIES: {}},
    {CLIENT: {"name": "t", "version": "1"}},
    {VERSION: spec.MODERN},
    {VERSION: spec.MODERN, CLIENT: {"name": "t", "version": "1"}},
    {VERSION: None, CAPABILITIES: {}},
    {VERSION: 20260728, CAPABILITIES: {}},
    {VERSION: [spec.MODERN], CAPABILITIES: {}},
    *({VERSION: spec.MODERN, CAPABILITIES: value} for value in ([], None, "", "{}", 0, True)),
    *({VERSION: spec.MODERN, CAPABILITIES: {"roots": value}} for value in (1, True, None, [], "x")),
    *({VERSION: spec.MODERN, CAPABILITIES: {}, CLIENT: value} for value in ("t", [], 7, {}, {"name": "t"})),
    {VERSION: spec.MODERN, CAPABILITIES: {}, CLIENT: {"name": 1, "version": "1"}},
]


@pytest.mark.parametrize("meta", MALFORMED, ids=lambda meta: json.dumps(meta).replace(META, "")[:70])
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call"])
def test_malformed_meta_is_invalid_params(meta: Any, method: str, sessions: Sessions, gateway: GatewayProcess) -> None:
    """What lacks a required field, or has one of the wrong shape, is refused, and nothing is executed."""
    assert ask(sessions(spec.MODERN), method, meta, METHODS.get(method))["error"]["code"] == -32602
    assert gateway.seen(":invoke") == []


@pytest.mark.parametrize("meta", [None, [], "x", 5, {}], ids=json.dumps)
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call"])
def test_without_meta_and_without_a_session_nothing_is_served(meta: Any, method: str, sessions: Sessions) -> None:
    """A request of neither era is told how each begins."""
    error = ask(sessions(spec.MODERN), method, meta, METHODS.get(method))["error"]
    assert error["code"] == -32602
    assert "initialize" in error["message"]
    assert VERSION in error["message"]


FINE: list[dict[str, Any]] = [
    WHOLE_META,
    {**WHOLE_META, CLIENT: {"name": "t", "version": "1"}},
    {**WHOLE_META, CLIENT: {"name": "t", "version": "1", "title": "T", "x": 1}},
    {**WHOLE_META, CAPABILITIES: {"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}}, "x": {}}},
    {**WHOLE_META, CAPABILITIES: {"experimental": {"a/b": {"c": 1}}, "extensions": {"x.y/z": {}}}},
    {**WHOLE_META, "test.example/own": {"deep": [1, None]}, "plain": None, META + "unknown": 1},
    {**WHOLE_META, "progressToken": {}},
    {**WHOLE_META, META + "logLevel": "debug"},
]


@pytest.mark.parametrize("meta", FINE, ids=lambda meta: json.dumps(meta).replace(META, "")[50:120])
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call"])
def test_everything_else_in_meta_is_taken(meta: dict[str, Any], method: str, sessions: Sessions) -> None:
    """The client's name is optional, its capabilities are its own, and unknown keys are ignored."""
    assert "result" in ask(sessions(spec.MODERN), method, meta, METHODS.get(method))


@pytest.mark.parametrize("revision", ["2025-11-25", spec.MODERN])
def test_meta_never_reaches_the_gateway(revision: str, sessions: Sessions, gateway: GatewayProcess) -> None:
    """No part of it is an argument, a header or a query of any request."""
    meta = {"test.example/own": "of-the-client", "traceparent": "of-the-client"}
    client = sessions(revision)
    client.ask("tools/call", {**METHODS["tools/call"], "_meta": meta})
    client.ask("tools/list", {"_meta": meta})
    [request] = gateway.seen(":invoke")
    assert request["body"]["input"] == {"text": "hi"}
    assert "of-the-client" not in json.dumps(gateway.seen())
    assert "modelcontextprotocol" not in json.dumps(gateway.seen())


def test_a_session_may_have_other_things_in_meta(sessions: Sessions) -> None:
    """A legacy request whose _meta has none of the modern keys is a legacy request."""
    for meta in ({}, {"x": 1}, None, [], "x"):
        client = sessions()
        assert MODERN_MEMBERS.isdisjoint(client.ask("tools/list", {"_meta": meta})["result"])


def test_a_session_with_half_a_modern_meta_is_refused(sessions: Sessions) -> None:
    """A modern request without its version is malformed, on a pipe with a session too."""
    assert ask(sessions(), "tools/list", {CAPABILITIES: {}})["error"]["code"] == -32602


# What is not there


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("params", [None, {}, {"cursor": None}], ids=json.dumps)
def test_lists_of_what_else_there_is(
    params: dict[str, Any] | None, method: str, revision: str, sessions: Sessions
) -> None:
    """One resource and one template; of prompts none, since some clients ask anyway and take an error for a fault."""
    result = sessions(revision).ask(method, params)["result"]
    member, addresses = LISTS[method]
    assert [entry.get("uri") or entry["uriTemplate"] for entry in result[member]] == addresses
    assert "nextCursor" not in result
    assert sessions(revision).ask(method, {"cursor": "anything"})["error"]["code"] == -32602


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_only_what_works_is_promised(revision: str, gateway: GatewayProcess, connect: Connect) -> None:
    """Each revision is promised what it has: change notices, and log messages in those with a handshake."""
    client = connect(gateway, revision=revision, opened=False)
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    method, asked = ("server/discover", None) if revision == spec.MODERN else ("initialize", params)
    completions = {} if revision == "2024-11-05" else {"completions": {}}
    own = {"prompts": {}} if revision == spec.MODERN else {"logging": {}}
    promised = {"tools": {"listChanged": True}, "resources": {}, **completions, **own}
    assert client.ask(method, asked)["result"]["capabilities"] == promised


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize("method", NOT_OFFERED)
def test_what_is_not_offered_is_an_unknown_method(method: str, revision: str, sessions: Sessions) -> None:
    """A request for anything else, by whatever name, is answered -32601 and the session goes on."""
    client = sessions(revision)
    assert client.ask(method)["error"]["code"] == -32601
    assert client.call("echo", {"text": "x"})["isError"] is False


@pytest.mark.parametrize(
    ("revision", "methods"),
    [
        (spec.MODERN, ["ping", "logging/setLevel"]),
        *((revision, ["server/discover", "subscriptions/listen"]) for revision in spec.LEGACY),
    ],
)
def test_methods_of_the_other_era_are_unknown(revision: str, methods: list[str], sessions: Sessions) -> None:
    """Each era has its own methods."""
    for method in methods:
        assert sessions(revision).ask(method)["error"]["code"] == -32601


def test_asking_for_what_is_not_there_is_no_news(gateway: GatewayProcess, connect: Connect) -> None:
    """Nothing of it is in the log at the usual level, and there are no warnings."""
    client = connect(gateway, log_level="info")
    for method in (*LISTS, "resources/read", "completion/complete"):
        client.ask(method)
    client.close()
    for words in (*LISTS, "resources", "prompts", "completion", "WARNING", "ERROR"):
        assert words not in client.stderr


# Who is there


def test_each_client_is_logged_once(gateway: GatewayProcess, connect: Connect) -> None:
    """The log has one line for a handshake, and one for each modern client by its name, however often it asks."""
    client = connect(gateway)
    for _ in range(3):
        ask(client, "tools/list", {**WHOLE_META, CLIENT: {"name": "other", "version": "2"}})
    client.close()
    told = [(e["client"], e["client_version"], e["protocol_version"]) for e in client.events("mcp.session.started")]
    assert told == [("tests", "1", "2025-11-25"), ("other", "2", spec.MODERN)]


@pytest.mark.parametrize("client_info", [None, {"name": "modern", "version": "2"}], ids=["nameless", "named"])
def test_a_modern_client_is_logged_once(
    client_info: dict[str, str] | None, gateway: GatewayProcess, connect: Connect
) -> None:
    """The first request stands for the session that the modern era has not; a client need not say its name."""
    client = connect(gateway, opened=False)
    meta = WHOLE_META if client_info is None else {**WHOLE_META, CLIENT: client_info}
    for method in ("server/discover", "tools/list", "tools/list"):
        ask(client, method, meta)
    client.close()
    [event] = client.events("mcp.session.started")
    assert event["protocol_version"] == spec.MODERN
    assert event.get("client") == (client_info or {}).get("name")


def test_a_session_can_begin_anew(gateway: GatewayProcess, connect: Connect) -> None:
    """A second handshake on the same pipe is a new session with its own revision."""
    client = connect(gateway, revision="2025-11-25")
    assert "outputSchema" in client.tools()["text-stats"]
    client.revision = "2024-11-05"
    client.open()
    assert "outputSchema" not in client.tools()["text-stats"]
    assert len(client.events("mcp.session.started")) == 2
