"""Lines on stdin and stdout of the real process: what they may hold, what they may not, and how long they may be."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Connect
from tests.harness.client import StdioClient, to_messages
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.processes import COMMAND, INITIALIZE, build_environment, count_waiting, read_peak, spawn, wait_until

MIB = 1024 * 1024
LINE_ENDS = "a\u2028b\u2029c\u0085d"
LETTERS = "é漢🎉 — ä"
ENDPOINT = {
    "method": "POST",
    "path": "/things/{step}",
    "encoding": "multipart",
    "args": {
        "step": {"in": "path", "name": "step"},
        "query": {"in": "query", "name": "query"},
        "header": {"in": "header", "name": "X-Header"},
        "file": {"in": "file", "name": "file"},
    },
}
NOISE = """
import os, sys, warnings

NOISY = {"requests", "urllib3", "jsonschema", "cachetools", "pythonjsonlogger"}


def make_noise(where):
    print("noise", where)
    sys.__stdout__.write(f"noise by the first stdout {where}\\n")
    sys.__stdout__.flush()
    os.write(1, f"noise by the descriptor {where}\\n".encode())
    os.system(f"echo noise of a child {where}")
    warnings.warn(f"noise as a warning {where}", RuntimeWarning, stacklevel=2)


class Finder:
    def find_spec(name, path=None, target=None):
        if name in NOISY:
            make_noise(f"at import of {name}")
        if name == "colabhive_mcp.gateway.client":
            from urllib3 import HTTPConnectionPool

            def urlopen(self, *given, wrapped=HTTPConnectionPool.urlopen, **options):
                make_noise("in a call")
                return wrapped(self, *given, **options)

            HTTPConnectionPool.urlopen = urlopen


sys.meta_path.insert(0, Finder)
"""


@pytest.fixture(scope="module")
def strange_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with a tool whose words are hard to carry, and an operation that carries its arguments in every way."""
    with GatewayProcess(tmp_path_factory.mktemp("strange-gateway")) as gateway:
        gateway.register(
            manifest("words", displayName=LETTERS, description=f"{LETTERS} {LINE_ENDS}"),
            manifest("operate", kind="operation", endpoint=ENDPOINT),
        )
        yield gateway


@pytest.fixture(scope="module")
def peer(strange_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioClient]:
    """One server that has to bear all that is sent in this module, and to be as good as new after it."""
    folder = tmp_path_factory.mktemp("peer")
    environment = build_environment(strange_gateway, folder, poll_interval=0.1, max_message_bytes=4 * MIB)
    with StdioClient(folder, environment=environment) as client:
        yield client.open()
        assert client.close() == 0
        assert "Traceback" not in client.stderr


@pytest.fixture(scope="module")
def batcher(shared_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioClient]:
    """One session of the revision that has batches."""
    folder = tmp_path_factory.mktemp("batcher")
    environment = build_environment(shared_gateway, folder, poll_interval=0.1)
    with StdioClient(folder, environment=environment, revision="2025-03-26") as client:
        yield client.open()
        assert client.close() == 0


def expect_error(client: StdioClient, code: int, request_id: Any) -> None:
    """The next message is an error with that code and id (None: null or absent)."""
    message = client.receive()
    assert "error" in message, message
    assert message["error"]["code"] == code, message
    assert message.get("id") == request_id, message


def expect_alive(client: StdioClient) -> None:
    """The next message answers a ping."""
    request_id = client.request("ping")
    message = client.receive()
    assert (message.get("id"), message.get("result")) == (request_id, {}), message


# Only messages on stdout


@pytest.mark.parametrize(
    ("reachable", "buffered"),
    [(True, True), (True, False), (False, True)],
    ids=["gateway", "gateway-unbuffered", "no-gateway"],
)
def test_stray_output_goes_to_stderr(
    reachable: bool, buffered: bool, gateway: GatewayProcess, connect: Connect, tmp_path: Path
) -> None:
    """Whatever anything prints, warns or logs, in whichever way, stdout has nothing but messages."""
    (tmp_path / "sitecustomize.py").write_text(NOISE)
    environment = {"PYTHONPATH": str(tmp_path), "PYTHONWARNINGS": "always", "PYTHONDEVMODE": "1"}
    if not buffered:
        environment["PYTHONUNBUFFERED"] = "1"
    if not reachable:
        environment["COLABHIVE_API_URL"] = "http://127.0.0.1:9"
    client = connect(
        gateway, environment=environment, log_level="debug", log_jsonrpc=True, deny_side_effects="no-such-effect"
    )
    listed, called = client.ask("tools/list"), client.ask("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    assert ("result" in listed, "result" in called) == (reachable, reachable)
    client.send_raw(b"{\n")
    expect_error(client, -32700, None)
    assert client.close() == 0
    assert client.drain() == []
    for way in ("noise", "noise by the first stdout", "noise by the descriptor", "noise of a child"):
        assert f"{way} in a call" in client.stderr
        assert f"{way} at import of requests" in client.stderr
    assert "noise as a warning" in client.stderr
    assert "no-such-effect" in client.stderr


def test_no_reply_is_lost_beside_a_slow_call(gateway: GatewayProcess, connect: Connect, tmp_path: Path) -> None:
    """Nothing is redirected while a call runs: its own reply and those of all others arrive."""
    (tmp_path / "sitecustomize.py").write_text(NOISE)
    client = connect(gateway, environment={"PYTHONPATH": str(tmp_path)}, poll_interval=0.1)
    slow = client.request("tools/call", {"name": "slow-count", "arguments": {"to": 10, "interval": 0.1}})
    quick = [
        client.request("tools/call", {"name": "echo", "arguments": {"text": f"quick {number}"}}) for number in range(50)
    ]
    results = {message["id"]: message["result"] for message in (client.receive() for _ in range(51))}
    assert results[slow]["structuredContent"] == {"counted": 10}
    texts = [results[request_id]["content"][0]["text"] for request_id in quick]
    assert texts == [f"quick {number}" for number in range(50)]
    assert "quick" not in client.stderr


@pytest.mark.parametrize("unbuffered", [None, "", "1"])
def test_a_reply_comes_while_the_input_is_open(unbuffered: str | None, tmp_path: Path) -> None:
    """A reply is not held back until there are more, with or without PYTHONUNBUFFERED."""
    environment = build_environment("http://127.0.0.1:9", tmp_path)
    environment |= {} if unbuffered is None else {"PYTHONUNBUFFERED": unbuffered}
    with spawn(environment, tmp_path / "log", bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INITIALIZE)
        assert json.loads(process.stdout.readline())["id"] == "init"
        process.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
        assert json.loads(process.stdout.readline()) == {"jsonrpc": "2.0", "id": 2, "result": {}}


# UTF-8, whatever the locale


@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONIOENCODING": "cp932"},
        {"PYTHONIOENCODING": "cp1252:strict"},
        {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=str,
)
def test_bytes_are_utf8_in_every_locale(
    locale: dict[str, str], strange_gateway: GatewayProcess, connect: Connect
) -> None:
    """Text is UTF-8 in both directions and to the gateway, whatever the locale says."""
    strange_gateway.clear()
    client = connect(strange_gateway, environment=locale, log_level="debug", log_jsonrpc=True, log_format="text")
    tool = client.tools()["words"]
    assert tool["title"] == LETTERS
    assert LETTERS in tool["description"]
    result = client.call("words", {"text": LETTERS})
    assert result["content"] == [{"type": "text", "text": LETTERS}]
    assert strange_gateway.seen("words:invoke")[0]["body"]["input"] == {"text": LETTERS}
    assert client.close() == 0
    assert "Traceback" not in client.stderr


# One answer to each bad line, and the session goes on

PING = b'{"jsonrpc":"2.0","id":9,"method":"ping"'
BAD_LINES = [
    (b"{", -32700, None),
    (b"}", -32700, None),
    (b"hello", -32700, None),
    (b"Content-Length: 40", -32700, None),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping"', -32700, None),
    (PING + b"} trailing", -32700, None),
    (PING + b"}" + PING + b"}", -32700, None),
    (PING + b',"params":{"x":NaN}}', -32700, None),
    (PING + b',"params":{"x":-Infinity}}', -32700, None),
    (PING + b',"params":{"x":1e999}}', -32700, None),
    (PING + b',"params":{"x":' + b"9" * 5000 + b"}}", -32700, None),
    (PING + b',"params":{"x":"\x01"}}', -32700, None),
    (PING + b',"params":{"x":"\xff"}}', -32700, None),
    (PING + b',"params":{"x":"\xc0\xaf"}}', -32700, None),
    (PING + b',"params":{"x":"\xed\xa0\xbd"}}', -32700, None),
    (b"\xff", -32700, None),
    (b"\x00", -32700, None),
    ('{"jsonrpc":"2.0","id":9,"method":"ping"}'.encode("utf-16"), -32700, None),
    (b"[" * 100_000, -32700, None),
    (PING + b',"params":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}", -32700, None),
    (b"42", -32600, None),
    (b"null", -32600, None),
    (b"true", -32600, None),
    (b'"ping"', -32600, None),
    (b"{}", -32600, None),
    (b"[]", -32600, None),
    (b"[1,2]", -32600, None),
    (b'{"jsonrpc":"2.0"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":9}', -32600, None),
    (b'{"jsonrpc":"2.0","id":9,"method":null}', -32600, None),
    (b'{"jsonrpc":"2.0","id":9,"method":7}', -32600, 9),
    (b'{"jsonrpc":"2.0","id":9,"method":["ping"]}', -32600, 9),
    (b'{"id":9,"method":"ping"}', -32600, 9),
    (b'{"jsonrpc":"1.0","id":9,"method":"ping"}', -32600, 9),
    (b'{"jsonrpc":2.0,"id":"nine","method":"ping"}', -32600, "nine"),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":[9],"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":{"id":9},"method":"ping"}', -32600, None),
    (PING + b',"params":[]}', -32600, 9),
    (PING + b',"params":"x"}', -32600, 9),
    (b'{"jsonrpc":"2.0","id":9,"method":"no/such"}', -32601, 9),
    (b'{"jsonrpc":"2.0","id":9,"method":""}', -32601, 9),
]


@pytest.mark.parametrize(("line", "code", "request_id"), BAD_LINES, ids=lambda value: repr(value)[:60])
def test_a_bad_line_has_one_answer(line: bytes, code: int, request_id: Any, peer: StdioClient) -> None:
    """A line that is no request is answered once, with its own id or none, never an earlier one; the next is served."""
    peer.send_raw(line + b"\n")
    expect_error(peer, code, request_id)
    expect_alive(peer)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\r",
        b"  \t ",
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf\r",
        b'{"jsonrpc":"2.0","id":9,"result":{}}',
        b'{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}',
        b'{"jsonrpc":"2.0","method":"notifications/no-such"}',
        b'{"jsonrpc":"2.0","method":"notifications/initialized","params":null}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":[1]}',
        b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}',
        b'{"jsonrpc":"2.0","method":"ping"}',
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_wants_no_answer_has_none(line: bytes, peer: StdioClient) -> None:
    """Blank lines, notifications of any kind and responses are taken in silence."""
    peer.send_raw(line + b"\n")
    expect_alive(peer)


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"", b"\r\n"), (b"\xef\xbb\xbf", b"\n"), (b"\xef\xbb\xbf", b"\r\n"), (b" \t", b" \n"), (b"\r\n\n\r\n", b"\n\n")],
)
def test_a_line_may_be_dressed(before: bytes, after: bytes, peer: StdioClient) -> None:
    """CRLF, a byte order mark, blanks and empty lines around a message change nothing."""
    peer.note({"id": "dressed", "method": "ping"})
    peer.send_raw(before + b'{"jsonrpc":"2.0","id":"dressed","method":"ping"}' + after)
    assert peer.receive() == {"jsonrpc": "2.0", "id": "dressed", "result": {}}


def test_a_session_survives_bad_lines_from_its_first_byte(gateway: GatewayProcess, connect: Connect) -> None:
    """A byte order mark, CRLF, blank lines and every sort of bad line in a row leave a session that works."""
    client = connect(gateway, opened=False)
    client.note({"id": "init", "method": "initialize"})
    client.send_raw(b"\xef\xbb\xbf" + INITIALIZE.split(b"\n")[0] + b"\r\n\n")
    assert client.receive()["result"]["protocolVersion"] == "2025-11-25"
    client.send_raw(b'{\n42\n{"jsonrpc":"2.0","id":9}\n\xff\n')
    for code in (-32700, -32600, -32600, -32700):
        expect_error(client, code, None)
    expect_alive(client)
    assert client.call("echo", {"text": "still here"})["content"][0]["text"] == "still here"


@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_lines_may_come_in_any_pieces(pieces: int, peer: StdioClient) -> None:
    """Where the pipe cuts is no matter: bytes, halves of characters, several lines at once."""
    line = json.dumps({"jsonrpc": "2.0", "id": "words", "method": "ping", "params": {"x": LETTERS}}, ensure_ascii=False)
    data = (line + "\n").encode() * 3
    peer.note({"id": "words", "method": "ping"})
    for start in range(0, len(data), pieces):
        peer.send_raw(data[start : start + pieces])
    assert [peer.receive()["id"] for _ in range(3)] == ["words"] * 3


# Characters that split or break lines


def test_unicode_line_ends_are_escaped_on_the_way_out(peer: StdioClient, strange_gateway: GatewayProcess) -> None:
    """U+2028, U+2029 and U+0085 leave as escapes wherever they stand: results, errors, lists, ids, tokens, progress."""
    assert peer.call("words", {"text": LINE_ENDS})["content"][0]["text"] == LINE_ENDS
    assert LINE_ENDS in peer.tools()["words"]["description"]
    unknown = peer.ask("tools/call", {"name": LINE_ENDS})
    assert LINE_ENDS in unknown["error"]["message"]
    strange_gateway.fault(path="*words:invoke", status=422, body={"detail": LINE_ENDS})
    assert peer.call("words", {"text": "x"})["isError"]
    params = {"name": "words", "arguments": {"text": "x"}, "_meta": {"progressToken": LINE_ENDS}}
    response, before = peer.wait(peer.request("tools/call", params, request_id=LINE_ENDS))
    assert response["id"] == LINE_ENDS
    assert {message["params"]["progressToken"] for message in before} == {LINE_ENDS}


def test_only_a_line_feed_ends_a_line(peer: StdioClient, strange_gateway: GatewayProcess) -> None:
    """U+2028, U+2029, U+0085 and a lone carriage return, raw in an incoming line, don't split it."""
    strange_gateway.clear()
    params = {"name": "words", "arguments": {"text": LINE_ENDS}}
    request = {"jsonrpc": "2.0", "id": "raw", "method": "tools/call", "params": params}
    peer.note(request)
    line = json.dumps(request, ensure_ascii=False)
    assert LINE_ENDS in line
    peer.send_raw(line.replace("{", "{\r\x0b", 1).replace("\x0b", "").encode() + b"\n")
    assert peer.receive()["result"]["content"][0]["text"] == LINE_ENDS
    assert strange_gateway.seen("words:invoke")[0]["body"]["input"] == {"text": LINE_ENDS}


LONE = "\\ud83d"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", '{"name":"words","arguments":{"text":"a?b"}}'),
        ("tools/call", '{"name":"words","arguments":{"a?b":1}}'),
        ("tools/call", '{"name":"words","arguments":{"text":7,"a?b":"?"}}'),
        ("tools/call", '{"name":"a?b","arguments":{}}'),
        ("tools/call", '{"name":"get_invocation_result","arguments":{"invocation_id":"a?b"}}'),
        ("tools/call", '{"name":"operate","arguments":{"step":"?","query":"?","file":"?","body?":"?"}}'),
        ("tools/call", '{"name":"operate","arguments":{"step":"x","header":"?"}}'),
        ("tools/call", '{"name":"words","arguments":{"text":"x"},"_meta":{"progressToken":"a?b"}}'),
        ("tools/list", '{"cursor":"a?b"}'),
        ("tools/list", '{"_meta":{"io.modelcontextprotocol/protocolVersion":"a?b"}}'),
        ("logging/setLevel", '{"level":"a?b"}'),
        ("no/such/?", '{"a?b":"?"}'),
    ],
)
def test_a_lone_surrogate_in_a_request(method: str, params: str, peer: StdioClient) -> None:
    """Half a character anywhere in a request is answered once, in UTF-8, and the next request is served."""
    peer.note({"id": "lone", "method": method})
    line = f'{{"jsonrpc":"2.0","id":"lone","method":"{method}","params":{params}}}'.replace("?", LONE)
    peer.send_raw(line.encode() + b"\n")
    response, _ = peer.wait("lone")
    assert response.get("error", {}).get("code") != -32603
    expect_alive(peer)


@pytest.mark.parametrize(
    "answer",
    [
        '{"status":"succeeded","result":"a?b"}',
        '{"status":"succeeded","result":{"a?b":["?"]}}',
        '{"status":"succeeded","result":{"choices":[{"message":{"content":"a?b"}}]}}',
        '{"status":"succeeded","result":{"url":"http://x/?","mime_type":"?"}}',
        '{"status":"failed","error":"a?b"}',
        '{"status":"failed","error":{"code":"?","message":"?"}}',
    ],
)
def test_a_lone_surrogate_in_a_result(answer: str, peer: StdioClient, strange_gateway: GatewayProcess) -> None:
    """Half a character in what the gateway answers is answered once, in UTF-8, and the next call is served."""
    strange_gateway.fault(
        path="*words:invoke", body=json.loads(f'{{"invocation_id":"i",{answer[1:]}'.replace("?", LONE))
    )
    result = peer.call("words", {"text": "x"})
    assert result["content"]
    assert peer.call("words", {"text": "fine"})["content"][0]["text"] == "fine"


# Long lines


def test_long_lines_arrive_whole(gateway: GatewayProcess, tmp_path: Path) -> None:
    """A request and a reply of 8 MiB are intact, however slowly the client reads; others wait their turn, whole too."""
    environment = build_environment(gateway, tmp_path, max_result_bytes=16 * MIB)
    text = LETTERS * (8 * MIB // len(LETTERS.encode()))
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": text}},
    }
    with spawn(environment, tmp_path / "log") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INITIALIZE + json.dumps(request, ensure_ascii=False).encode() + b"\n")
        process.stdin.flush()
        descriptor = process.stdout.fileno()
        received = bytearray(process.stdout.readline())
        for _ in range(20):  # a reader that is always behind: the pipe is full before each KiB that it takes
            wait_until(lambda: count_waiting(descriptor) >= 60_000)
            received += os.read(descriptor, 1024)
        process.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n' * 3)
        process.stdin.close()
        while piece := os.read(descriptor, MIB):
            received += piece
        assert process.wait(10) == 0
    messages = [message for line in received.splitlines() for message in to_messages(bytes(line))]
    assert [message["id"] for message in messages] == ["init", 1, 2, 2, 2]
    assert messages[1]["result"]["content"] == [{"type": "text", "text": text}]


@pytest.mark.parametrize("extra", [0, 1])
def test_the_limit_of_a_line_is_exact(extra: int, peer: StdioClient) -> None:
    """A line of ``max_message_bytes`` is served, and one of a byte more is refused."""
    peer.note({"id": "long", "method": "ping"})
    head, tail = b'{"jsonrpc":"2.0","id":"long","method":"ping","params":{"x":"', b'"}}'
    peer.send_raw(head + b"x" * (4 * MIB + extra - len(head) - len(tail)) + tail + b"\n")
    if extra:
        expect_error(peer, -32700, None)
    else:
        assert peer.receive()["result"] == {}
    expect_alive(peer)


def test_a_line_over_the_limit_takes_no_memory(gateway: GatewayProcess, connect: Connect) -> None:
    """A line over the limit is refused, naming the setting, and skipped without being kept; the next is served."""
    client = connect(gateway, max_message_bytes=MIB)
    assert client.tools()  # whatever is loaded later is there
    before = read_peak(client.process.pid)
    for _ in range(64):
        client.send_raw(b"x" * MIB)
    client.send_raw(b"\n")
    message = client.receive()
    assert message["error"]["code"] == -32700
    assert "max_message_bytes" in message["error"]["message"]
    expect_alive(client)
    assert read_peak(client.process.pid) - before < 8 * MIB
    client.send_raw(b"y" * (2 * MIB))  # and the last line, which has no end
    assert client.close() == 0
    assert [each["error"]["code"] for each in client.drain(1)] == [-32700]


def test_many_lines_at_once_are_all_answered(gateway: GatewayProcess, connect: Connect) -> None:
    """A thousand requests written before anything is read are answered, each once, in order."""
    client = connect(gateway)
    ids = [client.request("ping") for _ in range(1000)]
    assert [client.receive()["id"] for _ in ids] == ids


# Batches, in the one revision that has them


def batch(*messages: dict[str, Any]) -> bytes:
    """One line with an array of messages."""
    return json.dumps([{"jsonrpc": "2.0", **message} for message in messages]).encode() + b"\n"


def call(request_id: Any, name: str = "echo", meta: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """A tool call for a batch."""
    params = {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})}
    return {"id": request_id, "method": "tools/call", "params": params}


def receive_batch(client: StdioClient, *sent: dict[str, Any]) -> dict[Any, dict[str, Any]]:
    """Send a batch; its responses by id, which are one array, each held to the schema."""
    for message in sent:
        client.note(message)
    client.send_raw(batch(*sent))
    line = client.receive_line()
    assert line.startswith(b"["), line
    messages = [client.check(message) for message in to_messages(line)]
    return {message["id"]: message for message in messages}


def test_a_batch_has_one_array_of_responses(batcher: StdioClient) -> None:
    """Every request of a batch has its response in one array, errors too; notifications have none."""
    responses = receive_batch(
        batcher,
        {"method": "notifications/initialized"},
        call(1, text="one"),
        {"id": "ping", "method": "ping"},
        call("1", text="other"),
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "no/such"},
        call(4, "no-such-tool"),
        {"method": "notifications/no-such"},
        {"id": 5, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
        {"id": 6},
        call(7, text=7),
    )
    assert responses.keys() == {1, "1", 2, 3, 4, 5, 7, "ping", None}
    assert responses[1]["result"]["content"][0]["text"] == "one"
    assert responses["1"]["result"]["content"][0]["text"] == "other"
    assert responses["ping"]["result"] == {}
    assert responses[2]["result"]["tools"]
    assert [responses[request_id]["error"]["code"] for request_id in (3, 4, 5, None)] == [
        -32601,
        -32602,
        -32600,
        -32600,
    ]
    assert responses[7]["result"]["isError"]
    expect_alive(batcher)


def test_a_batch_without_requests_has_no_answer(batcher: StdioClient) -> None:
    """A batch of notifications and responses is taken in silence; an empty one has one error."""
    batcher.send_raw(batch({"method": "notifications/initialized"}, {"id": 9, "result": {}}))
    expect_alive(batcher)
    batcher.send_raw(b"[]\n")
    expect_error(batcher, -32600, None)
    expect_alive(batcher)


def test_progress_of_a_batch_comes_at_once(batcher: StdioClient) -> None:
    """Progress of a call in a batch is a message of its own, before the array and not in it."""
    sent = (call(1, "slow-count", {"progressToken": "t"}, to=2, interval=0.1), call(2, text="x"))
    for message in sent:
        batcher.note(message)
    batcher.send_raw(batch(*sent))
    lines = []
    while not (line := batcher.receive_line()).startswith(b"["):
        lines += [batcher.check(message) for message in to_messages(line)]
    assert {message["method"] for message in lines} == {"notifications/progress"}
    assert {message["id"] for message in to_messages(line)} == {1, 2}


def test_a_call_of_a_batch_can_be_cancelled(batcher: StdioClient) -> None:
    """A cancelled call is missing in its batch's array, which doesn't wait for it; alone it leaves no array."""
    cancel = {"method": "notifications/cancelled", "params": {"requestId": 1}}
    slow = call(1, "slow-count", to=1000)
    assert receive_batch(batcher, slow, call(2, text="x"), cancel).keys() == {2}
    batcher.send_raw(batch(slow, cancel))
    expect_alive(batcher)


def test_an_id_in_use_is_refused_in_its_batch(batcher: StdioClient) -> None:
    """A second request of a batch under one id is an error without an id in the same array; the first is served."""
    slow = call(1, "slow-count", to=1, interval=0.1)
    responses = receive_batch(batcher, slow, call(1, text="x"))
    assert responses.keys() == {1, None}
    assert responses[None]["error"]["code"] == -32600
    assert responses[1]["result"]["content"]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_elsewhere_a_batch_has_one_error(revision: str, gateway: GatewayProcess, connect: Connect) -> None:
    """In a revision without batches an array has one -32600, and nothing in it is executed."""
    client = connect(gateway, revision=revision)
    client.send_raw(batch(call(1, text="x"), {"id": 2, "method": "ping"}, call(3, "notes-append", line="x")))
    expect_error(client, -32600, None)
    client.send_raw(b"[]\n")
    expect_error(client, -32600, None)
    assert client.call("echo", {"text": "served"})["content"][0]["text"] == "served"
    assert len(gateway.seen("/actions/")) == 1


# All at once


@pytest.mark.parametrize(
    ("revision", "end"), [("2025-03-26", b"\n"), ("2025-11-25", b""), ("2025-11-25", b"\r\n"), ("2026-07-28", b"")]
)
def test_whatever_was_written_before_the_end_is_answered(
    revision: str, end: bytes, gateway: GatewayProcess, tmp_path: Path
) -> None:
    """``printf '…' | python -m colabhive_mcp`` answers every request, with or without a last line end, and exits 0."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    extra = {"_meta": meta} if revision == "2026-07-28" else {}
    lines = [
        {"id": 1, "method": "tools/list", "params": extra},
        {"id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}, **extra}},
        {"id": 3, "method": "tools/call", "params": {"name": "no-such-tool", **extra}},
        {"id": 4, "method": "prompts/list", "params": extra},
        {"id": 5, "method": "tools/call", "params": {"name": "text-stats", "arguments": {"text": "x"}, **extra}},
    ]
    data = b"\n".join(json.dumps({"jsonrpc": "2.0", **line}).encode() for line in lines) + end
    if revision == "2025-03-26":
        data = b"[" + data.strip().replace(b"\n", b",") + b"]" + end
    if revision != "2026-07-28":
        data = INITIALIZE.replace(b"2025-11-25", revision.encode()) + data
    environment = build_environment(gateway, tmp_path, drain_timeout=20)
    ran = subprocess.run(COMMAND, env=environment, input=data, capture_output=True, timeout=60, check=False)
    messages = [message for line in ran.stdout.splitlines() for message in to_messages(line)]
    answered = {message["id"]: message.get("result", {}).get("content", message.get("error")) for message in messages}
    assert answered.keys() - {"init"} == {1, 2, 3, 4, 5}
    assert len(messages) == len(answered)
    assert answered[2] == [{"type": "text", "text": "x"}]
    assert answered[3]["code"] == -32602
    assert (ran.returncode, b"Traceback" in ran.stderr) == (0, False)


def test_pipes_may_be_non_blocking(gateway: GatewayProcess, tmp_path: Path) -> None:
    """A client may hand over pipes that never wait: nothing is lost or cut for that."""
    read_input, write_input = os.pipe()
    read_output, write_output = os.pipe()
    for descriptor in (read_input, write_output):
        os.set_blocking(descriptor, False)
    environment = build_environment(gateway, tmp_path, max_result_bytes=4 * MIB)
    text = "x" * (2 * MIB)
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": text}},
    }
    with spawn(environment, tmp_path / "log", stdin=read_input, stdout=write_output) as process:
        os.close(read_input)
        os.close(write_output)
        with open(write_input, "wb", buffering=0) as stdin, open(read_output, "rb") as stdout:
            stdin.write(INITIALIZE)
            assert json.loads(stdout.readline())["id"] == "init"
            stdin.write(json.dumps(request).encode() + b"\n")
            wait_until(lambda: count_waiting(stdout.fileno()) >= 60_000)
            assert json.loads(stdout.readline())["result"]["content"][0]["text"] == text
            stdin.close()
            assert select.select([stdout], [], [], 10)[0]
            assert process.wait(10) == 0
