"""Every figure of the relay: what one process does for many keys at once.

Each `measure_` gives the figures of one question. The load is bounded in time and in number; what is measured and its
floor take turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from bench import floors, gateway, plain, tools
from bench.child import ChildError
from bench.crowd import Crowd, Orders, open_crowd
from bench.figures import Figure, Samples, Target, to_percentile
from bench.hosted import Relay, Use, Visitor, Volley, build_post, open_relay, open_visitors, to_keys
from bench.session import to_call
from bench.stdio import HELD, INSTANT, QUEUED, TOOLS, Setting, alternate
from bench.wrk import CONNECTIONS, Load, Post, Server, find_wrk, load

TENANTS = 64
FEW_TENANTS = 4
REFUSED_KEYS = 500
VOLLEYS = {32: 650.0, 64: 700.0, 100: 800.0}  # calls at once: the milliseconds that they may take
PLACES = 112  # for calls: the relay's threads without its reserve
TENANT_PLACES = 28  # of them for one key of four
POLLING_SECONDS = 30.0
_TURN_SECONDS = 3.0
_WARMING_SECONDS = 5.0
_UNDER_WAY_SECONDS = 0.1
_TURNS = 3
_LIST, _CALL = build_post("tools/list"), build_post("tools/call", to_call(INSTANT))
_FLAT = 1.05


def measure_relay_list(setting: Setting) -> list[Figure]:
    """A list that is already made, against an application that answers as many bytes."""
    find_wrk()
    with ExitStack() as stack:
        relay = stack.enter_context(open_relay(setting.place, setting.upstream))
        size = _measure_size(relay.port)
        constant = stack.enter_context(plain.open_plain(setting.place, "constant", str(size)))
        floor, listed = _take_turns(setting, (constant, [_LIST]), (relay, [_LIST]))
    samples = _to_rates(listed, floor, f"a WSGI application answers {size:,} bytes")
    note = f"p99 {_find_p99(listed):.1f} against {_find_p99(floor):.1f} ms; {_compare_cpu(listed, floor)}"
    return [Figure(f"relay: warm tools/list, {TOOLS} tools", samples, Target.least_of_floor(0.6), note)]


def measure_relay_call(setting: Setting) -> list[Figure]:
    """A call that the gateway answers at once, against what only forwards it, and against doing without anything."""
    find_wrk()
    path = f"{gateway.PREFIX}/actions/{INSTANT}:invoke"
    straight = Post(path, _CALL.headers, _CALL.body)
    with ExitStack() as stack:
        relay = stack.enter_context(open_relay(setting.place, setting.upstream))
        forward = stack.enter_context(plain.open_plain(setting.place, "forward", setting.upstream.url + path))
        constant = stack.enter_context(plain.open_plain(setting.place, "constant", "300"))
        floor, called = _take_turns(setting, (forward, [_CALL]), (relay, [_CALL]))
        direct = load(setting.upstream, [straight], seconds=1)
        answered = load(constant, [_CALL], seconds=1)
    forwards = "a WSGI application forwards it with requests"
    others = f"the gateway itself {direct.rate:,.0f}, a constant answer {answered.rate:,.0f} /s"
    note = f"{others}; {_compare_cpu(called, floor)}"
    p99 = Samples(measured=[c.p99 for c in called], floor=[f.p99 for f in floor], floor_is=forwards)
    return [
        Figure("relay: tools/call", _to_rates(called, floor, forwards), Target.least_of_floor(0.75), note),
        Figure("relay: tools/call, p99", p99, Target.at_most(60), f"{CONNECTIONS} connections"),
    ]


def measure_relay_tenants(setting: Setting) -> list[Figure]:
    """Many keys with nearly the same tools, against one."""
    find_wrk()
    keys = to_keys(TENANTS)
    posts = [build_post("tools/list", key=key) for key in keys]
    with open_relay(setting.place, setting.upstream) as relay:
        _introduce(relay, keys[:1])
        alone = relay.read_use().megabytes
        _introduce(relay, keys)
        listed_once = relay.read_use().megabytes
        floor, listed = _take_turns(setting, (relay, posts[:1]), (relay, posts))
        memory = relay.read_use().megabytes
    what = f"relay: {TENANTS} tenants with {TOOLS} tools"
    return [
        Figure(
            f"{what}: memory",
            Samples(measured=[memory], floor=[alone], floor_is="one tenant", unit="MB"),
            Target.at_most(110, "MB"),
            f"{listed_once:.1f} MB after each has listed once",
        ),
        Figure(f"{what}: tools/list", _to_rates(listed, floor, "one tenant"), Target.least_of_floor(0.9)),
    ]


def measure_relay_refused(setting: Setting) -> list[Figure]:
    """A burst of keys that the gateway does not know, each of them twice, while a tenant lists."""
    find_wrk()
    tenants = to_keys(TENANTS)
    strangers: list[tuple[str, str, dict[str, Any]]] = [
        (f"{gateway.REFUSED}{number:04d}", "tools/list", {}) for number in range(REFUSED_KEYS)
    ]
    post = build_post("tools/list", key=tenants[0])
    with ExitStack() as stack:
        crowd = stack.enter_context(open_crowd(setting.place))
        relay = stack.enter_context(open_relay(setting.place, setting.upstream))
        _introduce(relay, tenants)
        load(relay, [post], seconds=1)
        before = [load(relay, [post], seconds=1).rate for _ in range(_TURNS)]
        burst = Orders(port=relay.port, clients=CONNECTIONS, requests=strangers, seconds=60, count=2 * REFUSED_KEYS)
        crowd.begin(burst)
        during, told = _measure_meanwhile(crowd, lambda: load(relay, [post], seconds=1).rate)
        keys, most = setting.upstream.count_refused()
        evicted = relay.count_events("pool.tenant_evicted")
    asked = sum(told["answers"].values())
    refused = sum(count for words, count in told["answers"].items() if words.startswith("401"))
    if (asked, refused, keys) != (2 * REFUSED_KEYS, 2 * REFUSED_KEYS, REFUSED_KEYS):
        raise ChildError(f"of {asked} requests {refused} were refused, of {keys} keys: {told['answers']}")
    what = f"relay: {REFUSED_KEYS} refused keys"
    lists = Samples(measured=during, floor=before, floor_is="without them", unit="/s")
    note = f"{asked:,} refused, each in {told['p50']:.1f}, p99 {told['p99']:.1f} ms"
    once = Samples(measured=[most], floor=[1], floor_is="once for each key", unit="times")
    lost = Samples(measured=[evicted], floor=[TENANTS], floor_is="all of them", unit="")
    return [
        Figure(f"{what}: others' lists meanwhile", lists, Target.least_of_floor(0.5), note),
        Figure(f"{what}: the gateway is asked", once, Target.at_most(1, "time")),
        Figure(f"{what}: tenants evicted", lost, Target.at_most(0, "tenants")),
    ]


def measure_relay_volley(setting: Setting) -> list[Figure]:
    """Calls that wait for the gateway, all at once, of a few tenants."""
    keys = to_keys(FEW_TENANTS)
    figures = []
    with open_relay(setting.place, setting.upstream) as relay:
        _introduce(relay, keys)
        for count, most in VOLLEYS.items():
            first = _measure_volley(relay, keys, count) * 1e3
            posted, answered = alternate(
                partial(floors.measure_posts_at_once, setting.upstream, HELD, count=count),
                partial(_measure_volley, relay, keys, count),
                runs=setting.count(6),
            )
            samples = Samples(measured=answered, floor=posted, floor_is=f"{count} threads with http.client")
            note = f"first {first:.0f}, worst {max(answered):.0f}"
            figures.append(
                Figure(f"relay: {count} calls at once, {len(keys)} keys", samples, Target.at_most(most), note)
            )
    return figures


def measure_relay_polling(setting: Setting) -> list[Figure]:
    """Every place for calls taken by a job that is polled for: what is answered meanwhile, and how soon."""
    seconds = max(3.0, POLLING_SECONDS * setting.effort)
    pollers, other = to_keys(FEW_TENANTS), to_keys(FEW_TENANTS + 1)[-1]
    with ExitStack() as stack:
        relay = stack.enter_context(open_relay(setting.place, setting.upstream))
        _introduce(relay, [*pollers, other])
        visitors = [
            stack.enter_context(visitor) for _ in range(TENANT_PLACES) for visitor in open_visitors(relay.port, pollers)
        ]
        bystander = stack.enter_context(Visitor(relay.port, other))
        asks: list[Callable[[], float]] = [
            lambda: bystander.get("/health"),
            lambda: bystander.ask("tools/list"),
            lambda: bystander.ask("tools/call", to_call(QUEUED), status=503),
        ]
        before = [[ask() * 1e3 for _ in range(20)] for ask in asks[:2]]
        setting.upstream.control(ready_seconds=seconds)
        stack.callback(setting.upstream.control, ready_seconds=tools.READY_SECONDS)
        volley = Volley(visitors)
        volley.send(QUEUED)
        end = time.perf_counter() + seconds - 0.5
        time.sleep(0.5)
        during: list[list[float]] = [[] for _ in asks]
        while time.perf_counter() < end:
            for ask, found in zip(asks, during, strict=True):
                found.append(ask() * 1e3)
            time.sleep(0.05)
        taken = volley.receive()
    told = f"{len(visitors)} calls answered after {taken:.1f} s"
    what = f"relay: all {PLACES} places polling: "
    names = ("/health", "another tenant's tools/list", "a call too many is refused")
    idle = (before[0], before[1], before[0])
    return [
        Figure(
            what + name,
            Samples(measured=[to_percentile(found, 99)], floor=floor, floor_is="with nothing else to do"),
            Target.at_most(most),
            f"p99 of {len(found)}; median {statistics.median(found):.1f}, worst {max(found):.1f}; {told}",
        )
        for name, found, floor, most in zip(names, during, idle, (50, 100, 50), strict=True)
    ]


def measure_relay_stop(setting: Setting) -> list[Figure]:
    """A stop while calls wait for the gateway: all are answered, then it ends."""
    keys = to_keys(FEW_TENANTS)
    taken = []
    for _ in range(setting.count(3)):
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(1))
            relay = stack.enter_context(open_relay(setting.place, setting.upstream))
            _introduce(relay, keys)
            visitors = [stack.enter_context(visitor) for visitor in open_visitors(relay.port, keys * 8)]
            volley = Volley(visitors)
            volley.send(HELD)
            time.sleep(_UNDER_WAY_SECONDS)
            stopping = pool.submit(relay.stop)
            volley.receive()
            taken.append(stopping.result() * 1e3)
    left = [(tools.HELD_SECONDS - _UNDER_WAY_SECONDS) * 1e3]
    samples = Samples(measured=taken, floor=left, floor_is="what the calls still take")
    note = f"{len(visitors)} calls that take {tools.HELD_SECONDS * 1e3:.0f} ms, all answered"
    return [Figure("relay: SIGTERM → end, calls in flight", samples, Target.at_most(1500), note)]


def measure_relay_soak(setting: Setting) -> list[Figure]:
    """Half the load that it can bear, with faults of the gateway: nothing fails, and nothing grows."""
    find_wrk()
    seconds, clients = setting.soak_seconds, 2 * CONNECTIONS
    keys = to_keys(FEW_TENANTS)
    most_kept = clients * len(keys)
    plan: list[tuple[str, str, dict[str, Any]]] = [
        (keys[turn % len(keys)], *_SOAK[turn % len(_SOAK)]) for turn in range(len(keys) * len(_SOAK))
    ]
    with ExitStack() as stack:
        crowd = stack.enter_context(open_crowd(setting.place))
        relay = stack.enter_context(open_relay(setting.place, setting.upstream))
        _introduce(relay, keys)
        rate = load(relay, [build_post("tools/call", to_call(INSTANT), key=keys[0])], seconds=2).rate / 2
        setting.upstream.control(fault_every=20)
        stack.callback(setting.upstream.control, fault_every=0)
        orders = Orders(port=relay.port, clients=clients, requests=plan, seconds=seconds, rate=rate)
        crowd.begin(replace(orders, seconds=_WARMING_SECONDS, rate=0))  # more than it will have to bear later
        crowd.end(patience=60)
        before = _await_rest(relay)
        crowd.begin(orders)
        told = crowd.end(patience=seconds + 90)
        after = _await_rest(relay)
    answers = dict(told["answers"])
    asked = sum(answers.values())
    failed = asked - answers.pop("ok", 0)
    note = f"{rate:.0f}/s for {seconds:.0f} s, p99 {told['p99']:.0f} ms; {list(answers.items())[:3] or 'no error'}"
    return [
        Figure(
            "relay: soak: answers that are errors",
            Samples(measured=[failed], floor=[asked], floor_is="all answers", unit=""),
            Target.at_most(0, "errors"),
            note,
        ),
        _to_drift("memory", before.megabytes, after.megabytes, Target.times_floor(_FLAT, "≤ +5 %"), "MB"),
        _to_drift("threads at rest", before.threads, after.threads, Target.times_floor(1, "the same"), ""),
        Figure(
            "relay: soak: connections of clients left",
            Samples(measured=[after.clients], floor=[clients], floor_is="while they ask", unit=""),
            Target.at_most(0, "connections"),
        ),
        Figure(
            "relay: soak: connections to the gateway kept",
            Samples(measured=[after.kept], floor=[max(before.kept, 1)], floor_is="before", unit=""),
            Target.at_most(most_kept, "connections"),
            "as many as each key may have needed at once",
        ),
    ]


_SOAK: list[tuple[str, dict[str, Any]]] = [
    *[("tools/call", to_call(INSTANT))] * 6,
    ("tools/list", {}),
    ("tools/call", to_call(QUEUED)),
    ("ping", {}),
]


def _introduce(relay: Relay, keys: list[str]) -> None:
    for key in keys:
        with Visitor(relay.port, key) as visitor:
            visitor.ask("tools/list")
            visitor.ask("tools/call", to_call(INSTANT))


def _measure_size(port: int) -> int:
    with Visitor(port) as visitor:
        visitor.ask("tools/list")
        visitor.send("tools/list")
        return len(visitor.connection.getresponse().read())


def _take_turns(setting: Setting, *asked: tuple[Server, list[Post]]) -> list[list[Load]]:
    """The load of each, one after the other, several times; a first turn warms up and does not count."""
    seconds = max(1.0, _TURN_SECONDS * setting.effort)
    for server, posts in asked:
        load(server, posts, seconds=1)
    turns = [[load(server, posts, seconds=seconds) for server, posts in asked] for _ in range(_TURNS)]
    return [list(loads) for loads in zip(*turns, strict=True)]


def _to_rates(measured: list[Load], floor: list[Load], floor_is: str) -> Samples:
    return Samples(measured=[m.rate for m in measured], floor=[f.rate for f in floor], floor_is=floor_is, unit="/s")


def _find_p99(loads: list[Load]) -> float:
    return statistics.median(each.p99 for each in loads)


def _compare_cpu(measured: list[Load], floor: list[Load]) -> str:
    """The CPU time of a request: what others do on the machine changes it less than anything else."""
    one, other = (statistics.median(each.cpu for each in loads) for loads in (measured, floor))
    return f"CPU {one:.0f} against {other:.0f} µs"


def _measure_meanwhile(crowd: Crowd, measure: Callable[[], float]) -> tuple[list[float], dict[str, Any]]:
    """Measure again and again until the crowd has done, which the last time may have seen; and what the crowd tells."""
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(crowd.end, patience=90)
        found = [measure()]
        while not told.done():
            found.append(measure())
        return found[:-1] or found, told.result()


def _measure_volley(relay: Relay, keys: list[str], count: int) -> float:
    with ExitStack() as stack:
        visitors = open_visitors(relay.port, [keys[number % len(keys)] for number in range(count)])
        for visitor in visitors:
            stack.enter_context(visitor)
        volley = Volley(visitors)
        volley.send(HELD)
        return volley.receive()


def _await_rest(relay: Relay) -> Use:
    """What it holds when the connections of clients that have gone are closed."""
    use = relay.read_use()
    for _ in range(20):
        time.sleep(0.25)
        before, use = use, relay.read_use()
        if before.threads == use.threads and not use.clients:
            break
    return use


def _to_drift(what: str, before: float, after: float, target: Target, unit: str) -> Figure:
    samples = Samples(measured=[after], floor=[before], floor_is="before", unit=unit)
    return Figure(f"relay: soak: {what}", samples, target)


MEASUREMENTS = (
    measure_relay_list,
    measure_relay_call,
    measure_relay_tenants,
    measure_relay_refused,
    measure_relay_volley,
    measure_relay_polling,
    measure_relay_stop,
    measure_relay_soak,
)
"""All of them, in the order in which they are printed."""
