"""Manifests that no honest gateway would serve, over a real session: too many, too large, too deep, or simply wrong.

What can be had is listed and can be called; what cannot is named in the log with its place; what was good stays.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.harness import spec
from tests.harness.client import StdioClient, to_messages
from tests.harness.gateway import manifest
from tests.harness.processes import build_environment, read_peak
from tests.unit.manifest.test_any_manifest import manifests, to_bytes

MIB = 1024 * 1024
MOST_MEMORY = 400 * MIB
PATIENCE = 30.0  # seconds for a list that takes a moment, on a busy machine
OWN_TOOL = "get_invocation_result"
INDEX = "colabhive://manifest"
DEEP = 2000


class Upstream:
    """A gateway of given bytes: each look at the manifest gets the next, and the last for ever; calls succeed."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = list(bodies)
        self.called: list[str] = []
        self.inputs: list[Any] = []
        self._looks = 0
        self._changed = threading.Condition()
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                upstream.send(self, upstream.take())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path.endswith(":invoke"):
                    upstream.inputs.append(json.loads(body)["input"])
                    upstream.called.append(self.path.rpartition("/")[2])
                upstream.send(self, b'{"invocation_id":"i-1","status":"succeeded","result":{"a":1}}')

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def open(self) -> Iterator[Upstream]:
        """Serve until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def take(self) -> bytes:
        """The body that is due."""
        with self._changed:
            self._looks += 1
            self._changed.notify_all()
            return self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]

    def serve(self, body: bytes) -> None:
        """Serve *body* from now on, and wait until it was taken, and the answer dealt with."""
        with self._changed:
            self.bodies = [body]
            wanted = self._looks + 2
            assert self._changed.wait_for(lambda: self._looks >= wanted, PATIENCE)

    @staticmethod
    def send(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answer one request."""
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@contextmanager
def open_session(
    folder: Path, *bodies: bytes, revision: str = "2025-11-25", **given: Any
) -> Iterator[tuple[StdioClient, Upstream]]:
    """A session over an upstream of *bodies*; it has to end well."""
    with Upstream(*bodies).open() as upstream:
        environment = build_environment(upstream.url, folder, **given)
        with StdioClient(folder, environment=environment, revision=revision) as client:
            yield client.open(), upstream


def join(*entries: Any) -> bytes:
    """A manifest of entries, each a value or the JSON of one."""
    texts = [each if isinstance(each, str) else json.dumps(each) for each in entries]
    return ('{"protocolVersion":"2026-01-01","tools":[' + ",".join(texts) + "]}").encode()


def splice(name: str, field: str, text: str) -> str:
    """The JSON of a tool of which one field is *text*."""
    tool = {key: value for key, value in manifest(name).items() if key != field}
    return f'{json.dumps(tool)[:-1]},"{field}":{text}}}'


def nest(opening: str, closing: str) -> str:
    """JSON that is 2,000 levels deep."""
    return opening * DEEP + "{}" + closing * DEEP


def list_tools(client: StdioClient) -> dict[str, dict[str, Any]]:
    """The listed tools by name, also where the list takes a moment."""
    response = client.ask("tools/list", timeout=PATIENCE)
    return {tool["name"]: tool for tool in response["result"]["tools"]}


def list_names(client: StdioClient) -> set[str]:
    """The names of a list that would take long to be held to the revision's schema."""
    client.request("tools/list")
    [message] = to_messages(client.receive_line(PATIENCE))
    return {tool["name"] for tool in message["result"]["tools"]}


# One bad tool among good ones

LISTS, OBJECTS, SCHEMAS = ("[", "]"), ('{"a":', "}"), ('{"properties":{"a":', "}}")
INT = {"type": "int"}


def build_bad() -> Iterator[tuple[str, str, str]]:
    """Bad tools: a name, the JSON of the tool, and the place that its warning names."""
    for field in ("inputSchema", "outputSchema", "examples", "tags", "lineage", "endpoint", "unknown"):
        for kind, brackets in {"lists": LISTS, "objects": OBJECTS, "schemas": SCHEMAS}.items():
            name = f"deep-{field}-{kind}"
            yield name, splice(name, field, nest(*brackets)), f"(at /{field}/"
    schemas = {
        "type": ({"properties": {"a": {"items": INT}}}, "/properties/a/items/type"),
        "list": ([], ""),
        "text": ("object", ""),
        "properties": ({"properties": []}, "/properties"),
        "reference": ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, "/properties/a/$ref"),
        "nowhere": ({"allOf": [{"$ref": "#/$defs/x"}]}, "/allOf/0/$ref"),
        "dialect": ({"$schema": "https://schemas.test/own"}, ""),
        "root": ({"type": "array"}, ""),
    }
    for kind, (schema, place) in schemas.items():
        yield f"bad-{kind}", json.dumps(manifest(f"bad-{kind}", inputSchema=schema)), f"(at /inputSchema{place})"
    operation = manifest("bad-endpoint", kind="operation", endpoint={"method": "POST", "path": "http://x/"})
    yield "bad-endpoint", json.dumps(operation), "(at /endpoint)"
    yield "twice", json.dumps(manifest("twice", description="Another.")), "(at /tools/"
    yield "nul\0", json.dumps(manifest("nul\0")), "(at /name)"


BAD = {name: (text, place) for name, text, place in build_bad()}
GOOD = ("first", "twice", "zest")


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StdioClient, Upstream]]:
    """A session over every bad tool between good ones, after one list."""
    body = join(manifest("first"), manifest("twice"), *(text for text, _ in BAD.values()), manifest("zest"))
    with open_session(tmp_path_factory.mktemp("bad"), body) as (client, upstream):
        assert list(list_tools(client)) == [*GOOD, OWN_TOOL]
        yield client, upstream


@pytest.mark.parametrize("name", BAD)
def test_a_bad_tool_is_named_with_its_place(name: str, bad: tuple[StdioClient, Upstream]) -> None:
    """Each is left out with one warning, which names the tool and the JSON pointer of what is wrong."""
    events = [event for event in bad[0].events("manifest.tool_left_out") if event["tool"] == name]
    assert [BAD[name][1] in event["reason"] for event in events] == [True], events


def test_good_tools_are_called_beside_bad_ones(bad: tuple[StdioClient, Upstream]) -> None:
    """Every good tool can be called, a bad one is refused with the words of its warning, and nothing is sent for it."""
    client, upstream = bad
    for name in GOOD:
        assert client.call(name)["isError"] is False
    for name in ("bad-type", "bad-endpoint", "deep-tags-lists", "deep-inputSchema-schemas"):
        error = client.ask("tools/call", {"name": name, "arguments": {}})["error"]
        [event] = [event for event in client.events("manifest.tool_left_out") if event["tool"] == name]
        assert error["code"] == -32602
        assert event["reason"] in error["message"]
    assert upstream.called == [f"{name}:invoke" for name in GOOD]


# Odd, but no reason to lose anything


def test_odd_bytes_are_read(tmp_path: Path) -> None:
    """A byte order mark, a key twice, huge or impossible numbers, and text that is none cost no tool."""
    tools = [
        splice("nan", "lineage", '{"a":NaN,"b":[-Infinity,Infinity],"c":1e999,"d":-0.0}'),
        splice("huge", "lineage", f'{{"a":{"9" * 5000},"b":{10**30}}}'),
        splice("surrogate", "description", r'"a\ud800b\udc00"'),
        splice("lines", "description", '"a\u2028b\u2029c\x85d"'),
        splice("nul", "description", r'"a\u0000b"'),
        splice("nan-schema", "inputSchema", '{"type":"object","properties":{"a":{"default":NaN,"maximum":1e308}}}'),
        splice("name-twice", "name", '"named-later"'),
    ]
    body = join(*tools, manifest("bytes", description="BYTES"), manifest("twice-listed"))
    body = b"\xef\xbb\xbf" + body.replace(b"BYTES", b"\xff\xfe\xc3").replace(b'"tools"', b'"tools":{},"tools"')
    with open_session(tmp_path, body, revision=spec.MODERN) as (client, _):
        tools = list_tools(client)
        lineage = {name: tools[name]["_meta"]["com.colabhive/manifest"]["lineage"] for name in ("nan", "huge")}
        assert lineage["nan"] == {"a": "NaN", "b": ["-Infinity", "Infinity"], "c": "1e999", "d": -0.0}
        assert lineage["huge"] == {"a": "9" * 5000, "b": 10**30}
        described = {name: tools[name]["description"].splitlines(keepends=True)[0] for name in ("surrogate", "bytes")}
        assert described == {"surrogate": "a\ufffdb\ufffd\n", "bytes": "\ufffd\ufffd\ufffd\n"}
        assert tools["lines"]["description"].startswith("a\u2028b\u2029c\x85d\n")
        assert tools["nul"]["description"].startswith("a\0b\n")
        assert {"nan-schema", "named-later", "twice-listed"} <= tools.keys()
        assert client.events("manifest.tool_left_out") == []
        for name in tools.keys() - {OWN_TOOL}:
            assert client.call(name)["isError"] is False
        index = client.ask("resources/read", {"uri": INDEX})["result"]["contents"][0]["text"]
        assert {entry["name"] for entry in json.loads(index)["tools"]} == tools.keys() - {OWN_TOOL}


NAMESAKES = [
    "a.b",
    "a/b",
    "a_b",
    "a b",
    "ä.b",
    OWN_TOOL,
    "search_tools",
    "call_tool",
    "get_invocation.result",
    "." * 70,
]


@pytest.mark.parametrize("given", [{}, {"listing": "search"}, {"tool_names": "exact"}], ids=str)
def test_names_that_collide_are_told_apart(given: dict[str, str], tmp_path: Path) -> None:
    """However names clash, with each other or with the bridge's own tools, each slug's own tool is called."""
    with open_session(tmp_path, join(*map(manifest, NAMESAKES)), **given) as (client, upstream):
        tools = list_tools(client)
        index = client.ask("resources/read", {"uri": INDEX})["result"]["contents"][0]["text"]
        names = {entry["slug"]: entry["name"] for entry in json.loads(index)["tools"]}
        assert names.keys() == set(NAMESAKES)
        assert len(set(names.values())) == len(names)
        if "listing" not in given:
            assert tools.keys() == {*names.values(), OWN_TOOL}
            assert "Fetches the result" in tools[OWN_TOOL]["description"]
        for slug, name in names.items():
            assert client.call(name)["isError"] is False
            assert unquote(upstream.called[-1]) == f"{slug}:invoke"


# No manifest at all

NONE: dict[str, bytes] = {
    "null": b"null",
    "null tools": b'{"tools":null}',
    "UTF-16": join(manifest("first")).decode().encode("utf-16"),
    "deep around it": f"{'[' * DEEP}{join(manifest('first')).decode()}{']' * DEEP}".encode(),
    "deep and cut": f'{{"tools":{"[" * 100_000}'.encode(),
    "cut": join(manifest("first"), manifest("last"))[:-40],
}


@pytest.mark.parametrize("case", NONE)
def test_the_last_good_manifest_stays(case: str, tmp_path: Path) -> None:
    """What is no manifest is one warning in plain words, and what was listed before stays listed and callable."""
    with open_session(tmp_path, join(manifest("first")), NONE[case], manifest_ttl=0.1) as (client, _):
        assert list(list_tools(client)) == ["first", OWN_TOOL]
        failed = client.wait_event("manifest.failed")
        assert all(word not in failed[0]["error"] for word in ("Traceback", "Error", "char "))
        assert failed[0]["serving"] == 1
        assert list(list_tools(client)) == ["first", OWN_TOOL]
        assert client.call("first")["isError"] is False


def test_a_manifest_that_turned_bad_leaves_the_rest(tmp_path: Path) -> None:
    """A refresh in which one tool is bad and another has left changes those two; a bad one that stays bad, nothing."""
    before = join(*map(manifest, ("first", "second", "third")))
    after = join(manifest("first"), manifest("second", inputSchema=INT))
    with open_session(tmp_path, before, manifest_ttl=0.1) as (client, upstream):
        assert list(list_tools(client)) == ["first", "second", "third", OWN_TOOL]
        upstream.serve(after)
        assert client.notifications or client.receive()["method"] == "notifications/tools/list_changed"
        assert list(list_tools(client)) == ["first", OWN_TOOL]
        assert client.call("first")["isError"] is False
        [event] = client.events("manifest.tool_left_out")
        assert (event["tool"], "(at /inputSchema/type)" in event["reason"]) == ("second", True)
        upstream.serve(join(manifest("first"), manifest("second", inputSchema=[]), manifest("more", inputSchema=INT)))
        client.ask("ping")  # its answer is written after what was announced
        assert len(client.notifications) == 1
        upstream.serve(before)
        assert list(list_tools(client)) == ["first", "second", "third", OWN_TOOL]


# Too many, too large


def build_bomb(levels: int) -> dict[str, Any]:
    """A schema that is 2 ** *levels* large with its references inlined."""
    double = {"type": "object", "properties": {"a": {}, "b": {}}}
    defs = {
        f"d{level}": {**double, "properties": {name: {"$ref": f"#/$defs/d{level + 1}"} for name in "ab"}}
        for level in range(levels)
    }
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**defs, f"d{levels}": {}}}


def build_required(count: int) -> dict[str, Any]:
    """A schema of so many properties, each of which has to be there and may be null."""
    names = [f"p{number}" for number in range(count)]
    return {"properties": {name: {"type": ["string", "null"]} for name in names}, "required": names}


LARGE: dict[str, tuple[Any, ...]] = {
    "many tools": tuple(manifest(f"t{number:05}") for number in range(10_000)),
    "large tools": tuple(manifest(f"t{number:04}", longDescription="x" * 20_000) for number in range(1000)),
    "a large text": (manifest("t", longDescription="x" * (20 * MIB)),),
    "a large description": (manifest("t", description="x" * (20 * MIB)),),
    "many properties": (
        manifest("t", inputSchema={"type": "object", "properties": {f"p{number}": {} for number in range(100_000)}}),
        manifest("u", inputSchema=build_required(15_000)),
    ),
    "much of all else": (
        manifest("values", inputSchema={"properties": {"a": {"enum": [f"v{number}" for number in range(10_000)]}}}),
        manifest("references", inputSchema=build_bomb(40), outputSchema=build_bomb(40)),
        *(manifest(f"bad{number}", inputSchema=INT) for number in range(2000)),
    ),
}


@pytest.mark.parametrize("case", LARGE)
def test_a_large_manifest_is_served(case: str, tmp_path: Path) -> None:
    """However much there is, the list comes in time, the memory is bounded, and other tools are listed and called."""
    body = join(manifest("first"), *LARGE[case])
    started = time.monotonic()
    with open_session(tmp_path, body, log_level="error") as (client, _):
        names = list_names(client)
        listed = time.monotonic() - started
        assert {"first", OWN_TOOL} <= names
        assert client.call("first")["isError"] is False
        peak = read_peak(client.process.pid)
    assert listed < PATIENCE
    assert peak < MOST_MEMORY


# What is the same said in many ways

NOTHING = ("null", "{}", '{"type":"object"}', '{"properties":{}}', "true")


def test_no_arguments_are_none_however_that_is_said(tmp_path: Path) -> None:
    """A tool without arguments is listed with an empty object of them, and called with none, null or an empty one."""
    tools = [splice(f"t{number}", "inputSchema", text) for number, text in enumerate(NOTHING)]
    missing = {key: value for key, value in manifest("missing").items() if key != "inputSchema"}
    with open_session(tmp_path, join(*tools, missing)) as (client, upstream):
        for name, tool in list_tools(client).items():
            if name != OWN_TOOL:
                assert tool["inputSchema"] == {"type": "object", "properties": {}}
                for given in ({}, {"arguments": None}, {"arguments": {}}):
                    assert client.ask("tools/call", {"name": name, **given})["result"]["isError"] is False
        assert upstream.inputs == [{}] * 3 * (len(tools) + 1)


# Any manifest


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StdioClient, Upstream]]:
    """A session that looks at the manifest all the time."""
    folder = tmp_path_factory.mktemp("any")
    with open_session(folder, join(manifest("good")), manifest_ttl=0.02, log_level="error") as session:
        yield session


@settings(
    max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(document=manifests())
def test_any_manifest_is_survived(document: Any, served: tuple[StdioClient, Upstream]) -> None:
    """Whatever stands beside a good tool, that is listed and called, and each message is one of its revision."""
    client, upstream = served
    tools = document.get("tools")
    upstream.serve(to_bytes({**document, "tools": [manifest("good"), *(tools if isinstance(tools, list) else ())]}))
    tools = list_tools(client)
    assert {"good", OWN_TOOL} <= tools.keys()
    for name in tools:
        client.call(name, {"text": "a"})
    assert client.call("good", {"text": "a"})["isError"] is False
    client.ask("resources/read", {"uri": INDEX})
