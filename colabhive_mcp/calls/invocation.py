"""One invocation from its start to its outcome, as an iterator of progress: invoke, poll, wait, give up, be cancelled.

It owns the order and the time of things. What is asked of the gateway goes through the Jobs interface; the wait is the
caller's cancel token. An operation, which cannot be polled, waits for its one answer on a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Protocol

from colabhive_mcp.errors import BadAnswer, Cancelled, GatewayError, GatewayUnreachable
from colabhive_mcp.protocol.toolbox import Cancel, KeepAlive, Progress

FIRST_INTERVAL = 0.1
GROWTH = 1.5
SYNC_WITH_PROGRESS = 10.0  # a wait inside the gateway is silent, and progress is due every 15 s
PATIENCE = 5.0  # the longest wait for a retry that the gateway's client may do in silence
PROGRESS_EVERY = 3.0  # with a pause and the longest poll behind it, still within the 15 s
LOOK = 0.25  # how often somebody who waits for an operation looks whether the caller still does
PAUSE = 2.0  # at a time, however long the wait, so that there is a sign of life between
PASSING = {429, 500, 502, 503, 504}

SUCCEEDED = {"succeeded", "completed"}
FAILED = {"failed", "cancelled", "timeout", "expired"}

_STATES = {
    "queued": "Queued",
    "pending": "Queued",
    "running": "Running",
    "starting": "Starting",
}
_MODEL_STATES = {"cold": "the model is cold and has to be loaded", "cached": "the model is being loaded from cache"}


class Jobs(Protocol):
    """The two calls of the gateway that a job needs; *deadline* is a time on the job's clock."""

    def invoke(
        self,
        slug: str,
        arguments: Mapping[str, Any],
        *,
        sync_timeout: float,
        idempotency_key: str,
        cancel: Cancel,
        deadline: float,
    ) -> dict[str, Any]:
        """Start the job, or find it again by its key."""
        ...

    def fetch_invocation(self, invocation_id: str, *, cancel: Cancel, deadline: float) -> dict[str, Any]:
        """How the job is."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """In seconds: the wait asked of the gateway, the longest pause between polls, and the longest wait of all."""

    sync_timeout: float
    poll_interval: float
    poll_max_wait: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended.

    *status* is the gateway's last word, ``gave_up`` where ours came first. *sync* is true where the first answer was
    the last. *offset* is the byte from which the result is wanted, None for the beginning.
    """

    status: str
    invocation_id: str | None
    result: Any = None
    error: str | None = None
    sync: bool = True
    offset: int | None = None

    @property
    def succeeded(self) -> bool:
        """Whether there is a result."""
        return self.status in SUCCEEDED


Steps = Iterator[Progress | KeepAlive | Outcome]
_Waiting = Generator[Progress | KeepAlive, None, dict[str, Any]]


class Invocation:
    """One call. Iterate ``run`` or ``resume``: progress, then one Outcome; ``perform`` is for what is no job.

    Once *stopping* says so, the job is left at the gateway as if its time were up.
    All raise Cancelled, and GatewayError where the gateway refused. With *progress* the first step comes at once,
    and one at least every 15 s.
    """

    def __init__(
        self,
        jobs: Jobs,
        limits: Limits,
        *,
        cancel: Cancel,
        clock: Callable[[], float],
        progress: bool,
        stopping: Callable[[], bool],
    ) -> None:
        self._jobs = jobs
        self._limits = limits
        self._cancel = cancel
        self._clock = clock
        self._progress = progress
        self._stopping = stopping
        self._started = clock()
        self._deadline = self._started + limits.poll_max_wait
        self._refusal: str | None = None  # why the gateway would not say how the job is, when time ran out
        self._said = ""
        self._said_at = float("-inf")
        self._last = -1.0

    def run(self, slug: str, arguments: Mapping[str, Any], *, idempotency_key: str) -> Steps:
        """Start *slug* and follow it to its end. A repeat carries the same key, so that no work is started twice."""
        yield from self._report("Started")
        sync_timeout = min(self._limits.sync_timeout, self._limits.poll_max_wait)
        if self._progress:
            sync_timeout = min(sync_timeout, SYNC_WITH_PROGRESS)

        def invoke() -> dict[str, Any]:
            return self._jobs.invoke(
                slug,
                arguments,
                sync_timeout=sync_timeout,
                idempotency_key=idempotency_key,
                cancel=self._cancel,
                deadline=min(self._deadline, self._clock() + sync_timeout + PATIENCE),
            )

        answer = yield from self._insist(invoke)
        if _is_done(answer):
            yield _to_outcome(answer, sync=True)
            return
        yield from self._follow(answer)

    def resume(self, invocation_id: str) -> Steps:
        """Follow a job that was started before."""
        yield from self._report("Looking the invocation up")
        answer = yield from self._insist(lambda: self._poll(invocation_id))
        if _is_done(answer):
            yield _to_outcome({**answer, "invocation_id": invocation_id}, sync=True)
            return
        yield from self._follow({**answer, "invocation_id": invocation_id})

    def perform(self, work: Callable[[], Any]) -> Generator[Progress | KeepAlive, None, Any]:
        """What *work* answers, which blocks until then; once the caller has cancelled, nobody waits for it any more."""
        yield from self._report("Started")
        answer: Future[Any] = Future()
        settled = Event()
        answer.add_done_callback(lambda _: settled.set())
        Thread(target=_settle, args=(answer, work), name="operation", daemon=True).start()
        while not settled.wait(LOOK):
            yield from self._report("Running")
        return answer.result()

    def _follow(self, answer: dict[str, Any]) -> Steps:
        """Poll until done, the pauses growing by half from 0.1 s."""
        invocation_id = answer.get("invocation_id")
        if not isinstance(invocation_id, str) or not invocation_id:
            raise BadAnswer("The gateway accepted the call without an invocation_id, so its result can't be fetched")
        interval = FIRST_INTERVAL
        model_state = answer.get("model_state")
        while not _is_done(answer):
            words = _say_state(answer, model_state)
            if self._is_over():
                yield Outcome("gave_up", invocation_id, error=self._refusal, sync=False)
                return
            yield from self._rest(interval, words)
            interval = min(interval * GROWTH, self._limits.poll_interval)
            answer = yield from self._watch(invocation_id, answer)
        yield _to_outcome({**answer, "invocation_id": invocation_id}, sync=False)

    def _watch(self, invocation_id: str, known: dict[str, Any]) -> _Waiting:
        """One poll. A passing fault is no news: the job goes on, and so does the wait, where it can end in time."""
        try:
            return self._poll(invocation_id)
        except GatewayError as error:
            if not _is_passing(error):
                raise _name_job(error, invocation_id) from error
            ordered = error.retry_after or 0.0
            if self._clock() + ordered >= self._deadline:
                self._deadline, self._refusal = self._clock(), error.message
            yield from self._rest(ordered, _say_wait(error))
            return known

    def _insist(self, call: Callable[[], dict[str, Any]]) -> _Waiting:
        """*call*'s answer, asked for again after each wait that the gateway orders and that fits the time left."""
        while True:
            try:
                return call()
            except GatewayError as error:
                if error.retry_after is None or self._clock() + error.retry_after >= self._deadline:
                    raise
                yield from self._rest(max(error.retry_after, FIRST_INTERVAL), _say_wait(error))

    def _rest(self, seconds: float, words: str) -> Iterator[Progress | KeepAlive]:
        """Wait within the deadline, telling why."""
        until = min(self._clock() + seconds, self._deadline)
        while (left := until - self._clock()) > 0 and not self._stopping():
            yield from self._report(words)
            self._pause(min(left, PAUSE))

    def _is_over(self) -> bool:
        """Whether nobody can wait any longer: the time is up, or the server is about to end."""
        return self._clock() >= self._deadline or self._stopping()

    def _poll(self, invocation_id: str) -> dict[str, Any]:
        deadline = self._clock() + max(PATIENCE, min(self._limits.sync_timeout, SYNC_WITH_PROGRESS))
        return self._jobs.fetch_invocation(invocation_id, cancel=self._cancel, deadline=deadline)

    def _pause(self, seconds: float) -> None:
        if self._cancel.wait(seconds):
            raise Cancelled("cancelled by the client")

    def _report(self, words: str) -> Iterator[Progress | KeepAlive]:
        """Progress where there is news or some time has passed, else a sign of life; the number only ever rises."""
        if self._cancel.is_set():
            raise Cancelled("cancelled by the client")
        now = self._clock()
        if not self._progress or (words == self._said and now - self._said_at < PROGRESS_EVERY):
            yield KeepAlive.MARK
            return
        waited = now - self._started
        self._last = max(round(waited, 1), round(self._last + 0.001, 3)) if self._last >= 0 else 0.0
        self._said, self._said_at = words, now
        yield Progress(self._last, f"{words}; {waited:.0f} s" if waited >= 1 else words)


def _settle(answer: Future[Any], work: Callable[[], Any]) -> None:
    try:
        answer.set_result(work())
    except BaseException as error:  # whatever it is, it is the waiting thread's to tell
        answer.set_exception(error)


def _is_done(answer: Mapping[str, Any]) -> bool:
    """An unknown status is taken for running: the deadline ends it."""
    status = answer.get("status")
    return isinstance(status, str) and status in SUCCEEDED | FAILED


def _is_passing(error: GatewayError) -> bool:
    return isinstance(error, GatewayUnreachable) or error.status in PASSING


def _name_job(error: GatewayError, invocation_id: str) -> GatewayError:
    """*error* with the job that it was met at, which goes on and can be looked up again."""
    words = f"{error.message} (The gateway was asked about invocation {invocation_id}.)"
    return type(error)(words, status=error.status, retry_after=error.retry_after, code=error.code)


def _say_wait(error: GatewayError) -> str:
    return f"The gateway asks to wait (status {error.status})" if error.status else "The gateway cannot be reached"


def _say_state(answer: Mapping[str, Any], model_state: Any) -> str:
    """State, model state and the gateway's own detail in plain words."""
    status = _say_words(answer.get("status")) or "running"
    parts = [_STATES.get(status, status[:1].upper() + status[1:])]
    if status != "running":
        parts.append(_MODEL_STATES.get(_say_words(answer.get("model_state")) or _say_words(model_state), ""))
    parts.append(_say_words(answer.get("status_detail")))
    return "; ".join(filter(None, parts))


def _say_words(value: Any) -> str:
    """The gateway's own words, as far as a progress bar can show them; empty where it said none."""
    return value.strip()[:200] if isinstance(value, str) else ""


def _to_outcome(answer: Mapping[str, Any], *, sync: bool) -> Outcome:
    status, invocation_id = answer["status"], answer.get("invocation_id")
    return Outcome(
        status,
        invocation_id if isinstance(invocation_id, str) else None,
        answer.get("result"),
        _say_error(answer.get("error")),
        sync,
    )


def _say_error(error: Any) -> str | None:
    """The gateway's error, a text or a code with a message, as one sentence."""
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return None
    code, message = error.get("code"), error.get("message")
    return ": ".join(str(part) for part in (code, message) if part) or None
