"""Operations over a real session: where each argument goes, which files may be sent, how often, and what comes back."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Connect
from tests.harness import spec
from tests.harness.client import StdioClient
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.sessions import Sessions

TABLE = "text,label\nBees dance,1\nHives hum,0\n"
SECRET = "what lies beside the folder"
RETRAIN = {"model": "text-stats", "label_column": "label"}
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
PREFIX = "/api/builder/v1"

EVERYWHERE = {
    "id": {"in": "path", "name": "thing_id"},
    "rest": {"in": "path", "name": "rest", "pathType": "path"},
    "tag": {"in": "header", "name": "X-Tag"},
    "page": {"in": "query", "name": "p"},
    "note": {"in": "body", "name": "comment"},
    "file": {"in": "file", "name": "upload"},
}
BAD = {
    "bad.up": {"method": "GET", "path": "/things/../../admin"},
    "bad.host": {"method": "GET", "path": "https://elsewhere.test/things"},
    "bad.query": {"method": "GET", "path": "/things?all=1"},
    "bad.method": {"method": "TRACE", "path": "/things"},
    "bad.key": {"method": "GET", "path": "/things", "args": {"key": {"in": "header", "name": "X-API-Key"}}},
    "bad.file": {"method": "POST", "path": "/things", "args": {"file": {"in": "file"}}},
    "bad.shape": ["GET", "/things"],
}


def hints(*, idempotent: bool | None) -> dict[str, Any]:
    """Annotations that say that an operation is idempotent, that it is not, or nothing of it."""
    said = {} if idempotent is None else {"idempotent": idempotent}
    return {"readOnly": False, "destructive": False, "openWorld": False, **said}


def operation(name: str, method: str, path: str = "/things", *, idempotent: bool | None = False, **more: Any) -> Any:
    """A manifest of an operation with an endpoint; ``schema`` is its input schema and all else part of the block."""
    schema = more.pop("schema", {"type": "object"})
    endpoint = {"method": method, "path": path, **more}
    annotations = hints(idempotent=idempotent)
    return manifest(name, kind="operation", endpoint=endpoint, annotations=annotations, inputSchema=schema)


def whole(method: str, *places: str, encoding: str) -> Any:
    """An operation that sends its arguments to *places* alone; those that it does not declare go by the method."""
    args = {name: EVERYWHERE[name] for name in places}
    path = "/things/{thing_id}/{rest}" if "id" in places else "/things"
    return operation(f"whole.{method.lower()}.{encoding}", method, path, encoding=encoding, args=args)


OPERATIONS = [
    whole("POST", *EVERYWHERE, encoding="multipart"),
    whole("PATCH", "id", "rest", "tag", "page", "note", encoding="json"),
    whole("PUT", "id", "rest", "tag", "page", encoding="none"),
    whole("DELETE", "id", "rest", "note", encoding="json"),
    whole("GET", "tag", "page", encoding="json"),
    operation(
        "checked",
        "PUT",
        "/things/{id}",
        schema={
            "type": "object",
            "properties": {"id": {**TEXT, "minLength": 2}, "count": {**WHOLE, "minimum": 1}},
            "required": ["id"],
            "additionalProperties": False,
        },
    ),
    operation(
        "encoded",
        "POST",
        encoding="multipart",
        args={"file": {"in": "file"}},
        schema={"type": "object", "properties": {"file": {**TEXT, "contentEncoding": "base64"}}},
    ),
    *(operation(f"put.{said}", "PUT", idempotent=said) for said in (None, True, False)),
    *(operation(f"post.{said}", "POST", idempotent=said) for said in (None, True, False)),
    operation("get", "GET", idempotent=None),
    manifest("plain.slow", kind="operation", action="slow-count", cold_start_s=0.1, keep_warm_s=0, inputSchema=None),
    manifest("plain.null", endpoint=None),
    manifest("no-operation", extra={"kind": "tool", "endpoint": BAD["bad.up"]}),
    *(manifest(name, kind="operation", endpoint=endpoint) for name, endpoint in BAD.items()),
]


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with the operations of this module."""
    with GatewayProcess(tmp_path_factory.mktemp("things")) as gateway:
        gateway.register(*OPERATIONS)
        yield gateway


@pytest.fixture(scope="module")
def sessions(things: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Sessions over them."""
    with Sessions(things, tmp_path_factory.mktemp("sessions")) as sessions:
        yield sessions


@pytest.fixture
def upstream(things: GatewayProcess) -> GatewayProcess:
    """Their gateway without faults, nothing seen."""
    things.clear()
    return things


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose files may be sent, with links in and out of it."""
    outer = tmp_path_factory.mktemp("outer")
    folder = outer / "up loads"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "table ü.csv").write_text(TABLE)
    (folder / "latest.csv").symlink_to("sub/table ü.csv")
    (folder / "empty").write_bytes(b"")
    (outer / "secret.csv").write_text(SECRET)
    (folder / "out.csv").symlink_to(outer / "secret.csv")
    (folder / "branch").symlink_to(outer)
    with (folder / "huge.csv").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    return folder


@pytest.fixture
def sender(folder: Path, sessions: Sessions) -> StdioClient:
    """A session that may send the files of the folder."""
    return sessions(upload_dir=folder)


def requests(gateway: GatewayProcess) -> list[dict[str, Any]]:
    """All that reached the gateway beside questions for the manifest."""
    return [each for each in gateway.seen() if "/mcp/" not in each["path"]]


def to_words(result: dict[str, Any]) -> str:
    """The text of a result."""
    return "\n".join(block["text"] for block in result["content"])


def expect_refusal(client: StdioClient, name: str, arguments: Any, *words: str) -> str:
    """The call is a failed tool whose words hold *words*."""
    result = client.call(name, arguments)
    assert result["isError"] is True, result
    said = to_words(result)
    for word in words:
        assert word in said
    return said


# Where the arguments go

GIVEN = {"id": "a/b", "rest": "c/d e", "tag": "t 1", "page": [2, 3], "note": {"ä": None}, "file": "two words"}
AT = "/things/a/b/c/d e"
SENT = {  # method and encoding → path, query, header, body
    "PATCH.json": (AT, {"p": "3"}, "t 1", {"comment": {"ä": None}, "file": "two words", "more": 1}),
    "PUT.none": (AT, {"p": "3", "note": '{"ä": null}', "file": "two words", "more": "1"}, "t 1", None),
    "DELETE.json": (AT, {"tag": "t 1", "page": "3", "file": "two words", "more": "1"}, None, {"comment": {"ä": None}}),
    "GET.json": (
        "/things",
        {"p": "3", "id": "a/b", "rest": "c/d e", "note": '{"ä": null}', "file": "two words", "more": "1"},
        "t 1",
        None,
    ),
}


@pytest.mark.parametrize("how", SENT)
def test_each_argument_goes_to_its_place(how: str, sessions: Sessions, upstream: GatewayProcess) -> None:
    """By every method an argument goes where it is declared, and by the method's own rule where it is not."""
    path, query, header, body = SENT[how]
    upstream.fault(path="*/things*", body={"done": True})
    assert to_words(sessions().call(f"whole.{how.lower()}", {**GIVEN, "more": 1})) == '{"done":true}'
    [request] = requests(upstream)
    assert (request["method"], request["path"]) == (how.partition(".")[0], PREFIX + path)
    assert request["query"] == query
    assert request["headers"].get("x-tag") == header
    assert request["body"] == body
    assert request["headers"].get("content-type") == (None if body is None else "application/json")


def test_a_form_has_all_places_at_once(sessions: Sessions, upstream: GatewayProcess) -> None:
    """Path, query, header, fields and several files travel in one request."""
    upstream.fault(path="*/things/*", body={"done": True})
    files = ["data:text/csv;name=t.csv;base64,MTsy", {"data": "iVBORw==", "name": "p.png", "mime_type": "image/png"}]
    assert sessions().call("whole.post.multipart", {**GIVEN, "file": files, "n": [1, 2]})["isError"] is False
    [request] = requests(upstream)
    assert (request["path"], request["query"]) == (f"{PREFIX}/things/a/b/c/d e", {"p": "3"})
    kind, _, boundary = request["headers"]["content-type"].partition("; boundary=")
    assert kind == "multipart/form-data"
    parts = [part.partition("\r\n\r\n") for part in request["body"].split(f"--{boundary}")[1:-1]]
    assert [(head.split("; ", 1)[1].splitlines(), content.rstrip("\r\n")) for head, _, content in parts] == [
        (['name="comment"'], '{"ä": null}'),
        (['name="n"'], "1"),
        (['name="n"'], "2"),
        (['name="upload"; filename="t.csv"', "Content-Type: text/csv"], "1;2"),
        (['name="upload"; filename="p.png"', "Content-Type: image/png"], "�PNG"),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("checked", {}, "'id'"),
        ("checked", {"id": "x"}, "id"),
        ("checked", {"id": "xy", "count": "many"}, "count"),
        ("checked", {"id": "xy", "more": 1}, "'more'"),
        ("training_retrain_on", {"model": "chat", "dataset": {"path": "a.csv"}, "label_column": "x"}, "dataset"),
        ("whole.patch.json", {"id": "1"}, "'rest' is missing"),
        ("whole.patch.json", {"id": "1", "rest": "x", "comment": 1, "note": 2}, "'comment' and 'note'"),
        ("encoded", {"file": "three little words"}, "'file' holds base64"),
    ],
)
def test_arguments_are_checked_before_anything_is_sent(
    name: str, arguments: Any, words: str, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """What the schema or the endpoint refuses is a failed tool that names the argument, and no request."""
    expect_refusal(sessions(), name, arguments, words)
    assert requests(upstream) == []


def test_arguments_are_mended_like_those_of_any_call(sessions: Sessions, upstream: GatewayProcess) -> None:
    """A number in quotes becomes one where the schema wants it, before the request is built."""
    upstream.fault(path="*/things/*", status=204)
    assert to_words(sessions().call("checked", {"id": "xy", "count": "3"})) == '{"status":"ok"}'
    assert requests(upstream)[0]["body"] == {"count": 3}


# Files


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_a_table_is_sent_and_becomes_a_job(revision: str, sessions: Sessions, upstream: GatewayProcess) -> None:
    """training.retrain_on takes path, fields and a file, and its answer is structured as its output schema says."""
    data = f"data:text/csv;name=bees.csv;base64,{base64.b64encode(TABLE.encode()).decode()}"
    result = sessions(revision).call("training_retrain_on", {**RETRAIN, "dataset": data, "epochs": "5"})
    job = json.loads(to_words(result))
    assert job["dataset"] == {
        "name": "bees.csv",
        "bytes": len(TABLE),
        "sha256": hashlib.sha256(TABLE.encode()).hexdigest(),
        "columns": ["text", "label"],
        "rows": 2,
    }
    assert (job["operation"], job["model"], job["status"]) == ("retrain", "text-stats", "queued")
    assert revision == "2024-11-05" or result["structuredContent"] == job
    assert [request["path"] for request in requests(upstream)] == [f"{PREFIX}/training/models/text-stats/versions"]


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        ("file:sub/table%20%C3%BC.csv", "table ü.csv"),
        ("file:sub/table ü.csv", "table ü.csv"),
        ("file:latest.csv", "latest.csv"),
        ("file:sub/../latest.csv", "latest.csv"),
        ("file://{folder}/sub/table ü.csv", "table ü.csv"),
        (TABLE, "dataset"),
    ],
)
def test_a_file_of_the_folder_is_sent(dataset: str, name: str, sender: StdioClient, folder: Path) -> None:
    """A file: URL of a file in upload_dir, relative or absolute, is read and sent under its own name."""
    given = {**RETRAIN, "dataset": dataset.format(folder=folder)}
    sent = sender.call("training_retrain_on", given)["structuredContent"]["dataset"]
    assert (sent["name"], sent["sha256"]) == (name, hashlib.sha256(TABLE.encode()).hexdigest())


OUTSIDE = "outside `upload_dir`"
REFUSED = {
    "file:../secret.csv": OUTSIDE,
    "file:///etc/passwd": OUTSIDE,
    "file:sub/../../secret.csv": OUTSIDE,
    "file:%2e%2e/secret.csv": OUTSIDE,
    "file:out.csv": OUTSIDE,
    "file:branch/secret.csv": OUTSIDE,
    "file:../no-such-file": OUTSIDE,
    "file:no-such-file": "no file",
    "file:sub": "no regular file",
    "file:.": "no regular file",
    "file:huge.csv": "64 MiB",
    "file://elsewhere/latest.csv": "another machine",
    "latest.csv": "file: URL",
    "sub/table.csv": "file: URL",
    "/etc/passwd": "file: URL",
    "~/secret.csv": "file: URL",
    "C:\\secret.csv": "file: URL",
    base64.b64encode(TABLE.encode() * 3).decode(): "data: URL",
    "data:text/csv;base64,???": "base64",
}


@pytest.mark.parametrize("dataset", REFUSED, ids=lambda text: text[:30])
def test_no_other_file_is_sent(dataset: str, sender: StdioClient, upstream: GatewayProcess) -> None:
    """What is outside the folder, no file, or may be a path is refused by the argument's name, and nothing is sent."""
    said = expect_refusal(sender, "training_retrain_on", {**RETRAIN, "dataset": dataset}, "'dataset'", REFUSED[dataset])
    assert SECRET not in said + sender.stderr
    assert requests(upstream) == []


def test_without_the_setting_no_file_is_sent(sessions: Sessions, folder: Path, upstream: GatewayProcess) -> None:
    """Unless upload_dir is set no path is read, and the words name the setting and the other way."""
    given = {**RETRAIN, "dataset": f"file://{folder}/latest.csv"}
    expect_refusal(sessions(), "training_retrain_on", given, "'dataset'", "`upload_dir`", "data: URL")
    assert requests(upstream) == []


def test_text_that_is_declared_as_base64(sessions: Sessions, upstream: GatewayProcess) -> None:
    """Where the tool's schema calls the text base64, the bytes in it are sent."""
    upstream.fault(path="*/things", status=204)
    assert sessions().call("encoded", {"file": base64.b64encode(b"bees, and more").decode()})["isError"] is False
    assert "\r\n\r\nbees, and more\r\n" in requests(upstream)[0]["body"]


# How often it is sent

TIMES = [  # tool, how often a passing fault lets it be sent, whether it carries a key
    ("get", 2, False),
    ("put.None", 2, True),
    ("put.True", 2, True),
    ("put.False", 1, True),
    ("post.None", 1, True),
    ("post.True", 2, True),
    ("post.False", 1, True),
]


@pytest.mark.parametrize(("name", "times", "keyed"), TIMES, ids=[row[0] for row in TIMES])
def test_only_what_is_idempotent_is_sent_again(
    name: str, times: int, keyed: bool, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """By the manifest's word, else by the method; all that is sent for one call carries one key."""
    upstream.fault(path="*/things", reset="before")
    upstream.fault(path="*/things", body={"done": True})
    assert sessions().call(name, {})["isError"] is (times == 1)
    seen = requests(upstream)
    assert len(seen) == times
    [key] = {request["headers"].get("idempotency-key") for request in seen}
    assert (key is not None) is keyed


def test_each_call_has_a_key_of_its_own(sessions: Sessions, upstream: GatewayProcess) -> None:
    """Two calls with the same arguments are two jobs."""
    arguments = {"name": "twice", "sources": ["chat", "echo"]}
    jobs = [sessions().call("training_merge", arguments)["structuredContent"]["job_id"] for _ in range(2)]
    assert len(set(jobs)) == 2
    assert len({request["headers"]["idempotency-key"] for request in requests(upstream)}) == 2


def test_a_job_is_created_once(sessions: Sessions, upstream: GatewayProcess) -> None:
    """An operation that is not idempotent, and whose answer was lost, is told and not sent again."""
    upstream.fault(path="*/training/merges", reset="after")
    arguments = {"name": "once", "sources": ["chat", "echo"]}
    expect_refusal(sessions(), "training_merge", arguments, "closed the connection")
    assert len(requests(upstream)) == 1
    assert sessions().call("training_merge", arguments)["structuredContent"]["version"] == 2


# What may be called


@pytest.mark.parametrize("setting", [{"deny_tools": "training.*"}, {"deny_side_effects": "creates_job"}], ids=str)
@pytest.mark.parametrize("name", ["training.merge", "training_retrain_on"])
def test_a_filtered_operation_is_not_sent(
    name: str, setting: dict[str, str], sessions: Sessions, upstream: GatewayProcess
) -> None:
    """What the settings leave out is neither listed nor sent."""
    client = sessions(**setting)
    assert not {"training_merge", "training_retrain_on"} & client.tools().keys()
    arguments = {"name": "x", "sources": ["chat", "echo"], **RETRAIN, "dataset": TABLE}
    assert client.ask("tools/call", {"name": name, "arguments": arguments})["error"]["code"] == -32602
    assert requests(upstream) == []


def test_an_endpoint_that_cannot_be_used_takes_its_tool_out(sessions: Sessions, upstream: GatewayProcess) -> None:
    """It is not listed, one warning names it and the reason, a call sends nothing, and every other tool is served."""
    client = sessions()
    names = client.tools().keys()
    assert {"checked", "training_merge", "no-operation"} <= names
    assert not any(name.startswith("bad") for name in names)
    client.tools()
    for name in BAD:
        [event] = [each for each in client.events("manifest.tool_left_out") if each["tool"] == name]
        assert "endpoint" in event["reason"]
        error = client.ask("tools/call", {"name": name, "arguments": {"key": "x", "file": "two words"}})["error"]
        assert error["code"] == -32602
    assert requests(upstream) == []


@pytest.mark.parametrize("name", ["plain.null", "no-operation"])
def test_without_an_endpoint_of_its_own_a_tool_is_invoked(
    name: str, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """An operation whose endpoint is null, and another kind whatever its endpoint says, is called like a model."""
    assert to_words(sessions().call(name, {"text": "hi"})) == "hi"
    assert [request["path"] for request in requests(upstream)] == [f"{PREFIX}/actions/{name}:invoke"]


def test_an_operation_without_an_endpoint_is_followed(sessions: Sessions, upstream: GatewayProcess) -> None:
    """It is a job like any other: it is polled to its end, with progress."""
    client = sessions()
    call = {"name": "plain.slow", "arguments": {"to": 1, "interval": 0.1}, "_meta": {"progressToken": "t"}}
    response, before = client.wait(client.request("tools/call", call))
    assert response["result"]["isError"] is False
    assert len(before) >= 2
    assert {message["method"] for message in before} == {"notifications/progress"}
    paths = [request["path"].removeprefix(PREFIX) for request in requests(upstream)]
    assert paths[0] == "/actions/plain.slow:invoke"
    assert paths[-1].startswith("/invocations/")


def test_a_session_calls_the_endpoint_that_it_was_shown(own_gateway: GatewayProcess, connect: Connect) -> None:
    """A block that changes meanwhile changes no call until the session lists again; a modern call takes the newest."""
    own_gateway.register(operation("moving", "PUT", "/old/{id}", idempotent=False))
    own_gateway.fault(path="*/old/*", body="old", times=-1)
    own_gateway.fault(path="*/renewed", body="new", times=-1)
    client = connect(own_gateway, manifest_ttl=0.2)
    client.tools()
    own_gateway.register(operation("moving", "POST", "/renewed", idempotent=False))
    while client.receive().get("method") != "notifications/tools/list_changed":
        pass
    assert to_words(client.call("moving", {"id": "1"})) == "old"
    expect_refusal(client, "moving", {}, "'id' is missing")
    client.revision = spec.MODERN
    assert to_words(client.call("moving", {"id": "1"})) == "new"
    client.revision = "2025-11-25"
    assert to_words(client.call("moving", {"id": "1"})) == "old"
    client.tools()
    assert to_words(client.call("moving", {"id": "1"})) == "new"
    lines = [f"{request['method']} {request['path'].removeprefix(PREFIX)}" for request in requests(own_gateway)]
    assert lines == ["PUT /old/1", "POST /renewed", "PUT /old/1", "POST /renewed"]


# What comes back


def test_a_refusal_names_what_is_wrong(sessions: Sessions, upstream: GatewayProcess) -> None:
    """The gateway's own findings come with the paths in their ``loc``, and the request is not repeated."""
    arguments = {**RETRAIN, "dataset": TABLE, "label_column": "price", "epochs": 100}
    expect_refusal(sessions(), "training_retrain_on", arguments, "422", "body.label_column", "no column 'price'")
    expect_refusal(sessions(), "training_retrain_on", {**arguments, "model": "none"}, "404", "no model 'none'")
    assert len(requests(upstream)) == 2


def test_a_request_that_is_too_large_says_its_size(sessions: Sessions, upstream: GatewayProcess) -> None:
    """A file that the gateway does not take is a failed tool with the bytes that were sent."""
    upstream.fault(path="*/versions", status=413, body="")
    said = expect_refusal(sessions(), "training_retrain_on", {**RETRAIN, "dataset": TABLE * 1000}, "413")
    assert int(said.partition("request of ")[2].partition(" bytes")[0]) > len(TABLE) * 1000


@pytest.mark.parametrize("revision", ["2025-03-26", "2026-07-28"])
def test_a_long_answer_is_read_on(revision: str, sessions: Sessions, upstream: GatewayProcess) -> None:
    """A cut answer names an id and an offset by which get_invocation_result gives the rest; it is asked for once."""
    rows = [{"row": number, "words": "é" * 20} for number in range(200)]
    upstream.fault(path="*/things", body=rows)
    client = sessions(revision, max_result_bytes=2048)
    result, text = client.call("get", {}), ""
    while len(result["content"]) > 1:
        piece, note = (block["text"] for block in result["content"])
        text += piece
        result = client.call("get_invocation_result", json.loads(note[note.index("{") : note.index("}") + 1]))
    assert json.loads(text + to_words(result)) == rows
    assert len(requests(upstream)) == 1


def test_a_cancelled_operation_is_not_answered(sessions: Sessions, upstream: GatewayProcess) -> None:
    """Nothing is written for it any more, and what else is asked meanwhile is answered."""
    client = sessions(drain_timeout=1)
    upstream.fault(path="*/things", delay=30, status=204)
    request_id = client.request("tools/call", {"name": "put.True", "arguments": {}, "_meta": {"progressToken": "t"}})
    assert client.receive()["method"] == "notifications/progress"
    upstream.wait_seen("*/things")
    client.notify("notifications/cancelled", {"requestId": request_id})
    assert client.wait(client.request("ping"))[1] == []
    upstream.ask("DELETE", "/_faults")
    client.wait_event("mcp.tool.invoked")
    assert client.drain(0.1) == []
    assert len(requests(upstream)) == 1


def test_cancelled_operations_free_their_worker(sessions: Sessions, upstream: GatewayProcess) -> None:
    """Nobody waits for their answers any more: however many were cancelled, the only worker takes the next call."""
    client = sessions(workers=1)
    upstream.fault(path="*/things", delay=30, status=204, times=-1)
    for count in (1, 2, 3):
        request_id = client.request("tools/call", {"name": "put.True", "arguments": {}})
        upstream.wait_seen("*/things", at_least=count)
        client.notify("notifications/cancelled", {"requestId": request_id})
    assert client.call("echo", {"text": "next"}, timeout=5)["isError"] is False
    ended = client.wait_event("mcp.tool.invoked", at_least=4)
    assert sorted(event["status"] for event in ended) == ["cancelled", "cancelled", "cancelled", "succeeded"]
    upstream.ask("DELETE", "/_faults")


def test_a_cancelled_wait_ends_at_once(sessions: Sessions, upstream: GatewayProcess) -> None:
    """An operation that waits to be sent again is not sent when nobody wants it any more."""
    client = sessions(drain_timeout=1.1)
    upstream.fault(path="*/things", status=503, headers={"Retry-After": "20"}, body="", times=-1)
    request_id = client.request("tools/call", {"name": "put.True", "arguments": {}})
    upstream.wait_seen("*/things")
    client.notify("notifications/cancelled", {"requestId": request_id})
    [event] = client.wait_event("mcp.tool.invoked")
    assert event["status"] == "cancelled"
    assert client.drain(0.1) == []
    assert len(requests(upstream)) == 1
