"""One message, one answer, over the real relay: what HTTP says of each, and that it says nothing else."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import spec
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.processes import read_peak
from tests.harness.relay import BOTH, RelayProcess, build_call, to_body

ORIGIN = "https://app.example"
MIB = 1024 * 1024
LIMIT = MIB  # of a body, here
INVOKE = "*:invoke"
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
POINT = {"type": "object", "properties": {"x": WHOLE, "y": WHOLE}, "required": ["x", "y"]}
TYPED = {
    "type": "object",
    "properties": {
        "n": {**WHOLE, "minimum": 1},
        "opts": {"type": "object", "properties": {"a": WHOLE}},
        "tags": {"type": "array", "items": TEXT},
        "words": TEXT,
    },
}
TOOLS = [
    manifest("typed", inputSchema=TYPED),
    manifest("strict", inputSchema={**TYPED, "required": ["n"]}),
    manifest("point", inputSchema=None, outputSchema=POINT),
    manifest("numbers", inputSchema=None, outputSchema={"type": "array", "items": WHOLE}),
]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ECHO = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hi"}}}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with the tools of this module."""
    with GatewayProcess(tmp_path_factory.mktemp("tools")) as gateway:
        gateway.register(*TOOLS)
        yield gateway


@pytest.fixture(scope="module")
def shared_relay(tools: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """One relay for all tests of this module, which nothing that it is sent makes fail."""
    settings = {"cors_origins": ORIGIN, "max_body_bytes": LIMIT, "max_result_bytes": 16 * MIB}
    with RelayProcess(tmp_path_factory.mktemp("relay"), tools, **settings) as relay:
        yield relay
        assert "Traceback" not in relay.log.read_text()


@pytest.fixture
def relay(shared_relay: RelayProcess, tools: GatewayProcess) -> RelayProcess:
    """The relay, its gateway without faults and with nothing seen."""
    tools.clear()
    return shared_relay


def call(relay: RelayProcess, name: str, arguments: Any, revision: str = spec.MODERN, **headers: Any) -> Any:
    """The result of a tool call, held to its schema."""
    return relay.call_as(revision, "tools/call", {"name": name, "arguments": arguments}, **headers).result


def answer(gateway: GatewayProcess, result: str) -> None:
    """Have the gateway answer the next call with *result*, which is JSON or what it takes for that."""
    body = f'{{"invocation_id":"i","status":"succeeded","result":{result}}}'.encode("utf-8", "surrogatepass")
    headers = {"Content-Type": "application/json"}
    gateway.fault(path=INVOKE, body_b64=base64.b64encode(body).decode(), headers=headers)


def expect_refusal(relay: RelayProcess, message: Any, status: int, code: int, **headers: str | None) -> Any:
    """The answer to *message*: an error under *status* that has no id but the request's own."""
    got = relay.post(message, **headers)
    assert (got.status, got.code, got.headers["content-type"]) == (status, code, "application/json")
    assert "result" not in got.json
    known = message.get("id") if isinstance(message, dict) else None
    assert got.json.get("id", known) == known
    return got


# What wants no answer

UNANSWERED = {
    "initialized": {"jsonrpc": "2.0", "method": "notifications/initialized"},
    "unknown": {"jsonrpc": "2.0", "method": "notifications/of/nothing", "params": {"a": [1]}},
    "cancelled": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {"a": []}}},
    "no params": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": None},
    "a response": {"jsonrpc": "2.0", "id": 7, "result": {"roots": []}},
    "an error": {"jsonrpc": "2.0", "id": "x", "error": {"code": -1, "message": "no"}},
    "a batch of them": [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 7, "result": {}},
    ],
}


@pytest.mark.parametrize("message", UNANSWERED.values(), ids=UNANSWERED)
def test_what_wants_no_answer_is_accepted_without_a_body(message: Any, relay: RelayProcess) -> None:
    """Notifications and responses get 202, no body and no type of one."""
    got = relay.post(message)
    assert (got.status, got.body, got.headers["content-length"]) == (202, b"", "0")
    assert "content-type" not in got.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Authorization": None}, 401), ({"Origin": "https://evil.example"}, 403), ({"Host": "evil.example"}, 403)],
    ids=["no key", "origin", "host"],
)
def test_a_notification_may_be_refused(headers: dict[str, Any], status: int, relay: RelayProcess) -> None:
    """What may not ask may not notify either, and is told so without an id."""
    got = relay.post(UNANSWERED["initialized"], **headers)
    assert got.status == status
    assert "id" not in got.json


# The form of an answer

JSON_TAKEN = [
    *(None, "", "*/*", "*", "application/json", "application/*;q=0.5", BOTH, "text/event-stream, application/json"),
    *("APPLICATION/JSON , Text/Event-Stream", "application/json;charset=utf-8", "text/html, */*;q=0.1"),
    *("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "text/event-stream;q=0.0, application/json"),
]
EVENTS_TAKEN = ["text/event-stream", "Text/*", "text/event-stream;q=0.1", "application/json;q=0, */*", "a/b, text/*"]
NEITHER_TAKEN = ["text/html", "image/*, text/plain", "application/json;q=0", "*/*;q=0.000", "application/xml"]


@pytest.mark.parametrize("accept", JSON_TAKEN)
def test_json_is_answered_to_all_who_take_it(accept: str | None, relay: RelayProcess) -> None:
    """However a client writes that it takes JSON, or says nothing, a short answer is JSON."""
    for revision in ("2025-11-25", spec.MODERN):
        got = relay.call_as(revision, "tools/call", ECHO["params"], Accept=accept)
        assert got.result["content"][0]["text"] == "hi"
        assert (got.streamed, int(got.headers["content-length"])) == (False, len(got.body))


@pytest.mark.parametrize("accept", EVENTS_TAKEN)
def test_a_stream_is_answered_to_who_takes_nothing_else(accept: str, relay: RelayProcess) -> None:
    """A client that takes events alone gets them: one message, on one line, never compressed."""
    for revision in ("2025-11-25", spec.MODERN):
        got = relay.call_as(revision, "tools/list", Accept=accept, Accept_Encoding="gzip")
        assert (got.streamed, len(got.messages)) == (True, 1)
        assert got.result["tools"]
        assert got.headers["cache-control"] == "no-cache, no-transform"
        assert got.headers["x-accel-buffering"] == "no"
        assert not {"content-length", "content-encoding"} & got.headers.keys()


@pytest.mark.parametrize("message", [ECHO, [PING, ECHO]], ids=["one", "batch"])
@pytest.mark.parametrize("accept", NEITHER_TAKEN)
def test_who_takes_neither_is_refused(accept: str, message: Any, relay: RelayProcess, tools: GatewayProcess) -> None:
    """A client that takes neither form gets 406 and nothing is done for it."""
    expect_refusal(relay, message, 406, -32600, Accept=accept)
    assert tools.seen(":invoke") == []


@pytest.mark.parametrize("accepted", ["gzip", "br, GZIP;q=0.5", "*", "gzip;q=1.0, *;q=0"])
def test_json_is_compressed_for_who_takes_that(accepted: str, relay: RelayProcess) -> None:
    """A list is compressed, says so, and is the same one."""
    plain, packed = relay.call("tools/list"), relay.call("tools/list", Accept_Encoding=accepted)
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) == len(packed.body) < len(plain.body) / 2
    assert gzip.decompress(packed.body) == plain.body
    assert "Accept-Encoding" in packed.headers["vary"]
    assert "Accept-Encoding" in plain.headers["vary"]


@pytest.mark.parametrize("accepted", [None, "br", "gzip;q=0", "gzip;q=0.0, *", "identity, *;q=0", ""])
def test_json_is_not_compressed_for_others(accepted: str | None, relay: RelayProcess) -> None:
    """Who does not take gzip gets none."""
    got = relay.call("tools/list", Accept_Encoding=accepted)
    assert "content-encoding" not in got.headers
    assert got.result["tools"]


def test_a_short_answer_is_not_compressed(relay: RelayProcess) -> None:
    """Below 1 KiB compressing costs more than it saves."""
    got = relay.call("tools/call", {"name": "echo", "arguments": {"text": "x"}}, Accept_Encoding="gzip")
    assert "content-encoding" not in got.headers
    got = relay.call("tools/call", {"name": "echo", "arguments": {"text": "x" * 1024}}, Accept_Encoding="gzip")
    assert got.headers["content-encoding"] == "gzip"


# Methods and paths of HTTP


@pytest.mark.parametrize("keyed", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "TRACE", "BREW"])
def test_other_methods_are_refused_at_once(method: str, keyed: bool, relay: RelayProcess) -> None:
    """A method that is not served is 405 with what is, in JSON, and never a challenge to log in."""
    headers = relay.to_headers() if keyed else {}
    started = time.monotonic()
    got = relay.ask(method, None, None, **({**headers, "Accept": "application/json"} if keyed else headers))
    assert time.monotonic() - started < 1
    assert (got.status, got.headers["allow"]) == (405, "POST, OPTIONS")
    assert got.headers["content-type"] == "application/json"
    assert "www-authenticate" not in got.headers
    assert method == "HEAD" or "POST" in got.json["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": None},
        {"Accept": "text/html"},
        {"Accept": "*/*"},
        {"Accept": "text/html, text/event-stream;q=0.5, */*;q=0.1"},
        {"MCP_Protocol_Version": spec.MODERN},
    ],
    ids=["no key", "page", "anything", "browser", "modern"],
)
def test_a_get_that_asks_for_no_stream_is_refused(headers: dict[str, Any], relay: RelayProcess) -> None:
    """A GET without a key, of a browser, or of the revision that has no such stream, is a method that is not served."""
    connection, got = relay.listen(**headers)
    assert (got.status, got.getheader("WWW-Authenticate")) == (405, None)
    connection.close()


@pytest.mark.parametrize("path", ["/mcp", "/health", "/nothing"])
def test_head_has_no_body(path: str, relay: RelayProcess) -> None:
    """Nothing stands behind the headers of an answer to HEAD, where the next answer of the connection begins."""
    host = "HTTP/1.1\r\nHost: localhost\r\n"
    head = f"HEAD {path} {host}\r\nGET /health {host}Connection: close\r\n\r\n"
    first, second = relay.send_raw(head.encode()).split(b"\r\n\r\n", 1)
    assert first.startswith(b"HTTP/1.1 ")
    assert second.startswith(b"HTTP/1.1 200 OK\r\n"), second[:80]


@pytest.mark.parametrize("forwarded", [None, "https"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_both_spellings_of_the_path_are_served(path: str, forwarded: str | None, relay: RelayProcess) -> None:
    """The path is served with and without a slash behind it, and never redirected; so is the challenge for a key."""
    headers = {**relay.to_headers(), "X_Forwarded_Proto": forwarded}
    assert relay.ask("POST", path, to_body(PING), **headers).json == {"jsonrpc": "2.0", "id": 1, "result": {}}
    refused = relay.ask("POST", path, to_body(PING), **{**headers, "Authorization": None})
    assert (refused.status, refused.headers["www-authenticate"]) == (401, 'Bearer realm="colabhive-mcp"')


@pytest.mark.parametrize("path", ["/", "/sse", "/mcp/x", "/Mcp", "/.well-known"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_paths_are_not_there(method: str, path: str, relay: RelayProcess) -> None:
    """Any other path is 404 in JSON that says where MCP is, and no challenge."""
    got = relay.ask(method, path, None, **relay.to_headers())
    assert (got.status, got.headers["content-type"]) == (404, "application/json")
    assert "/mcp" in got.json["error"]["message"]
    assert "www-authenticate" not in got.headers


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
    ],
)
@pytest.mark.parametrize("keyed", [True, False], ids=["key", "no key"])
def test_there_is_no_login(path: str, keyed: bool, relay: RelayProcess) -> None:
    """Who looks for a login finds none, in JSON that says what to send in its place."""
    got = relay.ask("GET", path, None, **(relay.to_headers() if keyed else {}))
    assert (got.status, got.headers["content-type"]) == (404, "application/json")
    assert "API key" in got.json["error"]["message"]
    assert "www-authenticate" not in got.headers


# Pages

PREFLIGHT = {"Origin": ORIGIN, "Access_Control_Request_Method": "POST"}
ASKED = "authorization, content-type, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, mcp-param-region"


def to_set(value: str) -> set[str]:
    """The members of a list in a header."""
    return {member.strip().lower() for member in value.split(",")}


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_a_preflight_needs_no_key(path: str, relay: RelayProcess) -> None:
    """A browser that asks what it may send is allowed all of MCP's headers, and none of its credentials."""
    got = relay.ask("OPTIONS", path, None, **PREFLIGHT, Access_Control_Request_Headers=ASKED)
    assert (got.status, got.body) == (204, b"")
    assert got.headers["access-control-allow-origin"] == ORIGIN
    assert to_set(got.headers["access-control-allow-headers"]) >= to_set(ASKED)
    assert "POST" in got.headers["access-control-allow-methods"]
    assert "Origin" in got.headers["vary"]
    assert "access-control-allow-credentials" not in got.headers
    assert "content-length" not in got.headers


def test_a_preflight_repeats_nothing_that_is_no_name(relay: RelayProcess) -> None:
    """What a client asks for and is no header's name is left out of the answer."""
    got = relay.ask("OPTIONS", None, None, **PREFLIGHT, Access_Control_Request_Headers='x-a, "b", c d, é, x-e')
    assert got.headers["access-control-allow-headers"] == "x-a, x-e"


@pytest.mark.parametrize(
    ("message", "headers", "status"),
    [
        (PING, {}, 200),
        (UNANSWERED["initialized"], {}, 202),
        (b"{", {}, 400),
        (PING, {"Authorization": None}, 401),
        (PING, {"Authorization": "Bearer hive_nobodysKey"}, 401),
        (PING, {"Accept": "text/html"}, 406),
        (PING, {"Accept": "text/event-stream"}, 200),
    ],
)
def test_every_answer_can_be_read_by_the_page(
    message: Any, headers: dict[str, Any], status: int, relay: RelayProcess
) -> None:
    """What is served, and what is refused, says that the page may read it and the headers that matter."""
    got = relay.post(message, Origin=ORIGIN, **headers)
    assert got.status == status
    assert got.headers["access-control-allow-origin"] == ORIGIN
    assert to_set(got.headers["access-control-expose-headers"]) >= {"www-authenticate", "retry-after"}
    assert "Origin" in got.headers["vary"]
    assert "access-control-allow-credentials" not in got.headers


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "https://app.example.evil.test", "https://evil.test/app.example", "https://app.example:444"),
        *("http://app.example", "app.example", "https://sub.app.example", "https://app.example/", "", "*"),
        *("http://localhost:1", "https://app.example, https://evil.test", "file://"),
    ],
)
def test_a_page_that_is_not_listed_may_not_ask(origin: str, relay: RelayProcess) -> None:
    """One list decides for preflight and request: 403, an error without id, and nothing that the page can read."""
    for method in ("OPTIONS", "POST", "GET"):
        got = relay.ask(method, None, to_body(PING) if method == "POST" else None, **relay.to_headers(), Origin=origin)
        assert (got.status, "id" in got.json, got.json["error"]["code"]) == (403, False, -32600)
        assert "cors_origins" in got.json["error"]["message"]
        assert not any(name.startswith("access-control-") for name in got.headers)


@pytest.mark.parametrize("origin", [None, ORIGIN, ORIGIN.upper()])
def test_who_is_listed_or_no_page_may_ask(origin: str | None, relay: RelayProcess) -> None:
    """Programs send no Origin; a listed page is served, whatever the case of its name."""
    assert relay.post(PING, Origin=origin).status == 200


# Keys


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic aGl2ZTp4"},
        {"Authorization": "hive_abc"},
        {"X_API_Key": " "},
        {"Cookie": "key=hive_abc"},
    ],
    ids=str,
)
def test_without_a_key_nothing_is_served(headers: dict[str, Any], relay: RelayProcess) -> None:
    """401 with a challenge that sends nobody to log in, and words that say where the key goes."""
    for body, known in ((PING, {"id": 1}), (ECHO, {"id": 2}), (b"", {}), (b"{", {}), (UNANSWERED["initialized"], {})):
        got = relay.post(body, **{"Authorization": None, **headers})
        assert (got.status, got.headers["www-authenticate"]) == (401, 'Bearer realm="colabhive-mcp"')
        assert {name: got.json[name] for name in ("id",) if name in got.json} == known
        assert "Authorization: Bearer" in got.json["error"]["message"]
        assert "X-API-Key" in got.json["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer hive_wrongWrongWrong"},
        {"Authorization": None, "X_API_Key": "hive_wrongWrongWrong"},
        {"X_API_Key": "hive_anotherThanTheOther"},
        {"Authorization": "Bearer two words"},
        {"Authorization": "Bearer " + "x" * 600},
    ],
    ids=["unknown", "unknown in the other header", "two that differ", "two words", "long"],
)
def test_a_wrong_key_is_told_so(headers: dict[str, Any], relay: RelayProcess) -> None:
    """A key that is none, or not known, is an invalid token; the answer doesn't repeat it."""
    got = relay.post(PING, **headers)
    assert got.status == 401
    assert 'error="invalid_token"' in got.headers["www-authenticate"]
    assert "resource_metadata" not in got.headers["www-authenticate"]
    assert got.json["id"] == 1
    assert b"wrongWrong" not in got.body


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "bearer {}"},
        {"Authorization": "BEARER   {}  "},
        {"Authorization": None, "X_API_Key": "{}"},
        {"X_API_Key": "{}"},
    ],
    ids=["lower case", "spaces", "other header", "both"],
)
def test_a_key_may_come_either_way(headers: dict[str, Any], relay: RelayProcess) -> None:
    """The scheme is read in any case, the key from either header, or from both where they agree."""
    given = {name: value and value.format(relay.key) for name, value in headers.items()}
    assert relay.post(PING, **given).status == 200


def test_a_key_without_the_right_is_forbidden(relay: RelayProcess, tools: GatewayProcess) -> None:
    """A key that the gateway knows and lets do nothing is 403, which no login mends."""
    tools.fault(path="*/mcp/manifest", status=403, body={"detail": "This account is closed"})
    got = relay.post(PING, Authorization="Bearer hive_knownButNotAllowed")
    assert (got.status, "www-authenticate" in got.headers) == (403, False)
    assert "This account is closed" in got.json["error"]["message"]


def test_a_refused_call_is_the_tools_failure(relay: RelayProcess, tools: GatewayProcess) -> None:
    """Where the gateway refuses one call of a key that it knows, the tool fails and says so; HTTP has no error."""
    tools.fault(path=INVOKE, status=403, body={"detail": "Not this model"})
    result = call(relay, "echo", {"text": "x"})
    assert result["isError"] is True
    assert "Not this model" in result["content"][0]["text"]


# Bodies

UNREADABLE = {
    "nothing": (b"", -32700),
    "half": (b"{", -32700),
    "not utf-8": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}', -32700),
    "two": (to_body(PING) + b"\n" + to_body(PING), -32700),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":NaN}}}', -32700),
    "1e999": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1e999}}}',
        -32700,
    ),
    "deep": (b"[" * 100_000, -32700),
    "a number": (b"42", -32600),
    "null": (b"null", -32600),
    "a text": (b'"ping"', -32600),
    "no batch": (b"[]", -32600),
    "no version": (b'{"id":1,"method":"ping"}', -32600),
    "an id alone": (b'{"jsonrpc":"2.0","id":9}', -32600),
    "id null": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    "id 1.5": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    "params 7": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":7}', -32600),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_no_message_is_refused(case: str, relay: RelayProcess, tools: GatewayProcess) -> None:
    """One error under 400, with the id where it could be read and none otherwise; nothing is done."""
    body, code = UNREADABLE[case]
    for revision in ("2025-03-26", "2025-11-25", spec.MODERN):
        got = relay.post(body, MCP_Protocol_Version=revision)
        assert (got.status, got.code) == (400, code)
        assert got.json.get("id", 1) == 1
    assert tools.seen(":invoke") == []


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\r\n \t"])
def test_what_stands_around_a_message_does_no_harm(mark: bytes, relay: RelayProcess) -> None:
    """A byte order mark before it and white space around it are no part of a message."""
    assert relay.post(mark + to_body(PING) + b"\r\n\n").result == {}


def test_the_longest_body_is_served(relay: RelayProcess) -> None:
    """A body of exactly the limit is read whole; its text comes back."""
    message, headers = build_call("tools/call", {"name": "echo", "arguments": {"text": ""}}, modern=True)
    text = "x" * (LIMIT - len(to_body(message)))
    message["params"]["arguments"]["text"] = text
    assert len(to_body(message)) == LIMIT
    assert relay.post(message, **headers).result["content"][0]["text"] == text


def test_a_large_answer_arrives_whole(relay: RelayProcess, tools: GatewayProcess) -> None:
    """Megabytes to a reader that is slow at first arrive whole, in each form, and are not kept."""
    words = ("é漢🎉" * 100 + "\n") * 2500
    for accept in ("application/json", "text/event-stream"):
        answer(tools, json.dumps({"x": 1, "y": 2, "words": words}))
        message, headers = build_call("tools/call", {"name": "point", "arguments": {}}, modern=True)
        connection, got = relay.open(message, **headers, Accept=accept)
        first = got.read(1000)
        body = first + got.read()
        connection.close()
        text = body.decode() if accept == "application/json" else body.decode().partition("data: ")[2]
        assert json.loads(text)["result"]["structuredContent"]["words"] == words
    assert read_peak(relay.pid) < 200 * MIB


@pytest.mark.parametrize("revision", ["2025-03-26", None])
def test_a_batch_is_served_where_there_are_batches(
    revision: str | None, relay: RelayProcess, tools: GatewayProcess
) -> None:
    """In the revision that has them, which is that of a request without the header, each request is answered once."""
    broken = {"jsonrpc": "2.0", "method": 7}
    initialize = {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}}
    members = [PING, UNANSWERED["unknown"], ECHO, broken, initialize, UNANSWERED["a response"]]
    got = relay.post(members, MCP_Protocol_Version=revision)
    assert (got.status, got.streamed) == (200, False)
    by_id = {response.get("id"): response for response in got.json}
    assert len(got.json) == len(by_id) == 4
    assert by_id[1]["result"] == {}
    assert by_id[2]["result"]["content"][0]["text"] == "hi"
    assert by_id[None]["error"]["code"] == by_id[3]["error"]["code"] == -32600
    assert len(tools.seen("echo:invoke")) == 1
    for response in got.json:
        spec.check(response, revision="2025-03-26", method={1: "ping", 2: "tools/call"}.get(response.get("id")))


def test_a_batch_may_be_a_stream(relay: RelayProcess) -> None:
    """Progress of the calls in a batch comes under their own tokens, then all responses as one array."""
    members = [
        {**ECHO, "id": token, "params": {**ECHO["params"], "_meta": {"progressToken": token}}} for token in ("a", 0)
    ]
    got = relay.post(members, MCP_Protocol_Version="2025-03-26")
    *progress, responses = got.messages
    assert {message["params"]["progressToken"] for message in progress} == {"a", 0}
    assert [response["id"] for response in responses] == ["a", 0]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", spec.MODERN, "2099-01-01"])
def test_a_batch_is_refused_elsewhere(revision: str, relay: RelayProcess, tools: GatewayProcess) -> None:
    """Every other revision has one error for all of it, and nothing in it is done."""
    served = spec.load(revision) if revision in spec.REVISIONS else {}
    assert ("JSONRPCBatchRequest" in json.dumps(served)) is False
    got = expect_refusal(relay, [ECHO, ECHO], 400, -32600, MCP_Protocol_Version=revision)
    assert "id" not in got.json
    assert tools.seen(":invoke") == []


# What travels in a message

BREAKS = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\rh\ni"


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_no_character_ends_a_line(accept: str, relay: RelayProcess, tools: GatewayProcess) -> None:
    """Whatever ends a line for some reader comes back as it went in, in one line of JSON or one of an event."""
    result = call(relay, "echo", {"text": BREAKS}, Accept=accept)
    assert result["content"][0]["text"] == BREAKS
    assert tools.seen(":invoke")[0]["body"]["input"] == {"text": BREAKS}
    message, headers = build_call("tools/call", {"name": "echo", "arguments": {"text": BREAKS}}, modern=True)
    raw = json.dumps(message, ensure_ascii=False).encode()
    got = relay.post(raw, **headers, Accept=accept)
    assert got.result["content"][0]["text"] == BREAKS
    assert len(got.body.decode().strip().splitlines()) == (1 if accept == "application/json" else 3)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_lone_surrogate_is_answered_once(accept: str, relay: RelayProcess, tools: GatewayProcess) -> None:
    """Half a character, in an argument or a result, makes no answer that is not UTF-8, and the next call works."""
    message, headers = build_call("tools/call", {"name": "echo", "arguments": {"text": "?"}}, modern=True)
    got = relay.post(to_body(message).replace(b"?", rb"\ud83d"), **headers, Accept=accept)
    assert got.check("tools/call", spec.MODERN).last["id"] == 1
    answer(tools, r'"a\udcafb"')
    result = call(relay, "echo", {"text": "x"}, Accept=accept)
    assert result["content"][0]["text"] == "a\ufffdb"
    assert call(relay, "echo", {"text": "x"})["content"][0]["text"] == "x"


@pytest.mark.parametrize(
    ("number", "shown"),
    [("NaN", "NaN"), ("-Infinity", "-Infinity"), ("9223372036854775809", 2**63 + 1), ("0.1", 0.1), ("1e308", 1e308)],
)
def test_numbers_arrive_as_they_are(number: str, shown: Any, relay: RelayProcess, tools: GatewayProcess) -> None:
    """A number that JSON has not becomes its name; any other is the same in the text and in the structure."""
    answer(tools, f'{{"x":1,"y":2,"z":{number}}}')
    result = call(relay, "point", {})
    assert result["structuredContent"] == json.loads(result["content"][0]["text"]) == {"x": 1, "y": 2, "z": shown}


# Arguments and results, as over stdio

SENT: list[tuple[Any, Any]] = [
    (None, {}),
    ({}, {}),
    ({"n": 3.0}, {"n": 3}),
    ({"n": "5", "opts": '{"a":1}', "tags": '["x"]'}, {"n": 5, "opts": {"a": 1}, "tags": ["x"]}),
    ({"words": '{"a":1}'}, {"words": '{"a":1}'}),
    ({"n": None}, {}),
]


@pytest.mark.parametrize("revision", ["2025-03-26", spec.MODERN])
@pytest.mark.parametrize(("arguments", "sent"), SENT, ids=json.dumps)
def test_arguments_are_repaired(
    arguments: Any, sent: Any, revision: str, relay: RelayProcess, tools: GatewayProcess
) -> None:
    """Absent and null are no arguments; whole floats, and JSON in a text, become what the schema wants."""
    given: dict[str, Any] = {"name": "typed"} if arguments == {} else {"name": "typed", "arguments": arguments}
    assert relay.call_as(revision, "tools/call", given).result["isError"] is False
    [seen] = tools.seen(":invoke")
    assert json.dumps(seen["body"]["input"]) == json.dumps(sent)


@pytest.mark.parametrize("arguments", [[], "x", 7, True])
def test_arguments_that_are_no_object_are_an_error(arguments: Any, relay: RelayProcess, tools: GatewayProcess) -> None:
    """They are a fault of the message, not of the tool: invalid params, in every revision."""
    for revision in spec.REVISIONS:
        assert relay.call_as(revision, "tools/call", {"name": "typed", "arguments": arguments}).code == -32602
    assert tools.seen(":invoke") == []


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({}, "n"),
        ({"n": True}, "n"),
        ({"n": 0}, "n"),
        ({"n": 1, "opts": {"a": "x"}}, "opts.a"),
        ({"n": 1, "tags": 7}, "tags"),
    ],
)
def test_arguments_that_do_not_fit_are_the_tools_failure(
    arguments: Any, path: str, relay: RelayProcess, tools: GatewayProcess
) -> None:
    """A model can mend them, so they are a result that names the path; nothing is sent."""
    for revision in spec.REVISIONS:
        result = call(relay, "strict", arguments, revision)
        assert result["isError"] is True
        assert path in result["content"][0]["text"]
    assert tools.seen(":invoke") == []


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_structured_results_are_what_was_promised(revision: str, relay: RelayProcess, tools: GatewayProcess) -> None:
    """What conforms is structured where the revision has that, and is text too; what doesn't is never structured."""
    structured = revision in ("2025-06-18", "2025-11-25", spec.MODERN)
    result = call(relay, "point", {"x": 1, "y": 2}, revision)
    assert result.get("structuredContent") == ({"x": 1, "y": 2} if structured else None)
    assert json.loads(result["content"][0]["text"]) == {"x": 1, "y": 2}
    assert "structuredContent" not in call(relay, "point", {"x": 1}, revision)
    answer(tools, "[1,2]")
    result = call(relay, "numbers", {}, revision)
    assert result.get("structuredContent") == ([1, 2] if revision == spec.MODERN else None)
    listed = {tool["name"]: tool for tool in relay.call_as(revision, "tools/list").result["tools"]}
    assert ("outputSchema" in listed["numbers"]) is (revision == spec.MODERN)
    assert ("outputSchema" in listed["point"]) is structured


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_a_list_is_one_page(revision: str, relay: RelayProcess) -> None:
    """By default there is one page, which says nothing of a next one; a cursor of nobody's is invalid."""
    assert "nextCursor" not in relay.call_as(revision, "tools/list").result
    for cursor in ("junk", 7):
        assert relay.call_as(revision, "tools/list", {"cursor": cursor}).code == -32602
