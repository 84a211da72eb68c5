"""Many clients in a process of their own: `python -m bench.crowd`, told by one JSON line, and telling by one.

It is told the port, how many clients there are, the requests that they send in turn (each a key, a method and
parameters), how long or how often they do, and how many a second, 0 for as many as they can. It tells how many answers
of each kind there were, with the first words of those that were no result, and the milliseconds that they took.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bench.child import Child
from bench.figures import to_percentile
from bench.hosted import Visitor

if TYPE_CHECKING:
    from bench.place import Place

_SHOWN = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the crowd does: until *seconds* are over, or *count* requests are sent, where it is not 0."""

    port: int
    clients: int
    requests: list[tuple[str, str, dict[str, Any]]]
    seconds: float
    count: int = 0
    rate: float = 0


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    answers: Counter[str] = field(default_factory=Counter)
    taken: list[float] = field(default_factory=list)

    def to_json(self) -> str:
        shares = {f"p{share}": to_percentile(self.taken, share) for share in (50, 99)} if self.taken else {}
        return json.dumps({"answers": self.answers, "most": max(self.taken, default=0.0), **shares})


class Crowd:
    """A crowd at work in its process."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def begin(self, orders: Orders) -> None:
        self._child.send(json.dumps(asdict(orders)).encode() + b"\n")

    def end(self, *, patience: float) -> dict[str, Any]:
        """What it tells when it has done."""
        received = self._child.receive(until=time.perf_counter() + patience)
        assert received, "the crowd does not come to its end"
        told: dict[str, Any] = json.loads(received[0])
        return told


@contextmanager
def open_crowd(place: Place) -> Iterator[Crowd]:
    """Have one at hand until the block ends."""
    with Child([place.python, "-m", "bench.crowd"], env=place.variables) as child:
        yield Crowd(child)


class Work:
    """What all clients of a crowd share: whose turn it is, and when."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._began = time.perf_counter()
        self._numbers = itertools.count()

    def take(self) -> tuple[str, str, dict[str, Any]] | None:
        """The next request, at its time; None where there is none."""
        orders, number = self._orders, next(self._numbers)
        if orders.rate:
            time.sleep(max(0.0, self._began + number / orders.rate - time.perf_counter()))
        if (orders.count and number >= orders.count) or time.perf_counter() > self._began + orders.seconds:
            return None
        return orders.requests[number % len(orders.requests)]


def run_client(orders: Orders, work: Work, outcome: Outcome) -> None:
    with Visitor(orders.port) as visitor:
        while (request := work.take()) is not None:
            visitor.key, method, params = request
            begun = time.perf_counter()
            try:
                visitor.send(method, params)
                told = to_kind(*visitor.receive())
            except (OSError, ValueError, StopIteration) as error:
                told = f"{type(error).__name__}: {error}"
                visitor.connection.close()
            outcome.taken.append((time.perf_counter() - begun) * 1e3)
            outcome.answers[told] += 1


def to_kind(status: int, message: dict[str, Any]) -> str:
    """An answer in a few words: `ok`, its status, or what the tool's error says."""
    if status != 200 or "error" in message:
        return f"{status} {message.get('error', {}).get('message', '')}"[:_SHOWN]
    if message["result"].get("isError"):
        return f"isError {message['result']['content'][0].get('text', '')}"[:_SHOWN]
    return "ok"


def run(orders: Orders) -> Outcome:
    outcomes = [Outcome() for _ in range(orders.clients)]
    work = Work(orders)
    threads = [threading.Thread(target=run_client, args=(orders, work, outcome)) for outcome in outcomes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = Outcome()
    for outcome in outcomes:
        whole.answers += outcome.answers
        whole.taken += outcome.taken
    return whole


if __name__ == "__main__":
    for line in sys.stdin:
        print(run(Orders(**json.loads(line))).to_json(), flush=True)
