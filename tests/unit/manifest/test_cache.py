"""The current manifest for any number of threads: one fetch, the last good copy, and when to ask again."""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from colabhive_mcp.errors import BadAnswer, BridgeError, GatewayError, GatewayUnreachable, KeyRefused
from colabhive_mcp.manifest.cache import Fetched, ManifestCache, NotModified
from colabhive_mcp.manifest.model import Manifest
from colabhive_mcp.telemetry.events import Event, ManifestFailed, ManifestFetched, ToolLeftOut

TTL = 300.0
PATIENCE = 10.0


def document(*names: str) -> dict[str, Any]:
    """A discovery response with these tools."""
    return {"tools": [{"name": name} for name in names]}


def page(*names: str, etag: str | None = None, pages: int = 1) -> Fetched:
    """A fetched manifest with these tools; its tag is made of their names unless one is given."""
    return Fetched(document(*names), etag or f'W/"{"-".join(names)}"', 100, pages)


@dataclass
class Gateway:
    """Answers by a script, of which the last step is repeated; can be held at its door."""

    steps: list[Any]
    etags: list[str | None] = field(default_factory=list)
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    door: threading.Event = field(default_factory=threading.Event)
    now: float = 1000.0
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.door.set()

    def fetch(self, etag: str | None) -> Fetched | NotModified:
        """The next step of the script."""
        self.etags.append(etag)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        self.asked.release()
        assert self.door.wait(PATIENCE)
        if isinstance(step, BaseException):
            raise step
        answer: Fetched | NotModified = step() if callable(step) else step
        return answer

    def cache(self, ttl: float = TTL) -> ManifestCache:
        """A cache over this gateway, on its clock."""
        return ManifestCache(self.fetch, ttl=ttl, record=self.events.append, clock=lambda: self.now)

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


class Crowd:
    """Threads that do the same at once; ``results`` has what each returned or raised."""

    def __init__(self, size: int, action: Callable[[], Any]) -> None:
        self.results: list[Any] = []
        self._ready = threading.Barrier(size + 1)
        self._action = action
        self._threads = [threading.Thread(target=self._run) for _ in range(size)]
        for thread in self._threads:
            thread.start()
        self._ready.wait(PATIENCE)

    def _run(self) -> None:
        self._ready.wait(PATIENCE)
        try:
            self.results.append(self._action())
        except BaseException as error:
            self.results.append(error)

    def join(self) -> list[Any]:
        """Wait until all are done."""
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        return self.results


def names(manifest: Manifest) -> list[str]:
    """The slugs of a manifest."""
    return list(manifest.tools)


# One fetch for all


def test_a_cold_start_is_one_fetch() -> None:
    """However many ask before there is anything, the gateway is asked once, and all get its answer."""
    gateway = Gateway([page("a")])
    gateway.door.clear()
    cache = gateway.cache()
    crowd = Crowd(50, cache.get)
    assert gateway.asked.acquire(timeout=PATIENCE)
    gateway.door.set()
    results = crowd.join()
    assert len(gateway.etags) == 1
    assert all(result is cache.copy for result in results)


def test_a_cold_start_that_fails_is_one_fetch() -> None:
    """When the first fetch fails, all who waited are told the same, and nobody asks again at once."""
    gateway = Gateway([GatewayUnreachable("away"), page("a")])
    gateway.door.clear()
    cache = gateway.cache()
    crowd = Crowd(50, cache.get)
    assert gateway.asked.acquire(timeout=PATIENCE)
    gateway.door.set()
    assert {str(result) for result in crowd.join()} == {"away"}
    with pytest.raises(GatewayUnreachable):
        cache.get()
    assert len(gateway.etags) == 1
    gateway.now += 1.0
    assert names(cache.get()) == ["a"]


def test_at_expiry_one_fetches_and_nobody_else_waits() -> None:
    """While one thread looks for a newer manifest, all others are served the copy at hand."""
    gateway = Gateway([page("a"), page("a", "b")])
    cache = gateway.cache()
    old = cache.get()
    gateway.now += TTL
    gateway.door.clear()
    looker = Crowd(1, cache.get)
    gateway.asked.acquire()
    assert gateway.asked.acquire(timeout=PATIENCE)
    assert Crowd(50, cache.get).join() == [old] * 50
    gateway.door.set()
    (new,) = looker.join()
    assert (names(new), len(gateway.etags)) == (["a", "b"], 2)
    assert cache.get() is new


def test_fifty_at_expiry_are_one_fetch() -> None:
    """When fifty ask at the moment of expiry, one fetch is made."""
    gateway = Gateway([page("a"), page("a", "b")])
    cache = gateway.cache()
    cache.get()
    gateway.now += TTL
    results = Crowd(50, cache.get).join()
    assert len(gateway.etags) == 2
    assert {tuple(names(result)) for result in results} <= {("a",), ("a", "b")}


def test_the_lock_is_free_during_a_fetch() -> None:
    """While the gateway is asked, everything else about the cache is answered."""
    gateway = Gateway([page("a")])
    cache = gateway.cache()
    gateway.door.clear()
    looker = Crowd(1, cache.get)
    assert gateway.asked.acquire(timeout=PATIENCE)
    assert Crowd(1, lambda: (cache.copy, cache.until_due(), cache.wait_change(None, 0))).join() == [(None, 0.0, None)]
    gateway.door.set()
    looker.join()


@pytest.mark.parametrize("error", [RuntimeError("ours"), KeyboardInterrupt(), SystemExit()])
def test_a_fetch_that_breaks_leaves_no_one_waiting(error: BaseException) -> None:
    """A fault of ours in one thread's fetch is that thread's; the next one fetches."""
    gateway = Gateway([error, page("a")])
    cache = gateway.cache()
    (result,) = Crowd(1, cache.get).join()
    assert result is error
    assert names(cache.get()) == ["a"]


# Freshness


def test_fresh_for_its_time() -> None:
    """Within its time a copy is served without a question, and at its end there is one."""
    gateway = Gateway([page("a"), NotModified()])
    cache = gateway.cache()
    first = cache.get()
    for _ in range(3):
        gateway.now += TTL / 4
        assert cache.get() is first
    assert gateway.etags == [None]
    gateway.now += TTL / 4
    assert cache.get() is first
    assert gateway.etags == [None, 'W/"a"']


def test_unchanged_renews() -> None:
    """A 304 makes the copy fresh again, and is recorded as unchanged and without bytes."""
    gateway = Gateway([page("a", "b"), NotModified()])
    cache = gateway.cache()
    cache.get()
    gateway.now += TTL
    cache.get()
    gateway.now += TTL - 1
    cache.get()
    assert len(gateway.etags) == 2
    first, second = gateway.of(ManifestFetched)
    assert (first.bytes, first.tools, first.etag, first.unchanged) == (100, 2, 'W/"a-b"', False)
    assert (second.bytes, second.tools, second.etag, second.unchanged) == (0, 2, 'W/"a-b"', True)


@pytest.mark.parametrize("etag", ['W/"sha256:ä"', '"x"', "bare", 'W/"a", W/"b"'])
def test_tags_are_sent_back_as_received(etag: str) -> None:
    """Whatever a tag looks like, it goes back exactly so."""
    gateway = Gateway([page("a", etag=etag)])
    cache = gateway.cache()
    cache.get()
    gateway.now += TTL
    cache.get()
    assert gateway.etags == [None, etag]


def test_several_pages_are_read_whole() -> None:
    """A manifest of several pages is never asked for by its tag, which covers only the first."""
    gateway = Gateway([page("a", pages=2), page("a")])
    cache = gateway.cache()
    cache.get()
    gateway.now += TTL
    cache.get()
    gateway.now += TTL
    cache.get()
    assert gateway.etags == [None, None, 'W/"a"']


def test_another_order_is_no_change() -> None:
    """The same tools in another order, under the same tag, are the copy at hand."""
    gateway = Gateway([page("a", "b", etag="t"), page("b", "a", etag="t")])
    cache = gateway.cache()
    first = cache.get()
    gateway.now += TTL
    assert cache.get() is first


def test_a_new_tag_is_kept() -> None:
    """Where only the tag is another, the next question carries the new one."""
    gateway = Gateway([page("a", etag="1"), page("a", etag="2")])
    cache = gateway.cache()
    for _ in range(3):
        cache.get()
        gateway.now += TTL
    assert gateway.etags == [None, "1", "2"]


def test_unchanged_without_anything_is_a_bad_answer() -> None:
    """A 304 to a question without a tag is the gateway's fault."""
    with pytest.raises(BadAnswer, match="304"):
        Gateway([NotModified()]).cache().get()


# Failures

FAILURES: list[Any] = [
    GatewayUnreachable("timed out"),
    GatewayUnreachable("failed", status=500),
    KeyRefused("no", status=401),
    BadAnswer("a page instead of JSON"),
    Fetched(None, None, 4),
    Fetched([], None, 2),
    Fetched({}, None, 2),
    Fetched({"tools": {}}, None, 2),
    Fetched({"tools": None}, None, 2),
    page(),
    Fetched({"tools": [{"name": ""}, None]}, None, 2),
]


@pytest.mark.parametrize("failure", FAILURES)
def test_the_last_good_copy_stays(failure: Any) -> None:
    """Whatever comes instead of a good manifest, the copy at hand is served, with one event, and asked again soon."""
    gateway = Gateway([page("a", "b"), failure, page("c")])
    cache = gateway.cache()
    first = cache.get()
    gateway.now += TTL
    for _ in range(5):
        assert cache.get() is first
    (event,) = gateway.of(ManifestFailed)
    assert (event.retry_in_s, event.serving) == (1.0, 2)
    assert len(gateway.etags) == 2
    gateway.now += 1.0
    assert names(cache.get()) == ["c"]


@pytest.mark.parametrize("failure", FAILURES[:9])
def test_without_a_copy_a_failure_is_told(failure: Any) -> None:
    """Where there is no copy the failure is what everybody gets."""
    cache = Gateway([failure]).cache()
    for _ in range(2):
        with pytest.raises(BridgeError):
            cache.get()
    assert cache.copy is None


def test_backing_off() -> None:
    """With a copy at hand the tries become rarer, from one second doubling to one a minute, until one succeeds."""
    gateway = Gateway([page("a"), *[GatewayUnreachable("away")] * 9, page("b"), GatewayUnreachable("away")])
    cache = gateway.cache()
    cache.get()
    gateway.now += TTL
    for delay in (1, 2, 4, 8, 16, 32, 60, 60, 60):
        before = len(gateway.etags)
        cache.get()
        assert len(gateway.etags) == before + 1
        gateway.now += delay - 0.01
        cache.get()
        assert len(gateway.etags) == before + 1
        gateway.now += 0.01
    assert names(cache.get()) == ["b"]
    gateway.now += TTL
    cache.get()
    assert [event.retry_in_s for event in gateway.of(ManifestFailed)] == [1, 2, 4, 8, 16, 32, 60, 60, 60, 1]


@pytest.mark.parametrize(
    ("ordered", "waited"), [(0.0, 1.0), (0.5, 1.0), (90.0, 90.0), (3600.0, 3600.0), (10.0**9, 86_400.0)]
)
@pytest.mark.parametrize("cold", [True, False])
def test_no_try_before_the_gateway_said(ordered: float, waited: float, cold: bool) -> None:
    """A wait that the gateway asks for is kept, with and without a copy, but for one of more than a day."""
    busy = GatewayError("busy", status=429, retry_after=ordered)
    gateway = Gateway([*([] if cold else [page("a")]), busy, page("b")])
    cache = gateway.cache()
    if not cold:
        cache.get()
    gateway.now += TTL
    for _ in range(2):
        with contextlib.suppress(GatewayError):
            cache.get()
    assert [event.retry_in_s for event in gateway.of(ManifestFailed)] == [waited]
    gateway.now += waited - 0.01
    with contextlib.suppress(GatewayError):
        assert names(cache.get()) == ["a"]
    gateway.now += 0.01
    assert names(cache.get()) == ["b"]


def test_who_has_nothing_is_eager() -> None:
    """Without a copy a caller may have a try each second, however often it failed."""
    gateway = Gateway([GatewayUnreachable("away")])
    cache = gateway.cache()
    for tries in range(1, 8):
        for _ in range(3):
            with pytest.raises(GatewayUnreachable):
                cache.get()
        assert len(gateway.etags) == tries
        gateway.now += 1.0


def test_a_failure_that_many_are_told_does_not_grow() -> None:
    """The error that everybody gets keeps no trace of those who got it before."""
    cache = Gateway([GatewayUnreachable("away")]).cache()
    depths = []
    for _ in range(20):
        with pytest.raises(GatewayUnreachable) as raised:
            cache.get()
        depths.append(len(raised.traceback))
    assert depths[-1] <= depths[1]


def test_no_tools_are_believed_the_second_time() -> None:
    """After some tools, none are a hiccup once and the truth when the next answer says so too."""
    gateway = Gateway([page("a"), page()])
    cache = gateway.cache()
    first = cache.get()
    gateway.now += TTL
    assert cache.get() is first
    gateway.now += 1.0
    assert names(cache.get()) == []
    gateway.now += TTL
    assert names(cache.get()) == []


@pytest.mark.parametrize("between", [NotModified(), page("a"), page("b")])
def test_a_hiccup_is_forgotten(between: Any) -> None:
    """When the tools were there in between, none are again a hiccup the first time."""
    gateway = Gateway([page("a"), page(), between, page()])
    cache = gateway.cache()
    cache.get()
    for step in (TTL, 1.0, TTL):
        gateway.now += step
        assert names(cache.get()) != []


def test_a_failure_in_between_is_no_answer() -> None:
    """A failure between two answers without tools is neither here nor there."""
    gateway = Gateway([page("a"), page(), GatewayUnreachable("away"), page()])
    cache = gateway.cache()
    cache.get()
    for step in (TTL, 1.0, 2.0):
        gateway.now += step
        last = cache.get()
    assert names(last) == []


def test_an_empty_start_is_believed() -> None:
    """A gateway that has had no tools from the beginning has none."""
    assert names(Gateway([page()]).cache().get()) == []


def test_what_is_left_out_is_told_once() -> None:
    """An entry that cannot be offered is told when it comes, and not again as long as it stays."""
    broken = {"tools": [{"name": "a"}, None]}
    gateway = Gateway(
        [Fetched(broken, "1", 9), Fetched(broken, "2", 9), Fetched({"tools": [{"name": "a"}, 5, 6]}, "3", 9)]
    )
    cache = gateway.cache()
    counts = []
    for _ in range(3):
        cache.get()
        counts.append(len(gateway.of(ToolLeftOut)))
        gateway.now += TTL
    assert counts == [1, 1, 2]


# Looking for one tool


def test_an_unknown_tool_is_looked_for() -> None:
    """A tool that the copy lacks is found without waiting for the copy's end."""
    gateway = Gateway([page("a"), page("a", "b")])
    cache = gateway.cache()
    cache.get()
    assert names(cache.refresh_for("b")) == ["a", "b"]
    assert gateway.etags == [None, 'W/"a"']


def test_one_look_a_period() -> None:
    """Tools that are nowhere cause at most one look a back-off period, which grows while none is found."""
    gateway = Gateway([page("a"), NotModified()])
    cache = gateway.cache()
    cache.get()
    looks = []
    for second in range(200):
        for slug in ("x", "y", f"z{second}"):
            cache.refresh_for(slug)
        looks.append(len(gateway.etags))
        gateway.now += 1.0
    assert [second for second in range(1, 200) if looks[second] > looks[second - 1]] == [1, 3, 7, 15, 31, 63, 123, 183]


def test_a_find_ends_the_period() -> None:
    """When a look brought the tool, the next unknown one may be looked for at once."""
    gateway = Gateway([page("a"), page("a", "b"), page("a", "b", "c")])
    cache = gateway.cache()
    cache.get()
    cache.refresh_for("b")
    assert "c" in cache.refresh_for("c").tools


def test_a_known_tool_is_looked_for_once_a_period_too() -> None:
    """A tool that the gateway denies although its manifest has it is no reason to ask for the manifest each time."""
    gateway = Gateway([page("a"), NotModified()])
    cache = gateway.cache()
    cache.get()
    for _ in range(10):
        cache.refresh_for("a")
    assert len(gateway.etags) == 2


def test_looking_waits_for_a_look_that_has_begun() -> None:
    """Many who miss the same tool at once see what one look brought; who comes when it is over may have one more."""
    gateway = Gateway([page("a"), page("a", "b")])
    cache = gateway.cache()
    cache.get()
    gateway.asked.acquire()
    gateway.door.clear()
    first = Crowd(1, lambda: cache.refresh_for("b"))
    assert gateway.asked.acquire(timeout=PATIENCE)
    rest = Crowd(20, lambda: cache.refresh_for("b"))
    gateway.door.set()
    assert all("b" in result.tools for result in first.join() + rest.join())
    assert len(gateway.etags) <= 3


def test_looking_with_nothing_at_hand_is_a_cold_start() -> None:
    """Before the first copy a look is the first fetch."""
    gateway = Gateway([page("a")])
    assert names(gateway.cache().refresh_for("x")) == ["a"]
    assert len(gateway.etags) == 1


def test_looking_while_the_gateway_is_away() -> None:
    """While the cache backs off there is no look, and the copy at hand is the answer."""
    gateway = Gateway([page("a"), GatewayUnreachable("away")])
    cache = gateway.cache()
    first = cache.get()
    for _ in range(5):
        assert cache.refresh_for("x") is first
    assert len(gateway.etags) == 2
    assert len(gateway.of(ManifestFailed)) == 1


# Waiting for a change


def test_waiting_ends_with_the_change() -> None:
    """Who waits for another copy has it as soon as it is there."""
    gateway = Gateway([page("a"), page("b")])
    cache = gateway.cache()
    waiting = Crowd(1, lambda: cache.wait_change(None, PATIENCE))
    first = cache.get()
    assert waiting.join() == [first]
    again = Crowd(1, lambda: cache.wait_change(first, PATIENCE))
    gateway.now += TTL
    second = cache.get()
    assert again.join() == [second]


def test_waiting_ends_with_the_time() -> None:
    """Without a change the copy at hand comes back when the time is over."""
    gateway = Gateway([page("a")])
    cache = gateway.cache()
    first = cache.get()
    begun = time.monotonic()
    assert cache.wait_change(first, 0.05) is first
    assert time.monotonic() - begun >= 0.04
    assert cache.wait_change(None, PATIENCE) is first


def test_when_the_next_look_is_due() -> None:
    """The next look is due at the end of the copy's time, or when the cache has backed off long enough."""
    gateway = Gateway([page("a"), GatewayUnreachable("away")])
    cache = gateway.cache()
    assert cache.until_due() == 0
    cache.get()
    assert cache.until_due() == TTL
    gateway.now += TTL - 1
    assert cache.until_due() == 1
    gateway.now += 5
    assert cache.until_due() == 0
    cache.get()
    assert cache.until_due() == 1
    gateway.now += 1
    cache.get()
    assert cache.until_due() == 2


def test_a_pinned_manifest_is_never_due() -> None:
    """With a time without end there is one fetch, ever."""
    gateway = Gateway([page("a")])
    cache = gateway.cache(ttl=float("inf"))
    first = cache.get()
    gateway.now += 10**9
    assert cache.get() is first
    assert cache.until_due() == float("inf")


# Under load


def test_hammering() -> None:
    """Threads that read, look, wait and expire a tiny copy over and over see only whole manifests and no error."""
    count = iter(range(10**9))
    lock = threading.Lock()

    def fetch(etag: str | None) -> Fetched | NotModified:
        with lock:
            turn = next(count)
        if turn % 7 == 3:
            raise GatewayUnreachable("away")
        if turn % 5 == 2 and etag is not None:
            return NotModified()
        return page("a", f"t{turn % 3}")

    clock = _Fast()
    cache = ManifestCache(fetch, ttl=0.001, record=lambda _: None, clock=clock)
    cache.get()
    end = time.monotonic() + 1.5

    def ask(turn: int) -> Manifest | None:
        if turn % 3 == 0:
            return cache.get()
        return cache.refresh_for(f"t{turn % 4}") if turn % 3 == 1 else cache.wait_change(cache.copy, 0)

    def work() -> None:
        turn = 0
        while time.monotonic() < end:
            turn += 1
            manifest = ask(turn)
            assert manifest is not None
            assert len(manifest.tools) == 2
            assert "a" in manifest.tools
            assert cache.until_due() >= 0

    assert Crowd(32, work).join() == [None] * 32
    assert next(count) > 50


class _Fast:
    """A clock on which a second is a thousand, so that backing off is over soon."""

    def __call__(self) -> float:
        return time.monotonic() * 1000


# Looking now, and how old it is


def test_a_look_now_asks_though_the_copy_is_fresh() -> None:
    """Who asks for a look gets what the gateway has now, however fresh the copy is."""
    gateway = Gateway([page("a"), page("a", "b")])
    cache = gateway.cache()
    cache.get()
    manifest, error = cache.renew()
    assert (names(manifest), error) == (["a", "b"], None)
    assert cache.copy is manifest


def test_a_look_that_fails_tells_why_beside_the_copy() -> None:
    """The last good copy comes back with what went wrong, and the next look waits for the back-off."""
    gateway = Gateway([page("a"), GatewayUnreachable("away"), page("b")])
    cache = gateway.cache()
    cache.get()
    manifest, error = cache.renew()
    assert (names(manifest), error) == (["a"], "away")
    assert cache.is_failing
    assert cache.renew()[1] == "away"
    assert len(gateway.etags) == 2
    gateway.now += 1
    assert cache.renew()[1] is None
    assert not cache.is_failing


def test_a_look_without_any_copy_raises() -> None:
    """Where there is nothing to fall back to, the error itself is the answer."""
    cache = Gateway([KeyRefused("no", status=401)]).cache()
    for _ in range(2):
        with pytest.raises(KeyRefused):
            cache.renew()


def test_looks_at_the_same_time_are_one() -> None:
    """Those who ask while a look is under way wait for it and take what it brings."""
    gateway = Gateway([page("a"), page("b")])
    cache = gateway.cache()
    cache.get()
    gateway.door.clear()
    crowd = Crowd(20, cache.renew)
    assert gateway.asked.acquire(timeout=PATIENCE)
    assert gateway.asked.acquire(timeout=PATIENCE)
    gateway.door.set()
    assert {tuple(names(manifest)) for manifest, _ in crowd.join()} == {("b",)}


def test_the_age_is_that_of_the_last_answer() -> None:
    """A copy is as old as the last time that the gateway said it was its own, be it by a 304."""
    gateway = Gateway([page("a"), NotModified(), GatewayUnreachable("away")])
    cache = gateway.cache()
    assert cache.age == 0
    cache.get()
    gateway.now += TTL + 5
    assert cache.age == TTL + 5
    cache.get()
    assert cache.age == 0
    gateway.now += TTL + 7
    cache.get()
    assert cache.age == TTL + 7
