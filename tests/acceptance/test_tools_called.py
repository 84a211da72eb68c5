"""Tool calls from their arguments to their results: what the gateway is sent, and what each revision gets back."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.conftest import Connect
from tests.harness import spec
from tests.harness.client import StdioClient
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.sessions import Sessions

Schema = dict[str, Any]
Block = dict[str, Any]

INVOKE = "*:invoke"
STRUCTURED = ("2025-06-18", "2025-11-25", "2026-07-28")
TEXT, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def obj(*required: str, **properties: Any) -> Schema:
    """An object schema."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def array(items: Schema) -> Schema:
    """An array schema."""
    return {"type": "array", "items": items}


POINT = obj("x", "y", x=NUMBER, y=NUMBER)
OPTIONS = obj(a=WHOLE, deep=obj(b=array(WHOLE)))
BENT = {
    **obj(
        opts=OPTIONS,
        n={**WHOLE, "minimum": -10, "maximum": 10},
        big=WHOLE,
        ratio=NUMBER,
        flag={"type": "boolean"},
        tags=array(TEXT),
        words=TEXT,
        anything={},
        either={"type": ["string", "integer"]},
        maybe={"type": ["integer", "null"]},
        several=array(OPTIONS),
        ref={"$ref": "#/$defs/Options"},
        choice={"enum": [1, 2]},
    ),
    "$defs": {"Options": OPTIONS},
}
TREE = obj("value", value=TEXT, children=array({"$ref": "#/$defs/Tree"}))
DRAFT = "http://json-schema.org/draft-0{}/schema#"
DOUBLING = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}

INPUTS: dict[str, Any] = {
    "bent": BENT,
    "strict": {**obj("name", "count", name=TEXT, count={**WHOLE, "minimum": 1}), "additionalProperties": False},
    "free": None,
    "many": {**obj(**{f"p{n}": WHOLE for n in range(20)}), "additionalProperties": False},
    "session": obj("sessionId", sessionId=TEXT, more=TEXT),
    "one-of": {
        **obj("n", n=WHOLE),
        "oneOf": [obj("url", url=TEXT), obj("path", path=TEXT)],
    },
    "any-of": {"anyOf": [obj("url", url=TEXT), obj("path", path=TEXT)]},
    "kinds": obj(
        part={
            "oneOf": [
                obj("kind", "words", kind={"const": "text"}, words=TEXT),
                obj("kind", "url", kind={"const": "image"}, url=TEXT),
            ]
        }
    ),
    "all-of": {"allOf": [obj("a", a=WHOLE), obj("b", b=WHOLE)]},
    "tree": {**obj("root", root={"$ref": "#/$defs/Tree"}), "$defs": {"Tree": TREE}},
    "draft-07": {
        "$schema": DRAFT.format(7),
        **obj(pair={"type": "array", "items": [TEXT, WHOLE], "additionalItems": False}),
        "dependencies": {"a": ["b"]},
    },
    "draft-04": {"$schema": DRAFT.format(4), **obj(n={"type": "number", "minimum": 0, "exclusiveMinimum": True})},
    "patterns": obj(
        letters={**TEXT, "pattern": r"^\p{L}+$"},
        end={**TEXT, "pattern": "^ab$"},
        year={**TEXT, "pattern": r"^(?<year>\d{4})$"},
        path={**TEXT, "pattern": r"^\/[^\/]+$"},
        broken={**TEXT, "pattern": "("},
    ),
    "runaway": obj(word={**TEXT, "pattern": "^(a+)+$"}),
    "doubling": {**obj(a={"$ref": "#/$defs/d0"}), "$defs": {**DOUBLING, "d40": {"type": "string"}}},
}
OUTPUTS: dict[str, Any] = {
    "point": POINT,
    "numbers": array(WHOLE),
    "number": WHOLE,
    "image": obj(image_b64=TEXT, mime_type=TEXT),
    "vector": obj("embedding", embedding=array(NUMBER)),
    "maybe-object": {"type": ["object", "null"]},
    "unusable": obj(a={"type": "int"}),
    "dated": obj(at={**TEXT, "format": "date-time"}),
}


ONCE = {"readOnly": False, "idempotent": False, "destructive": False, "openWorld": False}


def operation(name: str, **endpoint: Any) -> dict[str, Any]:
    """A manifest of an operation that does something each time; its arguments are whatever the call gives."""
    return manifest(name, kind="operation", endpoint=endpoint, annotations=ONCE, inputSchema={"type": "object"})


def place(where: str, name: str, **more: Any) -> dict[str, Any]:
    """Where an argument goes."""
    return {"in": where, "name": name, **more}


OPERATIONS = [
    operation(
        "things.update",
        method="PUT",
        path="/things/{thing_id}/parts/{rest:path}",
        encoding="json",
        args={
            "id": place("path", "thing_id"),
            "verbose": place("query", "verbose"),
            "tag": place("header", "X-Tag"),
            "title": place("body", "name"),
        },
    ),
    operation("things.find", method="GET", path="things", args={}),
    operation("things.drop", method="DELETE", path="/things/{id}"),
    operation(
        "things.tree", method="GET", path="/tree/{where}", args={"where": place("path", "where", pathType="path")}
    ),
    operation(
        "things.upload",
        method="POST",
        path="/things",
        encoding="multipart",
        args={"file": place("file", "upload"), "note": place("body", "note")},
    ),
    operation("things.poke", method="POST", path="/things/{id}/poke", encoding="none"),
    operation("bad.up", method="GET", path="/things/../../admin"),
    operation("bad.host", method="GET", path="https://elsewhere.test/things"),
    operation("bad.query", method="GET", path="/things?all=1"),
    operation("bad.method", method="TRACE", path="/things"),
    operation("bad.header", method="GET", path="/things", args={"key": place("header", "X-API-Key")}),
]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with the tools of this module."""
    with GatewayProcess(tmp_path_factory.mktemp("tools")) as gateway:
        gateway.register(
            *(manifest(name, inputSchema=schema) for name, schema in INPUTS.items()),
            *(manifest(name, inputSchema=None, outputSchema=schema) for name, schema in OUTPUTS.items()),
            *OPERATIONS,
            manifest("things.plain", kind="operation", inputSchema=None),
            manifest("failing", action="fail", inputSchema=None, outputSchema=POINT),
        )
        yield gateway


@pytest.fixture(scope="module")
def sessions(tools: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Sessions over those tools."""
    with Sessions(tools, tmp_path_factory.mktemp("sessions")) as sessions:
        yield sessions


@pytest.fixture
def upstream(tools: GatewayProcess) -> GatewayProcess:
    """Their gateway without faults, nothing seen."""
    tools.clear()
    return tools


def received(gateway: GatewayProcess) -> list[Any]:
    """The inputs of the invocations that reached the gateway."""
    return [request["body"]["input"] for request in gateway.seen(":invoke")]


def same(left: Any, right: Any) -> bool:
    """Whether both are the same JSON, 3 and 3.0 told apart."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def to_words(result: dict[str, Any]) -> str:
    """The text of a result that is text alone."""
    assert all(block["type"] == "text" for block in result["content"])
    return "\n".join(block["text"] for block in result["content"])


def expect_refusal(client: StdioClient, name: str, arguments: Any, *words: str) -> str:
    """The call is a failed tool whose words hold *words*, and nothing more than a text."""
    result = client.call(name, arguments)
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert len(result["content"]) == 1
    said = to_words(result)
    for word in words:
        assert word in said
    return said


# Arguments that are repaired

REPAIRED = [  # what came, what the gateway gets
    ({"opts": '{"a":1}', "n": "5", "tags": '["x"]'}, {"opts": {"a": 1}, "n": 5, "tags": ["x"]}),
    ({"opts": ' {"a": "1"} '}, {"opts": {"a": 1}}),
    ({"opts": {"a": "1", "deep": '{"b":["1",2.0]}'}}, {"opts": {"a": 1, "deep": {"b": [1, 2]}}}),
    ({"several": ['{"a":1}', {"a": "2"}]}, {"several": [{"a": 1}, {"a": 2}]}),
    ({"several": '[{"a":"1"}]'}, {"several": [{"a": 1}]}),
    ({"ref": '{"a":1}'}, {"ref": {"a": 1}}),
    ({"ref": {"a": 1.0}}, {"ref": {"a": 1}}),
    ({"flag": "true"}, {"flag": True}),
    ({"ratio": "0.5"}, {"ratio": 0.5}),
    ({"choice": "2"}, {"choice": 2}),
    ({"maybe": "3"}, {"maybe": 3}),
    ({"n": 3.0}, {"n": 3}),
    ({"n": -0.0}, {"n": 0}),
    ({"big": 1e3}, {"big": 1000}),
    ({"big": "123456789012345678901234567890"}, {"big": 123456789012345678901234567890}),
    ({"n": None, "opts": None, "tags": None}, {}),
    ({"opts": {"a": None}}, {"opts": {}}),
    ({"n": 1, "sessionId": "s", "action": "sendMessage", "chatInput": "hi", "toolCallId": "t"}, {"n": 1}),
]
UNTOUCHED = [
    {},
    {"words": '{"a":1}'},
    {"words": "5"},
    {"words": "null"},
    {"words": "  x  "},
    {"anything": '{"a":1}'},
    {"anything": None},
    {"anything": "5"},
    {"anything": 3.0},
    {"anything": [1.0, "2", None]},
    {"either": "5"},
    {"either": "true"},
    {"maybe": None},
    {"ratio": 3.0},
    {"ratio": 3},
    {"tags": ["1", "[]"]},
    {"unknown": "5"},
    {"unknown": None},
    {"words": "é漢🎉 — ä"},
    {"anything": 2**63 + 1},
    {"anything": {"": {"a.b/c": [[], {}, ""]}}},
]
REFUSED = [  # what came, the path that the words name
    ({"n": "five"}, "n: "),
    ({"n": "5.5"}, "n: "),
    ({"n": 5.5}, "n: "),
    ({"n": True}, "n: "),
    ({"n": "true"}, "n: "),
    ({"n": 11}, "n: "),
    ({"n": "11"}, "n: "),
    ({"flag": "yes"}, "flag: "),
    ({"flag": 1}, "flag: "),
    ({"flag": "1"}, "flag: "),
    ({"tags": "x"}, "tags: "),
    ({"tags": '"[]"'}, "tags: "),
    ({"tags": "[1]"}, "tags[0]: "),
    ({"tags": ["a", 1]}, "tags[1]: "),
    ({"opts": "[]"}, "opts: "),
    ({"opts": "{"}, "opts: "),
    ({"opts": '"{}"'}, "opts: "),
    ({"opts": {"a": "x"}}, "opts.a: "),
    ({"opts": {"deep": {"b": [1, "x"]}}}, "opts.deep.b[1]: "),
    ({"several": [{}, {"a": []}]}, "several[1].a: "),
    ({"ref": {"a": "x"}}, "ref.a: "),
    ({"choice": 3}, "choice: "),
    ({"words": 5}, "words: "),
    ({"words": {"a": 1}}, "words: "),
    ({"either": 5.5}, "either: "),
    ({"tags": [None]}, "tags[0]: "),
]


@pytest.mark.parametrize(("given", "sent"), REPAIRED, ids=lambda value: json.dumps(value)[:50])
def test_bent_arguments_are_mended(given: Any, sent: Any, sessions: Sessions, upstream: GatewayProcess) -> None:
    """JSON text is decoded once, integral floats become integers, optional nulls go: where only that makes it fit."""
    assert sessions().call("bent", given)["isError"] is False
    assert same(received(upstream), [sent])


@pytest.mark.parametrize("given", UNTOUCHED, ids=lambda value: json.dumps(value)[:50])
def test_what_fits_is_never_touched(given: Any, sessions: Sessions, upstream: GatewayProcess) -> None:
    """What the schema admits reaches the gateway as it came, however much it looks like JSON text."""
    assert sessions().call("bent", given)["isError"] is False
    assert same(received(upstream), [given])


@pytest.mark.parametrize(("given", "path"), REFUSED, ids=lambda value: json.dumps(value)[:50])
def test_what_does_not_fit_is_told_with_its_path(
    given: Any, path: str, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """A value that no repair makes fit is a failed tool that names the path, and nothing is sent."""
    said = expect_refusal(sessions(), "bent", given)
    assert any(line.startswith(f"- {path}") for line in said.splitlines())
    assert received(upstream) == []


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize("params", [{}, {"arguments": None}, {"arguments": {}}], ids=json.dumps)
def test_no_arguments_are_an_empty_object(
    params: dict[str, Any], revision: str, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """Arguments that are absent or null are none, in every revision."""
    response = sessions(revision).ask("tools/call", {"name": "free", **params})
    assert response["result"]["isError"] is False
    assert received(upstream) == [{}]


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize("arguments", [[], ["x"], "x", "{}", 0, 1.5, True, False], ids=json.dumps)
def test_arguments_of_another_type_are_no_call(
    arguments: Any, revision: str, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """Arguments that are no object are invalid params, not a failed tool."""
    response = sessions(revision).ask("tools/call", {"name": "free", "arguments": arguments})
    assert response["error"]["code"] == -32602
    assert received(upstream) == []


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ["name", "count", "required"]),
        ({"name": "x"}, ["'count'", "required"]),
        ({"name": None, "count": 1}, ["name: ", "a string"]),
        ({"name": "x", "count": 0}, ["count: ", "at least 1", "not 0"]),
        ({"name": "x", "count": 1, "more": 2}, ["'more'", "known are"]),
    ],
    ids=json.dumps,
)
def test_wrong_arguments_are_a_failed_tool(
    arguments: Any, words: list[str], revision: str, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """What is missing, out of range or unknown is told so that a model can mend it, in every revision."""
    expect_refusal(sessions(revision), "strict", arguments, *words, "Nothing was sent.")
    assert received(upstream) == []


def test_at_most_five_faults_are_told(sessions: Sessions) -> None:
    """However much is wrong, the words stay short."""
    said = expect_refusal(sessions(), "many", {f"p{n}": "x" * 100_000 for n in range(20)})
    assert len(re.findall(r"^- p\d+: ", said, re.MULTILINE)) == 5
    assert len(said) < 1500


def test_declared_extras_are_kept(sessions: Sessions, upstream: GatewayProcess) -> None:
    """What clients are known to inject is an argument like any other where the tool itself declares it."""
    sessions().call("session", {"sessionId": "mine", "action": "sendMessage"})
    sessions().call("free", {"sessionId": "mine"})
    assert received(upstream) == [{"sessionId": "mine"}, {"sessionId": "mine"}]


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_meta_is_no_argument(revision: str, sessions: Sessions, upstream: GatewayProcess) -> None:
    """Nothing of _meta is counted as an argument or sent to the gateway, in body or headers."""
    meta = {"progressToken": "token-of-the-client", "test.example/secret": "of-the-client"}
    client = sessions(revision)
    client.ask("tools/call", {"name": "strict", "arguments": {"name": "x", "count": 1}, "_meta": meta})
    [request] = upstream.seen(":invoke")
    assert request["body"].keys() == {"input", "sync", "sync_timeout_s"}
    assert request["body"]["input"] == {"name": "x", "count": 1}
    assert "of-the-client" not in json.dumps(request)
    assert "tests" not in json.dumps(request["headers"])
    client.drain()


def test_each_call_has_its_own_idempotency_key(sessions: Sessions, upstream: GatewayProcess) -> None:
    """The same call twice is two invocations."""
    for _ in range(2):
        sessions().call("free", {})
    keys = [request["headers"]["idempotency-key"] for request in upstream.seen(":invoke")]
    assert len(set(keys)) == 2


# The manifest's own schema is enforced

ENFORCED: list[tuple[str, Any, str | None]] = [  # tool, arguments, a word of the refusal
    ("one-of", {"n": 1, "url": "u"}, None),
    ("one-of", {"n": "1", "path": "p"}, None),
    ("one-of", {"n": 1}, "alternatives"),
    ("one-of", {"n": 1, "url": "u", "path": "p"}, "more than one"),
    ("one-of", {"url": "u"}, "'n'"),
    ("any-of", {"url": "u", "path": "p"}, None),
    ("any-of", {}, "alternatives"),
    ("any-of", {"url": 5}, "url must be a string, not 5"),
    ("kinds", {"part": {"kind": "text", "words": "x"}}, None),
    ("kinds", {"part": {"kind": "image", "url": 5}}, "part.url must be a string, not 5"),
    ("kinds", {"part": {"kind": "image"}}, "part 'url' is required but missing"),
    ("kinds", {"part": {"kind": "sound"}}, 'part.kind must be "text", not "sound"'),
    ("kinds", {"part": []}, "part must be an object"),
    ("all-of", {"a": 1, "b": 2}, None),
    ("all-of", {"a": 1}, "'b'"),
    ("tree", {"root": {"value": "x", "children": [{"value": "y", "children": []}]}}, None),
    ("tree", {"root": '{"value":"x"}'}, None),
    ("tree", {"root": {"value": "x", "children": [{"value": "y"}, {"children": []}]}}, "root.children[1]: 'value'"),
    ("tree", {"root": {"value": "x", "children": [{"value": "y", "children": [{"value": 1}]}]}}, ".children[0].value"),
    ("draft-07", {"pair": ["a", 1]}, None),
    ("draft-07", {"pair": ["a", "b"]}, "pair[1]"),
    ("draft-07", {"pair": ["a", 1, 2]}, "pair"),
    ("draft-07", {"a": 1}, "b"),
    ("draft-07", {"a": 1, "b": 2}, None),
    ("draft-04", {"n": 0.1}, None),
    ("draft-04", {"n": 0}, "n: "),
    ("patterns", {"letters": "é漢"}, None),
    ("patterns", {"year": "2026"}, None),
    ("patterns", {"year": "26"}, "year: "),
    ("patterns", {"path": "/a"}, None),
    ("patterns", {"path": "/a/b"}, "path: "),
    ("patterns", {"end": "ab"}, None),
    ("patterns", {"end": "ab\n"}, "end: "),
    ("patterns", {"broken": "anything"}, None),
]


@pytest.mark.parametrize(("name", "arguments", "word"), ENFORCED, ids=lambda value: json.dumps(value)[:50])
def test_the_original_schema_is_enforced(
    name: str, arguments: Any, word: str | None, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """Whatever form was listed, a call is held to the manifest's own schema in its own dialect."""
    if word is None:
        assert sessions().call(name, arguments)["isError"] is False
    else:
        expect_refusal(sessions(), name, arguments, word)
    assert len(received(upstream)) == (word is None)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("runaway", {"word": "a" * 60 + "!"}),
        ("runaway", {"word": "a" * 100_000 + "!"}),
        ("doubling", {"a": 5}),
        ("tree", {"root": "[" * 50_000 + "]" * 50_000}),
        ("bent", {"words": ["x" * 1000] * 1000}),
    ],
    ids=["pattern", "long-pattern", "doubling", "nested-text", "large"],
)
def test_checking_is_bounded(name: str, arguments: Any, sessions: Sessions) -> None:
    """Schemas and values that multiply are answered within seconds, and others are served meanwhile."""
    client = sessions()
    started = time.monotonic()
    call = client.request("tools/call", {"name": name, "arguments": arguments})
    ping, answers = client.request("ping"), []
    while len(answers) < 2:
        answers.append(client.receive())
    assert {answer["id"] for answer in answers} == {call, ping}
    assert time.monotonic() - started < 8


@pytest.mark.parametrize("depth", [90, 300, 480, 2000])
@pytest.mark.parametrize("name", ["tree", "free", "bent"])
def test_deep_arguments_are_answered(name: str, depth: int, sessions: Sessions) -> None:
    """Values nested far deeper than any tool needs are sent or refused, and the next call is served."""
    client = sessions()
    root = '{"value":"v","children":[' * depth + "]}" * depth
    request = {"jsonrpc": "2.0", "id": f"deep-{name}-{depth}", "method": "tools/call"}
    client.note(request)
    line = json.dumps({**request, "params": {"name": name, "arguments": {"root": 0}}}).replace(
        '"root": 0', f'"root": {root}'
    )
    client.send_raw(line.encode() + b"\n")
    response = client.receive()
    assert "result" in response or response["error"]["code"] in (-32700, -32602), response
    assert client.call("free", {})["isError"] is False


# Shapes of results

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(24)).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(23)).decode()
WAV = base64.b64encode(b"RIFF\x24\0\0\0WAVEfmt " + bytes(16)).decode()


def text(words: str) -> Block:
    """A text block."""
    return {"type": "text", "text": words}


def image(mime_type: str = "image/png", data: str = PNG) -> Block:
    """An image block."""
    return {"type": "image", "data": data, "mimeType": mime_type}


def audio(mime_type: str = "audio/wav") -> Block:
    """An audio block."""
    return {"type": "audio", "data": WAV, "mimeType": mime_type}


def link(name: str, mime_type: str | None = None) -> Block:
    """A link to the one address of these tests."""
    return {"type": "resource_link", "uri": HERE, "name": name, **({"mimeType": mime_type} if mime_type else {})}


def choice(content: Any, **more: Any) -> dict[str, Any]:
    """A choice with a message."""
    return {"message": {"role": "assistant", "content": content, **more}}


def to_json(value: Any) -> str:
    """JSON as the server writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


HERE = "https://files.test/a"
TOOL_CALLS = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
ANSWERS = {"answers": {"a": {"type": "score", "score": 0.25}, "b": {"type": "noul", "prob": 0.75, "answer": "yes"}}}
SAID_ANSWERS = "b (noul): prob 0.75, answer yes\na (score): score 0.25"
RANKED = {"ranked": [{"candidate": "y", "prob": 0.2, "rank": 2}, {"candidate": "x", "prob": 0.8, "rank": 1}]}
SAID_RANKED = "1. x (0.8)\n2. y (0.2)"
EMBEDDED = {"type": "resource", "resource": {"uri": "urn:x:1", "mimeType": "text/plain", "text": "inside"}}
LISTED_LINK = {"type": "resource_link", "uri": HERE, "name": "report", "description": "The report."}

SHAPES: dict[str, tuple[Any, list[Block]]] = {  # a result, its blocks in a revision that has all kinds of them
    "choices": ({"choices": [choice("Paris.")]}, [text("Paris.")]),
    "choices-two": ({"choices": [choice("a"), choice("b")]}, [text("a"), text("b")]),
    "choices-text": ({"choices": [{"text": "plain", "index": 0}]}, [text("plain")]),
    "choices-parts": ({"choices": [choice([{"type": "text", "text": "a"}, "b"])]}, [text("a\nb")]),
    "choices-calls": (
        {"choices": [choice(None, tool_calls=TOOL_CALLS)]},
        [text(to_json({"tool_calls": TOOL_CALLS}))],
    ),
    "choices-words-and-calls": (
        {"choices": [choice("see", tool_calls=TOOL_CALLS)]},
        [text("see"), text(to_json({"tool_calls": TOOL_CALLS}))],
    ),
    "choices-none": ({"choices": []}, [text('{"choices":[]}')]),
    "choices-odd": ({"choices": ["a"]}, [text('{"choices":["a"]}')]),
    "blocks": ({"content": [text("a"), image(), EMBEDDED]}, [text("a"), image(), EMBEDDED]),
    "blocks-audio": ({"content": [audio()]}, [audio()]),
    "blocks-link": ({"content": [LISTED_LINK]}, [LISTED_LINK]),
    "blocks-bad": (
        {"content": [{"type": "image", "data": "no base64!", "mimeType": "image/png"}, text("a")]},
        [text('{"type":"image","data":"no base64!","mimeType":"image/png"}'), text("a")],
    ),
    "blocks-unknown": ({"content": [{"type": "video", "x": 1}]}, [text('{"content":[{"type":"video","x":1}]}')]),
    "blocks-text": ({"content": "just words"}, [text('{"content":"just words"}')]),
    "embedding": (
        {"embedding": [0.5, 1.5, -2]},
        [text("1 embedding of dimension 3; the first begins [0.5, 1.5, -2]")],
    ),
    "embeddings": (
        {"embeddings": [[0.5, 1.5]] * 3},
        [text("3 embeddings of dimension 2; the first begins [0.5, 1.5]")],
    ),
    "embedding-long": (
        {"embedding": list(range(100))},
        [text("1 embedding of dimension 100; the first begins [0, 1, 2, 3, 4, 5, 6, 7, …]")],
    ),
    "image": ({"image_b64": PNG, "mime_type": "image/png"}, [image()]),
    "image-untyped": ({"image_b64": JPEG}, [image("image/jpeg", JPEG)]),
    "image-data-uri": ({"image_b64": f"data:image/webp;base64,{PNG}"}, [image("image/webp")]),
    "image-beside": ({"image_b64": PNG, "seed": 7}, [image(), text('{"seed":7}')]),
    "image-no-base64": ({"image_b64": "no base64!"}, [text('{"image_b64":"no base64!"}')]),
    "images": (
        {"images": [{"image_b64": PNG, "mime_type": "image/gif"}, {"url": HERE}, JPEG]},
        [image("image/gif"), link("image"), image("image/jpeg", JPEG)],
    ),
    "images-none": ({"images": []}, [text('{"images":[]}')]),
    "audio": ({"audio_b64": WAV, "mime_type": "audio/wav"}, [audio()]),
    "audio-untyped": ({"audio_b64": WAV}, [audio()]),
    "image-url": ({"image_url": HERE}, [link("image")]),
    "audio-url": ({"audio_url": HERE, "seconds": 3}, [link("audio"), text('{"seconds":3}')]),
    "artifact-url": ({"artifact_url": HERE}, [link("artifact")]),
    "url": ({"url": HERE, "mime_type": "text/csv"}, [link("file", "text/csv")]),
    "url-alone": ({"url": HERE}, [text(to_json({"url": HERE}))]),
    "url-odd": ({"image_url": "not a place"}, [text('{"image_url":"not a place"}')]),
    "answers": (ANSWERS, [text(SAID_ANSWERS), text(to_json(ANSWERS))]),
    "answers-inside": ({"result": ANSWERS}, [text(SAID_ANSWERS), text(to_json({"result": ANSWERS}))]),
    "ranked": (RANKED, [text(SAID_RANKED), text(to_json(RANKED))]),
    "ranked-inside": ({"result": RANKED}, [text(SAID_RANKED), text(to_json({"result": RANKED}))]),
    "text": ("just\nwords", [text("just\nwords")]),
    "text-empty": ("", [text("")]),
    "integer": (5, [text("5")]),
    "large-integer": (2**63 + 1, [text("9223372036854775809")]),
    "float": (0.1, [text("0.1")]),
    "true": (True, [text("true")]),
    "null": (None, [text("null")]),
    "list": ([1, "a", None, {"b": []}], [text('[1,"a",null,{"b":[]}]')]),
    "list-empty": ([], [text("[]")]),
    "object": ({"b": 1, "a": {"é": "漢"}}, [text('{"b":1,"a":{"é":"漢"}}')]),
    "object-empty": ({}, [text("{}")]),
}


def shape(block: Block, revision: str) -> Block:
    """*block* as a revision has it that may not have its kind."""
    if block["type"] == "audio" and revision == "2024-11-05":
        resource = {"uri": "urn:colabhive:audio", "mimeType": block["mimeType"], "blob": block["data"]}
        return {"type": "resource", "resource": resource}
    if block["type"] == "resource_link" and revision < "2025-06-18":
        kind = f" ({block['mimeType']})" if "mimeType" in block else ""
        more = f" {to_json({'description': block['description']})}" if "description" in block else ""
        return text(f"{block['name']}: {block['uri']}{kind}{more}")
    return block


def answer(gateway: GatewayProcess, result: Any, **more: Any) -> None:
    """Let the next invocation of any tool end at once with *result*."""
    body = {"invocation_id": "inv-1", "status": "succeeded", "result": result, "error": None, **more}
    gateway.fault(method="POST", path=INVOKE, body=body)


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize("row", SHAPES)
def test_each_shape_of_result_has_its_content(
    row: str, revision: str, sessions: Sessions, tools: GatewayProcess
) -> None:
    """A result becomes blocks by its shape, each as near to it as the revision has; nothing of it is lost."""
    result, blocks = SHAPES[row]
    answer(tools, result)
    got = sessions(revision).call("free", {})
    wanted = [shape(block, revision) for block in blocks]
    vector = row.startswith("embedding")
    if vector and revision not in STRUCTURED:
        wanted.append(text(to_json(result)))
    assert got["content"] == wanted
    assert got["isError"] is False
    assert got.get("structuredContent") == (result if vector and revision in STRUCTURED else None)


@pytest.mark.parametrize("status", ["succeeded", "completed"])
def test_both_words_for_success_are_one(status: str, sessions: Sessions, upstream: GatewayProcess) -> None:
    """The gateway says succeeded or completed."""
    answer(upstream, "done", status=status)
    assert sessions().call("free", {}) == {"content": [text("done")], "isError": False}


@pytest.mark.parametrize("status", ["failed", "cancelled", "timeout", "expired"])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, "no reason"),
        ("out of memory", "out of memory"),
        ({"code": "oom", "message": "out of memory"}, "oom: out of memory"),
        ({"message": "out of memory"}, ": out of memory"),
    ],
    ids=["none", "text", "object", "no-code"],
)
def test_each_word_for_failure_is_a_failed_tool(
    status: str, error: Any, words: str, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """The words name the state, the invocation and the gateway's own reason; a partial result is no success."""
    answer(upstream, {"x": 1, "y": 2}, status=status, error=error)
    expect_refusal(sessions(), "point", {}, status, "inv-1", words)


# Structured content

X_Y = {"x": 1.5, "y": 2}
BROKEN = [  # results that are not what the schema of "point" promises
    {"x": 1.5},
    {"x": 1.5, "y": "2"},
    {"x": 1.5, "y": None},
    {},
    None,
    [1.5, 2],
    "x",
    7,
    {"image_b64": PNG},
    {"choices": [choice("Paris.")]},
    {"content": [text("a"), image()]},
]


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize("result", [X_Y, {**X_Y, "more": [1, None]}], ids=json.dumps)
def test_what_conforms_is_structured_and_text(
    result: Any, revision: str, sessions: Sessions, tools: GatewayProcess
) -> None:
    """A result that is what the output schema promises is sent whole as structured content, and as JSON text."""
    answer(tools, result)
    got = sessions(revision).call("point", {})
    assert got["content"] == [text(to_json(result))]
    assert got["isError"] is False
    assert got.get("structuredContent") == (result if revision in STRUCTURED else None)


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize("result", BROKEN, ids=lambda value: json.dumps(value)[:40])
def test_what_does_not_conform_is_never_a_structured_success(
    result: Any, revision: str, sessions: Sessions, tools: GatewayProcess
) -> None:
    """A broken promise is an error that says so and carries the output; where nothing was promised it is a success."""
    answer(tools, result)
    got = sessions(revision).call("point", {})
    assert "structuredContent" not in got
    assert got["isError"] is (revision in STRUCTURED)
    if revision in STRUCTURED:
        complaint, *content = got["content"]
        assert "output schema" in complaint["text"]
        assert content
    answer(tools, result)
    assert sessions(revision).call("free", {})["content"] == (content if revision in STRUCTURED else got["content"])


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize(
    ("name", "result"),
    [("numbers", [1, 2]), ("numbers", []), ("number", 7), ("number", 0), ("maybe-object", None)],
    ids=json.dumps,
)
def test_other_values_than_objects_are_structured_where_they_may_be(
    name: str, result: Any, revision: str, sessions: Sessions, tools: GatewayProcess
) -> None:
    """Lists, numbers and null are structured content since 2026-07-28; before, they are text alone."""
    answer(tools, result)
    got = sessions(revision).call(name, {})
    assert got["content"] == [text(to_json(result))]
    assert got["isError"] is False
    assert ("structuredContent" in got) is (revision == spec.MODERN)
    assert got.get("structuredContent") == (result if revision == spec.MODERN else None)


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_a_wrong_list_is_wrong_only_where_it_was_promised(
    revision: str, sessions: Sessions, tools: GatewayProcess
) -> None:
    """A legacy client was not shown the list's schema, so there is nothing that its result could break."""
    answer(tools, ["a"])
    got = sessions(revision).call("numbers", {})
    assert got["isError"] is (revision == spec.MODERN)
    assert "structuredContent" not in got


@pytest.mark.parametrize("revision", STRUCTURED)
@pytest.mark.parametrize(
    ("name", "result", "structured"),
    [
        ("image", {"image_b64": PNG, "mime_type": "image/png"}, False),
        ("unusable", {"a": 5}, False),
        ("vector", {"embedding": [0.5, 1]}, True),
        ("dated", {"at": "no date at all"}, True),
    ],
)
def test_only_what_was_shown_is_kept(
    name: str, result: Any, structured: bool, revision: str, sessions: Sessions, tools: GatewayProcess
) -> None:
    """Binary output and unusable schemas promise nothing, so they break nothing; a format is no promise."""
    answer(tools, result)
    got = sessions(revision).call(name, {})
    assert got["isError"] is False
    assert got.get("structuredContent") == (result if structured else None)


@pytest.mark.parametrize("revision", STRUCTURED)
def test_errors_carry_no_structured_content(revision: str, sessions: Sessions, upstream: GatewayProcess) -> None:
    """Wrong arguments, a failing tool and a failing gateway are errors in text alone, whatever the output schema."""
    client = sessions(revision)
    expect_refusal(client, "failing", {"code": "no_luck", "message": "not today"}, "no_luck", "not today")
    for status in (400, 404, 409, 413, 422, 500):
        upstream.fault(method="POST", path=INVOKE, status=status, body={"detail": "x and y"})
        expect_refusal(client, "point", {}, "x and y")


@pytest.mark.parametrize("revision", STRUCTURED)
def test_structured_content_over_the_limit_is_read_on(revision: str, sessions: Sessions) -> None:
    """Conforming output that is too large is an error that says so, in text that can be read on; it is sent once."""
    client, value = sessions(revision, max_result_bytes=1024), {**X_Y, "more": "z" * 5000}
    got = client.call("point", value)
    assert got["isError"] is True
    assert "structuredContent" not in got
    complaint, piece, note = (block["text"] for block in got["content"])
    assert "max_result_bytes" in complaint
    found = CUT.match(note)
    assert found is not None
    rest = read_whole(client, "get_invocation_result", json.loads(found[3]), 1024)
    assert json.loads(piece + "".join(rest)) == value


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_the_catalogue_answers_in_every_revision(revision: str, sessions: Sessions) -> None:
    """Text, structured data, an image, a sound and a vector by the real actions, as their manifests promise."""
    client = sessions(revision)
    listed = client.tools()
    calls = {
        "echo": {"text": "hi"},
        "text-stats": {"text": "a b"},
        "sparkline": {"values": [1, 3, 2]},
        "tone": {"seconds": 0.1},
        "hash-embedding": {"text": "a"},
        "chat": {"messages": [{"role": "user", "content": "hello"}]},
        "notes-append": {"line": "remember"},
    }
    for name, arguments in calls.items():
        got = client.call(name, arguments)
        assert got["isError"] is False, (name, got)
        assert "outputSchema" not in listed[name] or "structuredContent" in got, name
    kinds = [client.call(name, calls[name])["content"][0]["type"] for name in ("sparkline", "tone")]
    assert kinds == ["image", "resource" if revision == "2024-11-05" else "audio"]


# Operations


def test_an_operation_is_its_request(sessions: Sessions, upstream: GatewayProcess) -> None:
    """Each argument goes where the endpoint block says, the rest by the method; nothing is invoked or polled."""
    upstream.fault(path="*/things/*", body={"done": True})
    arguments = {"id": "a b", "rest": "x/y", "verbose": True, "tag": "t", "title": "T", "more": [1]}
    assert sessions().call("things.update", arguments)["content"] == [text('{"done":true}')]
    [request] = upstream.seen("/things")
    assert (request["method"], request["path"]) == ("PUT", "/api/builder/v1/things/a b/parts/x/y")
    assert request["query"] == {"verbose": "true"}
    assert request["headers"]["x-tag"] == "t"
    assert request["body"] == {"name": "T", "more": [1]}
    assert "x-api-key" in request["headers"]


@pytest.mark.parametrize(
    ("name", "arguments", "line", "query"),
    [
        ("things.find", {"q": "a&b", "page": 2, "tags": ["x"]}, "GET /things", {"q": "a&b", "page": "2", "tags": "x"}),
        ("things.drop", {"id": "7", "force": True}, "DELETE /things/7", {"force": "true"}),
        ("things.tree", {"where": "a/b c"}, "GET /tree/a/b c", {}),
        ("things.poke", {"id": "7", "how": "hard"}, "POST /things/7/poke", {"how": "hard"}),
    ],
)
def test_arguments_without_a_place_go_by_the_method(
    name: str, arguments: Any, line: str, query: Any, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """To a placeholder of their name, else to the query of a request that has no body."""
    upstream.fault(path="*/t*", body=[1])
    assert sessions().call(name, arguments)["content"] == [text("[1]")]
    [request] = [each for each in upstream.seen() if "/mcp/" not in each["path"]]
    assert f"{request['method']} {request['path'].removeprefix('/api/builder/v1')}" == line
    assert request["query"] == query
    assert request["body"] is None


def test_files_are_sent_as_parts(sessions: Sessions, upstream: GatewayProcess) -> None:
    """A data: URL is a file with its type and name; text beside it is a field."""
    upstream.fault(path="*/things", body={"size": 5})
    data = "data:text/csv;name=table.csv;base64," + base64.b64encode(b"a,b\n1").decode()
    assert sessions().call("things.upload", {"file": data, "note": "n"})["isError"] is False
    [request] = upstream.seen("/things")
    assert request["headers"]["content-type"].startswith("multipart/form-data")
    for part in ('name="upload"', 'filename="table.csv"', "text/csv", "a,b\n1", 'name="note"'):
        assert part in request["body"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"status": 204}, '{"status":"ok"}'),
        ({"status": 200, "body": ""}, '{"status":"ok"}'),
        ({"status": 202, "body": {"job": 1}}, '{"job":1}'),
        ({"body": "plain words"}, "plain words"),
        ({"body": [1, 2]}, "[1,2]"),
        ({"body_b64": base64.b64encode(b"null").decode()}, "null"),
    ],
    ids=["204", "empty", "json", "text", "list", "null"],
)
def test_what_an_operation_answers(
    fault: dict[str, Any], words: str, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """An empty body is the status ok, JSON is JSON, anything else is text."""
    upstream.fault(path="*/things*", **fault)
    assert sessions().call("things.drop", {"id": "1"}) == {"content": [text(words)], "isError": False}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("things.update", {"rest": "x"}, "'id'"),
        ("things.update", {"id": "1"}, "'rest'"),
        ("things.drop", {}, "'id'"),
        ("things.drop", {"id": ""}, "'id'"),
        ("things.drop", {"id": None}, "'id'"),
        ("things.drop", {"id": ".."}, "refused"),
        ("things.tree", {"where": "a/../../b"}, "refused"),
        ("things.update", {"id": "1", "rest": "x", "tag": "a\r\nX-Evil: 1"}, "'tag'"),
        ("things.upload", {"file": "data:image/png;base64,!!!"}, "'file'"),
    ],
)
def test_an_operation_that_cannot_be_sent_is_not(
    name: str, arguments: Any, words: str, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """A missing path argument, and one that leaves the path, are failed tools; nothing is sent."""
    expect_refusal(sessions(), name, arguments, words)
    assert [each for each in upstream.seen() if "/mcp/" not in each["path"]] == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("bad.up", "path"), ("bad.host", "path"), ("bad.query", "path"), ("bad.method", "method"), ("bad.header", "key")],
)
def test_an_operation_with_an_unsafe_endpoint_is_left_out(
    name: str, words: str, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """It is not listed, one warning names it and the reason, and a call of it is refused before anything is sent."""
    client = sessions()
    assert name.replace(".", "_") not in client.tools()
    (told,) = [event for event in client.events("manifest.tool_left_out") if event["tool"] == name]
    assert words in told["reason"]
    error = client.ask("tools/call", {"name": name, "arguments": {"key": "hive_other"}})["error"]
    assert (error["code"], words in error["message"]) == (-32602, True)
    assert [each for each in upstream.seen() if "/mcp/" not in each["path"]] == []


def test_an_operation_without_an_endpoint_is_invoked(sessions: Sessions, upstream: GatewayProcess) -> None:
    """Without the block that says how to ask, it is called like any model."""
    assert sessions().call("things.plain", {"a": 1})["content"] == [text('{"a":1}')]
    assert received(upstream) == [{"a": 1}]


def test_an_operation_of_the_catalogue_creates_a_job(sessions: Sessions, upstream: GatewayProcess) -> None:
    """training.merge is one request whose answer is structured as its output schema says."""
    arguments = {"name": "merged", "sources": '["echo","chat"]', "weights": ["0.5", 1]}
    client = sessions()
    request_id = client.request(
        "tools/call", {"name": "training_merge", "arguments": arguments, "_meta": {"progressToken": 1}}
    )
    response, before = client.wait(request_id)
    assert response["result"]["structuredContent"]["status"] == "queued"
    assert len(before) == 1
    [request] = upstream.seen("/training/merges")
    assert same(request["body"], {"name": "merged", "sources": ["echo", "chat"], "weights": [0.5, 1]})
    assert upstream.seen("/invocations/") == []


@pytest.mark.parametrize("status", [400, 404, 409, 422, 500, 503])
def test_an_operation_that_fails_is_not_repeated(status: int, sessions: Sessions, upstream: GatewayProcess) -> None:
    """Its request is no invocation and has no key against repeats, so it is sent once."""
    upstream.fault(path="*/things/*", status=status, body={"detail": "x and y"}, times=-1)
    expect_refusal(sessions(), "things.poke", {"id": "1"}, "x and y")
    assert len(upstream.seen("/things")) == 1


# Jobs that take longer than the wait


def test_a_job_past_the_wait_is_fetched_later(sessions: Sessions, upstream: GatewayProcess) -> None:
    """The call ends with the invocation id and the tool that fetches it, which starts nothing anew."""
    client = sessions(poll_max_wait=0.3)
    said = expect_refusal(client, "slow-count", {"to": 5, "interval": 0.2}, "get_invocation_result", "not finished")
    [invocation_id] = set(re.findall(r"[0-9a-f-]{36}", said))
    result = client.call("get_invocation_result", {"invocation_id": invocation_id})
    while result["isError"]:
        assert invocation_id in to_words(result)
        result = client.call("get_invocation_result", {"invocation_id": invocation_id})
    assert result["content"] == [text('{"counted":5}')]
    assert len(upstream.seen(":invoke")) == 1


def test_some_tools_may_wait_longer(sessions: Sessions) -> None:
    """The longest wait can be set for some tools alone."""
    client = sessions(poll_max_wait=0.2, poll_max_wait_for="slow-*=20")
    assert client.call("slow-count", {"to": 2, "interval": 0.1})["structuredContent"] == {"counted": 2}


def test_a_lookup_waits_with_progress(sessions: Sessions) -> None:
    """The tool that fetches a result waits like the call itself, and says so to a client that asks."""
    said = expect_refusal(sessions(poll_max_wait=0.3), "slow-count", {"to": 5, "interval": 0.2})
    invocation_id = re.findall(r"[0-9a-f-]{36}", said)[0]
    client = sessions()
    request_id = client.request(
        "tools/call",
        {
            "name": "get_invocation_result",
            "arguments": {"invocation_id": invocation_id},
            "_meta": {"progressToken": "look"},
        },
    )
    response, before = client.wait(request_id)
    assert response["result"]["content"] == [text('{"counted":5}')]
    assert len(before) >= 2
    assert all(message["params"]["progressToken"] == "look" for message in before)
    numbers = [message["params"]["progress"] for message in before]
    assert all(one < other for one, other in pairwise(numbers))


def test_a_failed_job_can_be_looked_up(sessions: Sessions, upstream: GatewayProcess) -> None:
    """The words are the same as those of the call, and nothing is started."""
    client = sessions()
    said = expect_refusal(client, "failing", {"code": "no_luck", "message": "not today"}, "no_luck: not today")
    invocation_id = re.findall(r"[0-9a-f-]{36}", said)[0]
    assert expect_refusal(client, "get_invocation_result", {"invocation_id": invocation_id}) == said
    assert len(upstream.seen(":invoke")) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "invocation_id"),
        ({"invocation_id": ""}, "invocation_id"),
        ({"invocation_id": 5}, "invocation_id"),
        ({"invocation_id": "no-such"}, "no-such"),
        ({"invocation_id": "../mcp/manifest"}, "404"),
        ({"invocation_id": "x", "offset": -1}, "offset"),
        ({"invocation_id": "x", "offset": "abc"}, "offset"),
        ({"invocation_id": "x", "offset": 1.5}, "offset"),
    ],
    ids=json.dumps,
)
def test_a_lookup_that_means_nothing_says_what_it_wants(
    arguments: Any, words: str, sessions: Sessions, upstream: GatewayProcess
) -> None:
    """Wrong arguments name what is wrong; an id that the gateway does not know is the gateway's answer."""
    expect_refusal(sessions(), "get_invocation_result", arguments, words)
    assert all("/builder/v1/invocations/" in request["path"] for request in upstream.seen())


# Results over the limit

CUT = re.compile(r"\[cut at byte ([\d,]+) of ([\d,]+); call get_invocation_result with (\{.*?\}) to read on")
PIECE = re.compile(r"\[base64 of (\S+), bytes ([\d,]+) to ([\d,]+) of ([\d,]+)\]")
ELSEWHERE = re.compile(r"\[(\w+) of type (\S+), ([\d,]+) bytes in base64, .* get_invocation_result with (\{.*?\}) to")


def read_whole(client: StdioClient, name: str, arguments: Any, limit: int) -> list[str]:
    """The texts of each page of a result, read on until there is no more; each page is within the limit."""
    pages = []
    result = client.call(name, arguments)
    while True:
        assert result["isError"] is False, result
        *texts, last = [block["text"] for block in result["content"]]
        found = CUT.match(last)
        pages.append("".join(texts if found else [*texts, last]))
        assert len(pages[-1].encode()) <= limit
        if found is None:
            return pages
        assert len(pages) < 50
        result = client.call("get_invocation_result", json.loads(found[3]))


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("words", ["x" * 3000, "é漢🎉—" * 400, "x" * 1024, "x" * 1025, "a" + "🎉" * 600], ids=len)
def test_a_long_text_is_read_on_whole(words: str, revision: str, sessions: Sessions, upstream: GatewayProcess) -> None:
    """The pages put together are the text, cut between characters, and nothing is invoked twice."""
    pages = read_whole(sessions(revision, max_result_bytes=1024), "free", {"text": words}, 1024)
    assert "".join(pages) == words
    assert len(pages) >= len(words.encode()) / 1024
    assert len(upstream.seen(":invoke")) == 1


def test_long_json_is_read_on_whole(sessions: Sessions) -> None:
    """A result of no known shape is JSON again when its pages are put together."""
    value = {"rows": [{"n": n, "words": "é漢🎉" * (n % 5)} for n in range(150)]}
    pages = read_whole(sessions(max_result_bytes=1024), "free", value, 1024)
    assert json.loads("".join(pages)) == value


def test_a_long_vector_is_read_on_whole(sessions: Sessions) -> None:
    """A vector that is too large for structured content is JSON text behind its summary."""
    value = {"embedding": [n / 8 for n in range(500)]}
    pages = read_whole(sessions(max_result_bytes=1024), "free", value, 1024)
    summary, _, vector = "".join(pages).partition("…]")
    assert summary.startswith("1 embedding of dimension 500")
    assert json.loads(vector) == value


def test_long_choices_are_read_on_whole(sessions: Sessions) -> None:
    """Several blocks are read on one after the other."""
    parts = ["a" * 700, "b" * 700, "c" * 700, "d" * 10]
    value = {"choices": [choice(part) for part in parts]}
    pages = read_whole(sessions(max_result_bytes=1024), "free", value, 1024)
    assert "".join(pages) == "".join(parts)


@pytest.mark.parametrize("offset", [0, "0", 5.0, 1023, 2999])
def test_a_result_can_be_read_from_any_byte(offset: Any, sessions: Sessions) -> None:
    """An offset is a byte of the whole result, and may come in any form that clients make of a number."""
    words = "0123456789" * 300
    client = sessions(max_result_bytes=1024)
    call = json.loads(CUT.match(client.call("free", {"text": words})["content"][-1]["text"])[3])  # type: ignore[index]
    start = int(offset)
    got = client.call("get_invocation_result", {**call, "offset": offset})
    assert got["content"][0]["text"] == words[start : start + 1024]
    expect_refusal(client, "get_invocation_result", {**call, "offset": 3000}, "3000 bytes")


@pytest.mark.parametrize("kind", ["image", "audio"])
def test_a_large_block_is_a_note_and_can_be_read(kind: str, sessions: Sessions) -> None:
    """A picture or sound over the limit is named with type and size, and its base64 can be read on in pieces."""
    head = b"\x89PNG\r\n\x1a\n" if kind == "image" else b"RIFF\x24\0\0\0WAVEfmt "
    data = base64.b64encode(head + bytes(range(256)) * 9).decode()
    client = sessions(max_result_bytes=1024)
    result = client.call("free", {f"{kind}_b64": data, "seed": 7})
    note, rest = result["content"]
    found = ELSEWHERE.match(note["text"])
    assert found is not None
    assert found[1] == kind
    assert found[3].replace(",", "") == str(len(data))
    assert rest == text('{"seed":7}')
    pieces, call = [], json.loads(found[4])
    while call is not None:
        blocks = client.call("get_invocation_result", call)["content"]
        pieces.append(blocks[0]["text"])
        place = PIECE.match(blocks[1]["text"])
        assert place is not None
        assert place[1].startswith(kind + "/")
        cut = CUT.match(blocks[2]["text"])
        call = json.loads(cut[3]) if cut else None
    assert "".join(pieces) == data


def test_a_small_block_comes_beside_a_large_one(sessions: Sessions) -> None:
    """What fits is there at once; only what does not is a note."""
    large = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(3000)).decode()
    result = sessions(max_result_bytes=1024).call("free", {"images": [large, PNG]})
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    assert result["content"][1] == image()


def test_an_answer_of_an_operation_is_read_on_too(sessions: Sessions, upstream: GatewayProcess) -> None:
    """The gateway keeps no invocation of it, so the bridge does; the request is made once."""
    words = "é" * 2000
    upstream.fault(path="*/things/*", body=words)
    pages = read_whole(sessions(max_result_bytes=1024), "things.poke", {"id": "1"}, 1024)
    assert "".join(pages) == words
    assert len(upstream.seen("/things")) == 1


# Large blocks as files


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("kind", ["image", "audio"])
def test_a_large_block_is_kept_as_a_file(
    kind: str, revision: str, sessions: Sessions, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With artifact_dir a block over the limit is a link to a file that holds it, readable by nobody else."""
    content = (b"\x89PNG\r\n\x1a\n" if kind == "image" else b"RIFF\x24\0\0\0WAVEfmt ") + bytes(3000)
    folder = tmp_path_factory.getbasetemp() / "artifacts of tests"
    client = sessions(revision, max_result_bytes=1024, artifact_dir=folder)
    result = client.call("free", {f"{kind}_b64": base64.b64encode(content).decode()})
    assert result["isError"] is False
    [block] = result["content"]
    if revision < "2025-06-18":
        found = re.search(r"file://\S+", block["text"])
        assert found is not None
        uri = found[0]
    else:
        assert block["type"] == "resource_link"
        assert block["mimeType"] == ("image/png" if kind == "image" else "audio/wav")
        uri = block["uri"]
    path = Path(unquote(urlsplit(uri).path))
    assert path.parent == folder
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_is_a_failed_tool(sessions: Sessions, tmp_path: Path) -> None:
    """The words name the folder, and the server goes on."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    client = sessions(max_result_bytes=1024, artifact_dir=blocked / "folder")
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(3000)).decode()
    expect_refusal(client, "free", {"image_b64": data}, "artifact_dir", str(blocked))
    assert client.call("free", {})["isError"] is False


# What a session was shown holds for its calls


def wait_for_change(client: StdioClient) -> None:
    """Wait for the notice that the list has changed, which the process's session gets whatever else it serves."""
    revision, client.revision = client.revision, "2025-11-25"
    while client.receive().get("method") != "notifications/tools/list_changed":
        pass
    client.revision = revision


OLD, NEW = obj("a", a=WHOLE), obj("b", b=TEXT)


def pinned(schema: Schema = OLD, **fields: Any) -> dict[str, Any]:
    """The tool whose manifest the following tests change."""
    return manifest("pinned", inputSchema=schema, **fields)


@pytest.fixture(scope="module")
def changing_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway of these tests' own."""
    with GatewayProcess(tmp_path_factory.mktemp("changing")) as gateway:
        yield gateway


@pytest.fixture
def changing(changing_gateway: GatewayProcess) -> GatewayProcess:
    """It with the tool as it is before a test, and any call answered with ``{"a": 1}``."""
    changing_gateway.clear()
    changing_gateway.register(pinned(), manifest("other"))
    changing_gateway.remove("late")
    body = {"invocation_id": "inv-1", "status": "succeeded", "result": {"a": 1}}
    changing_gateway.fault(method="POST", path=INVOKE, body=body, times=-1)
    return changing_gateway


def test_a_session_calls_what_it_was_shown(changing: GatewayProcess, connect: Connect) -> None:
    """A changed schema is not applied to a session's calls until it lists again."""
    client = connect(changing, manifest_ttl=0.2)
    assert client.tools()["pinned"]["inputSchema"] == OLD
    assert client.call("pinned", {"a": 1})["isError"] is False
    changing.register(pinned(NEW))
    wait_for_change(client)
    assert client.call("pinned", {"a": 1})["isError"] is False
    expect_refusal(client, "pinned", {"b": "x"}, "'a'")
    assert client.tools()["pinned"]["inputSchema"] == NEW
    assert client.call("pinned", {"b": "x"})["isError"] is False
    expect_refusal(client, "pinned", {"a": 1}, "'b'")


def test_a_session_keeps_the_output_schema_that_it_was_shown(changing: GatewayProcess, connect: Connect) -> None:
    """Structured content is held to the schema that the client holds it to."""
    changing.register(pinned(outputSchema=obj("a", a=WHOLE)))
    client = connect(changing, manifest_ttl=0.2)
    client.tools()
    changing.register(pinned(outputSchema=obj("b", b=WHOLE)))
    wait_for_change(client)
    assert client.call("pinned", {"a": 1})["structuredContent"] == {"a": 1}
    client.tools()
    assert client.call("pinned", {"a": 1})["isError"] is True


def test_a_call_in_flight_keeps_its_terms(changing: GatewayProcess, connect: Connect) -> None:
    """A manifest that changes while a call runs changes nothing about how its result is read."""
    changing.register(pinned(outputSchema=obj("a", a=WHOLE)))
    changing.ask("DELETE", "/_faults")
    client = connect(changing, manifest_ttl=0.2)
    assert client.call("pinned", {"a": 1})["structuredContent"] == {"a": 1}
    changing.fault(method="POST", path=INVOKE, delay=30)
    call = client.request("tools/call", {"name": "pinned", "arguments": {"a": 1}})
    changing.wait_seen(INVOKE, at_least=2)
    changing.register(pinned(outputSchema=obj("b", b=WHOLE)))
    wait_for_change(client)
    changing.ask("DELETE", "/_faults")
    assert client.wait(call)[0]["result"]["structuredContent"] == {"a": 1}
    assert client.call("pinned", {"a": 1})["isError"] is True


def test_a_session_that_never_listed_gets_what_is_there(changing: GatewayProcess, connect: Connect) -> None:
    """Without a list there is nothing to hold a call to but the newest manifest."""
    client = connect(changing, manifest_ttl=0.2)
    assert client.call("pinned", {"a": 1})["isError"] is False
    changing.register(pinned(NEW))
    wait_for_change(client)
    assert client.call("pinned", {"b": "x"})["isError"] is False
    expect_refusal(client, "pinned", {"a": 1}, "'b'")


def test_a_tool_that_has_left_is_unknown(changing: GatewayProcess, connect: Connect) -> None:
    """A tool that the manifest has no more is invalid params, with its replacement, and nothing is sent."""
    changing.register(pinned(replaced_by="other"))
    client = connect(changing, manifest_ttl=0.2)
    client.tools()
    changing.remove("pinned")
    wait_for_change(client)
    error = client.ask("tools/call", {"name": "pinned", "arguments": {"a": 1}})["error"]
    assert error["code"] == -32602
    assert "other" in error["message"]
    assert changing.seen(":invoke") == []


def test_a_tool_that_came_can_be_called_at_once(changing: GatewayProcess, connect: Connect) -> None:
    """A session that was told of a tool by other means than the list gets it by one look at the gateway."""
    client = connect(changing)
    assert "late" not in client.tools()
    changing.register(manifest("late"))
    assert client.call("late", {"text": "x"})["content"] == [text('{"a":1}')]


def test_a_tool_that_is_filtered_later_is_refused(changing: GatewayProcess, connect: Connect) -> None:
    """What the settings forbid is not called because it was allowed when it was listed."""
    client = connect(changing, manifest_ttl=0.2, deny_side_effects="mutating")
    assert "pinned" in client.tools()
    changing.register(pinned(sideEffects=["mutating"]))
    wait_for_change(client)
    assert client.ask("tools/call", {"name": "pinned", "arguments": {"a": 1}})["error"]["code"] == -32602
    assert changing.seen(":invoke") == []


def test_modern_requests_are_held_to_the_newest_manifest(changing: GatewayProcess, connect: Connect) -> None:
    """Without a session there is no pin: a modern call beside a pinned session is held to the new schema."""
    client = connect(changing, manifest_ttl=0.2)
    client.tools()
    changing.register(pinned(NEW))
    wait_for_change(client)
    client.revision = spec.MODERN
    expect_refusal(client, "pinned", {"a": 1}, "'b'")
    assert client.call("pinned", {"b": "x"})["isError"] is False
    client.revision = "2025-11-25"
    assert client.call("pinned", {"a": 1})["isError"] is False


def test_a_modern_list_pins_nothing(changing: GatewayProcess, connect: Connect) -> None:
    """A modern list leaves a session's pin as it is, and later modern calls without one."""
    client = connect(changing, manifest_ttl=0.2)
    client.tools()
    changing.register(pinned(NEW))
    wait_for_change(client)
    client.revision = spec.MODERN
    assert client.tools()["pinned"]["inputSchema"] == NEW
    changing.register(pinned(obj("c", c=TEXT)))
    wait_for_change(client)
    expect_refusal(client, "pinned", {"b": "x"}, "'c'")
    client.revision = "2025-11-25"
    assert client.call("pinned", {"a": 1})["isError"] is False
