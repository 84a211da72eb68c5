"""A gateway at its worst: busy, gone, wrong, odd or huge, and what the client of a real session gets of it."""

from __future__ import annotations

import base64
import calendar
import gzip
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Connect
from tests.harness import spec
from tests.harness.client import StdioClient, refuse_constant
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.processes import build_environment, read_peak
from tests.unit.gateway.scripted import HANG_UP, RESET, ScriptedServer, Step, answer

INVOKE = "*:invoke"
POLL = "*/invocations/*"
MANIFEST = "*/mcp/manifest"
MIB = 1024 * 1024
SAME = 0.001  # seconds that two clocks of one machine may differ

FORMS = ("1", "1.5", "a date", "0", "-5", "abc", "absent", "3600")
NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}}}
OPERATION = manifest(
    "operate",
    kind="operation",
    endpoint={"method": "POST", "path": "/things", "encoding": "json", "args": {}},
    annotations={"readOnly": False, "idempotent": False, "destructive": False, "openWorld": False},
)


@pytest.fixture(scope="module")
def bad_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with a tool for each way of answering."""
    with GatewayProcess(tmp_path_factory.mktemp("bad-gateway")) as gateway:
        gateway.register(
            *(manifest(f"wait-{number}") for number in range(len(FORMS))),
            manifest("free"),
            manifest("promising", outputSchema={"type": "object"}),
            manifest("counting", outputSchema=NUMBERS),
            OPERATION,
        )
        yield gateway


@pytest.fixture(scope="module")
def session(bad_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioClient]:
    """One session that goes through it all; it has to outlive every fault, and to end well."""
    folder = tmp_path_factory.mktemp("session")
    environment = build_environment(bad_gateway, folder, poll_interval=0.1, max_response_bytes=8 * MIB)
    with StdioClient(folder, environment=environment) as client:
        assert "free" in client.open().tools()
        yield client
        assert client.close() == 0
        assert "Traceback" not in client.stderr


@pytest.fixture
def bad(bad_gateway: GatewayProcess) -> GatewayProcess:
    """The gateway without faults, nothing seen."""
    bad_gateway.clear()
    return bad_gateway


def finish(result: Any, **more: Any) -> dict[str, Any]:
    """An invocation that is done."""
    return {"invocation_id": "i-1", "status": "succeeded", "result": result, **more}


def to_raw(text: str | bytes) -> str:
    """Exactly these bytes, for a fault."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def read_text(result: dict[str, Any]) -> str:
    """All text of a result."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


# Busy


def build_retry_after(form: str) -> dict[str, str]:
    """The headers that ask to wait."""
    if form == "absent":
        return {}
    return {"Retry-After": formatdate(time.time() + 2, usegmt=True) if form == "a date" else form}


def find_earliest(form: str, headers: dict[str, str], first: float) -> float:
    """The monotonic time before which nobody may ask again; what cannot be read asks for a moment all the same."""
    if form == "a date":
        date = time.strptime(headers["Retry-After"], "%a, %d %b %Y %H:%M:%S %Z")
        return time.monotonic() + calendar.timegm(date) - time.time()
    return first + (float(form) if form in {"1", "1.5"} else 0.1)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("target", ["invoke", "poll"])
def test_a_call_waits_as_long_as_it_is_told(
    bad: GatewayProcess, session: StdioClient, target: str, status: int
) -> None:
    """A call never asks again earlier than ``Retry-After`` says, nor at once where it says nothing of use, and neither
    other calls nor a ping wait for it.
    """
    earliest, calls = {}, {}
    for number, form in enumerate(FORMS):
        headers = build_retry_after(form)
        path = f"*/wait-{number}:invoke" if target == "invoke" else f"*/invocations/wait-{number}"
        bad.fault(path=path, status=status, body={"detail": "slow down"}, headers=headers)
        if target == "poll":
            bad.fault(path=f"*/wait-{number}:invoke", body={"invocation_id": f"wait-{number}", "status": "running"})
            bad.fault(path=path, times=-1, body=finish(form))
        calls[session.request("tools/call", {"name": f"wait-{number}", "arguments": {"text": form}})] = form
        first = bad.wait_seen(path)[0]["at"]
        earliest[path] = find_earliest(form, headers, first)
    started = time.monotonic()
    response, before = session.wait(session.request("ping"))
    assert response["result"] == {}
    assert time.monotonic() - started < 1.0
    results = {calls[each["id"]]: each["result"] for each in before}
    while len(results) < len(FORMS):
        message = session.receive()
        results[calls[message["id"]]] = message["result"]
    too_long = results.pop("3600")
    assert too_long["isError"] is True
    assert "3600 s" in read_text(too_long)
    assert {form: read_text(result) for form, result in results.items()} == {form: form for form in results}
    for path, moment in earliest.items():
        seen = bad.seen(path.strip("*"))
        assert len(seen) == (1 if path.endswith((f"-{len(FORMS) - 1}", f"-{len(FORMS) - 1}:invoke")) else 2)
        assert all(each["at"] >= moment - SAME for each in seen[1:]), path
    keys = [each["headers"]["idempotency-key"] for each in bad.seen(":invoke")]
    assert len(set(keys)) == len(FORMS)


@pytest.mark.parametrize("form", ["1", "a date", "absent", "3600"])
def test_a_list_waits_as_long_as_it_is_told(bad: GatewayProcess, connect: Connect, form: str) -> None:
    """The manifest is not asked for again earlier than told: a short wait is waited, a long one is an error with it."""
    headers = build_retry_after(form)
    bad.fault(path=MANIFEST, status=429, body={"detail": "slow down"}, headers=headers)
    client = connect(bad)
    response = client.ask("tools/list")
    moment = find_earliest(form, headers, bad.seen("/mcp/manifest")[0]["at"])
    if form == "3600":
        assert "3600 s" in response["error"]["message"]
        assert "3600 s" in client.ask("tools/list")["error"]["message"]
        assert client.wait_event("manifest.failed")[0]["retry_in_s"] >= 3600
        assert client.ask("tools/call", {"name": "free"})["error"]["code"] == -32603
        assert len(bad.seen("/mcp/manifest")) == 1
    else:
        assert "free" in {tool["name"] for tool in response["result"]["tools"]}
        assert bad.seen("/mcp/manifest")[1]["at"] >= moment - SAME


def test_a_refresh_waits_as_long_as_it_is_told(bad: GatewayProcess, connect: Connect) -> None:
    """A refresh that is told to wait for an hour is not tried before, for nobody's sake; the tools stay."""
    bad.fault(path=MANIFEST)
    bad.fault(path=MANIFEST, status=503, body="", headers={"Retry-After": "3600"})
    client = connect(bad, manifest_ttl=0.1)
    tools = client.tools()
    assert client.wait_event("manifest.failed")[0]["retry_in_s"] >= 3600
    assert client.ask("tools/call", {"name": "unknown"})["error"]["code"] == -32602
    assert client.tools() == tools
    assert len(bad.seen("/mcp/manifest")) == 2


def test_a_wait_is_called_off_at_once(bad: GatewayProcess, connect: Connect) -> None:
    """A call that is cancelled while it waits to ask again is gone at once: nothing is written, nothing is asked."""
    bad.fault(path=INVOKE, status=429, body="", headers={"Retry-After": "1"}, times=2)
    client = connect(bad)
    waiting = [client.request("tools/call", {"name": name, "arguments": {"text": name}}) for name in ("free", "echo")]
    bad.wait_seen(INVOKE, at_least=2)
    client.notify("notifications/cancelled", {"requestId": waiting[0]})
    response, before = client.wait(waiting[1])
    assert read_text(response["result"]) == "echo"
    assert before == []
    assert [each["path"].rpartition("/")[2] for each in bad.seen(":invoke")].count("free:invoke") == 1
    assert client.drain() == []


# Connections that break


@contextmanager
def serve(client_folder: Path, *steps: Step, **settings: Any) -> Iterator[tuple[StdioClient, ScriptedServer]]:
    """A session over a gateway of raw bytes, whose first answer is the manifest."""
    tools = {"tools": [manifest("free"), OPERATION]}
    with ScriptedServer([answer(tools), *steps]) as server:
        environment = build_environment(server.url, client_folder, poll_interval=0.05, **settings)
        with StdioClient(client_folder, environment=environment) as client:
            assert "free" in client.open().tools()
            yield client, server


@pytest.mark.parametrize("after", ["close", "reset"])
def test_connections_that_were_dropped_are_not_noticed(tmp_path: Path, after: Any) -> None:
    """However often the other side drops the connections that it kept, every call succeeds and is started once."""
    with serve(tmp_path, answer(finish("done"), after=after)) as (client, server):
        for _ in range(50):
            assert read_text(client.call("free", {"text": "a"})) == "done"
        keys = [seen.headers["Idempotency-Key"] for seen in server.seen if seen.method == "POST"]
        assert len(set(keys)) == 50
        assert len(keys) == 50


@pytest.mark.parametrize("broken", [HANG_UP, RESET, Step(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "close")])
def test_an_invocation_without_an_answer_is_asked_for_again(tmp_path: Path, broken: Step) -> None:
    """When the connection breaks before the answer, the same invocation is asked for again, by the same key."""
    running = answer({"invocation_id": "i-1", "status": "running"})
    with serve(tmp_path, broken, running, broken, answer(finish("done"))) as (client, server):
        assert read_text(client.call("free", {"text": "a"})) == "done"
        posts = [seen.headers["Idempotency-Key"] for seen in server.seen if seen.method == "POST"]
        assert len(posts) == 2
        assert len(set(posts)) == 1
        assert [seen.method for seen in server.seen] == ["GET", "POST", "POST", "GET", "GET"]


@pytest.mark.parametrize("broken", [HANG_UP, RESET])
def test_an_operation_is_never_sent_twice(tmp_path: Path, broken: Step) -> None:
    """An operation that brought no answer may have been done: it is an error, and not sent again."""
    with serve(tmp_path, answer({"ok": 1}, after="close"), broken, answer({"ok": 2})) as (client, server):
        assert read_text(client.call("operate", {"text": "a"})) == '{"ok":1}'
        result = client.call("operate", {"text": "a"})
        assert result["isError"] is True
        assert "closed the connection" in read_text(result)
        assert read_text(client.call("operate", {"text": "a"})) == '{"ok":2}'
        assert [seen.target.rpartition("/")[2] for seen in server.seen[1:]] == ["things"] * 3


def test_a_slow_answer_is_given_up_in_time(bad: GatewayProcess, connect: Connect) -> None:
    """An answer that drips for ever is given up when its time is over, and the session goes on."""
    bad.fault(path=INVOKE, drip=0.05, body=finish("x" * 2000))
    client = connect(bad, sync_timeout=1, http_timeout=0.5, connect_timeout=0.5, poll_max_wait=1)
    started = time.monotonic()
    result = client.call("free", {"text": "a"})
    assert time.monotonic() - started < 6
    assert result["isError"] is True
    assert "in time" in read_text(result)
    assert client.call("free", {"text": "a"})["isError"] is False


# Odd numbers

HUGE = 10**400
LONG = "7" * 5000
ODD_NUMBERS = {
    "NaN": "NaN",
    "Infinity": "Infinity",
    "-Infinity": "-Infinity",
    "1e999": "1e999",
    "-1E+999": "-1E+999",
    "9223372036854775809": 2**63 + 1,
    "-9223372036854775809": -(2**63) - 1,
    str(HUGE): HUGE,
    LONG: LONG,
    "0.1": 0.1,
    "1e-999": 0.0,
    "1.0": 1.0,
    "1e5": 1e5,
    "0.30000000000000004": 0.30000000000000004,
    "-0.0": -0.0,
    "5e-324": 5e-324,
    "1.7976931348623157e308": 1.7976931348623157e308,
}


@pytest.mark.parametrize("number", ODD_NUMBERS, ids=lambda text: text[:24])
def test_odd_numbers_of_a_result(bad: GatewayProcess, session: StdioClient, number: str) -> None:
    """What no strict parser takes comes as its own text; all else is exact, in text as in structured content."""
    value = ODD_NUMBERS[number]
    raw = f'{{"invocation_id":"i","status":"succeeded","result":{{"a":{number},"b":[{number}]}}}}'
    bad.fault(path=INVOKE, body_b64=to_raw(raw), headers={"Content-Type": "application/json"})
    result = session.call("promising", {"text": "a"})
    assert result["isError"] is False
    expected = {"a": value, "b": [value]}
    assert repr(result["structuredContent"]) == repr(expected)
    assert repr(json.loads(read_text(result), parse_constant=refuse_constant)) == repr(expected)


def test_an_odd_number_that_was_promised_to_be_one(bad: GatewayProcess, session: StdioClient) -> None:
    """Where the output schema promises a number and NaN comes, the result is an error that shows it all the same."""
    bad.fault(
        path=INVOKE,
        body_b64=to_raw('{"invocation_id":"i","status":"succeeded","result":{"a":NaN}}'),
        headers={"Content-Type": "application/json"},
    )
    result = session.call("counting", {"text": "a"})
    assert result["isError"] is True
    assert '{"a":"NaN"}' in read_text(result)
    assert "structuredContent" not in result


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_message_with_an_odd_number_is_unreadable(bad: GatewayProcess, session: StdioClient, number: str) -> None:
    """A message with a number that JSON does not have is answered as unreadable, and nothing is sent."""
    session.send_raw(
        b'{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":{"name":"free","arguments":{"text":"a","n":%s}}}\n'
        % number.encode()
    )
    assert session.receive()["error"]["code"] == -32700
    assert bad.seen(":invoke") == []


# What is no answer

NEST: Any = "the innermost words"
for _ in range(10):
    NEST = {"error": {"message": NEST}}
PAGE = "<!doctype html><html><head><title>502 Bad Gateway</title></head><body><h1>nginx</h1></body></html>"

BAD_ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "a page with an error": ({"status": 500, "body": PAGE}, "“502 Bad Gateway”"),
    "a page of 4 MiB": ({"status": 500, "body": PAGE + "x" * 4 * MIB}, "“502 Bad Gateway”"),
    "a login page": ({"body": "<HTML><HEAD><TITLE>Log in</TITLE></HEAD></HTML>"}, "“Log in”"),
    "a page that says to be JSON": ({"body": PAGE, "headers": {"Content-Type": "application/json"}}, "web page"),
    "nothing": ({"body": ""}, "empty"),
    "204": ({"status": 204, "body": ""}, "empty"),
    "white space": ({"body": " \n"}, "empty"),
    "half a JSON": ({"body": '{"invocation_id": "i-1", "status": "succ'}, "no JSON"),
    "a list": ({"body": [finish(1)]}, "list"),
    "null": ({"body_b64": to_raw("null")}, "single value"),
    "a bomb": ({"body_b64": to_raw(gzip.compress(bytes(64 * MIB))), "headers": {"Content-Encoding": "gzip"}}, "bytes"),
    "no gzip": ({"body": finish(1), "headers": {"Content-Encoding": "gzip"}}, "not compressed"),
    "a nest of errors": ({"status": 400, "body": NEST}, "the innermost words"),
    "a deep nest": ({"body_b64": to_raw("[" * 100_000 + "]" * 100_000)}, "no JSON"),
    "an error in words": ({"status": 409, "body": {"detail": "Twice."}}, "Twice."),
    "an error with a code": ({"status": 400, "body": {"error": {"code": "e7", "message": "Wrong."}}}, "Wrong."),
    "findings": ({"status": 422, "body": {"detail": [{"loc": ["body", "a"], "msg": "too big"}]}}, "body.a: too big"),
    "a long error": ({"status": 400, "body": {"detail": "word " * 10_000}}, "word word"),
    "an XML error": ({"status": 500, "body": "<?xml version='1.0'?><Error><Code>Gone</Code></Error>"}, "Gone"),
    "bytes": ({"status": 500, "body_b64": to_raw(bytes(range(128, 256)))}, "500"),
    "no words": ({"status": 500, "body": ""}, "500"),
    "a teapot": ({"status": 418, "body": {"detail": "Short and stout."}}, "Short and stout."),
    "too large": ({"status": 413, "body": ""}, "bytes is too large"),
    "no invocation id": ({"body": {"status": "queued"}}, "invocation_id"),
    "no status": ({"body": {"result": 1}}, "invocation_id"),
}
POLLABLE = [case for case in BAD_ANSWERS if case not in {"no invocation id", "no status", "too large"}]


@pytest.mark.parametrize(
    ("case", "target"), [(case, "invoke") for case in BAD_ANSWERS] + [(case, "poll") for case in POLLABLE]
)
def test_what_is_no_answer(bad: GatewayProcess, session: StdioClient, case: str, target: str) -> None:
    """Whatever comes instead of an answer is a failed tool with a few plain words, and the next call is served."""
    fault, words = BAD_ANSWERS[case]
    if target == "poll":
        bad.fault(path=INVOKE, body={"invocation_id": "i-1", "status": "running"})
        if fault.get("status", 200) >= 500:  # a passing fault of a poll is waited out
            bad.fault(path=POLL, **fault)
            bad.fault(path=POLL, body=finish("done"))
            assert read_text(session.call("free", {"text": "a"})) == "done"
            return
    bad.fault(path=INVOKE if target == "invoke" else POLL, **fault)
    result = session.call("free", {"text": "a"})
    assert result["isError"] is True
    assert "structuredContent" not in result
    text = read_text(result)
    assert words in text
    assert len(text) <= 600
    assert not set("<>{}\n\x00") & set(text)
    assert "Traceback" not in text
    assert "Error:" not in text
    assert read_text(session.call("free", {"text": "next"})) == "next"


def test_502_is_tried_again_and_then_told(bad: GatewayProcess, connect: Connect) -> None:
    """A gateway that cannot be reached behind its proxy is tried a few times with one key, then told in plain words."""
    bad.fault(path=INVOKE, status=502, body=PAGE, times=-1)
    result = connect(bad).call("free", {"text": "a"})
    assert result["isError"] is True
    assert "502" in read_text(result)
    assert "<" not in read_text(result)
    posts = bad.seen(":invoke")
    assert len(posts) == 4
    assert len({each["headers"]["idempotency-key"] for each in posts}) == 1


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_an_unknown_tool_stays_an_error_of_the_protocol(bad: GatewayProcess, connect: Connect, revision: str) -> None:
    """A failed tool is a result; a tool that does not exist is the protocol's error -32602, in every revision."""
    bad.fault(path=INVOKE, status=500, body=PAGE)
    client = connect(bad, revision=revision)
    assert client.call("free", {"text": "a"})["isError"] is True
    assert client.ask("tools/call", {"name": "unknown"})["error"]["code"] == -32602


OPERATION_ANSWERS: dict[str, tuple[dict[str, Any], bool, str]] = {
    "204": ({"status": 204, "body": ""}, False, '{"status":"ok"}'),
    "nothing": ({"status": 200, "body": ""}, False, '{"status":"ok"}'),
    "text": ({"status": 200, "body": "plain words"}, False, "plain words"),
    "a list": ({"status": 200, "body": [1, 2]}, False, "[1,2]"),
    "a page": ({"status": 200, "body": PAGE}, True, "502 Bad Gateway"),
    "half a JSON": (
        {"status": 200, "body": '{"a": ', "headers": {"Content-Type": "application/json"}},
        True,
        "no JSON",
    ),
    "400": ({"status": 400, "body": {"detail": "Wrong."}}, True, "Wrong."),
    "503": ({"status": 503, "body": PAGE}, True, "503"),
    "429": ({"status": 429, "body": "", "headers": {"Retry-After": "7"}}, True, "7 s"),
    "a redirect": (
        {"status": 307, "body": "", "headers": {"Location": "http://elsewhere.example/"}},
        True,
        "elsewhere",
    ),
}


@pytest.mark.parametrize("case", OPERATION_ANSWERS)
def test_what_an_operation_may_answer(bad: GatewayProcess, session: StdioClient, case: str) -> None:
    """An operation's answer may be JSON, text or nothing; what else comes is a failed tool, and it is sent once."""
    fault, fails, words = OPERATION_ANSWERS[case]
    bad.fault(method="POST", path="*/things", times=-1, **fault)
    result = session.call("operate", {"text": "a"})
    assert result["isError"] is fails
    assert words in read_text(result)
    assert len(bad.seen("/things")) == 1


# Encodings

ENCODED = "ä한é—🎉"
ENCODINGS: dict[str, tuple[bytes, str | None, str]] = {
    "no charset": (ENCODED.encode(), "application/json", ENCODED),
    "no type": (ENCODED.encode(), None, ENCODED),
    "another charset": (ENCODED.encode(), "application/json; charset=iso-8859-1", ENCODED),
    "an unknown charset": (ENCODED.encode(), "application/json; charset=klingon", ENCODED),
    "text": (ENCODED.encode(), "text/plain", ENCODED),
    "bytes": (ENCODED.encode(), "application/octet-stream", ENCODED),
    "page": (ENCODED.encode(), "text/html; charset=euc-kr", ENCODED),
    "one bad byte": (b"a\xffb", "application/json", "a�b"),
    "Latin-1": ("äöü".encode("latin-1"), "application/json; charset=iso-8859-1", "���"),
    "half a character": ("한".encode()[:2], "application/json", "�"),
    "escapes": (b"\\u00e4\\ud83c\\udf89", "application/json", "ä🎉"),
    "half a pair": (b"a\\ud83cb", "application/json", "a�b"),
}


@pytest.mark.parametrize("bom", [False, True])
@pytest.mark.parametrize("case", ENCODINGS)
def test_a_result_is_utf_8_whatever_is_said_of_it(
    bad: GatewayProcess, session: StdioClient, case: str, *, bom: bool
) -> None:
    """Bytes are read as UTF-8, whatever the headers say; a mark at the beginning is dropped, what is none replaced."""
    content, content_type, expected = ENCODINGS[case]
    raw = b'{"invocation_id":"i","status":"succeeded","result":"%s"}' % content
    headers = {} if content_type is None else {"Content-Type": content_type}
    bad.fault(path=INVOKE, body_b64=to_raw(b"\xef\xbb\xbf" * bom + raw), headers=headers)
    noted = session.stderr.count("no UTF-8")
    result = session.call("free", {"text": "a"})
    assert read_text(result) == expected
    damaged = "�" in expected and b"\\u" not in content
    assert session.stderr.count("no UTF-8") == noted + damaged


def test_other_words_are_utf_8_too(bad: GatewayProcess, session: StdioClient) -> None:
    """Errors and an operation's plain text are read in the same way."""
    headers = {"Content-Type": "text/plain; charset=iso-8859-1"}
    bad.fault(path=INVOKE, status=400, body_b64=to_raw(ENCODED), headers=headers)
    assert ENCODED in read_text(session.call("free", {"text": "a"}))
    bad.fault(path="*/things", status=200, body_b64=to_raw("\ufeff" + ENCODED), headers={"Content-Type": "text/plain"})
    assert read_text(session.call("operate", {"text": "a"})) == ENCODED


# Large results


@pytest.fixture(scope="module")
def large_session(bad_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioClient]:
    """A session with the limits that a user has."""
    folder = tmp_path_factory.mktemp("large-session")
    with StdioClient(folder, environment=build_environment(bad_gateway, folder, poll_interval=0.1)) as client:
        assert "free" in client.open().tools()
        yield client


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(3 * MIB)).decode()
LARGE: dict[str, Any] = {
    "a text": "é" * MIB,
    "a text in a choice": {"choices": [{"message": {"role": "assistant", "content": "漢" * MIB}}]},
    "an object": {"words": ["word"] * 400_000},
    "an image": {"image_b64": PNG},
    "images": {"images": [PNG, PNG]},
    "blocks": {"content": [{"type": "text", "text": "a" * MIB}, {"type": "text", "text": "b" * MIB}]},
    "a vector": {"embedding": [0.123456789] * 200_000},
}


@pytest.mark.parametrize("case", LARGE)
def test_a_large_result_is_cut_with_a_note(bad: GatewayProcess, large_session: StdioClient, case: str) -> None:
    """What is over ``max_result_bytes`` is not sent: a text is cut at a character, an image left to be read, with a
    note of how to read on.
    """
    bad.fault(path=INVOKE, body=finish(LARGE[case]))
    line = large_session.ask("tools/call", {"name": "free", "arguments": {"text": "a"}})
    result = line["result"]
    assert len(json.dumps(line, ensure_ascii=False).encode()) < 2 * MIB if case != "a vector" else True
    assert "�" not in read_text(result)
    assert "get_invocation_result" in read_text(result)
    assert "structuredContent" not in result


@pytest.mark.parametrize("tool", ["promising", "free"])
def test_nothing_is_sent_twice(bad: GatewayProcess, large_session: StdioClient, tool: str) -> None:
    """A large result of a tool with an output schema is not repeated beyond the text that every client needs."""
    content = {"word": "a" * 600_000}
    bad.fault(path=INVOKE, body=finish(content))
    result = large_session.call(tool, {"text": "a"})
    copies = json.dumps(result).count("a" * 600_000)
    assert copies == (2 if tool == "promising" else 1)


def test_a_file_is_a_link(bad: GatewayProcess, large_session: StdioClient) -> None:
    """A result that is kept elsewhere is handed on as a link with its type; nothing of it is fetched."""
    url = f"{bad.url}/files/200-mb.bin"
    bad.fault(path=INVOKE, body=finish({"url": url, "mime_type": "application/zip"}))
    block = large_session.call("free", {"text": "a"})["content"][0]
    assert (block["type"], block["uri"], block["mimeType"]) == ("resource_link", url, "application/zip")
    assert bad.seen("/files/") == []


def test_more_than_the_limit_is_not_read(bad: GatewayProcess, session: StdioClient) -> None:
    """An answer over ``max_response_bytes`` is an error that names the setting, and costs no more memory than that."""
    before = read_peak(session.process.pid)
    bad.fault(path=INVOKE, body=finish("a" * 9 * MIB))
    assert "max_response_bytes" in read_text(session.call("free", {"text": "a"}))
    bomb = to_raw(gzip.compress(bytes(256 * MIB), 1))
    bad.fault(path=INVOKE, body_b64=bomb, headers={"Content-Encoding": "gzip"}, times=2)
    for _ in range(2):
        assert "max_response_bytes" in read_text(session.call("free", {"text": "a"}))
    assert read_peak(session.process.pid) - before < 8 * 8 * MIB


def test_memory_stays_where_it_is(bad: GatewayProcess, large_session: StdioClient) -> None:
    """Large results do not add up: after the first few the memory does not grow."""
    bad.fault(path=INVOKE, body=finish("a" * 2 * MIB), times=-1)
    for _ in range(4):
        large_session.call("free", {"text": "a"})
    before = read_peak(large_session.process.pid)
    for _ in range(20):
        large_session.call("free", {"text": "a"})
    assert read_peak(large_session.process.pid) - before < 8 * MIB
