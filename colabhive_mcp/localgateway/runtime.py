"""What runs the invocations: a queue in time, worker threads, models that are cold or warm.

Owns the threads of the gateway. The store holds every invocation before it is queued here, so that a restart finds
what was unfinished. Must not know HTTP.
"""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from colabhive_mcp.localgateway.actions import ACTIONS, Action, ActionError, Context
from colabhive_mcp.localgateway.chat import ChatServer
from colabhive_mcp.localgateway.records import Claim, Endpoint, Invocation
from colabhive_mcp.localgateway.store import Store

WORKERS = 4
CLOSE_WAIT_S = 2.0

logger = logging.getLogger(__name__)

Life = Generator[float, None, None]


@dataclass(order=True, slots=True)
class _Turn:
    """One invocation's next turn on a worker: *life* is resumed when the clock reaches *due*."""

    due: float
    place: int
    life: Life = field(compare=False)


class Runtime:
    """Runs the invocations of one store. Usable as a context manager, which starts and closes it."""

    def __init__(
        self,
        store: Store,
        *,
        workers: int = WORKERS,
        chat: ChatServer | None = None,
        actions: Mapping[str, Action] = ACTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._chat = chat
        self._actions = actions
        self._clock = clock
        self._turns: list[_Turn] = []
        self._places = itertools.count()
        self._changed = threading.Condition()
        self._intake = threading.Lock()
        self._closing = False
        self._finished: dict[str, threading.Event] = {}
        self._warm_until: dict[str, float] = {}
        self._threads = [threading.Thread(target=self._work, name=f"runtime-{n}", daemon=True) for n in range(workers)]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Queue again what an earlier process left unfinished, and start the workers."""
        self._store.prune()
        for invocation in self._store.requeue():
            self._submit(invocation)
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop the workers and wake everyone who waits; what is unfinished stays in the store for the next start.

        An action that is at work gets ``CLOSE_WAIT_S`` to come to its end.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            waiting = list(self._finished.values())
        for event in waiting:
            event.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(CLOSE_WAIT_S)

    def invoke(
        self, endpoint: Endpoint, account: str, arguments: dict[str, Any], *, claim: Claim | None = None
    ) -> Invocation:
        """Record an invocation and queue it; for a *claim* that came before, the first one as it is by then.

        Raises IdempotencyError when the claim came before with another request.
        """
        # Under one lock, so that whoever repeats a claim finds the first invocation queued and can wait for it.
        with self._intake:
            invocation, is_first = self._store.create_invocation(
                endpoint, account, arguments, model_state=self._model_state(endpoint), claim=claim
            )
            if is_first:
                self._submit(invocation)
        return invocation

    def wait(self, invocation_id: str, seconds: float) -> None:
        """Wait until the invocation has ended or *seconds* are over, or the runtime closes."""
        if (event := self._finished.get(invocation_id)) and not self._closing:
            event.wait(seconds)

    def _model_state(self, endpoint: Endpoint) -> str:
        is_warm = endpoint.cold_start_s <= 0 or self._warm_until.get(endpoint.slug, 0.0) > self._clock()
        return "warm" if is_warm else "cold"

    # The queue

    def _submit(self, invocation: Invocation) -> None:
        with self._changed:
            self._finished[invocation.id] = threading.Event()
            self._queue(self._live(invocation), 0.0)

    def _queue(self, life: Life, seconds: float) -> None:
        heapq.heappush(self._turns, _Turn(self._clock() + seconds, next(self._places), life))
        self._changed.notify()

    def _work(self) -> None:
        while (turn := self._next_turn()) is not None:
            pause = next(turn.life, None)
            if pause is not None:
                with self._changed:
                    self._queue(turn.life, pause)

    def _next_turn(self) -> _Turn | None:
        with self._changed:
            while not self._closing:
                wait = self._turns[0].due - self._clock() if self._turns else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._turns)
                self._changed.wait(wait)
        return None

    # One invocation

    def _live(self, invocation: Invocation) -> Life:
        """The whole life of an invocation: load the model, run the action, record how it ended."""
        try:
            if invocation.model_state == "cold":
                self._store.note_status(invocation.id, status="queued", detail="loading the model")
                yield invocation.cold_start_s
            began = self._clock()
            self._keep_warm(invocation)
            self._store.note_status(invocation.id, status="running", detail=None)
            metrics: dict[str, Any] = {}
            outcome = yield from self._run(invocation, metrics)
            metrics["run_ms"] = round((self._clock() - began) * 1000, 3)
            self._keep_warm(invocation)
            self._store.finish(invocation.id, metrics=metrics, **outcome)
        except Exception:
            if not self._closing:  # the store may be closed under an action that outlived the runtime
                logger.exception("invocation %s of %s could not be recorded", invocation.id, invocation.slug)
        finally:
            self._finished.pop(invocation.id).set()

    def _run(self, invocation: Invocation, metrics: dict[str, Any]) -> Generator[float, None, dict[str, Any]]:
        """Run the action; the outcome is what the store's ``finish`` takes."""
        context = Context(
            append_note=lambda line: self._store.append_note(invocation.account, invocation.id, line),
            chat=self._chat,
            metrics=metrics,
        )
        try:
            action = self._actions.get(invocation.action or "")
            if action is None:
                raise ActionError("unknown_action", f"this gateway has no action {invocation.action!r}")
            result = action(invocation.input, context)
            if isinstance(result, Generator):
                result = yield from self._follow(invocation, result)
        except ActionError as error:
            return {"status": "failed", "error": {"code": error.code, "message": error.message}}
        except Exception:
            logger.exception("action %s failed", invocation.action)
            return {"status": "failed", "error": {"code": "internal", "message": "the action failed"}}
        return {"status": "succeeded", "result": result}

    def _follow(self, invocation: Invocation, steps: Generator[Any, None, Any]) -> Generator[float, None, Any]:
        while True:
            try:
                pause = next(steps)
            except StopIteration as end:
                return end.value
            self._store.note_status(invocation.id, status="running", detail=pause.detail)
            yield pause.seconds

    def _keep_warm(self, invocation: Invocation) -> None:
        self._warm_until[invocation.slug] = self._clock() + invocation.keep_warm_s
