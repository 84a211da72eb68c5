"""What becomes of a message between HTTP and the protocol's server: places, cancellation, faults, and the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from colabhive_mcp.errors import BadAnswer, Cancelled
from colabhive_mcp.protocol.messages import decode
from colabhive_mcp.protocol.server import Server
from colabhive_mcp.protocol.toolbox import Caller, Changed, KeepAlive, Listing, Progress, ToolResult
from colabhive_mcp.telemetry.events import Failed, FrameSeen, Warned
from colabhive_mcp.telemetry.logs import Redaction
from colabhive_mcp.transports.endpoint import MOST_IN_BATCH, Endpoint, Limits, Stops, count_requests, name_method
from colabhive_mcp.transports.gate import CALL, LIST, STREAM, Gate, TurnedAway, Work
from colabhive_mcp.transports.intake import Intake
from colabhive_mcp.transports.presence import Roll
from colabhive_mcp.transports.replies import COMMENT, Reply
from colabhive_mcp.transports.tenants import Tenant
from tests.harness.relay import BOTH, build_call

DONE = ToolResult({"content": [{"type": "text", "text": "done"}], "isError": False})
TOLD = {"_meta": {"progressToken": 1}}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CALLED = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", **TOLD}}
BATCHED = {"mcp-protocol-version": "2025-03-26"}


@dataclass
class Tools:
    """A toolbox whose calls take *steps*; a step that can be called is, and may fail."""

    steps: Iterable[Any] = (DONE,)
    resources: Sequence[Any] = ()
    resource_templates: Sequence[Any] = ()

    def list_tools(self, cursor: str | None, caller: Caller) -> Listing:
        """No tools."""
        return Listing(b"[]", None, 0)

    def call_tool(self, name: str, arguments: Any, caller: Caller) -> Iterator[Any]:
        """The steps."""
        yield from self.changes(caller)

    def changes(self, caller: Caller) -> Iterator[Any]:
        """The steps."""
        for step in self.steps:
            yield step() if callable(step) else step

    def header_parameters(self, name: str, caller: Caller) -> Sequence[Any]:
        """One, whatever the tool."""
        return [("Mcp-Param-Text", ("text",))]


@dataclass
class Place:
    """An endpoint with one tenant, all that it recorded, and what tells it to stop."""

    tools: Any = field(default_factory=Tools)
    threads: int = 8
    streams: int = 2
    log_frames: bool = False
    stopping: bool = False
    gone: bool = False

    def __post_init__(self) -> None:
        self.events: list[Any] = []
        self.gate = Gate(self.threads)
        stops = Stops(lambda: self.stopping, lambda: self.stopping)
        limits = Limits(calls=2, streams=self.streams)
        self.endpoint = Endpoint(self.gate, Roll(), limits, stops, log_frames=self.log_frames)
        server = Server(
            self.tools, info={"name": "n", "version": "1"}, instructions="", report=self.events.append, greet=_greet
        )
        self.tenant = Tenant("digest", self.tools, server, self.events.append, Redaction(["hive_secret"]), proven=True)

    def build_intake(self, message: Any, headers: dict[str, str]) -> Intake:
        """A request with *message*, which takes both forms unless *headers* say otherwise."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        given = {"accept": BOTH, **headers}
        return Intake("POST", "/mcp", given, "127.0.0.1", len(body), lambda: body, lambda: self.gone)

    def post(self, message: Any, ending: ExitStack, **headers: str) -> Reply:
        """The reply to *message*; in names of *headers* ``_`` stands for ``-``."""
        intake = self.build_intake(message, {name.replace("_", "-"): value for name, value in headers.items()})
        frame = self.endpoint.read_frame(intake.body(), self.tenant)
        return self.endpoint.post(frame, intake, self.tenant, ending)

    def ask(self, message: Any, **headers: str) -> tuple[int, list[Any]]:
        """The status and the messages of the answer, once all is done."""
        with ExitStack() as ending:
            reply = self.post(message, ending, **headers)
            return reply.status, to_messages(reply)

    def count_free(self, work: Work) -> int:
        """How many places there are for *work* now."""
        with ExitStack() as stack:
            for count in range(100):
                try:
                    stack.callback(self.gate.take(work, "somebody", 100))
                except TurnedAway:
                    return count
        raise AssertionError("there is no end to it")


def _greet(*_: object) -> None:
    """Nobody is greeted here."""


def to_messages(reply: Reply) -> list[Any]:
    """The messages of an answer in either form."""
    if isinstance(reply.body, bytes):
        return [json.loads(reply.body)] if reply.body else []
    return [json.loads(event[6:]) for event in reply.body if event != COMMENT]


def modern(method: str, params: Any = None, **more: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A request of 2026-07-28 and its headers, as they come in."""
    message, headers = build_call(method, params, modern=True)
    return message, {name.lower().replace("_", "-"): str(value) for name, value in headers.items()} | more


def fail(error: Exception) -> Callable[[], Any]:
    """A step that fails."""

    def step() -> Any:
        raise error

    return step


# Places

KINDS: dict[str, tuple[Any, dict[str, str]]] = {
    "ping": (PING, {}),
    "call": (CALLED, {}),
    "no message": (b"{", {}),
    "no form": (PING, {"accept": "text/html"}),
    "notification": ({"jsonrpc": "2.0", "method": "notifications/initialized"}, {}),
    "batch": ([PING, CALLED], BATCHED),
    "batch of notes": ([{"jsonrpc": "2.0", "method": "notifications/initialized"}], BATCHED),
    "batch elsewhere": ([PING], {"mcp-protocol-version": "2025-06-18"}),
    "no version": (PING | {"method": "tools/list"}, {"mcp-protocol-version": "2099-01-01"}),
    "modern": modern("tools/call", {"name": "a", **TOLD}),
    "mismatch": modern("tools/call", {"name": "a", **TOLD}, **{"mcp-name": "b"}),
    "subscription": modern("subscriptions/listen", {"notifications": {}}),
    "events alone": (CALLED, {"accept": "text/event-stream"}),
}
FAULTS: dict[str, Sequence[Any]] = {
    "done": (DONE,),
    "progress": (KeepAlive.MARK, Progress(0, "Started"), DONE),
    "cancelled": (fail(Cancelled("gone")),),
    "broken": (fail(RuntimeError("ours")),),
}


@pytest.mark.parametrize("steps", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_place_is_given_back(kind: str, steps: Sequence[Any]) -> None:
    """However a request ends, read to its end or dropped at its beginning, its place is free again."""
    place = Place(Tools(steps))
    before = [place.count_free(work) for work in (CALL, STREAM, LIST)]
    message, headers = KINDS[kind]
    for read in (to_messages, lambda reply: None):
        with ExitStack() as ending:
            read(place.post(message, ending, **headers))
        assert [place.count_free(work) for work in (CALL, STREAM, LIST)] == before


@pytest.mark.parametrize(
    ("kind", "most", "reason"), [("call", 2, "tenant"), ("batch", 2, "tenant"), ("subscription", 2, "streams")]
)
def test_a_tenant_has_so_many_places(kind: str, most: int, reason: str) -> None:
    """One more is turned away with the reason, and leaves nothing behind."""
    place = Place(Tools((KeepAlive.MARK, Progress(0, "Started"), DONE)))
    message, headers = KINDS[kind]
    with ExitStack() as ending:
        for _ in range(most):
            place.post(message, ending, **headers)
        with pytest.raises(TurnedAway) as caught, ExitStack() as own:
            place.post(message, own, **headers)
        assert (caught.value.status, caught.value.reason) == (429, reason)
        assert place.post(PING, ending).status == 200


def test_without_streams_a_subscription_takes_none() -> None:
    """It is then served as any method that there is not, and not as one too many."""
    place = Place(streams=0)
    message, headers = KINDS["subscription"]
    with ExitStack() as ending:
        place.post(message, ending, **headers)
        assert place.gate.streams == 0


# Faults


def test_a_result_that_is_no_json_is_our_fault() -> None:
    """It becomes an internal error to the same id, and the log says why."""
    place = Place(Tools((ToolResult({"content": [float("nan")]}),)))
    status, [message] = place.ask(CALLED)
    assert (status, message["id"], message["error"]["code"]) == (200, 1, -32603)
    assert [type(event) for event in place.events] == [Failed]


def test_a_fault_of_ours_is_told_to_the_log_alone() -> None:
    """The client learns that it was ours, and none of its words."""
    place = Place(Tools((KeepAlive.MARK, fail(RuntimeError("a secret of ours")))))
    _, [message] = place.ask(CALLED)
    assert message["error"]["code"] == -32603
    assert "secret" not in message["error"]["message"]
    assert str(place.events[0]) == "a secret of ours"


@pytest.mark.parametrize(
    ("headers", "stopping", "expected"),
    [
        ({}, False, (200, [])),
        ({"accept": "application/json"}, False, (400, [-32600])),
        ({}, True, (503, [-32603])),
        ({"accept": "application/json"}, True, (503, [-32603])),
    ],
    ids=["stream", "json", "stopping", "json, stopping"],
)
def test_what_has_no_answer_ends_all_the_same(headers: dict[str, str], stopping: bool, expected: Any) -> None:
    """A cancelled request ends as an empty stream, or as a refusal where JSON alone is taken; a stop is said."""
    place = Place(Tools((fail(Cancelled("gone")),)), stopping=stopping)
    status, messages = place.ask(CALLED, **headers)
    assert (status, [message["error"]["code"] for message in messages]) == expected


def test_nothing_is_written_for_who_has_gone() -> None:
    """A client that left while its result was made gets none."""
    place = Place()

    def leave() -> KeepAlive:
        place.gone = True
        return KeepAlive.MARK

    place.tools.steps = (leave, DONE)
    assert place.ask(CALLED)[1] == []


@pytest.mark.parametrize(("named", "left"), [(1, 0), ("1", 1), (True, 1), (1.0, 1), (None, 1), ([], 1)])
def test_a_call_is_taken_back_by_its_id(named: Any, left: int) -> None:
    """A cancellation by the client's own id, of its JSON type, ends the call without a response; no other does."""
    place = Place()
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": named}}

    def cancel() -> KeepAlive:
        assert place.ask(note) == (202, [])
        return KeepAlive.MARK

    place.tools.steps = (cancel, DONE)
    assert len(place.ask(CALLED)[1]) == left


def test_nobody_knows_which_of_two_is_meant() -> None:
    """Where two requests of a client have one id neither of them is cancelled."""
    place = Place()
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    answers: list[Any] = []

    def ask_twice() -> KeepAlive:
        place.tools.steps = (lambda: place.ask(note) and KeepAlive.MARK, DONE)
        answers.append(place.ask(CALLED))
        return KeepAlive.MARK

    place.tools.steps = (ask_twice, DONE)
    answers.append(place.ask(CALLED))
    assert [len(messages) for _, messages in answers] == [1, 1]


@pytest.mark.parametrize("kind", ["call", "batch", "modern"])
def test_an_answer_that_cannot_be_sent_ends_its_call(kind: str) -> None:
    """What the server closes half way is not worked on any more, whoever still holds it."""
    ended: list[str] = []

    class Working(Tools):
        def call_tool(self, name: str, arguments: Any, caller: Caller) -> Iterator[Any]:
            """A call that tells of its end."""
            try:
                yield Progress(0, "Started")
                yield DONE
            finally:
                ended.append(name)

    place = Place(Working())
    message, headers = KINDS[kind]
    with ExitStack() as ending:
        held = place.post(message, ending, **headers)
        assert not isinstance(held.body, bytes)
        assert ended == []
    assert ended == ["a"]


@pytest.mark.parametrize(
    ("accept", "lives"), [(BOTH, True), ("*/*", True), ("text/event-stream", True), ("application/json", False)]
)
def test_signs_of_life_are_wanted_where_a_stream_can_have_them(accept: str, lives: bool) -> None:
    """A call without a token is waited for in turns that are short enough for a stream's signs of life."""
    wanted: list[bool] = []

    class Asked(Tools):
        def call_tool(self, name: str, arguments: Any, caller: Caller) -> Iterator[Any]:
            """Whether somebody wants to be told."""
            wanted.append(caller.progress)
            yield DONE

    Place(Asked()).ask({**CALLED, "params": {"name": "a"}}, accept=accept)
    assert wanted == [lives]


@pytest.mark.parametrize(("size", "status"), [(MOST_IN_BATCH, 200), (MOST_IN_BATCH + 1, 400)])
def test_a_batch_has_a_limit(size: int, status: int) -> None:
    """Its answers are kept until the last one is there, so there are not any number of them."""
    assert Place().ask([PING] * size, **BATCHED)[0] == status


# Headers and streams


@pytest.mark.parametrize(
    ("headers", "code"), [({"mcp-param-text": "x"}, None), ({}, -32020), ({"mcp-param-text": "y"}, -32020)]
)
def test_arguments_are_held_against_headers_in_the_modern_era(headers: dict[str, str], code: int | None) -> None:
    """Those that a tool has clients repeat have to be repeated; the legacy era knows nothing of it."""
    params = {"name": "a", "arguments": {"text": "x"}}
    message, given = modern("tools/call", params, **headers)
    status, [answer] = Place().ask(message, **given)
    assert (status, answer.get("error", {}).get("code")) == (400 if code else 200, code)
    assert "result" in Place().ask({**CALLED, "params": params}, **headers)[1][0]


def open_stream(place: Place, **headers: str) -> list[Any]:
    """What the legacy stream says until it ends."""
    with ExitStack() as ending:
        return to_messages(place.endpoint.listen(place.build_intake(b"", headers), place.tenant, ending))


def test_a_stream_tells_of_changes() -> None:
    """Each change is one notice without params; signs of life are none."""
    place = Place(Tools((KeepAlive.MARK, Changed.MARK, KeepAlive.MARK, Changed.MARK)))
    assert open_stream(place) == [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}] * 2


@pytest.mark.parametrize(("error", "kind"), [(BadAnswer("No manifest"), Warned), (RuntimeError("ours"), Failed)])
def test_a_stream_that_breaks_ends(error: Exception, kind: type) -> None:
    """Where changes cannot be watched for the stream ends, and the log says why."""
    place = Place(Tools((Changed.MARK, fail(error))))
    assert len(open_stream(place)) == 1
    assert [type(event) for event in place.events] == [kind]


# The log


def test_frames_are_logged_without_keys() -> None:
    """Where that is asked for each frame is logged in both directions, and no key in it."""
    place = Place(Tools((ToolResult({"content": [{"type": "text", "text": "hive_secret"}]}),)), log_frames=True)
    place.ask({**CALLED, "params": {"name": "hive_secret"}})
    seen = [event for event in place.events if isinstance(event, FrameSeen)]
    assert [event.direction for event in seen] == ["in", "out"]
    assert not any("hive_secret" in str(event) for event in seen)


@pytest.mark.parametrize(
    ("body", "name", "count"),
    [
        (PING, "ping", 1),
        ({"jsonrpc": "2.0", "method": "notifications/x"}, "notifications/x", 0),
        ({"jsonrpc": "2.0", "id": 1, "method": "x" * 200}, "x" * 80, 1),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, "answered", 0),
        (7, "malformed", 0),
        ([PING, PING, 7, {"jsonrpc": "2.0", "method": "n"}], "batch", 2),
    ],
)
def test_a_frame_has_a_name_and_a_weight(body: Any, name: str, count: int) -> None:
    """A log calls it by its method, a limit counts the requests in it."""
    frame = decode(json.dumps(body).encode())
    assert (name_method(frame), count_requests(frame)) == (name, count)
