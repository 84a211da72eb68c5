"""Every figure of the bridge over stdio.

Each `measure_` gives the figures of one question. What is measured and its floor take turns, so that a machine that
slows down slows both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import floors, tools
from bench.child import ChildError
from bench.figures import Figure, Samples, Target, to_percentile
from bench.session import Session, check_result, open_session, to_call
from bench.upstream import Upstream, open_upstream

if TYPE_CHECKING:
    from bench.place import Place

TOOLS = 300
MANY_TOOLS = 3000
FEW_TOOLS = len(tools.BEHAVIOURS)

INSTANT, HELD, QUEUED = (tools.to_name(index) for index in range(len(tools.BEHAVIOURS)))

_MB = 1e6
_BURST = 32
_PING_AT_SECONDS = (0.0, 0.02, 0.1, 0.25, 0.4)
_GROWTH = MANY_TOOLS / TOOLS
_OF_FEWER = f"with {TOOLS} tools"
_LEEWAY = 1.1
"""How far over a straight line still counts as one: the heap grows in steps and a median wavers."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What every measurement needs: where processes run, the gateway, how many runs are enough, how long a soak is."""

    place: Place
    upstream: Upstream
    effort: float
    soak_seconds: float

    def count(self, runs: int) -> int:
        return max(3, round(runs * self.effort))


def measure_start(setting: Setting) -> list[Figure]:
    """From the spawn to the first answers, and the memory at both moments."""
    starts = [measure_one_start(setting) for _ in range(setting.count(30) + 1)]
    starts = starts[1:]  # the first one compiles what has changed
    shaken, listed, memory_shaken, memory_listed, bare, memory_bare = (
        list(column) for column in zip(*starts, strict=True)
    )
    pass_is, idle_is = "python -c pass", "a python that waits for a line"
    return [
        Figure(
            "spawn → initialize answered",
            Samples(measured=shaken, floor=bare, floor_is=pass_is),
            Target.times_floor(4),
        ),
        Figure(
            "spawn → first tools/list answered",
            Samples(measured=listed, floor=bare, floor_is=pass_is),
            Target.times_floor(160 / 15, "≤ 160 ms where the floor is 15"),
        ),
        Figure(
            "memory after initialize",
            Samples(measured=memory_shaken, floor=memory_bare, floor_is=idle_is, unit="MB"),
            Target.at_most(28, "MB"),
        ),
        Figure(
            "memory after tools/list",
            Samples(measured=memory_listed, floor=memory_bare, floor_is=idle_is, unit="MB"),
            Target.at_most(45, "MB"),
        ),
    ]


def measure_one_start(setting: Setting) -> tuple[float, ...]:
    """Milliseconds to both answers, megabytes at both, and the same of a bare interpreter: time, then memory."""
    bare = floors.measure_start(setting.place)
    with open_session(setting.place, setting.upstream) as session:
        shaken = session.initialize()
        memory_shaken = session.child.read_memory()
        session.confirm()
        session.list_tools()
        listed = session.seconds_since_spawn()
        memory_listed = session.child.read_memory()
    memory_bare = floors.measure_memory(setting.place)
    memory = memory_shaken / _MB, memory_listed / _MB
    return shaken * 1e3, listed * 1e3, *memory, bare * 1e3, memory_bare / _MB


def measure_list(setting: Setting) -> list[Figure]:
    """A list that is already made, against a child that only writes as many bytes."""
    with ExitStack() as stack:
        session = stack.enter_context(open_ready(setting.place, setting.upstream))
        size = len(session.list_tools().line) + 1
        writer = stack.enter_context(floors.open_writer(setting.place, size=size))
        _, question = session.prepare("tools/list")
        written, listed = alternate(
            lambda: writer.exchange(question)[1], lambda: session.list_tools().seconds, runs=setting.count(150)
        )
    samples = Samples(measured=listed, floor=written, floor_is=f"a child writes {size:,} bytes")
    return [Figure(f"warm tools/list, {TOOLS} tools", samples, Target.times_floor(1.5), to_spread(listed))]


def measure_call(setting: Setting) -> list[Figure]:
    """A call that the gateway answers at once, against the bare request."""
    with ExitStack() as stack:
        session = stack.enter_context(open_ready(setting.place, setting.upstream))
        connection = stack.enter_context(closing(setting.upstream.connect()))
        posted, called = alternate(
            lambda: floors.measure_post(connection, INSTANT),
            lambda: session.call(INSTANT).seconds,
            runs=setting.count(600),
        )
    samples = Samples(measured=called, floor=posted, floor_is="the same POST with http.client")
    return [Figure("tools/call, answered at once", samples, Target.times_floor(3), to_spread(called))]


def measure_burst(setting: Setting) -> list[Figure]:
    """Many calls that wait for the gateway at once, and pings between them."""
    with open_ready(setting.place, setting.upstream) as session:
        (idle,) = alternate(lambda: session.request("ping").seconds, runs=setting.count(100))
        pinged: list[float] = []
        posted, answered = alternate(
            lambda: floors.measure_posts_at_once(setting.upstream, HELD, count=_BURST),
            lambda: run_burst(session, pinged),
            runs=setting.count(7),
        )
    return [
        Figure(
            f"{_BURST} calls at once, gateway takes {tools.HELD_SECONDS * 1e3:.0f} ms",
            Samples(measured=answered, floor=posted, floor_is=f"{_BURST} threads with http.client"),
            Target.at_most(650),
            f"first {answered[0]:.0f}, worst {max(answered):.0f}",
        ),
        Figure(
            "ping meanwhile",
            Samples(measured=pinged, floor=idle, floor_is="ping of an idle bridge"),
            Target.at_most(5),
            f"{to_spread(pinged)}, right after the calls {max(pinged[:: len(_PING_AT_SECONDS)]):.2f}",
        ),
    ]


def run_burst(session: Session, pinged: list[float]) -> float:
    """Send all calls in one write, then pings at their moments (ms go to `pinged`); seconds to the last answer."""
    calls = [session.prepare("tools/call", to_call(HELD)) for _ in range(_BURST)]
    waiting = {identifier for identifier, _ in calls}
    last = begun = time.perf_counter()
    session.child.send(b"".join(line for _, line in calls))
    due = [begun + offset for offset in _PING_AT_SECONDS]
    sent: dict[object, float] = {}
    while waiting or due or sent:
        if due and time.perf_counter() >= due[0]:
            sent[session.begin("ping")] = due.pop(0)
        if (read := session.read_until(due[0] if due else None)) is None:
            continue
        identifier = read[0].get("id")
        if identifier in sent:
            pinged.append((session.arrived - sent.pop(identifier)) * 1e3)
        elif identifier in waiting:
            check_result(read[0])
            waiting.discard(identifier)
            last = session.arrived
    return last - begun


def measure_job(setting: Setting) -> list[Figure]:
    """A job that has to be polled for."""
    with ExitStack() as stack:
        session = stack.enter_context(open_ready(setting.place, setting.upstream))
        connection = stack.enter_context(closing(setting.upstream.connect()))
        posted, answered = alternate(
            lambda: floors.measure_job(connection, QUEUED),
            lambda: session.call(QUEUED).seconds,
            runs=setting.count(12),
        )
    samples = Samples(measured=answered, floor=posted, floor_is="POST, wait, GET with http.client")
    return [Figure(f"a job ready after {tools.READY_SECONDS * 1e3:.0f} ms", samples, Target.at_most(300))]


def measure_growth(setting: Setting) -> list[Figure]:
    """Ten times the tools: the list, its refresh and the memory may grow as much, a call not at all."""
    with ExitStack() as stack:
        gateways = [
            stack.enter_context(open_upstream(setting.place, count=count)) for count in (FEW_TOOLS, TOOLS, MANY_TOOLS)
        ]
        memory = [[measure_memory(setting.place, gateway) for _ in range(setting.count(3))] for gateway in gateways]
        sessions = [stack.enter_context(open_ready(setting.place, gateway)) for gateway in gateways]
        sizes = [len(session.list_tools().line) / _MB for session in sessions]
        fewer_calls, more_calls = alternate(
            lambda: sessions[1].call(INSTANT).seconds,
            lambda: sessions[2].call(INSTANT).seconds,
            runs=setting.count(200),
        )
        fewer_refreshes, more_refreshes = alternate(
            lambda: measure_refresh(sessions[1], gateways[1]),
            lambda: measure_refresh(sessions[2], gateways[2]),
            runs=setting.count(6),
        )
        used = [session.child.read_memory() / _MB for session in sessions]
    few, fewer, more = map(statistics.median, memory)
    each = (fewer - few) / (TOOLS - FEW_TOOLS) * 1e3, (more - fewer) / (MANY_TOOLS - TOOLS) * 1e3
    told = f"{each[0]:.0f}, then {each[1]:.0f} kB a tool; {used[1]:.1f} → {used[2]:.1f} MB after refreshes"
    return [
        _to_growth("list bytes", [sizes[2]], [sizes[1]], unit="MB"),
        _to_growth("refresh, one changed", more_refreshes, fewer_refreshes),
        _to_growth("memory after tools/list", memory[2], memory[1], unit="MB", note=told),
        Figure(
            f"{MANY_TOOLS:,} tools: tools/call",
            Samples(measured=more_calls, floor=fewer_calls, floor_is=_OF_FEWER),
            Target.times_floor(_LEEWAY, "the same (+10 %)"),
        ),
    ]


def measure_memory(place: Place, gateway: Upstream) -> float:
    """Megabytes resident in a bridge that has listed its tools once."""
    with open_session(place, gateway) as session:
        session.initialize()
        session.confirm()
        session.list_tools()
        return session.child.read_memory() / _MB


def measure_refresh(session: Session, gateway: Upstream) -> float:
    """Seconds of a call to an unknown tool, for which the bridge reads a changed manifest, and of the new list."""
    before = gateway.count_sent()
    version = gateway.change()
    for _ in insist("the manifest is not read again"):
        spent = session.request("tools/call", to_call("no-such-tool"), expect="error").seconds
        if gateway.count_sent() > before:
            break
        time.sleep(0.2)  # an unknown tool is looked for only once in a while
    for _ in insist(f"version {version} is not listed"):
        answer = session.list_tools()
        spent += answer.seconds
        if f'"{version}"'.encode() in answer.line:
            break
    return spent


def insist(failure: str, *, seconds: float = 20) -> Iterator[None]:
    """Turns of a loop that its body leaves when it has what it wants; an error when that takes too long."""
    give_up = time.perf_counter() + seconds
    while time.perf_counter() < give_up:
        yield
    raise ChildError(f"{failure} after {seconds:g} s")


def alternate(*measurements: Callable[[], float], runs: int) -> list[list[float]]:
    """Take turns; of each measurement, which gives seconds, its values in milliseconds."""
    turns = [[measure() * 1e3 for measure in measurements] for _ in range(runs)]
    return [list(values) for values in zip(*turns, strict=True)]


def to_spread(values: Sequence[float]) -> str:
    return f"p90 {to_percentile(values, 90):.2f}, worst {max(values):.2f}"


def _to_growth(what: str, more: list[float], fewer: list[float], *, unit: str = "ms", note: str = "") -> Figure:
    """A figure that may grow as the number of tools does."""
    samples = Samples(measured=more, floor=fewer, floor_is=_OF_FEWER, unit=unit)
    target = Target.times_floor(_GROWTH * _LEEWAY, f"≤ {_GROWTH:g} x (+10 %)")
    return Figure(f"{MANY_TOOLS:,} tools: {what}", samples, target, note)


@contextmanager
def open_ready(place: Place, gateway: Upstream) -> Iterator[Session]:
    """A bridge whose first requests are behind it."""
    with open_session(place, gateway) as session:
        session.get_ready(INSTANT)
        yield session


MEASUREMENTS = (measure_start, measure_list, measure_call, measure_burst, measure_job, measure_growth)
"""All of them, in the order in which they are printed."""
