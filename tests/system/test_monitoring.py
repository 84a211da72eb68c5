"""The files of examples/deploy that watch relays, held against Prometheus' own tools and against a real Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.gateway import GatewayProcess
from tests.harness.processes import wait_until
from tests.harness.relay import RelayProcess

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
RATE_INTERVAL, INSTANCE = "5m", ".*"

PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
pytestmark = pytest.mark.skipif(
    PROMTOOL is None or PROMETHEUS is None, reason="Prometheus is not installed: Debian has it as package prometheus"
)


def check(*arguments: str, folder: Path = DEPLOY, given: bytes | None = None) -> str:
    """What promtool says, which has to be content."""
    assert PROMTOOL is not None
    ran = subprocess.run([PROMTOOL, *arguments], cwd=folder, input=given, capture_output=True, check=False, timeout=60)
    said = (ran.stdout + ran.stderr).decode()
    assert ran.returncode == 0, said
    return said


def find_targets() -> list[tuple[str, str]]:
    """Every expression of the dashboard, as Grafana would ask it, with the title of its panel."""
    panels = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))["panels"]
    filled = (("$__rate_interval", RATE_INTERVAL), ("$instance", INSTANCE))
    found = []
    for panel in panels:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for variable, value in filled:
                expression = expression.replace(variable, value)
            assert "$" not in expression, f"{panel['title']} uses a variable that this test does not know"
            found.append((panel["title"], expression))
    return found


def test_the_configuration_is_one() -> None:
    """Prometheus accepts the scrape file and the rules that it names, without a remark of its linter."""
    assert "SUCCESS" in check("check", "config", "--lint=all", "--lint-fatal", "prometheus.yml")


def test_each_alert_fires_when_it_should() -> None:
    """The rules pass their own tests, which have a line for every alert."""
    check("test", "rules", "alerts_test.yml")
    alerts = re.findall(r"- alert: (\w+)", (DEPLOY / "alerts.yml").read_text("utf-8"))
    tested = re.findall(r'alertname="(\w+)"', (DEPLOY / "alerts_test.yml").read_text("utf-8"))
    assert sorted(alerts) == sorted(tested)


def test_a_rule_that_never_fires_fails_its_test(tmp_path: Path) -> None:
    """The tests of the rules can fail: each threshold that is out of reach is found."""
    rules = (DEPLOY / "alerts.yml").read_text("utf-8")
    (tmp_path / "alerts_test.yml").write_text((DEPLOY / "alerts_test.yml").read_text("utf-8"))
    (tmp_path / "alerts.yml").write_text(re.sub(r"> (?:[\d.]+)$", "> 1e9", rules, flags=re.MULTILINE))
    with pytest.raises(AssertionError, match="FAILED"):
        check("test", "rules", "alerts_test.yml", folder=tmp_path)


def test_each_panel_asks_something_that_can_be_answered(tmp_path: Path) -> None:
    """Every expression of the dashboard is PromQL."""
    rules = [{"record": f"panel:{n}", "expr": expression} for n, (_, expression) in enumerate(find_targets())]
    (tmp_path / "panels.json").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in check("check", "rules", "panels.json", folder=tmp_path)


def find_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class PrometheusProcess:
    """A Prometheus with examples/deploy/prometheus.yml, which looks every second, at *ports* of this machine."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self.port = find_port()
        text = (DEPLOY / "prometheus.yml").read_text("utf-8")
        for given, port in zip(("18765", "18766"), ports, strict=True):
            text = text.replace(f"- 127.0.0.1:{given}", f"- 127.0.0.1:{port}")
        text = re.sub(r"(interval|timeout): \d+s", r"\1: 1s", text)
        (folder / "prometheus.yml").write_text(text)
        shutil.copy(DEPLOY / "alerts.yml", folder)
        options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        command = [str(PROMETHEUS), *options, f"--web.listen-address=127.0.0.1:{self.port}"]
        with (folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)

    def ask(self, path: str) -> Any:
        """The data of an answer of its API."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", f"/api/v1/{path}")
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[Any]:
        """The series that *expression* gives now."""
        result: list[Any] = self.ask(f"query?query={quote(expression)}")["result"]
        return result

    def count_up(self) -> int:
        """The relays that answer its scrapes; none while it starts, which it says in another form than JSON."""
        try:
            return sum(float(each["value"][1]) == 1 for each in self.query('up{job="colabhive-mcp"}'))
        except (OSError, json.JSONDecodeError):
            return 0

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(20)


@pytest.fixture(scope="module")
def watched(
    shared_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[PrometheusProcess, list[RelayProcess]]]:
    """Two relays that have served a call each, and the Prometheus that watches them."""
    folder = tmp_path_factory.mktemp("watched")
    ports = [find_port(), find_port()]
    shared_gateway.clear()
    with ExitStack() as stack:
        relays = [
            stack.enter_context(RelayProcess(folder, shared_gateway, metrics_listen=f"127.0.0.1:{port}"))
            for port in ports
        ]
        prometheus = PrometheusProcess(folder, ports)
        stack.callback(prometheus.close)
        wait_until(lambda: prometheus.count_up() == 2, timeout=30)
        for relay in relays:
            assert relay.call("tools/call", {"name": "text-stats", "arguments": {"text": "a b"}}).status == 200
        wait_until(lambda: len(prometheus.query('rate(mcp_tool_calls_total{status="succeeded"}[1m]) > 0')) == 2)
        yield prometheus, relays


def test_each_panel_shows_something(watched: tuple[PrometheusProcess, list[RelayProcess]]) -> None:
    """Two relays that served a call give every panel of the dashboard at least one series."""
    prometheus, _ = watched
    for title, expression in find_targets():
        assert prometheus.query(expression), f"{title} shows nothing for {expression}"


def test_alerts_are_loaded_and_quiet(watched: tuple[PrometheusProcess, list[RelayProcess]]) -> None:
    """Every rule is evaluated without an error on what relays really give, and none is about to fire."""
    prometheus, _ = watched

    def read_rules() -> list[dict[str, Any]]:
        return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] != "unknown" for rule in read_rules()))
    rules = read_rules()
    assert len(rules) == len(re.findall(r"- alert: ", (DEPLOY / "alerts.yml").read_text("utf-8")))
    assert [(rule["name"], rule["health"], rule["state"]) for rule in rules] == [
        (rule["name"], "ok", "inactive") for rule in rules
    ]


def test_a_relay_that_has_gone_is_noticed(watched: tuple[PrometheusProcess, list[RelayProcess]]) -> None:
    """A relay that is killed is down at the next look, and its alert is on its way; the other one is still up."""
    prometheus, relays = watched
    process = relays[1].process
    assert process is not None
    process.kill()
    wait_until(lambda: prometheus.count_up() == 1, timeout=30)
    wait_until(lambda: len(prometheus.query('ALERTS{alertname="RelayDown"}')) == 1, timeout=30)


def test_a_scrape_has_no_bad_habits(shared_gateway: GatewayProcess, tmp_path: Path) -> None:
    """promtool's linter has nothing to say of the names and types in a real scrape."""
    with RelayProcess(tmp_path, shared_gateway) as relay:
        relay.call("tools/list")
        assert check("check", "metrics", given=relay.ask("GET", "/metrics").body) == ""
