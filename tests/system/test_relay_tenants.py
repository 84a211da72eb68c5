"""Many keys on one real relay: who is let in and who stays, and that nothing of one ever reaches another."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import cycle, product
from typing import Any, Self

import pytest

from tests.harness import spec
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.processes import wait_until
from tests.harness.relay import Answer, RelayProcess, to_body
from tests.harness.tenants import add_keys, find_part, find_told, make_key, revoke_key, to_digits

RED = "hive_redOwnKeyQ7w8e9r0t1"
BLUE = "hive_blueOwnKeyZ5x6c7v8b9"
ACCOUNTS = {RED: "red", BLUE: "blue"}
KEYS = (RED, BLUE)
LEGACY = "2025-11-25"
TTL = 0.3  # seconds that a manifest is fresh here
BIG = "big.read"
INVOKE, MANIFEST = "*:invoke", "*/mcp/manifest"
USED: list[str] = [RED, BLUE]  # every key of these tests, none of which may be in a log


def bring_key(word: str = "other") -> str:
    """A key that no other test has."""
    USED.append(make_key(word))
    return USED[-1]


def own(account: str, name: str = "own") -> str:
    """The name of a tool that *account* alone sees."""
    return f"{account}-{name}"


def register_own(gateway: GatewayProcess, account: str, name: str = "own") -> str:
    """Add a tool that *account* alone sees; answers its name."""
    gateway.register(manifest(own(account, name), visibility="private", account=account))
    return own(account, name)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with two accounts, each with a key and a tool of its own."""
    with GatewayProcess(tmp_path_factory.mktemp("town")) as gateway:
        USED.append(gateway.key)
        for key, account in ACCOUNTS.items():
            register_own(gateway, account)
            add_keys(gateway, key, account=account)
        block = {"method": "GET", "path": "/big", "encoding": "json", "args": {}}
        gateway.register({**manifest(BIG), "action": None, "endpoint": block})
        yield gateway


@pytest.fixture(scope="module")
def shared_relay(town: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """One relay that logs all there is to log, which in the end holds no part of any key."""
    settings = {"manifest_ttl": TTL, "http_timeout": 1, "poll_max_wait_for": "slow-count=0.2", "max_result_bytes": 4096}
    logs = {"log_level": "debug", "log_jsonrpc": "true"}
    with RelayProcess(tmp_path_factory.mktemp("relay"), town, **settings, **logs) as relay:
        assert relay.call("tools/list", Authorization=f"Bearer {RED}").status == 200  # whatever tests come here
        yield relay
        assert relay.stop() == 0
        log = relay.log.read_text()
    assert "Traceback" not in log
    assert '"mcp.jsonrpc"' in log
    assert find_told(USED, log) == []
    assert to_digits(RED) in log


@pytest.fixture
def relay(shared_relay: RelayProcess, town: GatewayProcess) -> RelayProcess:
    """The relay, its gateway without faults and with nothing seen."""
    town.clear()
    return shared_relay


@pytest.fixture
def small(town: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """A relay of this test's own with places for two keys, who keep what they have read."""
    town.clear()
    with RelayProcess(tmp_path_factory.mktemp("small"), town, max_tenants=2) as relay:
        yield relay


def ask(
    relay: RelayProcess, key: str, method: str, params: Any = None, *, revision: str = spec.MODERN, **headers: Any
) -> Answer:
    """One request of *key*, its answer held to the schema of its revision."""
    got = relay.call_as(revision, method, params, Authorization=f"Bearer {key}", **headers)
    other = next(each for each in (BLUE, RED) if each != key)
    assert find_part(other, got.body.decode("utf-8", "replace")) is None
    return got


def call(relay: RelayProcess, key: str, name: str, arguments: Any = None, **more: Any) -> Any:
    """The result of a tool call of *key*."""
    return ask(relay, key, "tools/call", {"name": name, "arguments": arguments or {}}, **more).result


def read_text(result: Any) -> str:
    """The text of a result."""
    return "\n".join(block["text"] for block in result["content"])


def list_names(relay: RelayProcess, key: str, **more: Any) -> set[str]:
    """The tools that *key* is listed."""
    return {tool["name"] for tool in ask(relay, key, "tools/list", **more).result["tools"]}


def count_asked(town: GatewayProcess, key: str, fragment: str = "/mcp/manifest") -> int:
    """How often the gateway was asked with *key*."""
    digest = sha256(key.encode()).hexdigest()
    return sum(each["headers"].get("x-api-key") == digest for each in town.seen(fragment))


class Stream:
    """The legacy stream of *key*, read by a thread; *told* are the methods of the notices that have come."""

    def __init__(self, relay: RelayProcess, key: str) -> None:
        self.told: list[str] = []
        host, _, port = relay.address.partition(":")
        self._socket = socket.create_connection((host, int(port)), 20)
        request = f"GET /mcp HTTP/1.0\r\nAuthorization: Bearer {key}\r\nAccept: text/event-stream\r\n\r\n"
        self._socket.sendall(request.encode())
        self._lines = self._socket.makefile("rb")
        assert b" 200 " in self._lines.readline()
        self._thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        for line in self._lines:
            if line.startswith(b"data: "):
                self.told.append(json.loads(line[6:])["method"])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(20)
        self._lines.close()
        self._socket.close()


def run_at_once(*tasks: Callable[[], Any]) -> list[Any]:
    """What the tasks answer, each on a thread of its own."""
    with ThreadPoolExecutor(len(tasks)) as threads:
        return [future.result(30) for future in [threads.submit(task) for task in tasks]]


# Nothing of one key reaches another


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("revision", [LEGACY, spec.MODERN])
def test_each_key_lists_its_own_tools(revision: str, accept: str, relay: RelayProcess) -> None:
    """A list holds what all may see and the account's own tools, in every form in which it travels."""
    for _ in range(2):  # from a copy that was made for this key, too
        for key, other in ((RED, BLUE), (BLUE, RED)):
            names = list_names(relay, key, revision=revision, Accept=accept)
            assert {"echo", own(ACCOUNTS[key])} <= names
            assert own(ACCOUNTS[other]) not in names


def test_compressed_lists_are_each_keys_own(relay: RelayProcess) -> None:
    """Two keys that take gzip are not served one compressed copy."""
    bodies = [
        gzip.decompress(relay.call("tools/list", Authorization=f"Bearer {key}", Accept_Encoding="gzip").body)
        for key in KEYS
    ]
    assert [(b"red-own" in body, b"blue-own" in body) for body in bodies] == [(True, False), (False, True)]


@pytest.mark.parametrize("revision", [LEGACY, spec.MODERN])
def test_anothers_tool_cannot_be_called(revision: str, relay: RelayProcess, town: GatewayProcess) -> None:
    """It is as unknown as one that never was, nothing is sent, and its owner's call works."""
    assert read_text(call(relay, RED, "red-own", {"text": "mine"}, revision=revision)) == "mine"
    sent = len(town.seen(":invoke"))
    got = ask(relay, BLUE, "tools/call", {"name": "red-own", "arguments": {}}, revision=revision)
    never = ask(relay, BLUE, "tools/call", {"name": "not-there", "arguments": {}}, revision=revision)
    assert got.code == never.code == -32602
    words = [each.last["error"]["message"] for each in (got, never)]
    assert words[0].replace("red-own", "") == words[1].replace("not-there", "")
    assert len(town.seen(":invoke")) == sent


@pytest.mark.parametrize("revision", [LEGACY, spec.MODERN])
def test_anothers_manifests_cannot_be_read(revision: str, relay: RelayProcess) -> None:
    """Neither as a resource, nor in the index of them, nor by completing its name."""
    template = {"type": "ref/resource", "uri": "colabhive://manifest/{slug}"}
    for key, mine, others in ((RED, "red-own", "blue-own"), (BLUE, "blue-own", "red-own")):
        uris = [f"colabhive://manifest/{slug}" for slug in (mine, others)]
        got = [ask(relay, key, "resources/read", {"uri": uri}, revision=revision) for uri in uris]
        assert mine in got[0].result["contents"][0]["text"]
        assert "error" in got[1].last
        index = ask(relay, key, "resources/read", {"uri": "colabhive://manifest"}, revision=revision)
        assert (mine in index.body.decode(), others in index.body.decode()) == (True, False)
        argument = {"ref": template, "argument": {"name": "slug", "value": ""}}
        values = ask(relay, key, "completion/complete", argument, revision=revision).result["completion"]["values"]
        assert (mine in values, others in values) == (True, False)


def test_anothers_invocation_cannot_be_read(relay: RelayProcess) -> None:
    """An invocation id is of use to its own account alone."""
    late = call(relay, RED, "slow-count", {"to": 3, "interval": 0.15})
    assert late["isError"]
    wanted = {"invocation_id": read_text(late).partition("as invocation ")[2].partition(".")[0]}
    refused = call(relay, BLUE, "get_invocation_result", wanted)
    assert refused["isError"]
    assert "counted" not in read_text(refused)
    assert "3" in read_text(call(relay, RED, "get_invocation_result", wanted))


def test_anothers_kept_answer_cannot_be_read(relay: RelayProcess, town: GatewayProcess) -> None:
    """What the relay itself keeps of an operation's long answer is its own key's."""
    town.fault(path="*/big", body="secret-of-red " * 600)
    cut = read_text(call(relay, RED, BIG.replace(".", "_")))
    answer_id = "answer-" + cut.rpartition("answer-")[2][:36]
    wanted = {"invocation_id": answer_id, "offset": 14}
    assert "secret-of-red" in read_text(call(relay, RED, "get_invocation_result", wanted))
    refused = call(relay, BLUE, "get_invocation_result", wanted)
    assert refused["isError"]
    assert "secret-of-red" not in json.dumps(refused)


def test_anothers_request_cannot_be_cancelled(relay: RelayProcess, town: GatewayProcess) -> None:
    """The same id, from the same address and client, under another key ends nothing."""
    town.fault(path=INVOKE, delay=0.4)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

    def disturb() -> None:
        town.wait_seen(INVOKE)
        assert relay.post(cancel, Authorization=f"Bearer {BLUE}").status == 202

    served, _ = run_at_once(lambda: call(relay, RED, "echo", {"text": "kept"}, revision=LEGACY), disturb)
    assert read_text(served) == "kept"


def test_answers_are_never_mixed_up(relay: RelayProcess) -> None:
    """Two keys with the same ids, tokens and tools, four clients each at once, get their own answers alone."""

    def work(key: str, client: int) -> None:
        account = ACCOUNTS[key]
        for turn in range(6):
            text = f"{account}-{client}-{turn}"
            revision = (LEGACY, spec.MODERN)[turn % 2]
            asked = {"name": own(account), "arguments": {"text": text}, "_meta": {"progressToken": "t"}}
            got = ask(relay, key, "tools/call", asked, revision=revision)
            assert read_text(got.result) == text
            assert all(each["params"]["progressToken"] == "t" for each in got.messages if "method" in each)
            assert own(account) in list_names(relay, key, revision=revision)

    run_at_once(*(lambda key=key, client=client: work(key, client) for key, client in product(KEYS, range(4))))


def test_a_cursor_is_of_its_own_list(town: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cursor of another key is invalid, or leads on in one's own list."""
    with RelayProcess(tmp_path_factory.mktemp("paged"), town, page_size=3) as relay:
        cursors = {key: ask(relay, key, "tools/list").result["nextCursor"] for key in KEYS}
        for key, other in ((RED, BLUE), (BLUE, RED)):
            seen, cursor = set[str](), cursors[other]
            while cursor is not None:
                got = ask(relay, key, "tools/list", {"cursor": cursor})
                if "error" in got.last:
                    assert got.code == -32602
                    break
                seen |= {tool["name"] for tool in got.result["tools"]}
                cursor = got.result.get("nextCursor")
            assert own(ACCOUNTS[other]) not in seen


def test_a_change_is_told_to_who_sees_it(relay: RelayProcess, town: GatewayProcess) -> None:
    """A tool of one account is news on that account's stream, and nowhere else."""
    with Stream(relay, RED) as red, Stream(relay, BLUE) as blue:
        try:
            asked = count_asked(town, RED)
            register_own(town, "blue", "fresh")
            wait_until(lambda: bool(blue.told))
            wait_until(lambda: count_asked(town, RED) > asked + 1)
            assert red.told == []
            register_own(town, "red", "fresh")
            wait_until(lambda: bool(red.told))
            assert blue.told == red.told == ["notifications/tools/list_changed"]
        finally:
            town.remove("blue-fresh", "red-fresh")


def test_a_refresh_is_of_ones_own_tools(relay: RelayProcess, town: GatewayProcess) -> None:
    """A refresh looks at the gateway with the caller's key at once, and tells of the caller's tools."""
    list_names(relay, RED)
    asked = count_asked(town, RED), count_asked(town, BLUE)
    register_own(town, "red", "extra")
    try:
        got = relay.ask("POST", "/admin/manifest/refresh", b"", Authorization=f"Bearer {RED}")
        assert (got.status, set(got.json)) == (200, {"tools", "etag"})
        assert "red-extra" in list_names(relay, RED)
        assert (count_asked(town, RED) > asked[0], count_asked(town, BLUE)) == (True, asked[1])
        assert got.json["tools"] > relay.ask("POST", "/admin/manifest/refresh", b"", X_API_Key=BLUE).json["tools"]
    finally:
        town.remove("red-extra")
    assert relay.ask("POST", "/admin/manifest/refresh", b"").status == 401
    assert relay.ask("POST", "/admin/manifest/refresh", b"", X_API_Key=bring_key()).status == 401


# Who is let in, and who stays


def test_a_bad_key_is_asked_about_once(relay: RelayProcess, town: GatewayProcess) -> None:
    """However many requests bring it, at once or one after the other: all are refused, after one question."""
    bad = bring_key("bad")
    before = relay.ask("GET", "/health").json["tenants"]
    asked = [lambda: relay.call("tools/list", Authorization=f"Bearer {bad}") for _ in range(12)]
    answers = [*run_at_once(*asked), *(one() for one in asked[:3])]
    assert {answer.status for answer in answers} == {401}
    assert count_asked(town, bad, "") == 1
    assert relay.ask("GET", "/health").json["tenants"] == before


def test_evicting_breaks_no_call(small: RelayProcess, town: GatewayProcess) -> None:
    """A key that loses its place during a call gets its result, and is let in again."""
    town.fault(path=INVOKE, delay=0.6)

    def push_out() -> None:
        town.wait_seen(INVOKE)
        for _ in range(3):
            key = bring_key("good")
            add_keys(town, key)
            list_names(small, key)
        assert f'"tenant": "{to_digits(RED)}"' in find_events(small, "pool.tenant_evicted")

    served, _ = run_at_once(lambda: call(small, RED, "red-own", {"text": "kept"}), push_out)
    assert read_text(served) == "kept"
    assert read_text(call(small, RED, "red-own", {"text": "again"})) == "again"


def test_a_revoked_key_leaves(relay: RelayProcess, town: GatewayProcess) -> None:
    """Its next call fails as a tool's result that names the key's fault; from then on it is 401, and was asked once."""
    key = bring_key("green")
    add_keys(town, key)
    assert read_text(call(relay, key, "echo", {"text": "x"})) == "x"
    revoke_key(town, key)
    refused = call(relay, key, "echo", {"text": "x"})
    assert refused["isError"]
    assert "key" in read_text(refused)
    asked = count_asked(town, key, "")
    for _ in range(3):
        got = relay.call("tools/call", {"name": "echo", "arguments": {}}, Authorization=f"Bearer {key}")
        assert (got.status, "invalid_token" in got.headers["www-authenticate"]) == (401, True)
    assert count_asked(town, key, "") == asked
    assert f'"tenant": "{to_digits(key)}"' in find_events(relay, "pool.tenant_evicted")


def find_events(relay: RelayProcess, name: str) -> str:
    """The lines of the log that tell of events called *name*."""
    return "\n".join(json.dumps(json.loads(line)) for line in relay.log.read_text().splitlines() if f'"{name}"' in line)


# What goes to the gateway, and what is never told

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = {"traceparent": TRACEPARENT, "tracestate": "vendor=1,other=2"}
BROUGHT = {
    **TRACE,
    "Cookie": "session=stolen",
    "X_Forwarded_For": "198.51.100.7",
    "X_Forwarded_Host": "evil.example",
    "Forwarded": "for=198.51.100.7",
    "X_Account_ID": "somebody-else",
    "Idempotency_Key": "of-the-client",
    "User_Agent": "client/1",
    "Proxy_Authorization": "Basic c2VjcmV0",
    "X_Custom": "of-the-client",
    "Referer": "https://of-the-client.example",
}
OURS = {
    "accept",
    "x-api-key",
    "user-agent",
    "accept-encoding",
    "host",
    "content-length",
    "content-type",
    "idempotency-key",
}


@pytest.mark.parametrize("header", ["Authorization", "X_API_Key", "both"])
def test_the_gateway_sees_the_key_and_the_trace(header: str, relay: RelayProcess, town: GatewayProcess) -> None:
    """Of what a client brings only its key, in one header, and its trace go on, with each kind of request."""
    given = {"Authorization": f"Bearer {RED}", "X_API_Key": RED}
    brought = given if header == "both" else {"Authorization": None, header: given[header]}
    late = relay.call(
        "tools/call", {"name": "slow-count", "arguments": {"to": 4, "interval": 0.1}}, **BROUGHT, **brought
    )
    assert late.result["isError"]
    town.fault(path="*/big", body={})
    assert not relay.call("tools/call", {"name": BIG.replace(".", "_")}, **BROUGHT, **brought).result.get("isError")
    asked_for = [each for each in town.seen() if "/mcp/manifest" not in each["path"]]
    assert all(any(part in each["path"] for each in asked_for) for part in (":invoke", "/invocations/", "/big"))
    traced = [each["headers"] for each in asked_for]
    for headers in traced:
        assert headers["x-api-key"] == sha256(RED.encode()).hexdigest()
        assert {name: headers.get(name) for name in TRACE} == TRACE
        assert headers["user-agent"].startswith("colabhive-mcp/")
        assert headers.get("idempotency-key") != "of-the-client"
        assert set(headers) - OURS - set(TRACE) <= {"connection", "idempotency-key"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {RED}", "X_API_Key": BLUE},
        {"Authorization": f"Bearer {RED}, Bearer {BLUE}"},
        {"X_API_Key": f"{RED}, {BLUE}", "Authorization": None},
        {"X_API_Key": f"{RED},{BLUE}", "Authorization": None},
    ],
    ids=["both headers", "joined", "joined keys", "joined without space"],
)
def test_two_keys_are_none(headers: dict[str, Any], relay: RelayProcess, town: GatewayProcess) -> None:
    """Which of two keys is meant nobody knows: 401, and neither reaches the gateway."""
    assert relay.call("tools/list", **headers).status == 401
    assert [count_asked(town, key, "") for key in KEYS] == [0, 0]


SAID = "Bearer {key} is X-API-Key {key} is {key}"  # what a careless gateway says
FAULTS: dict[str, dict[str, Any]] = {
    "401": {"status": 401, "body": SAID},
    "403": {"status": 403, "body": {"detail": SAID}},
    "400": {"status": 400, "body": {"error": {"code": "c", "message": SAID}}},
    "429": {"status": 429, "body": SAID, "headers": {"Retry-After": "3600"}},
    "500": {"status": 500, "body": "<html>" + SAID},
    "no JSON": {"status": 200, "body": SAID},
    "redirect": {"status": 302, "headers": {"Location": "https://{key}@elsewhere.example/{key}?key={key}"}},
    "failed": {"body": {"invocation_id": "i", "status": "failed", "error": SAID}},
}


def put_key(value: Any, key: str) -> Any:
    """A fault with *key* in its words."""
    return json.loads(json.dumps(value).replace("{key}", key))


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_tells_a_key(fault: str, relay: RelayProcess, town: GatewayProcess) -> None:
    """Whatever goes wrong with a call, even where the gateway repeats the key: no part of it comes back.

    The log of this relay is searched for the keys of all its requests when it has ended.
    """
    key = bring_key("fault")
    add_keys(town, key)
    list_names(relay, key)
    town.fault(path=INVOKE, **put_key(FAULTS[fault], key))
    got = relay.call("tools/call", {"name": "echo", "arguments": {"text": "x"}}, Authorization=f"Bearer {key}")
    assert town.seen(":invoke")
    town.clear()
    assert got.result["isError"]
    assert find_part(key, got.body.decode()) is None
    assert find_part(key, relay.ask("GET", "/metrics").body.decode()) is None


def bring_newline(key: str) -> bytes:
    """A key with a line break in it."""
    return b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %b\r\n %b\r\nConnection: close\r\n\r\n" % (
        key[:12].encode(),
        key[12:].encode(),
    )


WRONG: dict[str, Callable[[str], bytes]] = {
    "unknown": lambda key: build_raw(f"X-API-Key: {key}"),
    "a line break": bring_newline,
    "a bare line feed": lambda key: build_raw(f"X-API-Key: {key}\n{key}"),
    "no ASCII": lambda key: build_raw(f"X-API-Key: {key}\xe9"),
    "too long": lambda key: build_raw(f"X-API-Key: {key * 40}"),
    "far too long": lambda key: build_raw(f"X-API-Key: {key * 4000}"),
    "another scheme": lambda key: build_raw(f"Authorization: Basic {base64.b64encode(key.encode()).decode()} {key}"),
    "in the address": lambda key: build_raw("A: b", f"/mcp?api_key={key}"),
    "as a path": lambda key: build_raw("A: b", f"/{key}"),
    "as a user": lambda key: build_raw("A: b", f"http://user:{key}@localhost/mcp"),
    "as a host": lambda key: build_raw(f"Host: {key}"),
    "as an origin": lambda key: build_raw(f"Origin: https://{key}"),
    "as a version": lambda key: build_raw(f"X-API-Key: {RED}\r\nMCP-Protocol-Version: {key}"),
    "as a method": lambda key: build_raw("A: b", method=key.upper()),
}


def build_raw(header: str, target: str = "/mcp", method: str = "POST") -> bytes:
    """A request with one header of its own."""
    host = "" if header.startswith("Host:") else "Host: localhost\r\n"
    body = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
    head = f"{method} {target} HTTP/1.1\r\n{host}{header}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return (head + body).encode("latin-1")


@pytest.mark.parametrize("case", WRONG)
def test_no_log_tells_a_key_that_came_wrong(case: str, relay: RelayProcess) -> None:
    """A key in the wrong place or form is refused in JSON, and the log, searched at the end, does not hold it."""
    key = bring_key("wrong")
    head, _, body = relay.send_raw(WRONG[case](key)).partition(b"\r\n\r\n")
    assert head.split()[1][:1] == b"4"
    assert "error" in json.loads(body)
    assert find_part(key, relay.ask("GET", "/metrics").body.decode()) is None


TARGETS = ["http://127.0.0.1:{port}/x", "https://127.0.0.1:{port}/x", "//127.0.0.1:{port}/x", "/relative"]
ASKED = {"invoke": INVOKE, "poll": "*/invocations/*", "manifest": MANIFEST, "operation": "*/big"}


@pytest.mark.parametrize("asked", ASKED)
def test_no_redirect_is_followed(asked: str, relay: RelayProcess, town: GatewayProcess) -> None:
    """Each kind of redirect, to anywhere, is an error that names no more than a host; nothing arrives there."""
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        port = elsewhere.getsockname()[1]
        for status, target in zip((301, 302, 303, 307, 308), cycle(TARGETS), strict=False):
            key = bring_key("moved")
            add_keys(town, key)
            if asked != "manifest":
                list_names(relay, key)
            town.fault(path=ASKED[asked], status=status, headers={"Location": target.format(port=port)})
            name = {"operation": "big_read", "poll": "slow-count"}.get(asked, "echo")
            arguments = {"text": "x"} if name == "echo" else {}
            got = relay.call("tools/call", {"name": name, "arguments": arguments}, Authorization=f"Bearer {key}")
            words = got.body.decode()
            assert "error" in got.last or got.result["isError"], words
            assert ("redirect" in words.lower(), "/x" in words, find_part(key, words)) == (True, False, None)
            town.clear()
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


def test_a_message_to_nobody_changes_nothing(relay: RelayProcess) -> None:
    """A key that is refused can neither notify nor cancel."""
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    got = relay.ask("POST", None, to_body(note), X_API_Key=bring_key("bad"), Content_Type="application/json")
    assert got.status == 401
