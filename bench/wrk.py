"""`wrk` as the one who asks: as fast as it can over so many connections, at next to no cost to the machine.

It has to be installed (Debian's package of its name). What it sends is a script in its own language, Lua, written to a
temporary file.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.child import Child, ChildError

CONNECTIONS = 16
_SCRIPT = """
local requests, turn = {}, 0
init = function(arguments)
%s
end
request = function()
  turn = turn %% #requests + 1
  return requests[turn]
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\\n@{"requests":%%d,"us":%%d,"failed":%%d,"refused":%%d,"p50":%%d,"p90":%%d,"p99":%%d}\\n',
    summary.requests, summary.duration, e.connect + e.read + e.write + e.timeout, e.status,
    latency:percentile(50), latency:percentile(90), latency:percentile(99)))
end
"""


class Missing(Exception):
    """A program that the measurement needs is not installed."""


@dataclass(frozen=True, slots=True)
class Post:
    """One request to send, again and again."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    def to_lua(self) -> str:
        headers = ", ".join(f"[{_quote(name)}] = {_quote(value)}" for name, value in self.headers.items())
        return (
            f'  requests[#requests + 1] = wrk.format("POST", {_quote(self.path)}, {{["Host"] = wrk.headers["Host"], '
            f"{headers}}}, {_quote(self.body.decode())})"
        )


@dataclass(frozen=True, slots=True)
class Load:
    """What came of it: requests a second, milliseconds that answers took, and microseconds of CPU time for each."""

    rate: float
    p50: float
    p90: float
    p99: float
    cpu: float


def find_wrk() -> str:
    """Where it is. Raises Missing."""
    found = shutil.which("wrk")
    if found is None:
        raise Missing("wrk is not installed: apt-get install wrk")
    return found


class Server(Protocol):
    """Who is asked."""

    @property
    def child(self) -> Child: ...

    @property
    def port(self) -> int: ...


def load(server: Server, posts: Sequence[Post], *, seconds: float) -> Load:
    """Send *posts* in turn for so long. Anything but success ends the measurement."""
    before = server.child.read_cpu()
    told = _run_wrk(server.port, posts, seconds=seconds)
    cpu = (server.child.read_cpu() - before) / told["requests"] * 1e6
    rate = told["requests"] / told["us"] * 1e6
    return Load(rate, told["p50"] / 1e3, told["p90"] / 1e3, told["p99"] / 1e3, cpu)


def _run_wrk(port: int, posts: Sequence[Post], *, seconds: float) -> dict[str, int]:
    wrk = find_wrk()
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_SCRIPT % "\n".join(post.to_lua() for post in posts))
        script.flush()
        command = [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "--timeout", "10s", "--latency"]
        command += ["-s", script.name, f"http://127.0.0.1:{port}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    found = [line[1:] for line in done.stdout.splitlines() if line.startswith("@")]
    if not found:
        raise ChildError(f"wrk said nothing: {done.stdout[-300:]} {done.stderr[-300:]}")
    told: dict[str, int] = json.loads(found[0])
    if told["failed"] or told["refused"] or not told["requests"]:
        raise ChildError(f"wrk met failures: {told}")
    return told


def _quote(text: str) -> str:
    """*text* as Lua writes it: the same escapes as JSON's, for what is ASCII."""
    return json.dumps(text)
