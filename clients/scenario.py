"""The session that every SDK for Python plays: the steps, their order, and what each must see.

Knows no SDK and no transport: a driver hands over a way to connect to what the plan names, which gives a `Session`.
`typescript.mjs` plays the same steps. Standard library and `report` only.
"""

import asyncio
import json
import re
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from clients.report import Step, build_failure, say_error, write_step

_STEP_LIMIT = 15.0
_PROMPT = 2.0
_WORDS = 200
_UNUSUAL_TEXT = 'h\u00e9 \u6f22 \U0001f389 a\u2028b\u2029c\u0085d "\\ \t\n end'
_STRUCTURED = frozenset({"2025-06-18", "2025-11-25", "2026-07-28"})
_PROGRESS_MESSAGES = _STRUCTURED | {"2025-03-26"}
_TOOLS = frozenset({"echo", "text-stats", "sparkline", "slow-count", "chat"})
_INDEX = "colabhive://manifest"
_TEMPLATE = "colabhive://manifest/{slug}"
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """A server that the client starts."""

    command: tuple[str, ...]
    environment: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A server that is reached over HTTP."""

    url: str
    headers: dict[str, str]


Target = Local | Remote


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a driver is told: its server, how to negotiate, and which revision must come of it.

    `refused` is the same server with a key that the gateway does not know. `cues` is where things can be made to happen
    (`clients.cues`): `/publish`, and `/restart` where the plan says that the server `restarts`. `log` is the file that
    takes what the client and the servers that it starts write to standard error.
    """

    server: Target
    refused: Target
    mode: str
    revision: str
    cues: str
    restarts: bool
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A tool's result in plain values: texts, decoded images, and the structured content."""

    is_error: bool
    texts: tuple[str, ...]
    images: tuple[bytes, ...]
    structured: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One progress notification as the SDK hands it over."""

    progress: float
    message: str | None


class RefusedError(Exception):
    """The server answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Session(Protocol):
    """One connection: what the steps ask of any SDK. `strays` are messages that the SDK could not place."""

    revision: str
    server: str
    strays: list[str]

    async def list_tools(self) -> list[str]: ...

    async def call(
        self, tool: str, arguments: dict[str, Any], *, on_progress: Callable[[Progress], None] | None = None
    ) -> Outcome: ...

    async def cancel(self, call: "asyncio.Task[Outcome]") -> None: ...

    async def list_resources(self) -> list[str]: ...

    async def read(self, uri: str) -> str: ...

    async def complete(self, template: str, argument: str, value: str) -> list[str]: ...

    def listen(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[object]]]:
        """Hear of changes: each call of what it gives ends with the next one. Raises `SkippedError` where it can't."""
        ...


Connect = Callable[[Target], AbstractAsyncContextManager[Session]]


def load_plan() -> Plan:
    """The plan in the file that the command line names last."""
    fields = json.loads(Path(sys.argv[-1]).read_text())
    return Plan(**{**fields, "server": _to_target(fields["server"]), "refused": _to_target(fields["refused"])})


def _to_target(fields: dict[str, Any]) -> Target:
    return Remote(**fields) if "url" in fields else Local(**{**fields, "command": tuple(fields["command"])})


def play(sdk: str, plan: Plan, connect: Connect) -> None:
    """Play all sessions and report every step. A step that fails does not stop the next ones."""
    asyncio.run(_play(sdk, plan, connect))


async def _play(sdk: str, plan: Plan, connect: Connect) -> None:
    await _report("a whole session", _play_session(sdk, plan, connect))
    await _report("a wrong key", asyncio.wait_for(_come_with_wrong_key(plan, connect), _STEP_LIMIT))
    await _report("close while a call runs", _leave_busy(plan, connect))


async def _report(name: str, work: Awaitable[str]) -> None:
    """Run one step within its bound and report it. Whatever it raises is its failure."""
    try:
        note = await work
    except Exception as error:
        write_step(build_failure(name, error))
    else:
        write_step(Step(name=name, passed=True, note=note))


async def _play_session(sdk: str, plan: Plan, connect: Connect) -> str:
    async with connect(plan.server) as session:
        await _report("connect", _check_revision(sdk, plan, session))
        for name, step in (*_STEPS, *_build_cued_steps(plan)):
            await _report(name, asyncio.wait_for(step(session), _STEP_LIMIT))
        started = time.monotonic()
    return f"closed in {time.monotonic() - started:.2f} s"


async def _check_revision(sdk: str, plan: Plan, session: Session) -> str:
    _require(session.revision == plan.revision, f"negotiated {session.revision}, not {plan.revision}")
    # Without an opening exchange nothing has said who the server is.
    unopened = plan.mode == plan.revision
    _require(unopened or "colabhive" in session.server, f"the server calls itself {session.server!r}")
    return f"{sdk} negotiated {session.revision}"


async def _list_tools(session: Session) -> str:
    names = await session.list_tools()
    _require(names.count("echo") == 1 and set(names) >= _TOOLS, f"tools are {names}")
    return f"{len(names)} tools"


async def _call(session: Session) -> str:
    outcome = await session.call("echo", {"text": _UNUSUAL_TEXT})
    _require(not outcome.is_error and _UNUSUAL_TEXT in outcome.texts, f"answered {outcome}")
    return ""


async def _call_structured(session: Session) -> str:
    """Where the revision has structured content, the SDK itself checks it against the output schema."""
    outcome = await session.call("text-stats", {"text": "one two\nthree"})
    _require(not outcome.is_error and outcome.texts != (), f"answered {outcome}")
    has_object = isinstance(outcome.structured, dict)
    _require(has_object == (session.revision in _STRUCTURED), f"structured content is {outcome.structured!r}")
    return ""


async def _call_image(session: Session) -> str:
    outcome = await session.call("sparkline", {"values": [1, 3, 2, 5, 4]})
    _require(not outcome.is_error and len(outcome.images) == 1, f"answered {outcome}")
    _require(outcome.images[0].startswith(_PNG), "the image is no PNG")
    return f"{len(outcome.images[0])} bytes"


async def _call_defs(session: Session) -> str:
    outcome = await session.call("chat", {"messages": [{"role": "user", "content": "Hello"}]})
    _require(not outcome.is_error and any(outcome.texts), f"answered {outcome}")
    return ""


async def _call_wrong(session: Session) -> str:
    outcome = await session.call("echo", {})
    _require(outcome.is_error and any("text" in text for text in outcome.texts), f"answered {outcome}")
    return " ".join(outcome.texts[0].split())[:120]


async def _call_unknown(session: Session) -> str:
    try:
        outcome = await session.call("no-such-tool", {})
    except RefusedError as refused:
        _require(refused.code == -32602, f"refused with {refused}")
        return str(refused)[:100]
    raise AssertionError(f"answered {outcome}")


async def _call_together(session: Session) -> str:
    texts = [f"call {number}" for number in range(8)]
    outcomes = await asyncio.gather(*(session.call("echo", {"text": text}) for text in texts))
    _require([outcome.texts[0] for outcome in outcomes] == texts, f"answered {outcomes}")
    return f"{len(texts)} calls"


async def _cancel(session: Session) -> str:
    """The job is short, so that the steps after this one outlast it: a late reply would be seen as a stray."""
    call = await _start_slow(session, {"to": 4, "interval": 0.3})
    await session.cancel(call)
    finished = (await asyncio.gather(call, return_exceptions=True))[0]
    _require(isinstance(finished, BaseException), f"the call was answered: {finished}")
    return ""


async def _call_after_cancel(session: Session) -> str:
    started = time.monotonic()
    outcome = await session.call("echo", {"text": "still here"})
    took = time.monotonic() - started
    _require("still here" in outcome.texts and took < _PROMPT, f"answered {outcome} after {took:.2f} s")
    return f"{took * 1000:.0f} ms"


async def _call_slow(session: Session) -> str:
    seen: list[Progress] = []
    outcome = await session.call("slow-count", {"to": 6, "interval": 0.4}, on_progress=seen.append)
    _require(not outcome.is_error and any("6" in text for text in outcome.texts), f"answered {outcome}")
    values = [progress.progress for progress in seen]
    _require(values != [], "no progress was notified")
    _require(all(low < high for low, high in pairwise(values)), f"progress is {values}")
    has_messages = session.revision in _PROGRESS_MESSAGES
    _require(all(bool(progress.message) == has_messages for progress in seen), f"messages are wrong: {seen}")
    return f"{len(seen)} notifications, the last: {seen[-1].message}"


async def _read_manifest(session: Session) -> str:
    """The index leads to each tool's manifest; its slug is completed."""
    listed = await session.list_resources()
    _require(listed == [_INDEX], f"the resources are {listed}")
    index = json.loads(await session.read(_INDEX))
    (entry,) = [tool for tool in index["tools"] if tool["slug"] == "echo"]
    manifest = json.loads(await session.read(entry["uri"]))
    _require(manifest["name"] == "echo" and manifest["inputSchema"] != {}, f"read {manifest}")
    slugs = await session.complete(_TEMPLATE, "slug", "ec")
    _require(slugs == ["echo"], f"completed to {slugs}")
    return f"{len(index['tools'])} entries"


async def _read_nothing(session: Session) -> str:
    try:
        text = await session.read(f"{_INDEX}/no-such-tool")
    except RefusedError as refused:
        _require(refused.code in (-32002, -32602), f"refused with {refused}")
        return str(refused)[:100]
    raise AssertionError(f"read {text}")


async def _check_strays(session: Session) -> str:
    _require(session.strays == [], f"messages that no request waits for: {session.strays}")
    return ""


_Steps = tuple[tuple[str, Callable[[Session], Awaitable[str]]], ...]
_STEPS: _Steps = (
    ("list", _list_tools),
    ("call", _call),
    ("call with structured content", _call_structured),
    ("call with an image", _call_image),
    ("call of a schema with definitions", _call_defs),
    ("failing call", _call_wrong),
    ("call of an unknown tool", _call_unknown),
    ("calls at once", _call_together),
    ("cancel of a slow call", _cancel),
    ("call after the cancel", _call_after_cancel),
    ("slow call with progress", _call_slow),
    ("manifests as resources", _read_manifest),
    ("read of what is not there", _read_nothing),
    ("list again", _list_tools),
    ("nothing unexpected arrived", _check_strays),
)


def _build_cued_steps(plan: Plan) -> _Steps:
    """What happens to the server while the session lasts."""
    restart = ("call after a restart", partial(_outlive_restart, plan))
    return (("change of the tools", partial(_hear_change, plan)), *((restart,) if plan.restarts else ()))


async def _hear_change(plan: Plan, session: Session) -> str:
    """Other clients have tools made too: the one that counts is this client's own."""
    async with session.listen() as next_change:
        slug = await asyncio.to_thread(send_cue, plan, "publish")
        heard = 0
        while slug not in await session.list_tools() or not heard:
            await next_change()
            heard += 1
    return f"heard {heard}, and listed {slug}"


async def _outlive_restart(plan: Plan, session: Session) -> str:
    """The server keeps nothing of a session that the client would miss."""
    await asyncio.to_thread(send_cue, plan, "restart")
    outcome = await session.call("echo", {"text": "after the restart"})
    _require("after the restart" in outcome.texts, f"answered {outcome}")
    return await _list_tools(session)


def send_cue(plan: Plan, name: str) -> str:
    """Have something happen; the word that it is answered with."""
    with urllib.request.urlopen(urllib.request.Request(f"{plan.cues}/{name}", method="POST")) as answer:
        return str(answer.read().decode())


async def _come_with_wrong_key(plan: Plan, connect: Connect) -> str:
    """The user is told in good time, by some words about the key or by the status of HTTP.

    What is told may also stand in the log, where a bridge between client and server writes what it met.
    """
    before = len(_read_log(plan))
    try:
        async with connect(plan.refused) as session:
            names = await session.list_tools()
    except Exception as error:
        told = [say_error(error), *_read_log(plan)[before:]]
        about = [line for line in told if re.search(r"API key|\b401\b", line)]
        _require(about != [], f"was told {told[0]}")
        return about[0][:_WORDS]
    raise AssertionError(f"listed {names}")


def _read_log(plan: Plan) -> list[str]:
    return Path(plan.log).read_text(errors="replace").splitlines()


async def _leave_busy(plan: Plan, connect: Connect) -> str:
    """Without progress: one SDK breaks, and kills its server, when that writes while the session closes."""
    async with connect(plan.server) as session:
        call = asyncio.create_task(session.call("slow-count", {"to": 200, "interval": 0.5}))
        await asyncio.sleep(0)
        await asyncio.wait_for(session.call("echo", {"text": "read after the slow call"}), _STEP_LIMIT)
        started = time.monotonic()
    # One SDK never wakes those who wait for a reply when its session ends.
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    return f"closed in {time.monotonic() - started:.2f} s"


async def _start_slow(session: Session, arguments: dict[str, Any]) -> "asyncio.Task[Outcome]":
    """A running call of the slow tool, from its first progress on."""
    begun = asyncio.Event()
    call = asyncio.create_task(session.call("slow-count", arguments, on_progress=lambda _: begun.set()))
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait({call, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    _require(not call.done(), f"the call ended before any progress: {call}")
    return call


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)
