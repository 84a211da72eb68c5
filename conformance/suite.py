"""The suite's package, its command line, and what it says of each scenario.

The suite decides: its summary, its judgement by the baseline and its exit code are read, and nothing is judged again.
Knows no relay; it is given an address.
"""

import dataclasses
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clients.report import Step
from clients.toolchains import INSPECTOR, find_node, prepare_toolchain

_VERSION = "0.2.0-alpha.12"
_BASELINE = Path(__file__).with_name("baseline.yml")
AS_EXPECTED = "fails as expected"  # the note on a scenario of which that is so as a whole
_PACKAGE = "@modelcontextprotocol/conformance"
_TOOLCHAIN = dataclasses.replace(INSPECTOR, name="conformance", requirements=(f"{_PACKAGE}@{_VERSION}",))
_ENTRY = Path("node_modules") / _PACKAGE / "dist" / "index.js"
_NODE = (22, 0)
_LIMIT = 120
_NOTE_LIMIT = 400
_COLOUR = re.compile(r"\x1b\[\d*m")
_LISTED = re.compile(r"^Server scenarios.*\n((?:  - \S+\n)+)", re.MULTILINE)
_TOLD = re.compile(r"^[✓✗] (?P<name>\S+): (?P<passed>\d+) passed, \d+ failed$", re.MULTILINE)
_TOLD_ALONE = re.compile(r"^Passed: (?P<passed>\d+)/\d+, \d+ failed, \d+ warnings$", re.MULTILINE)
_JUDGED = re.compile(r"^  (?P<mark>[~✓✗]) (?P<name>[^\s:]+)(?::(?P<check>\S+))?$", re.MULTILINE)
_EXPECTED, _STALE, _UNEXPECTED = "~✓✗"
_BAD = {"FAILURE", "WARNING"}


class SuiteError(Exception):
    """The suite said nothing that can be read; the message holds its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The installed suite: the command that starts it, and the folder in which it leaves what each scenario saw."""

    command: tuple[str, ...]
    folder: Path

    def run_required(self, revision: str, url: str) -> Iterator[Step]:
        """Everything that *revision* requires of a server, then the suite's own verdict on all of it."""
        wanted = _LISTED.search(self._say("list", "--requirements", revision).stdout)
        if wanted is None:
            raise SuiteError(f"no list of what {revision} requires of a server")
        done = self._run(revision, url, "--requirements", revision)
        told = {each["name"]: int(each["passed"]) for each in _TOLD.finditer(done.stdout)}
        for name in wanted[1].replace("  - ", "").split():
            yield self._judge(name, revision, told.get(name), done.stdout)
        yield Step(name="verdict of the suite", passed=done.returncode == 0, note=f"exit code {done.returncode}")

    def run_alone(self, name: str, revision: str, url: str) -> Step:
        """One scenario that the requirements do not count."""
        done = self._run(f"{revision}-alone", url, "--scenario", name, "--spec-version", revision)
        told = _TOLD_ALONE.search(done.stdout)
        step = self._judge(name, f"{revision}-alone", int(told["passed"]) if told else None, done.stdout)
        return dataclasses.replace(step, passed=step.passed and done.returncode == 0)

    def _judge(self, name: str, run: str, passed: int | None, said: str) -> Step:
        """What the suite *said* of one scenario; *passed* is how many of its checks did, None where it did not run."""
        judged = [each for each in _JUDGED.finditer(said) if each["name"] == name]
        marks = {each["mark"] for each in judged}
        expected = [each["check"] for each in judged if each["mark"] == _EXPECTED]
        if passed is None:
            return Step(name=name, passed=False, note="it did not run")
        if _STALE in marks:
            stale = ", ".join(each[0].split()[1] for each in judged if each["mark"] == _STALE)
            return Step(name=name, passed=False, note=f"it passes, and the baseline expects it to fail: {stale}")
        if _UNEXPECTED in marks or not (passed or marks):
            return Step(name=name, passed=False, note=self._find_reasons(name, run, besides=expected))
        return Step(name=name, passed=True, note=_say_expected(expected))

    def _find_reasons(self, name: str, run: str, *, besides: list[str | None]) -> str:
        """The words of the checks that did not pass, but for those that were expected not to."""
        saved = sorted((self.folder / run).glob(f"server-{name}-[0-9]*T*/checks.json"))
        checks = json.loads(saved[-1].read_text()) if saved else []
        bad = [check for check in checks if check["status"] in _BAD and check["id"] not in besides]
        words = "; ".join(f"{check['id']}: {check.get('errorMessage')}" for check in bad)
        return words[:_NOTE_LIMIT] or "no check passed"

    def _run(self, run: str, url: str, *options: str) -> "subprocess.CompletedProcess[str]":
        saved = ("--output-dir", str(self.folder / run))
        return self._say("server", "--url", url, "--expected-failures", str(_BASELINE), *saved, *options)

    def _say(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run the suite; what it printed, without its colours. Raises SuiteError where it takes too long."""
        command = [*self.command, *arguments]
        try:
            # No shell, and no word of the command comes from outside.
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, check=False)  # noqa: S603
        except subprocess.TimeoutExpired:
            raise SuiteError(f"the suite took more than {_LIMIT} s for {' '.join(arguments)}") from None
        done.stdout = _COLOUR.sub("", done.stdout)
        with (self.folder / "suite.log").open("a") as log:
            log.write(f"{done.stdout}\n{done.stderr}\n")
        return done


def _say_expected(checks: list[str | None]) -> str:
    """What failed as it was expected to: nothing, the scenario, or some of its *checks*."""
    if not checks:
        return ""
    return AS_EXPECTED + (f" in {', '.join(filter(None, checks))}" if any(checks) else "")


def prepare_suite(folder: Path) -> Suite:
    """The suite, installed where it is missing. Raises ToolchainError with the package manager's last words."""
    entry = prepare_toolchain(_TOOLCHAIN) / _ENTRY
    return Suite(command=(find_node(minimum=_NODE), str(entry)), folder=folder)
