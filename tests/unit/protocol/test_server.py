"""The methods in both eras: what is answered, in which shape, and what is refused how."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

from colabhive_mcp.errors import (
    BadAnswer,
    BrokenInstallation,
    Cancelled,
    ClientError,
    GatewayUnreachable,
    KeyRefused,
    ToolError,
)
from colabhive_mcp.protocol.eras import CAPABILITIES_KEY, CLIENT_KEY, SERVER_KEY, SUBSCRIPTION_KEY, VERSION_KEY
from colabhive_mcp.protocol.messages import ErrorResponse, Notification, Request, Response, encode
from colabhive_mcp.protocol.revisions import REVISIONS, Revision
from colabhive_mcp.protocol.server import LOG_LEVELS, MAX_COMPLETIONS, Server
from colabhive_mcp.protocol.toolbox import (
    Caller,
    Changed,
    Client,
    Completion,
    Context,
    KeepAlive,
    Listing,
    Progress,
    ResourceText,
    Session,
    ToolResult,
)
from tests.harness import spec

INFO = {"name": "n", "title": "t", "version": "1", "description": "d", "websiteUrl": "https://x.test"}
DONE = ToolResult({"content": [{"type": "text", "text": "done"}], "isError": False})
LISTS = {
    "resources/list": ("resources", ["title", "uri"]),
    "resources/templates/list": ("resourceTemplates", ["title", "uriTemplate"]),
    "prompts/list": ("prompts", []),
}
COMPLETING = {"ref": {"type": "ref/resource", "uri": "x:{y}"}, "argument": {"name": "y", "value": "a"}}
MODERN_MEMBERS = {"resultType", "_meta"}
NOT_KEPT = {"tools/call", "completion/complete", "subscriptions/listen"}


@dataclass
class ScriptedToolbox:
    """A toolbox that answers with what it was given, and keeps what it was asked."""

    steps: list[Any] = field(default_factory=lambda: [DONE])
    listing: Listing = field(
        default_factory=lambda: Listing([b'{"name":"a","inputSchema":{"type":"object"}}'], None, 5)
    )
    error: Exception | None = None
    marks: list[Any] = field(default_factory=list)
    values: list[str] | None = field(default_factory=lambda: ["aa", "ab"])
    resources = ({"uri": "x:y", "name": "y", "title": "Y"},)
    resource_templates = ({"uriTemplate": "x:{y}", "name": "y", "title": "Y"},)
    calls: list[tuple[str, Mapping[str, Any], Caller]] = field(default_factory=list)
    cursors: list[str | None] = field(default_factory=list)

    def list_tools(self, cursor: str | None, caller: Caller) -> Listing:
        """The listing, or the error."""
        self.cursors.append(cursor)
        if self.error is not None:
            raise self.error
        return self.listing

    def call_tool(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> Iterator[Any]:
        """The steps; the error in the place of the last."""
        self.calls.append((name, arguments, caller))
        yield from self.steps
        if self.error is not None:
            raise self.error

    def read_resource(self, uri: str, caller: Caller) -> ResourceText | None:
        """The one resource; the error in its place."""
        if self.error is not None:
            raise self.error
        return ResourceText('{"a":1}', 5) if uri == "x:y" else None

    def complete(self, template: str, argument: str, value: str, caller: Caller) -> Completion | None:
        """The values."""
        return None if self.values is None else Completion(self.values, len(self.values))

    def header_parameters(self, name: str, caller: Caller) -> tuple[()]:
        """None."""
        return ()

    def changes(self, caller: Caller) -> Iterator[Any]:
        """The marks."""
        yield from self.marks


@dataclass
class Peer:
    """A client in memory: one session with one server."""

    revision: str
    toolbox: ScriptedToolbox = field(default_factory=ScriptedToolbox)
    reports: list[Exception] = field(default_factory=list)
    greeted: list[tuple[Client, Revision]] = field(default_factory=list)
    cancel: Event = field(default_factory=Event)
    announces: bool = True

    def __post_init__(self) -> None:
        self.session = Session()
        self.server = Server(
            self.toolbox,
            info=INFO,
            instructions="how",
            report=self.reports.append,
            greet=lambda client, revision: self.greeted.append((client, revision)),
            announces=self.announces,
        )
        if self.revision != spec.MODERN:
            self.ask("initialize", {"protocolVersion": self.revision, "capabilities": {}})
            self.server.notice(Notification("notifications/initialized"), self.session)

    def answer(self, method: str, params: Mapping[str, Any] | None = None, *, dressed: bool = True) -> list[Any]:
        """All that comes for one request; *dressed* with what a modern request has to carry."""
        params = dict(params or {})
        if dressed and self.revision == spec.MODERN:
            meta = {VERSION_KEY: self.revision, CAPABILITIES_KEY: {}, **params.get("_meta", {})}
            params["_meta"] = meta
        return list(self.server.answer(Request(7, method, params), Context(self.session, self.cancel)))

    def ask(self, method: str, params: Mapping[str, Any] | None = None, *, dressed: bool = True) -> dict[str, Any]:
        """The response as it stands on the wire, held to the revision's schema."""
        answer = self.answer(method, params, dressed=dressed)
        response = next(message for message in answer if isinstance(message, Response | ErrorResponse))
        wire: dict[str, Any] = json.loads(encode(response))
        spec.check(wire, revision=self.revision, method=method)
        return wire


@pytest.fixture(params=spec.REVISIONS)
def peer(request: pytest.FixtureRequest) -> Peer:
    """A client of each revision."""
    return Peer(request.param)


def is_modern(peer: Peer) -> bool:
    """Whether the client is of the era without a handshake."""
    return peer.revision == spec.MODERN


METHODS: dict[str, tuple[dict[str, Any], bool, bool]] = {  # method -> params, in the legacy era, in the modern one
    "ping": ({}, True, False),
    "logging/setLevel": ({"level": "info"}, True, False),
    "server/discover": ({}, False, True),
    "tools/list": ({}, True, True),
    "tools/call": ({"name": "a"}, True, True),
    "resources/list": ({}, True, True),
    "resources/templates/list": ({}, True, True),
    "prompts/list": ({}, True, True),
    "resources/read": ({"uri": "x:y"}, True, True),
    "completion/complete": (COMPLETING, True, True),
    "prompts/get": ({"name": "x"}, False, False),
    "resources/subscribe": ({"uri": "x:y"}, False, False),
    "subscriptions/listen": ({"notifications": {}}, False, True),
    "tasks/get": ({}, False, False),
    "tools/List": ({}, False, False),
    "": ({}, False, False),
    "notifications/initialized": ({}, False, False),
}


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_both_eras(peer: Peer, method: str) -> None:
    """Each method is served in the eras that have it, and is unknown in the other."""
    params, legacy, modern = METHODS[method]
    answer = [message for message in peer.answer(method, params) if not isinstance(message, Notification)]
    assert len(answer) == 1
    if modern if is_modern(peer) else legacy:
        assert isinstance(answer[0], Response)
        peer.ask(method, params)
    else:
        assert isinstance(answer[0], ErrorResponse)
        assert (answer[0].id, answer[0].code) == (7, -32601)


@pytest.mark.parametrize("method", [name for name, (_, legacy, modern) in METHODS.items() if legacy or modern])
def test_results_hold_all_or_none_of_the_modern_members(peer: Peer, method: str) -> None:
    """A modern result says that it is complete and who answered; a legacy one has no such member."""
    params, legacy, modern = METHODS[method]
    if not (modern if is_modern(peer) else legacy):
        return
    result = peer.ask(method, params)["result"]
    if is_modern(peer):
        assert result["resultType"] == "complete"
        assert result["_meta"][SERVER_KEY]["name"] == "n"
        assert ("ttlMs" in result) == ("cacheScope" in result) == (method not in NOT_KEPT)
    else:
        assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & set(result)


def test_the_handshake(peer: Peer) -> None:
    """A client of each revision with a handshake gets its own version, the instructions and what that version names."""
    asked = "2025-06-18" if is_modern(peer) else peer.revision
    other = Peer("2025-11-25")
    (answer,) = other.answer("initialize", {"protocolVersion": asked})
    assert isinstance(answer, Response)
    result: Any = answer.result
    assert (result["protocolVersion"], result["instructions"]) == (asked, "how")
    completions = {} if asked < "2025-03-26" else {"completions": {}}
    assert result["capabilities"] == {"tools": {"listChanged": True}, "resources": {}, "logging": {}, **completions}
    named = {"title": asked >= "2025-06-18", "websiteUrl": asked >= "2025-11-25", "description": asked >= "2025-11-25"}
    assert {key: key in result["serverInfo"] for key in named} == named


@pytest.mark.parametrize("version", [None, 5, "", [], {}])
def test_a_handshake_needs_a_version(version: Any) -> None:
    """Without a version in words there is no handshake; any word is negotiated."""
    peer = Peer(spec.MODERN)
    (answer,) = peer.answer("initialize", {"protocolVersion": version}, dressed=False)
    assert isinstance(answer, Response if version == "" else ErrorResponse)
    assert isinstance(answer, Response) or answer.code == -32602


def test_the_handshake_needs_nothing_modern() -> None:
    """``initialize`` is of the legacy era, whatever stands in its ``_meta``."""
    peer = Peer(spec.MODERN)
    meta = {VERSION_KEY: "1.0", CAPABILITIES_KEY: []}
    (answer,) = peer.answer("initialize", {"protocolVersion": spec.MODERN, "_meta": meta}, dressed=False)
    assert isinstance(answer, Response)
    assert isinstance(answer.result, dict)
    assert answer.result["protocolVersion"] == "2025-11-25"


def test_a_second_handshake_begins_anew() -> None:
    """A client that starts over is again one that has seen no list and not said that it is ready."""
    peer = Peer("2025-11-25")
    peer.session.listed = object()
    peer.answer("initialize", {"protocolVersion": "2024-11-05"})
    assert (peer.session.listed, peer.session.initialized) == (None, False)
    assert peer.session.revision is REVISIONS["2024-11-05"]


def test_ready_is_only_who_shook_hands() -> None:
    """``notifications/initialized`` without a handshake makes no session that could be told of changes."""
    peer = Peer(spec.MODERN)
    peer.server.notice(Notification("notifications/initialized"), peer.session)
    assert not peer.session.initialized
    peer.answer("initialize", {"protocolVersion": "2025-11-25"}, dressed=False)
    peer.server.notice(Notification("notifications/other"), peer.session)
    assert not peer.session.initialized
    peer.server.notice(Notification("notifications/initialized"), peer.session)
    assert peer.session.initialized


def test_capabilities_promise_only_what_works(peer: Peer) -> None:
    """Only what is offered is named: notices of changes where they are delivered, log messages to legacy clients."""
    for announces in (True, False):
        asked = Peer(peer.revision, announces=announces)
        method = "server/discover" if is_modern(peer) else "initialize"
        result = asked.ask(method, {"protocolVersion": peer.revision})["result"]
        assert result["capabilities"]["tools"] == ({"listChanged": True} if announces else {})
        assert result["capabilities"]["resources"] == {}
        assert ("completions" in result["capabilities"]) == (peer.revision != "2024-11-05")
        assert ("logging" in result["capabilities"]) == (not is_modern(peer))


def test_discovery() -> None:
    """Discovery tells every version that is spoken here, and may be kept by anybody."""
    result = Peer(spec.MODERN).ask("server/discover")["result"]
    assert result["supportedVersions"] == list(reversed(spec.REVISIONS))
    assert result["ttlMs"] > 0
    assert result["cacheScope"] == "public"


BAD_META: list[tuple[Any, int]] = [  # what stands in ``params`` -> the code
    ({}, -32602),
    ({"_meta": None}, -32602),
    ({"_meta": []}, -32602),
    ({"_meta": "x"}, -32602),
    ({"_meta": {}}, -32602),
    ({"_meta": {CAPABILITIES_KEY: {}}}, -32602),
    ({"_meta": {CLIENT_KEY: {"name": "c", "version": "1"}}}, -32602),
    ({"_meta": {VERSION_KEY: None, CAPABILITIES_KEY: {}}}, -32602),
    ({"_meta": {VERSION_KEY: 2026, CAPABILITIES_KEY: {}}}, -32602),
    ({"_meta": {VERSION_KEY: ["2026-07-28"], CAPABILITIES_KEY: {}}}, -32602),
    ({"_meta": {VERSION_KEY: spec.MODERN}}, -32602),
    ({"_meta": {VERSION_KEY: spec.MODERN, CAPABILITIES_KEY: None}}, -32602),
    ({"_meta": {VERSION_KEY: spec.MODERN, CAPABILITIES_KEY: []}}, -32602),
    ({"_meta": {VERSION_KEY: spec.MODERN, CAPABILITIES_KEY: "{}"}}, -32602),
    ({"_meta": {VERSION_KEY: spec.MODERN, CAPABILITIES_KEY: {"roots": 1}}}, -32602),
    ({"_meta": {VERSION_KEY: spec.MODERN, CAPABILITIES_KEY: {}, CLIENT_KEY: "c"}}, -32602),
    ({"_meta": {VERSION_KEY: spec.MODERN, CAPABILITIES_KEY: {}, CLIENT_KEY: {"name": "c"}}}, -32602),
    ({"_meta": {VERSION_KEY: spec.MODERN, CAPABILITIES_KEY: {}, CLIENT_KEY: {"name": 1, "version": "1"}}}, -32602),
    ({"_meta": {VERSION_KEY: "2027-01-01", CAPABILITIES_KEY: {}}}, -32022),
    ({"_meta": {VERSION_KEY: "2025-11-25", CAPABILITIES_KEY: {}}}, -32022),
    ({"_meta": {VERSION_KEY: ""}}, -32022),
]


@pytest.mark.parametrize(("params", "code"), BAD_META)
@pytest.mark.parametrize("method", ["tools/list", "tools/call", "server/discover", "no/such"])
def test_modern_requests_need_their_meta(method: str, params: Any, code: int) -> None:
    """A request that lacks its version or capabilities, or has them in a wrong shape, is refused and does nothing."""
    peer = Peer(spec.MODERN)
    (answer,) = peer.answer(method, {"name": "a", **params}, dressed=False)
    assert isinstance(answer, ErrorResponse)
    assert answer.code == code
    assert not peer.toolbox.calls
    assert not peer.toolbox.cursors


def test_an_unsupported_version_is_told_what_there_is() -> None:
    """The refusal names every supported version and the one that was asked for."""
    peer = Peer(spec.MODERN)
    (answer,) = peer.answer("tools/list", {"_meta": {VERSION_KEY: "2030-01-01"}})
    assert isinstance(answer, ErrorResponse)
    assert answer.data == {"supported": list(reversed(spec.REVISIONS)), "requested": "2030-01-01"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {CLIENT_KEY: None},
        {CLIENT_KEY: {"name": "c", "version": "1", "title": "C"}},
        {"other.example/key": [1, 2]},
        {"io.modelcontextprotocol/logLevel": "debug"},
        {"progressToken": None},
    ],
)
def test_optional_and_unknown_meta_is_fine(more: dict[str, Any]) -> None:
    """Client info is optional, keys that we don't know are ignored, and nothing of ``_meta`` is an argument."""
    peer = Peer(spec.MODERN)
    peer.ask("tools/call", {"name": "a", "arguments": {"x": 1}, "_meta": more})
    ((name, arguments, _),) = peer.toolbox.calls
    assert (name, dict(arguments)) == ("a", {"x": 1})


def test_both_eras_in_one_session() -> None:
    """A modern request before or after a handshake is modern, and leaves the legacy session what it was."""
    peer = Peer("2025-06-18")
    modern = {"_meta": {VERSION_KEY: spec.MODERN, CAPABILITIES_KEY: {}}}
    (answer,) = peer.answer("tools/call", {"name": "a", **modern})
    assert isinstance(answer, Response)
    assert isinstance(answer.result, dict)
    assert answer.result.keys() >= MODERN_MEMBERS
    assert "resultType" not in peer.ask("tools/call", {"name": "a"})["result"]
    assert [(caller.revision.name, caller.session is None) for _, _, caller in peer.toolbox.calls] == [
        (spec.MODERN, True),
        ("2025-06-18", False),
    ]


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "resources/list", "no/such"])
def test_before_the_handshake(method: str) -> None:
    """What comes before any handshake is told how to begin; a ping is answered all the same."""
    peer = Peer(spec.MODERN)
    (answer,) = peer.answer(method, {"name": "a"}, dressed=False)
    assert isinstance(answer, ErrorResponse)
    assert answer.code == -32602
    assert "initialize" in answer.message
    assert peer.answer("ping", dressed=False) == [Response(7, {})]


def test_every_client_is_greeted_once() -> None:
    """A legacy client is greeted with each handshake, a modern one with its first request, by the name it gives."""
    legacy = Peer("2025-03-26")
    legacy.ask("tools/list")
    assert legacy.greeted == [(Client(), REVISIONS["2025-03-26"])]
    modern = Peer(spec.MODERN)
    for _ in range(3):
        modern.ask("tools/list", {"_meta": {CLIENT_KEY: {"name": "c", "version": "2"}}})
    assert modern.greeted == [(Client("c", "2"), REVISIONS[spec.MODERN])]


def test_greeting_does_not_depend_on_reading_on() -> None:
    """A transport that stops reading at the response has greeted the client all the same, and after the response."""
    peer = Peer(spec.MODERN)
    steps: Any = peer.server.answer(
        Request(1, "initialize", {"protocolVersion": "2025-11-25", "clientInfo": {"name": "c", "version": 3}}),
        Context(peer.session, peer.cancel),
    )
    assert isinstance(next(steps), Response)
    assert peer.greeted == []
    steps.close()
    assert peer.greeted == [(Client("c", None), REVISIONS["2025-11-25"])]


@pytest.mark.parametrize("token", [0, 1, -3, 7, "", "7", "abc", 2**60])
def test_progress_carries_the_clients_own_token(peer: Peer, token: Any) -> None:
    """Every notification carries exactly the token that came, of the very type; 0 and the empty text are tokens."""
    peer.toolbox.steps = [Progress(0.0, "begun"), KeepAlive.MARK, Progress(1.5, "going", 3.0), DONE]
    first, mark, second, answer = peer.answer("tools/call", {"name": "a", "_meta": {"progressToken": token}})
    assert mark is KeepAlive.MARK
    assert isinstance(answer, Response)
    assert [step.params["progress"] for step in (first, second)] == [0.0, 1.5]
    for step in (first, second):
        spec.check(json.loads(encode(step)), revision=peer.revision, method=None)
        assert (type(step.params["progressToken"]), step.params["progressToken"]) == (type(token), token)
        assert ("message" in step.params) == (peer.revision != "2024-11-05")
    assert ("total" in first.params, second.params["total"]) == (False, 3.0)
    assert peer.toolbox.calls[0][2].progress


@pytest.mark.parametrize("token", [None, True, False, 1.5, {}, [], {"a": 1}])
def test_without_a_token_there_is_no_progress(peer: Peer, token: Any) -> None:
    """What is no token is none: the call is served, and no notification is made up."""
    peer.toolbox.steps = [Progress(0.0, "begun"), DONE]
    mark, answer = peer.answer("tools/call", {"name": "a", "_meta": {"progressToken": token}})
    assert mark is KeepAlive.MARK
    assert isinstance(answer, Response)
    assert not peer.toolbox.calls[0][2].progress


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({}, "name"),
        ({"name": None}, "name"),
        ({"name": 5}, "name"),
        ({"name": "a", "arguments": []}, "arguments"),
        ({"name": "a", "arguments": "x"}, "arguments"),
        ({"name": "a", "arguments": 0}, "arguments"),
        ({"name": "a", "arguments": False}, "arguments"),
    ],
)
def test_what_is_no_call(peer: Peer, params: dict[str, Any], problem: str) -> None:
    """A call without a name, or with arguments that are no object, is a bad message and reaches no tool."""
    (answer,) = peer.answer("tools/call", params)
    assert isinstance(answer, ErrorResponse)
    assert answer.code == -32602
    assert problem in answer.message
    assert not peer.toolbox.calls


@pytest.mark.parametrize(
    ("params", "expected"), [({}, {}), ({"arguments": None}, {}), ({"arguments": {"a": 1}}, {"a": 1})]
)
def test_absent_arguments_are_none(peer: Peer, params: dict[str, Any], expected: dict[str, Any]) -> None:
    """Absent and null arguments are an empty object."""
    peer.ask("tools/call", {"name": "a", **params})
    assert peer.toolbox.calls[0][1] == expected


ERRORS: list[tuple[Exception, int, str]] = [
    (ClientError("Unknown tool: x"), -32602, "Unknown tool: x"),
    (ClientError("no", code=-32600, data=1), -32600, "no"),
    (GatewayUnreachable("The gateway is away."), -32603, "The gateway is away."),
    (KeyRefused("The key is refused.", status=401), -32603, "The key is refused."),
    (BadAnswer("That is no manifest."), -32603, "That is no manifest."),
    (ToolError("words"), -32603, "words"),
]


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
@pytest.mark.parametrize(("error", "code", "words"), ERRORS)
def test_errors_of_others(peer: Peer, method: str, error: Exception, code: int, words: str) -> None:
    """The client's fault keeps its code, the gateway's is an internal error with its own words; neither is reported."""
    peer.toolbox.error, peer.toolbox.steps = error, []
    wire = peer.ask(method, {"name": "a"})
    assert (wire["error"]["code"], wire["error"]["message"]) == (code, words)
    assert peer.reports == []


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
@pytest.mark.parametrize(
    "error", [RuntimeError("secret path /x"), KeyError("k"), RecursionError("deep"), MemoryError()]
)
def test_faults_of_ours(peer: Peer, method: str, error: Exception) -> None:
    """A fault of our own is told without its words or its traceback, and reported once with them."""
    peer.toolbox.error, peer.toolbox.steps = error, []
    wire = peer.ask(method, {"name": "a"})
    assert wire["error"] == {"code": -32603, "message": "Internal error: see the server's log"}
    assert peer.reports == [error]


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
def test_a_package_that_cannot_be_imported(peer: Peer, method: str) -> None:
    """A package that fails when it is first needed is named to the client, and reported."""
    peer.toolbox.error, peer.toolbox.steps = ImportError("too new", name="jsonschema.validators"), []
    wire = peer.ask(method, {"name": "a"})
    assert wire["error"]["code"] == -32603
    assert wire["error"]["message"].startswith("jsonschema ")
    assert [type(report) for report in peer.reports] == [BrokenInstallation]


@pytest.mark.parametrize("steps", [[], [KeepAlive.MARK], [Progress(0.0, "begun")]])
def test_a_cancelled_call_is_not_answered(peer: Peer, steps: list[Any]) -> None:
    """Once the caller has cancelled, no response and no error is written."""
    peer.toolbox.steps, peer.toolbox.error = steps, Cancelled("cancelled")
    answers = peer.answer("tools/call", {"name": "a", "_meta": {"progressToken": 1}})
    assert not [each for each in answers if isinstance(each, Response | ErrorResponse)]
    assert peer.reports == []


def test_lists_pass_the_cursor_on(peer: Peer) -> None:
    """A page carries the next cursor, the last has no such member, and an unreadable cursor is the client's fault."""
    peer.toolbox.listing = Listing([], "more", 1000)
    assert peer.ask("tools/list")["result"]["nextCursor"] == "more"
    peer.toolbox.listing = Listing([], None, 1000)
    result = peer.ask("tools/list", {"cursor": "more"})["result"]
    assert "nextCursor" not in result
    assert peer.toolbox.cursors == [None, "more"]
    if is_modern(peer):
        assert (result["ttlMs"], result["cacheScope"]) == (1000, "private")


@pytest.mark.parametrize("cursor", [5, [], {}, True, ""])
@pytest.mark.parametrize("method", ["tools/list", "resources/list", "resources/templates/list", "prompts/list"])
def test_cursors_are_texts(peer: Peer, method: str, cursor: Any) -> None:
    """A cursor of another type is refused on every list; a null one is none."""
    (answer,) = peer.answer(method, {"cursor": cursor})
    assert isinstance(answer, Response if cursor == "" else ErrorResponse)
    assert isinstance(answer, Response) or answer.code == -32602
    assert isinstance(peer.answer(method, {"cursor": None})[0], Response)


@pytest.mark.parametrize("method", LISTS)
def test_lists_that_are_the_same_for_all(peer: Peer, method: str) -> None:
    """Resources and templates come on one page, with titles where the revision has them; of prompts there are none."""
    member, keys = LISTS[method]
    listed = peer.ask(method)["result"][member]
    hidden = set() if REVISIONS[peer.revision].titles else {"title"}
    assert [sorted({*entry} - {"name"}) for entry in listed] == ([sorted({*keys} - hidden)] if keys else [])
    assert peer.ask(method, {"cursor": "more"})["error"]["code"] == -32602


def test_resources_are_read(peer: Peer) -> None:
    """A resource comes as JSON text under the address that was asked for, and is the caller's alone."""
    result = peer.ask("resources/read", {"uri": "x:y"})["result"]
    assert result["contents"] == [{"uri": "x:y", "mimeType": "application/json", "text": '{"a":1}'}]
    if is_modern(peer):
        assert (result["ttlMs"], result["cacheScope"]) == (5, "private")


@pytest.mark.parametrize("uri", ["x:z", "", "file:///etc/passwd"])
def test_a_resource_that_there_is_not(peer: Peer, uri: str) -> None:
    """What there is not has the code of the revision, and the address in the error's data."""
    error = peer.ask("resources/read", {"uri": uri})["error"]
    assert error["code"] == (-32602 if is_modern(peer) else -32002)
    assert error["data"] == {"uri": uri}


@pytest.mark.parametrize("params", [{}, {"uri": None}, {"uri": 5}, {"uri": ["x:y"]}])
def test_a_resource_is_named_by_a_text(peer: Peer, params: dict[str, Any]) -> None:
    """Without an address nothing is read, and the client is told."""
    (answer,) = peer.answer("resources/read", params)
    assert isinstance(answer, ErrorResponse)
    assert answer.code == -32602


@pytest.mark.parametrize("count", [0, 2, MAX_COMPLETIONS, MAX_COMPLETIONS + 1])
def test_completions_are_a_hundred_at_most(peer: Peer, count: int) -> None:
    """The best values come, and how many there are in all."""
    peer.toolbox.values = [f"a{place}" for place in range(count)]
    completion = peer.ask("completion/complete", COMPLETING)["result"]["completion"]
    assert completion["values"] == peer.toolbox.values[:MAX_COMPLETIONS]
    assert (completion["total"], completion["hasMore"]) == (count, count > MAX_COMPLETIONS)


@pytest.mark.parametrize(
    "change",
    [
        {"ref": None},
        {"ref": {"type": "ref/prompt"}},
        {"ref": {"type": "ref/resource"}},
        {"ref": {"type": "ref/other", "uri": "x:{y}"}},
        {"argument": None},
        {"argument": {"name": "y"}},
        {"argument": {"name": 5, "value": "a"}},
        {"argument": {"name": "y", "value": None}},
    ],
)
def test_what_cannot_be_completed(peer: Peer, change: dict[str, Any]) -> None:
    """Prompts, which there are none of, and anything of the wrong shape are the client's fault."""
    (answer,) = peer.answer("completion/complete", {**COMPLETING, **change})
    assert isinstance(answer, ErrorResponse)
    assert answer.code == -32602
    peer.toolbox.values = None
    assert peer.ask("completion/complete", COMPLETING)["error"]["code"] == -32602


def test_of_a_prompt_nothing_is_completed(peer: Peer) -> None:
    """There are no prompts, so a client that asks all the same gets no values, and no error."""
    answer = peer.ask("completion/complete", {**COMPLETING, "ref": {"type": "ref/prompt", "name": "p"}})
    assert answer["result"]["completion"] == {"values": [], "total": 0, "hasMore": False}


@pytest.mark.parametrize("level", [*LOG_LEVELS, None, "loud", 5, [], {}])
def test_log_levels(level: Any) -> None:
    """The eight levels are accepted, anything else is the client's fault."""
    (answer,) = Peer("2025-06-18").answer("logging/setLevel", {"level": level})
    assert isinstance(answer, Response if level in LOG_LEVELS else ErrorResponse)


def test_notices_of_changes() -> None:
    """A legacy session is told that its list changed each time that it has, with signs of life between."""
    peer = Peer("2025-11-25", ScriptedToolbox(marks=[KeepAlive.MARK, Changed.MARK, KeepAlive.MARK, Changed.MARK]))
    notices = list(peer.server.notices(Context(peer.session, peer.cancel)))
    told = Notification("notifications/tools/list_changed")
    assert notices == [KeepAlive.MARK, told, KeepAlive.MARK, told]
    spec.check(json.loads(encode(told)), revision=peer.revision, method=None)


LISTENING = {"notifications": {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["x"]}}


def test_a_subscription() -> None:
    """It is acknowledged first with what is told, each message has its id, and the server's end of it is said twice."""
    peer = Peer(spec.MODERN, ScriptedToolbox(marks=[KeepAlive.MARK, Changed.MARK]))
    answer = peer.answer("subscriptions/listen", LISTENING)
    meta = {SUBSCRIPTION_KEY: 7}
    assert answer[0] == Notification(
        "notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": {"toolsListChanged": True}}
    )
    assert answer[1:3] == [KeepAlive.MARK, Notification("notifications/tools/list_changed", {"_meta": meta})]
    assert isinstance(answer[3], Response)
    assert isinstance(answer[3].result, dict)
    assert answer[3].result["_meta"][SUBSCRIPTION_KEY] == 7
    assert answer[4:] == [Notification("notifications/cancelled", {"_meta": meta, "requestId": 7})]
    for message in answer:
        if not isinstance(message, KeepAlive):
            method = "subscriptions/listen" if isinstance(message, Response) else None
            spec.check(json.loads(encode(message)), revision=peer.revision, method=method)


@pytest.mark.parametrize("wanted", [{}, {"toolsListChanged": False}, {"toolsListChanged": 1}, {"other": True}])
def test_only_what_was_asked_for_is_told(wanted: dict[str, Any]) -> None:
    """A subscription to anything else is acknowledged as one to nothing, and stays silent."""
    peer = Peer(spec.MODERN, ScriptedToolbox(marks=[Changed.MARK]))
    first, second, *_ = peer.answer("subscriptions/listen", {"notifications": wanted})
    assert first.params["notifications"] == {}
    assert second is KeepAlive.MARK


@pytest.mark.parametrize("wanted", [None, [], True, "toolsListChanged"])
def test_a_subscription_names_what_it_wants(wanted: Any) -> None:
    """Without a filter that can be read there is none."""
    (answer,) = Peer(spec.MODERN).answer("subscriptions/listen", {"notifications": wanted})
    assert isinstance(answer, ErrorResponse)
    assert answer.code == -32602


def test_a_cancelled_subscription_ends_in_silence() -> None:
    """The client that has ended it is sent nothing more."""
    peer = Peer(spec.MODERN)
    peer.cancel.set()
    assert [type(message) for message in peer.answer("subscriptions/listen", LISTENING)] == [Notification]


def test_where_nothing_is_announced_nobody_listens() -> None:
    """A transport that delivers no notices has no such method."""
    (answer,) = Peer(spec.MODERN, announces=False).answer("subscriptions/listen", LISTENING)
    assert isinstance(answer, ErrorResponse)
    assert answer.code == -32601


STAGES = ScriptedToolbox(steps=[Progress(0.0, "Started"), Progress(1.0, "Queued"), DONE])
SAID = {"debug": ["Started", "Queued", "Finished"], "info": ["Started", "Queued", "Finished"], "notice": []}


@pytest.mark.parametrize("level", SAID)
def test_the_stages_of_a_call_as_log_messages(level: str) -> None:
    """A legacy client that set a level is told of each stage that is of it or graver; one that set none, of nothing."""
    peer = Peer("2025-06-18", ScriptedToolbox(steps=STAGES.steps))
    assert not [step for step in peer.answer("tools/call", {"name": "a"}) if isinstance(step, Notification)]
    peer.answer("logging/setLevel", {"level": level})
    told = [step for step in peer.answer("tools/call", {"name": "a"}) if isinstance(step, Notification)]
    assert [(step.method, step.params["data"]["message"]) for step in told] == [
        ("notifications/message", words) for words in SAID[level]
    ]
    assert peer.toolbox.calls[-1][2].progress
    for step in told:
        spec.check(json.loads(encode(step)), revision=peer.revision, method=None)


def test_a_failed_call_is_an_error_in_the_log() -> None:
    """A client that wants only errors is told of the call that failed."""
    failed = ToolResult({"content": [], "isError": True})
    peer = Peer("2025-11-25", ScriptedToolbox(steps=[Progress(0.0, "Started"), failed]))
    peer.answer("logging/setLevel", {"level": "error"})
    told = [step for step in peer.answer("tools/call", {"name": "a"}) if isinstance(step, Notification)]
    assert [(step.params["level"], step.params["data"]) for step in told] == [
        ("error", {"tool": "a", "message": "Failed"})
    ]


def test_other_notifications_are_taken_in_silence() -> None:
    """A notification that nobody knows changes nothing and raises nothing."""
    peer = Peer("2025-11-25")
    before = (peer.session.revision, peer.session.initialized, peer.session.listed)
    for method in ("notifications/cancelled", "notifications/progress", "no/such", ""):
        peer.server.notice(Notification(method, {"requestId": 1}), peer.session)
    assert (peer.session.revision, peer.session.initialized, peer.session.listed) == before
