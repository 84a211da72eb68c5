"""The MCP endpoint: what is posted to it, by whichever era, and the stream that is got from it.

Each request finds its era, its limits and its cancellation here; its answer is the protocol server's. No session is
kept: an id of one that a client brings is ignored, and none is handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any, NamedTuple

from colabhive_mcp.errors import INVALID_REQUEST, METHOD_NOT_FOUND, BridgeError, ClientError
from colabhive_mcp.protocol.eras import VERSION_KEY, identify, is_modern, read_meta
from colabhive_mcp.protocol.messages import (
    Batch,
    ErrorResponse,
    Frame,
    Incoming,
    Malformed,
    Notification,
    Request,
    decode,
    encode,
    to_error,
)
from colabhive_mcp.protocol.revisions import REVISIONS, SUPPORTED, Revision
from colabhive_mcp.protocol.toolbox import Caller, Context, KeepAlive, Session
from colabhive_mcp.telemetry.events import Failed, FrameSeen, Warned
from colabhive_mcp.transports.frames import encode_answer
from colabhive_mcp.transports.gate import CALL, LIST, STREAM, Gate, Work
from colabhive_mcp.transports.headers import check_headers, check_version
from colabhive_mcp.transports.intake import Intake
from colabhive_mcp.transports.presence import Presence, Roll
from colabhive_mcp.transports.replies import (
    EVENTS,
    JSON,
    Accepted,
    Reply,
    build_empty,
    build_error,
    build_json,
    build_refusal,
    build_stream,
    read_accepted,
)
from colabhive_mcp.transports.streams import Piece, Step, find_last, find_start, to_piece, write_events
from colabhive_mcp.transports.tenants import Tenant

ASSUMED = REVISIONS["2025-03-26"]  # of a request without the header, which came with the revision after it
LISTEN = "subscriptions/listen"
MOST_IN_BATCH = 50  # messages, whose answers are kept until the last one is there
_WORK = {"tools/call": CALL, LISTEN: STREAM}
_STATUS = {METHOD_NOT_FOUND: 404}  # of a modern answer that is an error of its own method


class Limits(NamedTuple):
    """How much of each kind of work one tenant may have at once."""

    calls: int
    streams: int

    def find_most(self, work: Work) -> int:
        """How much of *work*."""
        return self.streams if work is STREAM else self.calls


class Sender(NamedTuple):
    """Who sent a message, and the request that brought it."""

    intake: Intake
    tenant: Tenant

    def find_place(self, request_id: Any) -> tuple[Any, ...]:
        """Where a request is on the roll: by its id, and by what tells two clients with the same key apart.

        Ids of different JSON types are different ids.
        """
        client = (self.intake.peer, self.intake.headers.get("user-agent", ""))
        return self.tenant.digest, client, type(request_id).__name__, request_id


class Stops(NamedTuple):
    """Whether streams have to end (*streams*), and whether calls can wait no longer (*calls*)."""

    streams: Callable[[], bool]
    calls: Callable[[], bool]


class Endpoint:
    """Serves what tenants send, on the places that the *gate* has; what is being answered is on the *roll*.

    *stops* tell that the server is about to end.
    """

    def __init__(self, gate: Gate, roll: Roll, limits: Limits, stops: Stops, *, log_frames: bool = False) -> None:
        self._gate = gate
        self._roll = roll
        self._limits = limits
        self._stops = stops
        self._log_frames = log_frames

    def post(self, frame: Frame, intake: Intake, tenant: Tenant, ending: ExitStack) -> Reply:
        """The reply to one message or batch; *ending* is closed when the reply has been sent, or cannot be.

        Raises TurnedAway where there is no place for it.
        """
        sender = Sender(intake, tenant)
        match frame:
            case Batch():
                return self._post_batch(frame, sender, ending)
            case Request():
                return self._post_request(frame, sender, ending)
            case Malformed(error):
                return build_error(400, error)
            case Notification():
                self._notice(frame, sender)
        return build_empty(202)

    def listen(self, intake: Intake, tenant: Tenant, ending: ExitStack) -> Reply:
        """The legacy stream of what clients are told unasked. Raises TurnedAway where there is no place for it."""
        ending.callback(self._gate.take(STREAM, tenant.digest, self._limits.streams))
        session = Session(_find_revision(intake) or ASSUMED, initialized=True)
        context = Context(session, Presence(intake.is_gone), self._stops.streams)
        return build_stream(write_events(self._watch(context, tenant)))

    def _watch(self, context: Context, tenant: Tenant) -> Iterator[Step]:
        try:
            for notice in tenant.server.notices(context):
                yield notice if isinstance(notice, KeepAlive) else Piece(self._show(encode(notice), tenant))
        except BridgeError as error:
            tenant.record(Warned(f"The tools are not watched for changes: {error.message}"))
        except Exception as error:  # the stream ends; calls and lists say for themselves what is wrong
            tenant.record(Failed(f"The tools are not watched for changes: {error}"))

    def _post_request(self, request: Request, sender: Sender, ending: ExitStack) -> Reply:
        accepted = read_accepted(sender.intake.headers)
        fault = _find_form_fault(accepted, request.method)
        if fault is not None:
            return build_refusal(406, fault, request_id=request.id)
        work = self._find_work(request.method, sender.tenant)
        ending.callback(self._gate.take(work, sender.tenant.digest, self._limits.find_most(work)))
        presence = Presence(sender.intake.is_gone)
        try:
            caller = self._identify(request, sender, presence)
        except ClientError as error:
            return build_error(400, to_error(request.id, error))
        steps = self._answer(request, caller, sender, presence)
        ending.callback(steps.close)
        return self._to_reply(steps, accepted, modern=caller.revision.modern)

    def _find_work(self, method: str, tenant: Tenant) -> Work:
        """What *method* is to the gate. Without streams a subscription is a method that there is not.

        While the key is not proven, anything may wait for the gateway as a call does.
        """
        work = _WORK.get(method, LIST if tenant.proven else CALL)
        return work if self._limits.streams or work is not STREAM else LIST

    def _post_batch(self, batch: Batch, sender: Sender, ending: ExitStack) -> Reply:
        """A batch is served in the revision that has them, one message after the other, as one array."""
        revision = _find_revision(sender.intake)
        if revision is None or not revision.batches:
            return build_refusal(400, "Invalid request: batches are not part of this revision")
        if len(batch.messages) > MOST_IN_BATCH:
            return build_refusal(400, f"Invalid request: a batch holds at most {MOST_IN_BATCH} messages here")
        accepted = read_accepted(sender.intake.headers)
        fault = _find_form_fault(accepted)
        if fault is not None:
            return build_refusal(406, fault)
        calls = any(isinstance(message, Request) and message.method == "tools/call" for message in batch.messages)
        work = CALL if calls or not sender.tenant.proven else LIST
        ending.callback(self._gate.take(work, sender.tenant.digest, self._limits.calls))
        if not any(isinstance(message, Request | Malformed) for message in batch.messages):
            for message in batch.messages:
                self._notice(message, sender)
            return build_empty(202)
        steps = self._answer_batch(batch, sender)
        ending.callback(steps.close)
        return self._to_reply(steps, accepted, modern=False)

    def _to_reply(self, steps: Iterator[Step], accepted: Accepted, *, modern: bool) -> Reply:
        """JSON where the answer is there soon or nothing else is taken, else a stream."""
        if not accepted.json:
            return build_stream(write_events(steps))
        first = find_start(steps)
        if accepted.events and first is not None and not (isinstance(first, Piece) and first.last):
            return build_stream(write_events(chain((first,), steps)))
        last = find_last(first, steps)
        if last is None:
            return self._say_ended(accepted)
        status = _STATUS.get(last.error.code, 200) if last.error is not None and modern else 200
        return build_json(last.data, status=status, zipped=accepted.gzip)

    def _say_ended(self, accepted: Accepted) -> Reply:
        """There is no answer: the client has taken its request back, or the server could not wait for it."""
        if self._stops.calls():
            return build_refusal(503, "The server has stopped before the request was answered.")
        if accepted.events:
            return build_stream(write_events(iter(())))
        return build_refusal(400, "The request was cancelled.")

    def _identify(self, request: Request, sender: Sender, presence: Presence) -> Caller:
        """Who asks. Raises ClientError where the request, or its headers, are not as its era wants them."""
        intake, tenant = sender
        revision, version = _find_revision(intake), read_meta(request).get(VERSION_KEY)
        if is_modern(request) and isinstance(version, str):
            check_version(intake.headers, version)  # before it is asked whether there is such a version
        if revision is None and request.method != "initialize" and version is None:
            raise ClientError(_say_unsupported(intake), code=INVALID_REQUEST, data={"supported": list(SUPPORTED)})
        known = None if revision is None or revision.modern else revision
        session = Session(known, initialized=True, verbosity=tenant.verbosity)
        stopping = self._stops.streams if request.method == LISTEN else self._stops.calls
        caller = identify(request, Context(session, presence, stopping, intake.trace))
        if caller.revision.modern:
            name = str(request.params.get("name"))
            check_headers(
                intake.headers,
                request,
                caller.revision.name,
                lambda: tenant.bridge.header_parameters(name, caller),
            )
        return caller

    def _answer(
        self, request: Request, caller: Caller, sender: Sender, presence: Presence
    ) -> Generator[Step, None, None]:
        """What the server answers, as bytes, for as long as anybody wants it."""
        intake, tenant = sender
        with self._roll.enter(sender.find_place(request.id), presence):
            for message in tenant.server.respond(request, _expect_life(caller, request, intake)):
                if isinstance(message, KeepAlive):
                    yield message
                    continue
                sent, data = encode_answer(message, request.id, tenant.record)
                if presence.is_set():
                    return
                yield to_piece(sent, self._show(data, tenant))

    def _answer_batch(self, batch: Batch, sender: Sender) -> Generator[Step, None, None]:
        responses: list[bytes] = []
        for message in batch.messages:
            for step in self._answer_member(message, sender):
                if isinstance(step, Piece) and step.last:
                    responses.append(step.data)
                else:
                    yield step
        if responses:
            yield Piece(b"[" + b",".join(responses) + b"]", last=True)

    def _answer_member(self, message: Incoming, sender: Sender) -> Iterator[Step]:
        """What one message of a batch is answered."""
        match message:
            case Request(request_id, "initialize"):
                words = "Invalid request: initialize must not be part of a batch"
                yield _to_last(ErrorResponse(request_id, INVALID_REQUEST, words))
            case Request(request_id):
                presence = Presence(sender.intake.is_gone)
                try:
                    caller = self._identify(message, sender, presence)
                except ClientError as error:
                    yield _to_last(to_error(request_id, error))
                else:
                    yield from self._answer(message, caller, sender, presence)
            case Malformed(error):
                yield _to_last(error)
            case _:
                self._notice(message, sender)

    def _notice(self, message: Incoming, sender: Sender) -> None:
        """Take note of what wants no answer; a request that is to be cancelled is one of this very client."""
        if isinstance(message, Notification) and message.method == "notifications/cancelled":
            self._roll.recall(sender.find_place(message.params.get("requestId")))

    def _show(self, data: bytes, tenant: Tenant) -> bytes:
        if self._log_frames:
            tenant.record(FrameSeen("out", tenant.redact(data.decode("utf-8", "replace"))))
        return data

    def read_frame(self, body: bytes, tenant: Tenant) -> Frame:
        """The message in a body."""
        if self._log_frames:
            tenant.record(FrameSeen("in", tenant.redact(body.decode("utf-8", "replace"))))
        return decode(body)


def _find_revision(intake: Intake) -> Revision | None:
    """The revision that the header names, or that its absence stands for; None for one that there is not."""
    version = intake.headers.get("mcp-protocol-version")
    return ASSUMED if version is None else REVISIONS.get(version.strip())


def _expect_life(caller: Caller, request: Request, intake: Intake) -> Caller:
    """*caller*, to whom a call's signs of life are sent, with a token or without, where its answer may be a stream."""
    if request.method != "tools/call" or not read_accepted(intake.headers).events:
        return caller
    return caller._replace(progress=True)


def _find_form_fault(accepted: Accepted, method: str | None = None) -> str | None:
    """Why *method* cannot be answered in a form that the client takes; None where it can."""
    if method == LISTEN and not accepted.events:
        return f"{LISTEN} is answered as {EVENTS} only: accept that"
    if not accepted.json and not accepted.events:
        return f"Messages are answered as {JSON} or {EVENTS}: accept both"
    return None


def _say_unsupported(intake: Intake) -> str:
    version = intake.headers.get("mcp-protocol-version", "")
    return f"Invalid request: MCP-Protocol-Version {version[:40]!r} is none of {', '.join(SUPPORTED)}"


def _to_last(error: ErrorResponse) -> Piece:
    return to_piece(error, encode(error))


def name_method(frame: Frame) -> str:
    """What a log calls a frame by."""
    return frame.method[:80] if isinstance(frame, Request | Notification) else type(frame).__name__.lower()


def count_requests(frame: Frame) -> int:
    """How many requests a frame holds, for a limit on them."""
    messages = frame.messages if isinstance(frame, Batch) else (frame,)
    return sum(isinstance(message, Request) for message in messages)
