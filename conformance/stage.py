"""Everything that the suite runs against: the gateway with the scenarios' tools, and relays behind the proxy.

Owns processes, threads and files of one run. The key is made for the run; only the gateway, the proxies and the check
of the logs know it.
"""

import os
import secrets
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from clients.report import Step
from colabhive_mcp.cli.listening import Listener
from colabhive_mcp.localgateway.app import build_app
from colabhive_mcp.localgateway.runtime import Runtime
from colabhive_mcp.localgateway.store import Store
from conformance.proxy import open_proxy
from conformance.tools import build_actions, register_tools

_START_LIMIT = 20.0
_STOP_LIMIT = 15.0
_GREETING = "Relay: "
# The scenarios give a change of the tools little more than a second to be told.
_SETTINGS = ("--host", "127.0.0.1", "--port", "0", "--manifest-ttl", "0.2")


class StageError(Exception):
    """A relay did not start; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running gateway: its address, its key, and the folder of this run."""

    address: str
    key: str
    folder: Path

    @contextmanager
    def open_relay(self, name: str, *options: str) -> "Iterator[Relay]":
        """A relay started with *options*, behind a proxy. Raises StageError where it does not come up."""
        command = [sys.executable, "-m", "colabhive_mcp", "serve", *_SETTINGS, "--api-url", self.address, *options]
        log, own = self.folder / f"relay-{name}.log", self._build_environment()
        with log.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: S603 - no shell, and no word of the command comes from outside
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True, env=own
            )
        relay = Relay(name=name, key=self.key, log=log, process=process)
        try:
            listening = urlsplit(relay.read_address())
            with open_proxy((str(listening.hostname), listening.port or 0), self.key) as proxy:
                relay.url = listening._replace(netloc=proxy).geturl()
                yield relay
        finally:
            relay.stop()

    def _build_environment(self) -> dict[str, str]:
        """This process's own, without any settings of the user's."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("COLABHIVE_")}
        return {**own, "XDG_CONFIG_HOME": str(self.folder)}


@dataclass(slots=True, kw_only=True)
class Relay:
    """A relay's process, its log, and the address at which the suite reaches it without a key."""

    name: str
    key: str
    log: Path
    process: "subprocess.Popen[str]" = field(repr=False)
    url: str = ""

    def read_address(self) -> str:
        """Where it listens, from its first line."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], _START_LIMIT)
        line = self.process.stdout.readline() if ready else ""
        if not line.startswith(_GREETING):
            words = self.log.read_text(errors="replace").strip()[-600:]
            raise StageError(f"the relay printed {line!r} instead of its address; its last words: {words}")
        return line.removeprefix(_GREETING).strip()

    def stop(self) -> None:
        """End it as a service manager would, and by force where it takes too long."""
        self.process.terminate()
        try:
            self.process.communicate(timeout=_STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def check_end(self) -> Step:
        """It ended by itself with 0, and left no traceback and no part of the key in its log."""
        text = self.log.read_text(errors="replace")
        found = [word for word in ("Traceback", "Exception ignored") if word in text]
        found += ["the key"] if self.key[5:] in text else []
        note = f"exit code {self.process.returncode}" + (f", found {', '.join(found)} in {self.log}" if found else "")
        passed = self.process.returncode == 0 and not found
        return Step(name=f"relay-{self.name} ends quietly", passed=passed, note=note)


@contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    """A gateway of this run's own, in this process, with the scenarios' tools and no others."""
    key = f"hive_{secrets.token_hex(16)}"
    with Store(folder / "gateway.db") as store:
        store.create_key(key)
        register_tools(store)
        with Runtime(store, actions=build_actions(store)) as runtime:
            app = build_app(store, runtime)
            listener = Listener(app, host="127.0.0.1", port=0, name="gateway", threads=16, connections=100)
            listener.start()
            try:
                yield Stage(address=listener.address, key=key, folder=folder)
            finally:
                listener.close()
