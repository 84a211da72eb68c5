"""One invocation over its time: progress, polling, giving up, faults on the way, cancelling."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Event
from time import monotonic
from typing import Any

import pytest

from colabhive_mcp.calls.invocation import (
    FAILED,
    FIRST_INTERVAL,
    GROWTH,
    SUCCEEDED,
    Invocation,
    Limits,
    Outcome,
)
from colabhive_mcp.errors import BadAnswer, Cancelled, GatewayError, GatewayUnreachable, KeyRefused
from colabhive_mcp.protocol.toolbox import KeepAlive, Progress

ID = "inv-1"


class Time(Event):
    """A clock, and a cancel token on it: waiting moves the clock, and cancels where the time has come."""

    def __init__(self, *, cancelled_at: float = float("inf")) -> None:
        super().__init__()
        self.now = 1000.0
        self.begun = self.now
        self.cancelled_at = self.now + cancelled_at
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    @property
    def passed(self) -> float:
        """Seconds since the beginning."""
        return round(self.now - self.begun, 6)

    def pass_by(self, seconds: float) -> None:
        """Let the time go by."""
        self.now += seconds
        if self.now >= self.cancelled_at:
            self.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait on the clock."""
        assert timeout is not None
        assert timeout > 0, "a wait of no time is a busy loop"
        self.waits.append(timeout)
        self.pass_by(timeout)
        return self.is_set()


Step = Any  # an answer, an error to raise, or what makes one of the time passed


@dataclass
class Jobs:
    """A gateway that answers by a script; the last step is repeated. Each question takes *takes* seconds."""

    time: Time
    invoked: Step = field(default_factory=lambda: {"invocation_id": ID, "status": "queued"})
    polled: list[Step] = field(default_factory=lambda: [{"invocation_id": ID, "status": "running"}])
    takes: float = 0.0
    questions: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)

    def invoke(self, slug: str, arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The start of the job."""
        step = self.invoked.pop(0) if isinstance(self.invoked, list) else self.invoked
        return self._answer(step, "invoke", {"slug": slug, "arguments": arguments, **more})

    def fetch_invocation(self, invocation_id: str, **more: Any) -> dict[str, Any]:
        """One poll."""
        step = self.polled.pop(0) if len(self.polled) > 1 else self.polled[0]
        return self._answer(step, "poll", {"invocation_id": invocation_id, **more})

    def _answer(self, step: Step, what: str, asked: dict[str, Any]) -> dict[str, Any]:
        self.questions.append((self.time.passed, what, asked))
        self.time.pass_by(self.takes)
        if isinstance(step, Exception):
            raise step
        answer: dict[str, Any] = step(self.time.passed) if callable(step) else step
        return answer

    def times(self, what: str) -> list[float]:
        """When that was asked."""
        return [passed for passed, each, _ in self.questions if each == what]


def ends_at(seconds: float, **more: Any) -> Callable[[float], dict[str, Any]]:
    """A job that is running until then."""
    return lambda passed: {
        "invocation_id": ID,
        **({"status": "succeeded", "result": "r"} if passed >= seconds else {"status": "running", **more}),
    }


def begin(
    jobs: Jobs,
    *,
    progress: bool = False,
    sync_timeout: float = 30,
    interval: float = 2,
    longest: float = 300,
    stops_at: float = float("inf"),
) -> Invocation:
    """An invocation over *jobs*, on a server that is about to end *stops_at* seconds after its start."""
    limits = Limits(sync_timeout, interval, longest)
    return Invocation(
        jobs,
        limits,
        cancel=jobs.time,
        clock=jobs.time,
        progress=progress,
        stopping=lambda: jobs.time.passed >= stops_at,
    )


def run(jobs: Jobs, **options: Any) -> list[tuple[float, Any]]:
    """Every step with the time at which it came."""
    steps = begin(jobs, **options).run("tool", {"a": 1}, idempotency_key="key")
    return [(jobs.time.passed, step) for step in steps]


def test_an_operation_tells_that_it_goes_on() -> None:
    """While one answer is waited for, progress comes at once and goes on to rise; then the answer is given back."""
    jobs, done = Jobs(Time()), Event()
    steps = begin(jobs, progress=True).perform(lambda: done.wait(10))
    seen = []
    while len(seen) < 4:
        seen.append(next(steps))
        jobs.time.pass_by(5)
    done.set()
    answers: list[Any] = []

    def finish() -> Iterator[Any]:
        answers.append((yield from steps))

    seen += finish()
    assert answers == [True]
    told = [step for step in seen if isinstance(step, Progress)]
    assert told[0] == Progress(0.0, "Started")
    assert all(low.progress < high.progress for low, high in pairwise(told))
    assert told[1].message.startswith("Running; ")


@pytest.mark.parametrize("error", [GatewayError("no"), ValueError("x")])
def test_what_an_operation_raises_is_raised(error: Exception) -> None:
    """A failure on the operation's thread is that of the call."""
    with pytest.raises(type(error), match=str(error)):
        list(begin(Jobs(Time())).perform(lambda: throw(error)))


def throw(error: Exception) -> None:
    """Raise it."""
    raise error


def test_a_cancelled_operation_is_not_waited_for() -> None:
    """Once the caller has cancelled, the wait ends, though the answer is still out."""
    jobs, done = Jobs(Time()), Event()
    steps = begin(jobs).perform(lambda: done.wait(10))
    next(steps)
    jobs.time.set()
    with pytest.raises(Cancelled):
        list(steps)
    done.set()


def end(jobs: Jobs, **options: Any) -> Outcome:
    """How it ends."""
    outcome = run(jobs, **options)[-1][1]
    assert isinstance(outcome, Outcome)
    return outcome


def progress_of(steps: list[tuple[float, Any]]) -> list[tuple[float, Progress]]:
    """The progress among the steps."""
    return [(passed, step) for passed, step in steps if isinstance(step, Progress)]


# The first answer


@pytest.mark.parametrize("status", sorted(SUCCEEDED | FAILED))
def test_done_at_once(status: str) -> None:
    """Where the first answer is the last it is the outcome, marked as such, and nothing is polled."""
    jobs = Jobs(Time(), {"invocation_id": ID, "status": status, "result": [1], "error": "e"})
    outcome = end(jobs)
    assert outcome == Outcome(status, ID, [1], "e", sync=True)
    assert outcome.succeeded is (status in SUCCEEDED)
    assert jobs.times("poll") == []


@pytest.mark.parametrize("result", [None, 0, "", [], {}, False, "text", {"a": 1}])
def test_any_result_is_the_result(result: Any) -> None:
    """A result may be any JSON value, null included."""
    assert end(Jobs(Time(), {"invocation_id": ID, "status": "succeeded", "result": result})).result == result


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("text", "text"),
        ({"code": "E1", "message": "words"}, "E1: words"),
        ({"code": 5, "message": "words"}, "5: words"),
        ({"message": "words"}, "words"),
        ({"code": "E1"}, "E1"),
        ({}, None),
        (None, None),
        ([1], None),
        (5, None),
    ],
)
def test_errors_in_words(error: Any, words: str | None) -> None:
    """The gateway's error in any of its forms is one sentence, or none."""
    assert end(Jobs(Time(), {"invocation_id": ID, "status": "failed", "error": error})).error == words


@pytest.mark.parametrize("invocation_id", [None, "", 5, [ID]])
def test_a_job_without_an_id(invocation_id: Any) -> None:
    """What is accepted without an id can never be fetched, which is the gateway's fault; what is done needs none."""
    done = end(Jobs(Time(), {"invocation_id": invocation_id, "status": "succeeded"}))
    assert done.invocation_id == ("" if invocation_id == "" else None)
    with pytest.raises(BadAnswer, match="without an invocation_id"):
        run(Jobs(Time(), {"invocation_id": invocation_id, "status": "queued"}))


@pytest.mark.parametrize(
    ("progress", "sync_timeout", "longest", "asked"),
    [
        (False, 30, 300, 30),
        (True, 30, 300, 10),
        (True, 5, 300, 5),
        (False, 300, 300, 300),
        (False, 300, 60, 60),
        (True, 300, 4, 4),
    ],
)
def test_the_wait_asked_of_the_gateway(progress: bool, sync_timeout: float, longest: float, asked: float) -> None:
    """The synchronous wait is the setting, at most 10 s where progress is due, and never beyond the end of the call."""
    jobs = Jobs(Time(), {"invocation_id": ID, "status": "succeeded"})
    run(jobs, progress=progress, sync_timeout=sync_timeout, longest=longest)
    ((_, _, question),) = jobs.questions
    assert question["sync_timeout"] == asked
    assert question["deadline"] == jobs.time.begun + min(longest, asked + 5)
    assert (question["slug"], question["arguments"], question["idempotency_key"]) == ("tool", {"a": 1}, "key")
    assert question["cancel"] is jobs.time


# Polling


def test_poll_intervals() -> None:
    """The pauses grow by half from a tenth of a second up to the longest, and stay there."""
    jobs = Jobs(Time(), polled=[ends_at(30)])
    run(jobs)
    asked = [0.0, *jobs.times("poll")]
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    expected = [min(FIRST_INTERVAL * GROWTH**turn, 2.0) for turn in range(len(pauses))]
    assert pauses == pytest.approx(expected)
    assert pauses[:3] == pytest.approx([0.1, 0.15, 0.225])


@pytest.mark.parametrize("interval", [0.05, 0.5, 2, 7, 60])
def test_the_longest_pause_is_the_setting(interval: float) -> None:
    """No pause is longer than the setting, and long ones are reached."""
    jobs = Jobs(Time(), polled=[ends_at(280)])
    run(jobs, interval=interval)
    asked = jobs.times("poll")
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert max(pauses) == pytest.approx(interval)


def test_a_job_that_is_soon_done() -> None:
    """A job that takes 150 ms is answered within 300 ms."""
    jobs = Jobs(Time(), polled=[ends_at(0.15)])
    steps = run(jobs)
    assert steps[-1][0] <= 0.3
    assert steps[-1][1] == Outcome("succeeded", ID, "r", sync=False)


def test_polls_ask_for_the_job_that_was_started() -> None:
    """The id of the first answer counts, whatever a later answer says."""
    jobs = Jobs(Time(), polled=[{"status": "running", "invocation_id": None}, {"status": "succeeded"}])
    assert end(jobs).invocation_id == ID
    assert {asked["invocation_id"] for _, what, asked in jobs.questions if what == "poll"} == {ID}
    other = Jobs(Time(), polled=[{"status": "succeeded", "invocation_id": "other"}])
    assert end(other).invocation_id == ID


@pytest.mark.parametrize("status", ["thinking", "", None, 5, [], {}, ["succeeded"], "SUCCEEDED"])
def test_unknown_states_are_running(status: Any) -> None:
    """A status that nobody knows is waited on like a known one, and the deadline ends it."""
    jobs = Jobs(Time(), {"invocation_id": ID, "status": status}, [{"status": status, "model_state": [status]}])
    steps = run(jobs, progress=True)
    assert steps[-1][1] == Outcome("gave_up", ID, sync=False)
    assert all("None" not in step.message for _, step in progress_of(steps))


@pytest.mark.parametrize("longest", [0.05, 1, 10, 299.5])
def test_giving_up(longest: float) -> None:
    """Past the longest wait the call ends with the id of the job, on time, after one last look."""
    jobs = Jobs(Time())
    steps = run(jobs, longest=longest)
    assert steps[-1] == (pytest.approx(longest), Outcome("gave_up", ID, sync=False))
    assert jobs.times("poll")[-1] == pytest.approx(longest)


def test_done_at_the_last_look() -> None:
    """A job that is done exactly at the deadline is done."""
    assert end(Jobs(Time(), polled=[ends_at(10)]), longest=10).status == "succeeded"


# Progress


@pytest.mark.parametrize("takes", [0.0, 0.3, 4.0, 9.9])
@pytest.mark.parametrize("interval", [0.2, 2, 60])
def test_progress_over_a_long_job(takes: float, interval: float) -> None:
    """Over 150 s the first progress is there at once and then one at least every 15 s, always rising."""
    jobs = Jobs(Time(), polled=[ends_at(150)], takes=takes)
    steps = run(jobs, progress=True, interval=interval)
    told = progress_of(steps)
    assert (told[0][0], told[0][1].progress) == (0.0, 0.0)
    moments = [*(passed for passed, _ in told), steps[-1][0]]
    assert max(later - earlier for earlier, later in pairwise(moments)) <= 15
    numbers = [step.progress for _, step in told]
    assert all(later > earlier for earlier, later in pairwise(numbers))
    assert steps[-1][1].status == "succeeded"
    assert not [step for _, step in steps[:-1] if isinstance(step, Outcome)]


@pytest.mark.parametrize("interval", [0.2, 2, 60])
def test_without_progress_there_are_signs_of_life(interval: float) -> None:
    """A caller that wants no progress gets none, but a sign of life at least every 15 s for its stream."""
    jobs = Jobs(Time(), polled=[ends_at(150)], takes=9.9)
    steps = run(jobs, interval=interval)
    assert not progress_of(steps)
    moments = [passed for passed, step in steps if step is KeepAlive.MARK or isinstance(step, Outcome)]
    assert moments[0] == 0.0
    assert max(later - earlier for earlier, later in pairwise(moments)) <= 15


def test_progress_is_not_noise() -> None:
    """While nothing is news there is a progress every few seconds, and not one with each poll."""
    told = progress_of(run(Jobs(Time(), polled=[ends_at(150)]), progress=True, interval=0.2))
    assert 10 < len(told) < 60


def test_progress_rises_even_when_the_gateway_says_otherwise() -> None:
    """What is told rises with each step, whatever the gateway's own figures do."""
    details = iter([f"{percent} %" for percent in (10, 50, 50, 20, 90)])
    jobs = Jobs(Time(), polled=[lambda passed: {**ends_at(3)(passed), "status_detail": next(details, "90 %")}])
    told = [step for _, step in progress_of(run(jobs, progress=True))]
    numbers = [step.progress for step in told]
    assert numbers == sorted(set(numbers))
    assert {"10 %", "50 %", "20 %"} <= {word for step in told for word in step.message.split("; ")}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": "queued"}, "Queued"),
        ({"status": "pending"}, "Queued"),
        ({"status": "queued", "model_state": "cold"}, "Queued; the model is cold and has to be loaded"),
        ({"status": "queued", "model_state": "cached"}, "Queued; the model is being loaded from cache"),
        ({"status": "queued", "model_state": "warm"}, "Queued"),
        ({"status": "running", "model_state": "cold"}, "Running"),
        ({"status": "running", "status_detail": " step 3 of 9 "}, "Running; step 3 of 9"),
        ({"status": "running", "status_detail": {"step": 3}}, "Running"),
        ({"status": "running", "status_detail": "x" * 500}, "Running; " + "x" * 200),
        ({"status": "warming_up", "model_state": "cold"}, "Warming_up; the model is cold and has to be loaded"),
        ({"status": 7}, "Running"),
        ({}, "Running"),
    ],
)
def test_progress_in_plain_words(answer: dict[str, Any], words: str) -> None:
    """Progress says the state, what the model is at and the gateway's own detail, and after a second how long it is."""
    jobs = Jobs(Time(), {"invocation_id": ID, **answer}, [ends_at(1)])
    assert progress_of(run(jobs, progress=True))[1][1].message == words
    late = Jobs(Time(), {"invocation_id": ID, **answer}, [ends_at(5)], takes=2)
    assert progress_of(run(late, progress=True))[1][1].message == f"{words}; 2 s"


def test_the_model_state_of_the_start_is_remembered() -> None:
    """What the first answer said of the model holds until a later one says otherwise."""
    jobs = Jobs(Time(), {"invocation_id": ID, "status": "queued", "model_state": "cold"})
    jobs.polled = [{"status": "pending"}, {"status": "pending", "model_state": "cached"}, ends_at(0)]
    words = [step.message for _, step in progress_of(run(jobs, progress=True))]
    assert words == [
        "Started",
        "Queued; the model is cold and has to be loaded",
        "Queued; the model is being loaded from cache",
    ]


# Faults on the way

BUSY = GatewayError("busy", status=429, retry_after=3.0)
PASSING = [
    GatewayUnreachable("away", status=503),
    GatewayUnreachable("no answer"),
    GatewayError("bad", status=500),
    GatewayUnreachable("gate", status=502),
    GatewayUnreachable("slow", status=504),
    GatewayError("busy", status=429),
]


@pytest.mark.parametrize("error", PASSING)
def test_passing_faults_while_polling(error: GatewayError) -> None:
    """A poll that fails in passing is no news: the job goes on and so does the wait."""
    jobs = Jobs(Time(), polled=[error, error, {"status": "running"}, error, ends_at(0)])
    assert end(jobs) == Outcome("succeeded", ID, "r", sync=False)


@pytest.mark.parametrize("error", PASSING)
def test_faults_that_do_not_pass_in_time(error: GatewayError) -> None:
    """A gateway that is away to the end leaves the id and its words, and is asked no more often than a healthy one."""
    jobs = Jobs(Time(), polled=[error])
    assert end(jobs, longest=60) == Outcome("gave_up", ID, error=error.message, sync=False)
    assert len(jobs.times("poll")) < 40


@pytest.mark.parametrize(
    "error",
    [KeyRefused("no", status=401), GatewayError("gone", status=404, code="c"), BadAnswer("no JSON", status=200)],
)
def test_lasting_faults_while_polling(error: GatewayError) -> None:
    """A fault that lasts ends the call as what it is, and its words name the job that it was met at."""
    jobs = Jobs(Time(), polled=[{"status": "running"}, error])
    with pytest.raises(type(error)) as raised:
        run(jobs)
    assert (raised.value.status, raised.value.code) == (error.status, error.code)
    assert ID in raised.value.message
    assert raised.value.message.startswith(error.message)


def test_a_poll_is_asked_again_when_the_gateway_says() -> None:
    """After a 429 that names a time, nothing is asked before it."""
    jobs = Jobs(Time(), polled=[BUSY, ends_at(0)])
    steps = run(jobs, progress=True)
    first, second = jobs.times("poll")
    assert second - first >= 3.0
    assert any("asks to wait (status 429)" in step.message for _, step in progress_of(steps))


def test_a_wait_that_outlasts_the_call() -> None:
    """Told to come back after the end of the call, it gives up at once with the id and the gateway's words."""
    jobs = Jobs(Time(), polled=[GatewayError("busy", status=429, retry_after=3600)])
    steps = run(jobs)
    assert steps[-1][1] == Outcome("gave_up", ID, error="busy", sync=False)
    assert steps[-1][0] < 1


@pytest.mark.parametrize("seconds", [0.0, 0.5, 3.0, 40.0])
def test_a_start_is_repeated_when_the_gateway_says(seconds: float) -> None:
    """A 429 at the start is waited out with signs of life, and the repeat carries the same key."""
    error = GatewayError("busy", status=429, retry_after=seconds)
    jobs = Jobs(Time(), [error, error, {"invocation_id": ID, "status": "succeeded"}])
    steps = run(jobs, progress=True)
    asked = jobs.times("invoke")
    assert all(later - earlier >= seconds for earlier, later in pairwise(asked))
    assert {question["idempotency_key"] for _, _, question in jobs.questions} == {"key"}
    moments = [passed for passed, _ in progress_of(steps)]
    assert max(later - earlier for earlier, later in pairwise(moments)) <= 15


def test_a_start_that_cannot_wait_that_long() -> None:
    """A time that doesn't fit in what is left is told at once."""
    jobs = Jobs(Time(), GatewayError("busy, come back in an hour", status=429, retry_after=3600))
    with pytest.raises(GatewayError, match="come back in an hour"):
        run(jobs)
    assert jobs.time.passed == 0.0


def test_a_start_that_is_always_told_to_come_back_at_once() -> None:
    """A gateway that is busy for ever and says so without a wait is not asked in a busy loop, and not for ever."""
    jobs = Jobs(Time(), GatewayError("busy", status=429, retry_after=0.0))
    with pytest.raises(GatewayError, match="busy"):
        run(jobs, longest=5)
    assert len(jobs.questions) <= 51


@pytest.mark.parametrize(
    "error",
    [KeyRefused("no", status=403), GatewayError("bad arguments", status=422), GatewayUnreachable("away"), PASSING[0]],
)
def test_other_faults_of_the_start(error: GatewayError) -> None:
    """What the gateway's client could not mend is the end of the call, as it is."""
    with pytest.raises(type(error)) as raised:
        run(Jobs(Time(), error))
    assert raised.value is error


# Cancelling


@pytest.mark.parametrize("progress", [True, False])
def test_cancelled_before_the_start(progress: bool) -> None:
    """A call that was cancelled before it began sends nothing and says nothing."""
    jobs = Jobs(Time())
    jobs.time.set()
    with pytest.raises(Cancelled):
        run(jobs, progress=progress)
    assert jobs.questions == []


@pytest.mark.parametrize("moment", [0.05, 0.1, 1.0, 2.0, 7.77, 59.9])
@pytest.mark.parametrize("takes", [0.0, 0.7])
def test_cancelled_while_polling(moment: float, takes: float) -> None:
    """Once cancelled, whether in a pause or during a poll, nothing is asked any more."""
    jobs = Jobs(Time(cancelled_at=moment), takes=takes)
    with pytest.raises(Cancelled):
        run(jobs, progress=True)
    assert all(passed < moment for passed, _, _ in jobs.questions)
    assert jobs.time.passed - moment <= max(2.0, takes)


def test_cancelled_while_waiting_for_the_gateway() -> None:
    """A wait that the gateway ordered is ended by cancelling, at the start and while polling."""
    for jobs in (
        Jobs(Time(cancelled_at=1), GatewayError("busy", status=429, retry_after=100)),
        Jobs(Time(cancelled_at=1), polled=[GatewayError("busy", status=429, retry_after=100)]),
    ):
        with pytest.raises(Cancelled):
            run(jobs)
        assert len(jobs.questions) <= 2


def test_cancelled_inside_a_question() -> None:
    """What the gateway's client raises for a cancelled request is the end."""
    for jobs in (Jobs(Time(), Cancelled("c")), Jobs(Time(), polled=[Cancelled("c")])):
        with pytest.raises(Cancelled):
            run(jobs)


def test_cancelling_ends_a_real_wait() -> None:
    """With a real event a pause ends with it, and not with its time."""
    cancel = Event()

    class Polled(Jobs):
        def fetch_invocation(self, invocation_id: str, **more: Any) -> dict[str, Any]:
            """The first poll is the client's moment to cancel."""
            cancel.set()
            return super().fetch_invocation(invocation_id, **more)

    jobs = Polled(Time())
    limits = Limits(30, 3600, 7200)
    call = Invocation(jobs, limits, cancel=cancel, clock=monotonic, progress=False, stopping=lambda: False)
    with pytest.raises(Cancelled):
        list(call.run("tool", {}, idempotency_key="k"))
    assert len(jobs.times("poll")) == 1


# Resuming


def resume(jobs: Jobs, **options: Any) -> Iterator[Any]:
    """The steps of looking an earlier job up."""
    return begin(jobs, **options).resume(ID)


@pytest.mark.parametrize("status", sorted(SUCCEEDED | FAILED))
def test_looking_up_what_is_done(status: str) -> None:
    """A job that is done by now is its outcome, under the id that was asked for."""
    jobs = Jobs(Time(), polled=[{"status": status, "result": 5, "invocation_id": None}])
    assert list(resume(jobs))[-1] == Outcome(status, ID, 5)
    assert jobs.times("invoke") == []


def test_looking_up_what_goes_on() -> None:
    """A job that goes on is followed like one that was just started, with progress, and given up on with its id."""
    jobs = Jobs(Time(), polled=[ends_at(20)])
    steps = list(resume(jobs, progress=True))
    assert isinstance(steps[0], Progress)
    assert steps[-1] == Outcome("succeeded", ID, "r", sync=False)
    assert list(resume(Jobs(Time()), longest=5))[-1] == Outcome("gave_up", ID, sync=False)


def test_looking_up_what_is_not_there() -> None:
    """An id that the gateway does not know is its refusal."""
    with pytest.raises(GatewayError, match="gone"):
        list(resume(Jobs(Time(), polled=[GatewayError("gone", status=404)])))


def test_looking_up_waits_as_told() -> None:
    """A 429 is waited out here too."""
    jobs = Jobs(Time(), polled=[BUSY, ends_at(0)])
    assert list(resume(jobs))[-1].succeeded
    first, second = jobs.times("poll")
    assert second - first >= 3.0
