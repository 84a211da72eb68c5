"""The systemd unit and the settings that operators install: what systemd says of them, and each command as it runs."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from colabhive_mcp.cli.relay import IDLE_SECONDS
from colabhive_mcp.config import Settings, load_settings
from tests.harness.gateway import GatewayProcess
from tests.harness.nginx import find_ports
from tests.harness.processes import wait_until

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
UNIT = (DEPLOY / "colabhive-mcp@.service").read_text()
NGINX = (DEPLOY / "nginx.conf").read_text()
PROGRAM = "/opt/colabhive-mcp/bin/colabhive-mcp"
HERE = str(Path(sys.executable).parent / "colabhive-mcp")
ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSED = 15  # of 100; what is left is a network, and sockets
UNITS = {"s": 1, "min": 60, "h": 3600, "m": 1024**2, "G": 1024**3}

needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")


def find_all(name: str) -> list[str]:
    """What the unit says for *name*, lines that go on joined."""
    return re.findall(rf"^{name}=(.*)$", re.sub(r"\\\n\s*", "", UNIT), re.MULTILINE)


def find_one(name: str) -> str:
    """The same where it is said once."""
    (value,) = find_all(name)
    return value


def to_number(text: str) -> int:
    """``45``, ``60s`` or ``4m`` as seconds or bytes."""
    found = re.fullmatch(r"(\d+)([a-zA-Z]*)", text)
    assert found, text
    return int(found[1]) * UNITS.get(found[2], 1)


def find_directive(name: str) -> int:
    """The number that nginx.conf gives to *name*, where it says so first."""
    found = re.search(rf"^\s*{name} (\w+);", NGINX, re.MULTILINE)
    assert found, name
    return to_number(found[1])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """What the relays read from config.toml."""
    folder = tmp_path / "colabhive-mcp"
    folder.mkdir()
    shutil.copy(DEPLOY / "config.toml", folder)
    return load_settings(flags={}, environ={"XDG_CONFIG_HOME": str(tmp_path)})


@needs_systemd
@pytest.mark.parametrize("name", ["colabhive-mcp@.service", "colabhive-mcp@8765.service"])
def test_systemd_finds_nothing_wrong(name: str, tmp_path: Path) -> None:
    """The unit is right to the last word: as a template, and as an instance of it."""
    unit = tmp_path / name
    unit.write_text(UNIT.replace(PROGRAM, HERE))
    run = subprocess.run([ANALYZE, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert (run.stdout + run.stderr, run.returncode) == ("", 0)


@needs_systemd
def test_little_is_exposed(tmp_path: Path) -> None:
    """systemd's own measure of what a service may do stays low."""
    unit = tmp_path / "colabhive-mcp@8765.service"
    unit.write_text(UNIT.replace(PROGRAM, HERE))
    command = [ANALYZE, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", str(unit)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_settings_are_read_without_a_word(settings: Settings) -> None:
    """config.toml holds settings that there are, and none that the relay warns of."""
    assert settings.warnings == ()
    assert (settings.trusted_proxy, settings.allowed_hosts) == ("127.0.0.1", ("mcp.example.org",))


def test_figures_match(settings: Settings) -> None:
    """What nginx, the unit and the settings say of one thing is the same, or the longer one is where it has to be."""
    assert find_directive("client_max_body_size") == settings.max_body_bytes == Settings().max_body_bytes
    assert find_directive("keepalive_timeout") < IDLE_SECONDS
    assert settings.drain_timeout < to_number(find_one("TimeoutStopSec"))
    assert settings.threads < to_number(find_one("TasksMax"))
    assert find_directive("worker_connections") * 2 <= find_directive("worker_rlimit_nofile")
    assert all(f"server_name {host};" in NGINX for host in settings.allowed_hosts)


def test_ports_match() -> None:
    """The relays that nginx knows are those that Prometheus reads, each at the port that the unit gives it."""
    relays = re.findall(r"^\s*server 127\.0\.0\.1:(\d+)", NGINX, re.MULTILINE)
    assert len(relays) == 2
    scraped = re.findall(r"- 127\.0\.0\.1:(\d+)", (DEPLOY / "prometheus.yml").read_text())
    pattern = re.search(r"--metrics-listen 127\.0\.0\.1:(\S+)", find_one("ExecStart"))
    assert pattern
    assert scraped == [pattern[1].replace("%i", port) for port in relays]


def test_every_file_is_told_of() -> None:
    """The folder's README says of each file where it goes, and of no other."""
    rows = re.findall(r"^\| (`[^|]+`) \|", (DEPLOY / "README.md").read_text().split("##")[0], re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert told == {path.name for path in DEPLOY.iterdir()} - {"README.md"}


class Instance(NamedTuple):
    """The unit's commands for one instance, with a folder in place of the system's."""

    port: int
    metrics_port: int
    root: Path

    @property
    def settings(self) -> Path:
        """The file that the operator writes."""
        return self.root / "etc" / "config.toml"

    def build(self, line: str, *, pid: int = 0) -> list[str]:
        """One command line as systemd would run it."""
        replaced = {
            PROGRAM: HERE,
            "/etc/colabhive-mcp": str(self.root / "etc"),
            "%t": str(self.root / "run"),
            "%d": str(self.root / "credentials"),
            "1%i": str(self.metrics_port),
            "%i": str(self.port),
            "$MAINPID": str(pid),
        }
        for word, other in replaced.items():
            line = line.replace(word, other)
        return shlex.split(line.lstrip("+"))

    def run(self, name: str, *, pid: int = 0) -> None:
        """The commands of *name*, one after the other; each has to end well."""
        for line in find_all(name):
            subprocess.run(self.build(line, pid=pid), check=True, timeout=60)

    def ask(self, host: str) -> int:
        """The status of /health, asked under the name *host*."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", "/health", headers={"Host": host})
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture
def instance(gateway: GatewayProcess, tmp_path: Path) -> Instance:
    """What systemd makes before it starts a relay: the folder of the instance and its credential."""
    instance = Instance(*find_ports(2), tmp_path)
    instance.settings.parent.mkdir()
    instance.settings.write_text(f'api_url = "{gateway.url}"\n{(DEPLOY / "config.toml").read_text()}')
    (tmp_path / "run" / find_one("RuntimeDirectory").replace("%i", str(instance.port))).mkdir(parents=True)
    name, _ = find_one("LoadCredential").split(":")
    (tmp_path / "credentials").mkdir()
    shutil.copy(instance.settings, tmp_path / "credentials" / name)
    return instance


# MemoryDenyWriteExecute as the kernel itself has it since Linux 6.3 (PR_SET_MDWE); older ones answer with an error.
LOCKED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.fixture
def relay(instance: Instance) -> Iterator[subprocess.Popen[bytes]]:
    """The relay, started as the unit does."""
    instance.run("ExecStartPre")
    name, _, value = find_one("Environment").partition("=")
    environment = {name: instance.build(value)[0], "HOME": "/"}
    command = [sys.executable, "-c", LOCKED, *instance.build(find_one("ExecStart"))]
    with (instance.root / "relay.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd="/", stdout=log, stderr=log)
    try:
        instance.run("ExecStartPost", pid=process.pid)
        yield process
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_do_what_they_say(instance: Instance, relay: subprocess.Popen[bytes]) -> None:
    """A relay starts with its credential, takes a changed file at a reload, and ends well when it is stopped."""
    assert instance.ask("mcp.example.org") == 200
    assert instance.ask("other.example.org") == 403
    instance.settings.write_text(instance.settings.read_text().replace("mcp.example.org", "other.example.org"))
    instance.run("ExecReload", pid=relay.pid)
    wait_until(lambda: instance.ask("other.example.org") == 200)
    assert instance.ask("mcp.example.org") == 403
    relay.send_signal(signal.SIGTERM)
    assert relay.wait(to_number(find_one("TimeoutStopSec"))) == 0
    log = [json.loads(line) for line in (instance.root / "relay.log").read_text().splitlines() if line[:1] == "{"]
    assert [line["event"] for line in log if line["event"].startswith("relay.")][-1] == "relay.stopped"
    assert not [line for line in log if line["level"] != "INFO"]
