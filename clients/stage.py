"""A client's run: the way to its server, and a folder with its plan, its logs and the record of its servers.

Owns processes and files of one run; a client's steps are none of its business. The keys are made for the run, and only
the gateway, the plans and the check of the logs know them.
"""

import json
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from clients.cues import Cues, open_cues
from clients.report import SkippedError, Step
from clients.roster import Client
from clients.scenario import Local, Plan, Remote
from clients.servers import ROOT, SERVER, SETTINGS, Relay, open_gateway
from colabhive_mcp.localgateway.store import Store
from tests.harness.gateway import manifest
from tests.harness.nginx import NginxProcess, find_nginx

# A server that its client has let go, and a relay that may have to find out that its client has gone.
_EXIT_LIMITS = {"stdio": 2.0, "http": 4.0, "nginx": 4.0}
_PATIENCE = 1.0
_RECORD = "servers.jsonl"
_RELAY_LOG = "relay.log"
_LOGIN_PATHS = ("/register", "/authorize", "/token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running gateway: its address, a key that it knows, one that it doesn't, and the folder of this run."""

    gateway: str
    key: str
    wrong_key: str
    folder: Path

    @contextmanager
    def rehearse(self, client: Client) -> Iterator["Rehearsal"]:
        """The place of one client's run, with its plan written. Raises `SkippedError` where there is no such way."""
        folder = self.folder / client.name
        home = folder / "home"
        home.mkdir(parents=True)
        with ExitStack() as ending:
            way = _WAYS[client.way](self, folder, ending)
            environment = {"HOME": str(home), **way.trust}
            cues: Cues = {"/publish": partial(self._publish, client.name), "/restart": way.restart}
            rehearsal = Rehearsal(
                folder=folder,
                keys=(self.key, self.wrong_key),
                environment=environment,
                exit_limit=_EXIT_LIMITS[client.way],
            )
            plan = Plan(
                server=client.approach(way.build_target(self.key), environment),
                refused=client.approach(way.build_target(self.wrong_key), environment),
                mode=client.mode,
                revision=client.revision,
                cues=ending.enter_context(open_cues(cues)),
                restarts=client.way != "stdio",
                log=str(rehearsal.log),
            )
            rehearsal.plan.write_text(json.dumps(asdict(plan)))
            yield rehearsal

    def _publish(self, client: str) -> str:
        """A tool of this client's own, put where an author puts it; its slug."""
        slug = f"made-for-{client}"
        with Store(self.folder / "gateway.db") as store:
            store.register_endpoint({"action": "echo", **manifest(slug)})
        return slug


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What one client needs, and what is left behind by it.

    `environment` is for its driver; `exit_limit` in seconds is how long a server's exit may take.
    """

    folder: Path
    keys: tuple[str, str]
    environment: Mapping[str, str]
    exit_limit: float

    @property
    def plan(self) -> Path:
        """The file that tells a driver everything (`scenario.Plan`)."""
        return self.folder / "plan.json"

    @property
    def log(self) -> Path:
        """The client's standard error, and with it that of the servers that it starts."""
        return self.folder / "stderr.log"

    def check(self) -> Iterator[Step]:
        """What the client's servers did besides answering, once they have ended."""
        yield self._check_servers()
        yield self._check_logs()
        if requests := self._read_requests():
            yield _check_logins(requests)

    def _check_servers(self) -> Step:
        """Every server of this client ended by itself with 0, soon after it was let go."""
        lines = _read_lines(self.folder / _RECORD)
        ends = [line for line in lines if "code" in line]
        missing = len(lines) - 2 * len(ends)
        took = max((_measure_exit(end) for end in ends), default=0.0)
        codes = sorted({end["code"] for end in ends})
        killed = f", {missing} killed" if missing else ""
        note = f"{len(ends)} processes, exit codes {codes}, the slowest {took:.2f} s after it was let go{killed}"
        passed = codes == [0] and took <= self.exit_limit and not missing and not any(map(_was_forced, ends))
        return Step(name=f"server exit code 0 within {self.exit_limit:.0f} s", passed=passed, note=note)

    def _check_logs(self) -> Step:
        """Nobody wrote a traceback, a complaint of the interpreter, a part of a key, or the mark of one."""
        forbidden = ("Traceback", "Exception ignored", "[redacted]", *(key[5:] for key in self.keys))
        logs = [(path, path.read_text(errors="replace")) for path in self.folder.rglob("*.log")]
        found = [f"{word} in {path}" for path, text in logs for word in forbidden if word in text]
        return Step(name="quiet logs", passed=not found, note="; ".join(found))

    def _read_requests(self) -> list[dict[str, Any]]:
        """What came over HTTP, in its order: of nginx's log, which has all of it, else of the relay's."""
        for log in self.folder.glob("nginx-*/access.log"):
            return _read_lines(log)
        return [line for line in _read_lines(self.folder / _RELAY_LOG) if line["event"] == "http.request"]


@contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    """A gateway of this run's own, stopped at the end. Raises `ServerError` when it does not come up or down."""
    key, wrong_key = (f"hive_{secrets.token_hex(16)}" for _ in range(2))
    with open_gateway(folder, key) as address:
        yield Stage(gateway=address, key=key, wrong_key=wrong_key, folder=folder)


class _Way(NamedTuple):
    """How servers are reached: what a driver is told for a key, how they are restarted, what makes them trusted."""

    build_target: Callable[[str], Local | Remote]
    restart: Callable[[], str]
    trust: Mapping[str, str]


def _open_stdio(stage: Stage, folder: Path, _ending: ExitStack) -> _Way:
    """The client starts its servers itself."""

    def build_target(key: str) -> Local:
        own = {"COLABHIVE_API_URL": stage.gateway, "COLABHIVE_API_KEY": key, "XDG_CONFIG_HOME": str(folder / "home")}
        return Local(command=(*_build_watch(folder), *SERVER), environment={**SETTINGS, **own})

    def restart() -> str:
        raise LookupError("a client restarts its own servers")

    return _Way(build_target, restart, {})


def _open_http(stage: Stage, folder: Path, ending: ExitStack) -> _Way:
    """A relay of this client's own, so that it can be restarted."""
    relay = _start_relay(stage, folder, ending)
    return _Way(partial(_to_remote, f"{relay.address}/mcp"), partial(_restart, relay), {})


def _open_nginx(stage: Stage, folder: Path, ending: ExitStack) -> _Way:
    """Such a relay behind nginx, with the file that operators install."""
    if find_nginx() is None:
        raise SkippedError("nginx is not installed")
    relay = _start_relay(stage, folder, ending)
    nginx = ending.enter_context(NginxProcess(folder, [relay.address.removeprefix("http://")], key=stage.key))
    trust = {"SSL_CERT_FILE": nginx.bundle, "NODE_EXTRA_CA_CERTS": nginx.bundle}
    return _Way(partial(_to_remote, nginx.url), partial(_restart, relay), trust)


_WAYS: dict[str, Callable[[Stage, Path, ExitStack], _Way]] = {
    "stdio": _open_stdio,
    "http": _open_http,
    "nginx": _open_nginx,
}


def _start_relay(stage: Stage, folder: Path, ending: ExitStack) -> Relay:
    relay = Relay(stage.gateway, watch=_build_watch(folder), log=folder / _RELAY_LOG)
    ending.callback(relay.stop)
    return relay


def _to_remote(url: str, key: str) -> Remote:
    return Remote(url=url, headers={"Authorization": f"Bearer {key}"})


def _restart(relay: Relay) -> str:
    relay.restart()
    return ""


def _build_watch(folder: Path) -> tuple[str, ...]:
    """The command that each server of this client runs under."""
    return (sys.executable, "-I", "-S", str(ROOT / "clients" / "watched.py"), str(folder / _RECORD))


def _check_logins(requests: list[dict[str, Any]]) -> Step:
    """Nobody began to log in before a key was refused."""
    before = list(takewhile(lambda request: request["status"] != 401, requests))
    begun = [request["path"] for request in before if request["path"].startswith(_LOGIN_PATHS)]
    note = f"asked for {', '.join(begun)}" if begun else f"{len(before)} requests before one was refused"
    return Step(name="no login begun", passed=not begun and before != [], note=note)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def _measure_exit(end: dict[str, Any]) -> float:
    """Seconds from the client's first sign that it is done to the server's exit."""
    signs = [*end["hung_up"], *end["signalled"]]
    return float(end["exited"] - min(signs)) if signs else 0.0


def _was_forced(end: dict[str, Any]) -> bool:
    """Whether the client lost patience: it had closed the input, and sent a signal a good while later."""
    return bool(end["hung_up"] and end["signalled"]) and min(end["signalled"]) - min(end["hung_up"]) > _PATIENCE
