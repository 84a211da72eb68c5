"""The gate: how much of each work fits, for one key and for all, and that every place comes back."""

import threading
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.transports.gate import CALL, LIST, PROOF, RESERVE, SPARE, STREAM, Gate, TurnedAway, Work

THREADS = 128
MANY = 4096
WORKS = (CALL, STREAM, PROOF, LIST)


def fill(gate: Gate, work: Work, tenant: str = "a", most: int = MANY) -> TurnedAway:
    """Take places until there is none left; answers how the next one is refused."""
    with pytest.raises(TurnedAway) as caught:
        [gate.take(work, tenant, most) for _ in range(gate.threads + 1)]
    return caught.value


@pytest.mark.parametrize(
    ("work", "places"),
    [(CALL, THREADS - RESERVE), (STREAM, THREADS // 2), (PROOF, THREADS // 2), (LIST, THREADS - SPARE)],
    ids=lambda value: getattr(value, "name", None),
)
@pytest.mark.parametrize("threads", [THREADS, 8])
def test_all_keys_together_have_a_limit(work: Work, places: int, threads: int) -> None:
    """What may wait leaves a reserve, streams and checks of keys one half, lists leave health its threads: then 503."""
    gate = Gate(threads)
    places = places if threads == THREADS else {CALL: 4, STREAM: 4, PROOF: 4, LIST: 6}[work]
    refused = fill(gate, work)
    assert gate._held[work] == places
    assert (refused.status, refused.reason) == (503, "threads")
    assert (work.name in str(refused), refused.retry_after > 0) == (True, True)


@pytest.mark.parametrize(("work", "reason"), [(CALL, "tenant"), (LIST, "tenant"), (STREAM, "streams")])
def test_one_key_has_a_limit(work: Work, reason: str) -> None:
    """A key that has all its places is told 429; another one, and other work of its own, are not concerned."""
    gate = Gate(THREADS)
    refused = fill(gate, work, most=3)
    assert (refused.status, refused.reason) == (429, reason)
    assert "3" in str(refused)
    gate.take(work, "b", 3)
    for other in {CALL, LIST, STREAM} - {work}:
        gate.take(other, "a", 3)


@pytest.mark.parametrize("threads", [THREADS, 8])
def test_what_waits_leaves_lists_their_threads(threads: int) -> None:
    """With all places for streams, calls and checks taken, lists are still served, and with all of those nothing is."""
    gate = Gate(threads)
    for work in (STREAM, CALL, PROOF):
        fill(gate, work)
    waiting = gate._held.total()
    assert fill(gate, LIST).status == 503
    assert gate._held[LIST] == threads - SPARE - waiting > 0
    assert {fill(gate, work).status for work in (CALL, PROOF)} == {503}


@pytest.mark.parametrize("threads", [THREADS, 8])
def test_calls_keep_nobody_new_out(threads: int) -> None:
    """With all places for calls taken, there are a few for the keys that come for the first time."""
    gate = Gate(threads)
    fill(gate, CALL)
    fill(gate, PROOF)
    assert gate._held[PROOF] == min(RESERVE, threads // 2) // 4 > 0


def test_a_place_comes_back() -> None:
    """What is given back can be taken again, and a block gives back what it took even where it fails."""
    gate = Gate(8)
    give_back = gate.take(CALL, "a", 1)
    assert fill(gate, CALL, most=1).status == 429
    give_back()
    with pytest.raises(ZeroDivisionError), gate.hold(CALL, "a", 1):
        raise ZeroDivisionError
    gate.take(CALL, "a", 1)


@given(
    st.integers(8, 40),
    st.lists(st.tuples(st.sampled_from(WORKS), st.sampled_from("abc"), st.integers(1, 9), st.booleans()), max_size=80),
)
def test_no_limit_is_ever_passed(threads: int, steps: list[tuple[Work, str, int, bool]]) -> None:
    """Whatever is taken and given back in whichever order: no limit is passed, and in the end nothing is held."""
    gate, held, taken = Gate(threads), [], Counter[tuple[str, Work]]()
    for work, tenant, most, give in steps:
        if give and held:
            give_back, share = held.pop(0)
            give_back()
            taken[share] -= 1
            continue
        try:
            held.append((gate.take(work, tenant, most), (tenant, work)))
        except TurnedAway:
            continue
        taken[tenant, work] += 1
        assert taken[tenant, work] <= most
        reserve, waiting = min(RESERVE, threads // 2), sum(count for (_, each), count in taken.items() if each.waits)
        assert waiting <= threads - reserve + reserve // 4
        assert work is not CALL or waiting <= threads - reserve
        assert taken.total() <= threads - SPARE
    for give_back, _ in held:
        give_back()
    assert (gate._held.total(), dict(gate._shares), gate.streams) == (0, {}, 0)


def test_threads_lose_no_place() -> None:
    """Sixteen threads that take and give back as fast as they can leave nothing behind."""
    gate = Gate(16)
    end = time.monotonic() + 0.3

    def work(tenant: str) -> None:
        while time.monotonic() < end:
            gate.enter()
            try:
                with gate.hold(CALL, tenant, 2):
                    pass
            except TurnedAway:
                pass
            gate.leave()

    threads = [threading.Thread(target=work, args=(str(number % 5),)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (gate.busy, gate._held.total(), dict(gate._shares)) == (0, 0, {})
    assert gate.served > 16


def test_idleness_can_be_awaited() -> None:
    """Who waits until nothing is at work waits as long as something is, and no longer than it wants to."""
    gate = Gate(8)
    gate.await_idle(10)
    gate.enter()
    gate.enter()
    started = time.monotonic()
    gate.await_idle(0.05)
    assert (time.monotonic() - started >= 0.05, gate.busy) == (True, 2)
    leaving = threading.Thread(target=lambda: [gate.leave(), gate.leave()])
    leaving.start()
    gate.await_idle(10)
    assert gate.busy == 0
    leaving.join(10)


def test_a_request_more_can_be_awaited() -> None:
    """Who waits for another request than it knows of is told of one that has come, even where it has gone again."""
    gate = Gate(8)
    started = time.monotonic()
    gate.await_more(0, 0.05)
    assert time.monotonic() - started >= 0.05
    coming = threading.Thread(target=lambda: [gate.enter(), gate.leave()])
    coming.start()
    gate.await_more(0, 10)
    assert gate.served == 1
    coming.join(10)
