"""Tenants: who gets a place, who loses it, and that each is closed once, after its last request."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.bridge import Bridge
from colabhive_mcp.errors import GatewayUnreachable, KeyRefused
from colabhive_mcp.protocol.server import Server
from colabhive_mcp.telemetry.events import Event, discard
from colabhive_mcp.telemetry.logs import Redaction
from colabhive_mcp.transports.gate import PROOF, Gate, TurnedAway
from colabhive_mcp.transports.tenants import (
    CANDIDATES_LEAST,
    REFUSED_SECONDS,
    OnRefused,
    Tenant,
    Tenants,
    compute_digest,
)
from colabhive_mcp.transports.workers import Lane

PATIENCE = 10.0
STRESS_SECONDS = 1.5


class DummyGateway:
    """What a gateway says of keys by their first word: good, bad, forbidden, or anything else while it is down."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.known = {"good"}
        self.held: dict[str, threading.Event] = {}
        self.hears = threading.Semaphore(0)

    def ask(self, key: str) -> None:
        """Nothing for a key that is known, else what a client raises."""
        self.asked[key] += 1
        self.hears.release()
        if key in self.held:
            assert self.held[key].wait(PATIENCE)
        word = key.partition("-")[0]
        if word in self.known:
            return
        if word == "bad":
            raise KeyRefused("no", status=401)
        if word == "forbidden":
            raise KeyRefused("not here", status=403)
        raise GatewayUnreachable("down")


class DummyBridge:
    """A bridge that knows whether it is closed, and how often."""

    def __init__(self, gateway: DummyGateway, key: str) -> None:
        self._gateway = gateway
        self.key = key
        self.closed = 0
        self.users = 0
        self.closed_in_use = False

    def prove(self) -> None:
        """Ask about the key."""
        assert not self.closed
        self._gateway.ask(self.key)

    def close(self) -> None:
        """End it."""
        self.closed += 1
        self.closed_in_use |= bool(self.users)


class Pool:
    """Tenants over a dummy gateway, with all that was built and told."""

    def __init__(self, capacity: int = 2, *, places: int = 64, clock: Callable[[], float] = time.monotonic) -> None:
        self.gateway = DummyGateway()
        self.gate = Gate(2 * places)
        self.built: list[Tenant] = []
        self.refusing: dict[str, OnRefused] = {}
        self.events: list[Event] = []
        self.tenants = Tenants(
            self._build, capacity=capacity, proving=self._take_place, record=self.events.append, clock=clock
        )

    def _build(self, key: str, digest: str, on_refused: OnRefused) -> Tenant:
        bridge = cast("Bridge", DummyBridge(self.gateway, key))
        tenant = Tenant(digest, bridge, cast("Server", None), discard, Redaction([key]))
        self.refusing[key] = on_refused
        self.built.append(tenant)
        return tenant

    def _take_place(self) -> Callable[[], None]:
        return self.gate.take(PROOF, "", self.gate.threads)

    @contextmanager
    def use(self, key: str) -> Iterator[DummyBridge]:
        """The bridge of *key* while a request uses it."""
        tenant = self.tenants.acquire(key)
        bridge = cast("DummyBridge", tenant.bridge)
        bridge.users += 1
        try:
            yield bridge
        finally:
            bridge.users -= 1
            self.tenants.release(tenant)

    def visit(self, key: str) -> DummyBridge:
        """One request of *key*, and the bridge that served it."""
        with self.use(key) as bridge:
            assert not bridge.closed
        return bridge

    @property
    def resident(self) -> list[str]:
        """The keys that have a place."""
        return [cast("DummyBridge", tenant.bridge).key for tenant in self.tenants.resident]

    @property
    def told(self) -> list[tuple[str, Any]]:
        """The names of events, and why."""
        known = [(event.name, event._asdict()) for event in self.events]
        return [(name.removeprefix("pool."), more.get("reason") or more.get("status")) for name, more in known]

    def await_rest(self) -> None:
        """Until no question is open, and no place is taken."""
        pause = threading.Event()
        for _ in range(int(PATIENCE / 0.005)):
            if not any(tenant.uses for tenant in self.built) and not self.gate._held.total():
                return
            pause.wait(0.005)
        raise AssertionError("something is never given back")


def refuse(pool: Pool, key: str) -> None:
    """A request of *key* that meets a refusal."""
    with pytest.raises(KeyRefused):
        pool.visit(key)


def test_a_key_gets_a_place_once_it_is_accepted() -> None:
    """The gateway is asked once about a good key, however often that comes, and the place is told of."""
    pool = Pool()
    bridge = pool.visit("good-1")
    assert all(pool.visit("good-1") is bridge for _ in range(3))
    assert (pool.resident, pool.gateway.asked) == (["good-1"], {"good-1": 1})
    assert pool.told == [("tenant_added", None)]
    pool.await_rest()
    assert not bridge.closed


@pytest.mark.parametrize(("key", "status"), [("bad-1", 401), ("forbidden-1", 403)])
def test_a_refused_key_is_remembered_for_a_while(key: str, status: int) -> None:
    """A refused key has no place, is asked about once in 30 s, and is refused in the same words meanwhile."""
    now = [0.0]
    pool = Pool(clock=lambda: now[0])
    for _ in range(3):
        with pytest.raises(KeyRefused) as caught:
            pool.visit(key)
        assert caught.value.status == status
    assert (pool.resident, pool.gateway.asked[key], pool.told) == ([], 1, [("key_refused", status)])
    now[0] = REFUSED_SECONDS + 1
    refuse(pool, key)
    assert pool.gateway.asked[key] == 2
    pool.await_rest()
    assert [cast("DummyBridge", tenant.bridge).closed for tenant in pool.built] == [1, 1]


def test_a_gateway_that_is_down_refuses_nobody() -> None:
    """While the gateway cannot be asked a key is served without a place, by one bridge; it gets one afterwards."""
    pool = Pool()
    bridge = pool.visit("later-1")
    assert pool.visit("later-1") is bridge
    assert (pool.resident, pool.told, bridge.closed) == ([], [], 0)
    pool.gateway.known.add("later")
    assert pool.visit("later-1") is bridge
    assert pool.resident == ["later-1"]
    pool.await_rest()
    assert not bridge.closed


def test_requests_at_once_share_a_question() -> None:
    """Eight requests that bring a key at the same time wait for one question, and get one bridge."""
    pool = Pool()
    pool.gateway.held["good-1"] = threading.Event()
    served: list[DummyBridge] = []
    threads = [threading.Thread(target=lambda: served.append(pool.visit("good-1"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert pool.gateway.hears.acquire(timeout=PATIENCE)
    pool.gateway.held["good-1"].set()
    for thread in threads:
        thread.join(PATIENCE)
    assert (len(served), len(set(served)), pool.gateway.asked["good-1"]) == (8, 1, 1)
    pool.await_rest()
    assert sum(cast("DummyBridge", tenant.bridge).closed for tenant in pool.built) == len(pool.built) - 1


def test_who_was_used_longest_ago_loses_its_place() -> None:
    """A third key takes the place of the one that was used longest ago, which is closed; that one may come again."""
    pool = Pool(2)
    first, second = pool.visit("good-1"), pool.visit("good-2")
    pool.visit("good-1")
    pool.visit("good-3")
    assert (sorted(pool.resident), first.closed, second.closed) == (["good-1", "good-3"], 0, 1)
    assert pool.told[-1] == ("tenant_evicted", "capacity")
    assert pool.visit("good-2") is not second


def test_who_loses_its_place_is_closed_after_its_last_request() -> None:
    """Neither others nor the end take a bridge from the requests that use it."""
    pool = Pool(1)
    with pool.use("good-1") as bridge:
        with pool.use("good-1") as again:
            assert again is bridge
            pool.visit("good-2")
            pool.tenants.close("stop")
        assert (pool.resident, bridge.closed) == ([], 0)
    assert (bridge.closed, bridge.closed_in_use) == (1, False)
    assert [reason for name, reason in pool.told if name == "tenant_evicted"] == ["capacity", "stop"]


def test_bad_keys_take_nobodys_place() -> None:
    """Five hundred bad keys, twice each, are asked about once each and leave everybody where they are."""
    pool = Pool(2)
    kept = [pool.visit("good-1"), pool.visit("good-2")]
    for number in range(500):
        refuse(pool, f"bad-{number}")
        refuse(pool, f"bad-{number}")
    assert [pool.visit("good-1"), pool.visit("good-2")] == kept
    assert set(pool.gateway.asked.values()) == {1}


def test_a_flood_takes_no_candidates_chance() -> None:
    """A key about which the gateway is still asked gets its place, whatever number of others comes meanwhile."""
    pool = Pool(1)
    pool.gateway.held["good-1"] = threading.Event()
    thread = threading.Thread(target=pool.visit, args=("good-1",))
    thread.start()
    assert pool.gateway.hears.acquire(timeout=PATIENCE)
    for number in range(2 * CANDIDATES_LEAST):
        refuse(pool, f"bad-{number}")
    for number in range(CANDIDATES_LEAST - 1):
        pool.visit(f"down-{number}")
    pool.gateway.held["good-1"].set()
    thread.join(PATIENCE)
    assert pool.resident == ["good-1"]


def test_who_was_pushed_out_gets_no_place_afterwards() -> None:
    """A candidate that has lost its chance while it was asked about is closed, and is nobody's tenant."""
    pool = Pool(1)
    pool.gateway.held["good-1"] = threading.Event()
    thread = threading.Thread(target=pool.visit, args=("good-1",))
    thread.start()
    assert pool.gateway.hears.acquire(timeout=PATIENCE)
    for number in range(CANDIDATES_LEAST):
        pool.visit(f"down-{number}")
    pool.gateway.held["good-1"].set()
    thread.join(PATIENCE)
    pool.await_rest()
    assert (pool.resident, cast("DummyBridge", pool.built[0].bridge).closed) == ([], 1)
    pool.visit("good-1")
    assert pool.resident == ["good-1"]


def test_a_key_that_is_revoked_leaves() -> None:
    """Where a call is refused the key loses its place and is refused from then on; the call itself goes on."""
    pool = Pool(2)
    with pool.use("good-1") as bridge:
        pool.refusing["good-1"](KeyRefused("revoked", status=401))
        pool.refusing["good-1"](KeyRefused("revoked", status=401))
        refuse(pool, "good-1")
        assert (pool.resident, bridge.closed) == ([], 0)
    assert bridge.closed == 1
    assert pool.told == [("tenant_added", None), ("key_refused", 401), ("tenant_evicted", "refused")]


def test_a_key_that_is_revoked_while_it_is_asked_about_gets_no_place() -> None:
    """A refusal that comes before the end of the question counts."""
    pool = Pool()
    pool.gateway.held["good-1"] = threading.Event()
    thread = threading.Thread(target=pool.visit, args=("good-1",))
    thread.start()
    assert pool.gateway.hears.acquire(timeout=PATIENCE)
    pool.refusing["good-1"](KeyRefused("revoked", status=401))
    pool.gateway.held["good-1"].set()
    thread.join(PATIENCE)
    pool.await_rest()
    assert (pool.resident, cast("DummyBridge", pool.built[0].bridge).closed) == ([], 1)
    assert pool.told == [("key_refused", 401)]


def test_without_a_place_to_wait_nothing_is_begun() -> None:
    """Where all places for questions are taken a key is turned away before anything is made for it."""
    pool = Pool(places=1)
    pool.gateway.held["good-1"] = threading.Event()
    thread = threading.Thread(target=pool.visit, args=("good-1",))
    thread.start()
    assert pool.gateway.hears.acquire(timeout=PATIENCE)
    for key in ("good-1", "good-2"):
        with pytest.raises(TurnedAway):
            pool.tenants.acquire(key)
    assert len(pool.built) == 1
    pool.gateway.held["good-1"].set()
    thread.join(PATIENCE)
    pool.await_rest()
    pool.visit("good-2")
    assert pool.gateway.asked == {"good-1": 1, "good-2": 1}


def test_without_a_thread_to_ask_on_nothing_is_kept() -> None:
    """Where the system gives no more threads the request fails, and the next one can ask."""
    pool = Pool()
    pool.tenants._asking = Lane("test", 1)
    size = threading.stack_size(1 << 45)  # more than any machine has
    try:
        with pytest.raises(RuntimeError, match="thread"):
            pool.tenants.acquire("good-1")
    finally:
        threading.stack_size(size)
    pool.await_rest()
    pool.tenants._asking = Lane("test", 1)
    pool.visit("good-1")
    assert pool.resident == ["good-1"]


STEPS = st.lists(
    st.tuples(st.sampled_from(["visit", "begin", "end", "revoke"]), st.integers(0, 5)), min_size=1, max_size=40
)


@given(capacity=st.integers(1, 3), steps=STEPS)
def test_places_are_those_of_a_list(capacity: int, steps: list[tuple[str, int]]) -> None:
    """Whatever happens in whichever order, the places are the last used keys, and who has none and no use is closed."""
    pool, places, refused = Pool(capacity), [], set()
    open_uses: list[Tenant] = []
    for step, number in steps:
        key = f"good-{number}"
        if step in ("visit", "begin") and key in refused:
            refuse(pool, key)
        elif step in ("visit", "begin"):
            tenant = pool.tenants.acquire(key)
            places = [*(each for each in places if each != key), key][-capacity:]
            open_uses.append(tenant)
            if step == "visit":
                pool.tenants.release(open_uses.pop())
        elif step == "end" and open_uses:
            pool.tenants.release(open_uses.pop(0))
        elif step == "revoke" and key in places:
            pool.refusing[key](KeyRefused("revoked", status=401))
            places.remove(key)
            refused.add(key)
        assert sorted(pool.resident) == sorted(places)
    for tenant in open_uses:
        pool.tenants.release(tenant)
    pool.await_rest()
    kept = {tenant.digest for tenant in pool.tenants.resident}
    assert kept == set(map(compute_digest, places))
    for tenant in pool.built:
        assert cast("DummyBridge", tenant.bridge).closed == (tenant not in pool.tenants.resident)


def test_threads_lose_nothing() -> None:
    """32 threads bring more keys than there are places, good, bad and down: nobody is lost, and no limit is passed."""
    ticks = iter(range(10**9))
    pool = Pool(3, places=16, clock=lambda: next(ticks) / 50)  # 30 s pass with every 1,500 looks at it
    keys = [f"{word}-{number}" for word in ("good", "bad", "down") for number in range(6)]
    end, most, failures = time.monotonic() + STRESS_SECONDS, [0], []

    def work(seed: int) -> None:
        turn = seed
        while time.monotonic() < end:
            turn += 7
            key = keys[turn % len(keys)]
            try:
                with pool.use(key) as bridge:
                    if bridge.closed or key.startswith("bad"):
                        failures.append((key, bridge.closed))
                    if turn % 11 == 0:
                        pool.refusing[key](KeyRefused("revoked", status=401))
            except (KeyRefused, TurnedAway):
                pass
            except BaseException as error:
                failures.append(error)
                raise
            most[0] = max(most[0], len(pool.tenants.resident))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(STRESS_SECONDS + PATIENCE)
    pool.await_rest()
    assert (failures, most[0]) == ([], 3)
    pool.tenants.close("stop")
    bridges = [cast("DummyBridge", tenant.bridge) for tenant in pool.built]
    assert [bridge.key for bridge in bridges if bridge.closed != 1 or bridge.closed_in_use] == []
    names = Counter(name for name, _ in pool.told)
    assert names["tenant_added"] == names["tenant_evicted"] > 0
