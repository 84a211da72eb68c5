"""Both eras at one address: how a request says which it is of, what its headers repeat, and what it gets."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from colabhive_mcp.localgateway.store import Store
from tests.harness import spec
from tests.harness.client import META
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.processes import wait_until
from tests.harness.relay import Answer, RelayProcess, build_call, read_events, to_body

VERSION, CAPABILITIES, CLIENT = META + "protocolVersion", META + "clientCapabilities", META + "clientInfo"
INITIALIZE = {"capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
MISMATCH, UNSUPPORTED = -32020, -32022
CALL = {"name": "echo", "arguments": {"text": "hi"}}
LISTS = {
    "resources/list": {"resources"},
    "resources/templates/list": {"resourceTemplates"},
    "prompts/list": {"prompts"},
}
METHODS: dict[str, dict[str, Any]] = {
    "tools/list": {},
    "tools/call": CALL,
    "resources/read": {"uri": "colabhive://manifest"},
    **{method: {} for method in LISTS},
}
REGIONAL = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "size": {"type": "integer", "x-mcp-header": "Size"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
        "where": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
        "text": {"type": "string"},
    },
}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with a tool whose clients repeat arguments in headers."""
    with GatewayProcess(tmp_path_factory.mktemp("tools")) as gateway:
        gateway.register(manifest("regional", inputSchema=REGIONAL))
        yield gateway


@pytest.fixture(scope="module")
def shared_relay(tools: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """One relay for all tests of this module, which nothing that it is sent makes fail."""
    with RelayProcess(tmp_path_factory.mktemp("relay"), tools) as relay:
        yield relay
        assert "Traceback" not in relay.log.read_text()


@pytest.fixture
def relay(shared_relay: RelayProcess, tools: GatewayProcess) -> RelayProcess:
    """The relay, its gateway without faults and with nothing seen."""
    tools.clear()
    return shared_relay


def initialize(relay: RelayProcess, version: str, **headers: Any) -> dict[str, Any]:
    """The result of a handshake as clients begin it, without any header of MCP's own."""
    params = {**INITIALIZE, "protocolVersion": version}
    got = relay.call("initialize", params, modern=False, MCP_Protocol_Version=None, **headers)
    result: dict[str, Any] = got.check("initialize", got.result["protocolVersion"]).result
    return result


def expect_refusal(got: Answer, status: int, code: int) -> dict[str, Any]:
    """The error of an answer that is one."""
    assert (got.status, got.code) == (status, code), got
    assert got.last["id"] == 1
    error: dict[str, Any] = got.check("", spec.MODERN).last["error"]
    return error


# What each era gets


def test_a_modern_client_begins_with_discovery(relay: RelayProcess) -> None:
    """Discovery tells all revisions, what works, and for how long and whom it may be kept."""
    result = relay.call_as(spec.MODERN, "server/discover").result
    assert result["resultType"] == "complete"
    assert result["supportedVersions"] == list(reversed(spec.REVISIONS))
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert (type(result["ttlMs"]), result["ttlMs"] >= 0, result["cacheScope"]) == (int, True, "public")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_each_method_is_served_in_every_revision(method: str, revision: str, relay: RelayProcess) -> None:
    """Without a handshake before it each answer is what its revision has, with the members of its own era alone."""
    result = relay.call_as(revision, method, METHODS[method]).result
    modern = {"resultType", "ttlMs", "cacheScope"} if method != "tools/call" else {"resultType"}
    assert result.keys() & {"resultType", "ttlMs", "cacheScope"} == (modern if revision == spec.MODERN else set())
    if revision == spec.MODERN and method in ("tools/list", "resources/read"):
        assert result["cacheScope"] == "private"


@pytest.mark.parametrize("asked", [*spec.REVISIONS, "1999-01-01", "DRAFT"])
def test_a_handshake_gets_a_revision_that_has_one(asked: str, relay: RelayProcess) -> None:
    """What is asked for is granted where there is a handshake in it, else the newest one that has; no id is given."""
    result = initialize(relay, asked)
    assert result["protocolVersion"] == (asked if asked in spec.LEGACY else "2025-11-25")
    assert result["capabilities"]["tools"] == {"listChanged": True}


@pytest.mark.parametrize("headers", [{}, {"MCP_Protocol_Version": spec.MODERN}, {"MCP_Protocol_Version": "2099-01-01"}])
def test_a_handshake_needs_no_header(headers: dict[str, Any], relay: RelayProcess) -> None:
    """A client that does not know yet what to say in the header may begin with any."""
    params = {**INITIALIZE, "protocolVersion": "2025-06-18"}
    got = relay.call("initialize", params, modern=False, **{"MCP_Protocol_Version": None, **headers})
    assert got.result["protocolVersion"] == "2025-06-18"


@pytest.mark.parametrize("version", ["2025-03-26", None, "2025-11-25", " 2025-11-25 "])
def test_ping_is_legacy(version: str | None, relay: RelayProcess) -> None:
    """A legacy ping is answered with nothing, of which the header may be missing; the modern era has none."""
    assert relay.call("ping", modern=False, MCP_Protocol_Version=version).result == {}
    expect_refusal(relay.call("ping"), 404, -32601)


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "nonsense", ""])
def test_an_unknown_modern_method_is_not_found(method: str, relay: RelayProcess) -> None:
    """What the era does not have is 404 and says so in JSON-RPC's own code."""
    expect_refusal(relay.call(method), 404, -32601)


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen", "prompts/get", "nonsense"])
def test_an_unknown_legacy_method_is_an_answer(method: str, relay: RelayProcess) -> None:
    """HTTP knows nothing of a legacy method that is not there: the answer is 200, its error the usual one."""
    assert relay.call_as("2025-11-25", method).code == -32601


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize("method", LISTS)
def test_lists_of_what_is_not_offered_are_empty(method: str, revision: str, relay: RelayProcess) -> None:
    """Clients ask for prompts and resources of every server: there are lists, and those of prompts are empty."""
    result = relay.call_as(revision, method).result
    assert LISTS[method] <= result.keys()
    assert method != "prompts/list" or result["prompts"] == []


def test_eras_may_be_mixed_on_one_connection(relay: RelayProcess) -> None:
    """Requests of both eras on a kept connection do not change each other's answers."""
    connection = relay.connect()
    for revision in (spec.MODERN, "2025-03-26", spec.MODERN, "2025-11-25"):
        headers: dict[str, Any] = {} if revision == spec.MODERN else {"MCP_Protocol_Version": revision}
        message, given = build_call("tools/call", CALL, modern=revision == spec.MODERN, **headers)
        sent = {n.replace("_", "-"): str(v) for n, v in (relay.to_headers() | given).items()}
        connection.request("POST", relay.path, to_body(message), sent)
        got = connection.getresponse()
        answer = Answer(got.status, {"content-type": str(got.getheader("Content-Type"))}, got.read())
        assert ("resultType" in answer.check("tools/call", revision).result) is (revision == spec.MODERN)
    connection.close()


# Which era a request is of


@pytest.mark.parametrize("asked", ["2099-01-01", "2025-11-25", "2024-11-05", "DRAFT-2026-v1", ""])
def test_a_modern_version_that_there_is_not_is_refused(asked: str, relay: RelayProcess) -> None:
    """A version in ``_meta`` that is no modern one is refused with those that are had and the one asked for."""
    got = relay.call("tools/list", {"_meta": {VERSION: asked}}, MCP_Protocol_Version=asked)
    error = expect_refusal(got, 400, UNSUPPORTED)
    assert error["data"] == {"supported": list(reversed(spec.REVISIONS)), "requested": asked}


@pytest.mark.parametrize("version", ["2099-01-01", "1", ""])
def test_a_legacy_version_that_there_is_not_is_refused(version: str, relay: RelayProcess) -> None:
    """A header that names none of the revisions is 400, and says which there are."""
    got = relay.call("tools/list", modern=False, MCP_Protocol_Version=version)
    assert expect_refusal(got, 400, -32600)["data"]["supported"] == list(reversed(spec.REVISIONS))


METAS: dict[str, tuple[Any, int]] = {
    "absent": (None, -32602),
    "a list": ([], -32602),
    "empty": ({}, -32602),
    "no version": ({CAPABILITIES: {}, CLIENT: {"name": "t", "version": "1"}}, -32602),
    "version null": ({VERSION: None, CAPABILITIES: {}}, -32602),
    "version 1": ({VERSION: 1, CAPABILITIES: {}}, -32602),
    "no capabilities": ({VERSION: spec.MODERN}, -32602),
    "capabilities null": ({VERSION: spec.MODERN, CAPABILITIES: None}, -32602),
    "capabilities list": ({VERSION: spec.MODERN, CAPABILITIES: []}, -32602),
    "roots 1": ({VERSION: spec.MODERN, CAPABILITIES: {"roots": 1}}, -32602),
    "client a text": ({VERSION: spec.MODERN, CAPABILITIES: {}, CLIENT: "me"}, -32602),
    "client without version": ({VERSION: spec.MODERN, CAPABILITIES: {}, CLIENT: {"name": "t"}}, -32602),
}


@pytest.mark.parametrize("method", ["tools/call", "server/discover", "nonsense"])
@pytest.mark.parametrize("case", METAS)
def test_a_modern_request_says_who_asks(case: str, method: str, relay: RelayProcess, tools: GatewayProcess) -> None:
    """What lacks a required field of ``_meta``, or has one of the wrong shape, is 400 and invalid params."""
    meta, code = METAS[case]
    params = {**(CALL if method == "tools/call" else {}), **({} if meta is None else {"_meta": meta})}
    _, headers = build_call(method, CALL if method == "tools/call" else {}, modern=True)
    got = relay.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, **headers)
    expect_refusal(got, 400, code)
    assert tools.seen(":invoke") == []


def test_what_else_is_in_meta_stays_here(relay: RelayProcess, tools: GatewayProcess) -> None:
    """A client may leave out its name and add what it likes; nothing of it reaches the gateway."""
    meta = {VERSION: spec.MODERN, CAPABILITIES: {"roots": {}, "x": {}}, "secret/thing": "hush", "progressToken": "hush"}
    message, headers = build_call("tools/call", CALL, modern=True)
    message["params"]["_meta"] = meta
    assert relay.post(message, **headers).result["content"][0]["text"] == "hi"
    [seen] = tools.seen(":invoke")
    assert seen["body"]["input"] == {"text": "hi"}
    assert "hush" not in str(seen)


# Headers that repeat the message


def encode(text: str) -> str:
    """The form for what a header cannot have."""
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


TOOL_MISMATCHES: dict[str, dict[str, Any]] = {
    "no method": {"Mcp_Method": None},
    "another method": {"Mcp_Method": "tools/list"},
    "method in another case": {"Mcp_Method": "Tools/Call"},
    "no name": {"Mcp_Name": None},
    "another name": {"Mcp_Name": "chat"},
    "name encoded wrong": {"Mcp_Name": "=?base64?ZWNobw=?="},
    "another name encoded": {"Mcp_Name": encode("chat")},
    "name with bits that mean nothing": {"Mcp_Name": "=?base64?ZWNobx==?="},
    "no version": {"MCP_Protocol_Version": None},
    "another version": {"MCP_Protocol_Version": "2025-11-25"},
    "version that there is not": {"MCP_Protocol_Version": "2099-01-01"},
    "empty method": {"Mcp_Method": ""},
}


@pytest.mark.parametrize("case", TOOL_MISMATCHES)
def test_headers_say_what_the_body_says(case: str, relay: RelayProcess, tools: GatewayProcess) -> None:
    """A header that is missing, or says something else than the body, is 400 with its own code; nothing is done."""
    expect_refusal(relay.call("tools/call", CALL, **TOOL_MISMATCHES[case]), 400, MISMATCH)
    assert tools.seen(":invoke") == []


@pytest.mark.parametrize(
    ("method", "params", "headers"),
    [
        ("tools/call", {"arguments": {}}, {}),
        ("tools/call", {"arguments": {}}, {"Mcp_Name": "echo"}),
        ("tools/call", {"name": 7}, {"Mcp_Name": "echo"}),
        ("resources/read", {"uri": "colabhive://manifest"}, {"Mcp_Name": None}),
        ("resources/read", {"uri": "colabhive://manifest"}, {"Mcp_Name": "colabhive://manifest/echo"}),
        ("prompts/get", {"name": "p"}, {"Mcp_Name": "q"}),
        ("tools/list", {}, {"Mcp_Method": None}),
        ("server/discover", {}, {"Mcp_Method": "tools/list"}),
        ("nonsense", {}, {"Mcp_Method": None}),
    ],
)
def test_each_method_has_its_header(method: str, params: Any, headers: dict[str, Any], relay: RelayProcess) -> None:
    """What a method is about is repeated: a tool or a resource, and where the body has none there is none to repeat."""
    expect_refusal(relay.call(method, params, **headers), 400, MISMATCH)


@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp_Name": encode("echo")},
        {"Mcp_Name": "  echo\t"},
        {"mcp_name": "echo", "Mcp_Name": None},
        {"MCP_NAME": "echo", "Mcp_Name": None, "MCP_METHOD": "tools/call", "Mcp_Method": None},
        {"Mcp_Param_Region": "nobody's"},
        {"Mcp_Session_Id": "stale"},
    ],
    ids=str,
)
def test_headers_may_be_written_in_any_way(headers: dict[str, Any], relay: RelayProcess) -> None:
    """Names of headers have no case, values no white space around them; one that repeats nothing known is ignored."""
    assert relay.call_as(spec.MODERN, "tools/call", CALL, **headers).result["content"][0]["text"] == "hi"


def test_legacy_requests_repeat_nothing(relay: RelayProcess) -> None:
    """No header but the version has a meaning for a legacy request, whatever it says."""
    for case in TOOL_MISMATCHES.values():
        headers = {name: value for name, value in case.items() if name != "MCP_Protocol_Version"}
        got = relay.call_as("2025-11-25", "tools/call", CALL, **headers)
        assert got.result["content"][0]["text"] == "hi"


# Arguments in headers

REPEATED: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {}),
    ({"text": "x"}, {}),
    ({"region": "eu"}, {"Region": "eu"}),
    ({"region": "eu"}, {"Region": " eu "}),
    ({"region": "eu"}, {"Region": encode("eu")}),
    ({"region": "köln 漢"}, {"Region": encode("köln 漢")}),
    ({"region": " eu "}, {"Region": encode(" eu ")}),
    ({"region": "=?base64?eA==?="}, {"Region": encode("=?base64?eA==?=")}),
    ({"region": ""}, {"Region": ""}),
    ({"region": None}, {}),
    ({"size": 5}, {"Size": "5"}),
    ({"size": 5}, {"Size": "5.0"}),
    ({"size": 5.0}, {"Size": "5"}),
    ({"size": -12345678901234567890}, {"Size": "-12345678901234567890"}),
    ({"dry": True}, {"Dry-Run": "true"}),
    ({"dry": False}, {"Dry-Run": "false"}),
    ({"where": {"zone": "a"}}, {"Zone": "a"}),
    ({"where": {}}, {}),
    (
        {"region": "eu", "size": 1, "dry": True, "where": {"zone": "z"}},
        {"region": "eu", "SIZE": "1", "dry-run": "true", "Zone": "z"},
    ),
]
NOT_REPEATED: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"region": "eu"}, {}),
    ({"region": "eu"}, {"Region": "us"}),
    ({"region": "eu"}, {"Region": "EU"}),
    ({"region": "eu"}, {"Region": encode("us")}),
    ({"region": "eu"}, {"Region": "=?base64?%%%?="}),
    ({"region": "eu"}, {"Region": ""}),
    ({}, {"Region": "eu"}),
    ({"region": None}, {"Region": "eu"}),
    ({"size": 5}, {"Size": "6"}),
    ({"size": 5}, {"Size": "five"}),
    ({"size": 12345678901234567890}, {"Size": "12345678901234567891"}),
    ({"dry": True}, {"Dry-Run": "True"}),
    ({"dry": True}, {"Dry-Run": "1"}),
    ({"where": {"zone": "a"}}, {}),
    ({"where": '{"zone": "a"}'}, {}),
    ({"region": "eu", "size": 5}, {"Region": "eu", "Size": "4"}),
]


def call_regional(relay: RelayProcess, arguments: Any, headers: dict[str, str], *, modern: bool = True) -> Answer:
    """A call of the tool with these headers for its arguments."""
    named = {f"Mcp-Param-{name}": value for name, value in headers.items()}
    return relay.call("tools/call", {"name": "regional", "arguments": arguments}, modern=modern, **named)


def test_clients_are_told_what_to_repeat(relay: RelayProcess) -> None:
    """The listed schema has the annotations, so that a client knows them."""
    listed = {tool["name"]: tool for tool in relay.call_as(spec.MODERN, "tools/list").result["tools"]}
    properties = listed["regional"]["inputSchema"]["properties"]
    assert properties["region"]["x-mcp-header"] == "Region"
    assert properties["where"]["properties"]["zone"]["x-mcp-header"] == "Zone"


@pytest.mark.parametrize(("arguments", "headers"), REPEATED, ids=str)
def test_arguments_that_are_repeated_right_are_sent(
    arguments: dict[str, Any], headers: dict[str, str], relay: RelayProcess, tools: GatewayProcess
) -> None:
    """A header that says what its argument is lets the call through, which the gateway gets without any of them."""
    assert call_regional(relay, arguments, headers).check("tools/call", spec.MODERN).result["isError"] is False
    [seen] = tools.seen(":invoke")
    assert seen["body"]["input"] == {name: value for name, value in arguments.items() if value is not None}
    assert not any(name.lower().startswith("mcp-") for name in seen["headers"])


@pytest.mark.parametrize(("arguments", "headers"), NOT_REPEATED, ids=str)
def test_arguments_that_are_repeated_wrong_are_refused(
    arguments: dict[str, Any], headers: dict[str, str], relay: RelayProcess, tools: GatewayProcess
) -> None:
    """A header that is missing, too many, or says something else is a mismatch; in the legacy era it means nothing."""
    expect_refusal(call_regional(relay, arguments, headers), 400, MISMATCH)
    assert tools.seen(":invoke") == []
    assert call_regional(relay, arguments, headers, modern=False).result["isError"] is False


# Sessions


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", spec.MODERN])
def test_a_session_id_is_neither_given_nor_asked_for(revision: str, relay: RelayProcess) -> None:
    """A request that brings the id of a relay that is gone is served, and no answer has one."""
    stale = {"Mcp_Session_Id": "00000000-0000-4000-8000-000000000000"}
    answers = [relay.call_as(revision, "tools/list", **stale), relay.call_as(revision, "nonsense", **stale)]
    answers += [relay.ask("DELETE", None, None, **relay.to_headers(), **stale)]
    if revision != spec.MODERN:
        answers += [relay.call("initialize", {**INITIALIZE, "protocolVersion": revision}, modern=False, **stale)]
        answers += [relay.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **stale)]
    assert answers[0].result["tools"]
    assert not any("session" in name for answer in answers for name in answer.headers)


# A gateway that cannot be had

OUTAGES: dict[str, dict[str, Any] | None] = {  # what is said of it -> the fault; the last one is that it is not there
    "500": {"status": 500, "body": {"detail": "out of order"}},
    "did not answer in time": {"delay": 60},
    "refused the connection": None,
}


def expect_outage(relay: RelayProcess, words: str, **key: str) -> None:
    """A key that is new begins in either era, and is told *words* where it asks for its tools."""
    initialize(relay, "2025-11-25", **key)
    assert relay.call_as(spec.MODERN, "server/discover", **key).result["supportedVersions"]
    for method, params in (("tools/list", {}), ("tools/call", CALL)):
        for revision in ("2025-11-25", spec.MODERN):
            got = relay.call_as(revision, method, params, **key)
            assert (got.status, got.code) == (200, -32603)
            assert words in got.last["error"]["message"]


def test_a_gateway_that_cannot_be_had(tools: GatewayProcess, tmp_path: Path) -> None:
    """Clients begin whatever is wrong with the gateway, are told what, and, once it is back, that there are tools."""
    with Store(tools.database) as store:
        keys = {words: {"Authorization": f"Bearer {store.create_key()}"} for words in OUTAGES}
    hasty = {"http_timeout": 1, "connect_timeout": 0.3, "manifest_ttl": 0.2}
    with RelayProcess(tmp_path, tools, **hasty) as relay:
        for words, fault in OUTAGES.items():
            tools.clear()
            port = tools.port
            if fault is None:
                tools.stop()
            else:
                tools.fault(path="*/mcp/manifest", times=-1, **fault)
            expect_outage(relay, words, **keys[words])
        assert relay.ask("GET", "/health").json["status"] == "ok"
        connection, stream = relay.listen(**keys["refused the connection"])
        tools.restart(port)
        notice = next(event for event in read_events(stream) if event is not None)
        assert notice["method"] == "notifications/tools/list_changed"
        connection.hang_up()
        for key in keys.values():
            wait_until(lambda key=key: "result" in relay.call_as("2025-11-25", "tools/list", **key).last, 5)
        assert "Traceback" not in relay.log.read_text()
