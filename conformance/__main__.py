"""`python -m conformance`: the official suite against the relay, what each revision requires and what it leaves out.

Prepare, run, count. A scenario that fails as the baseline expects counts as passed, and how many do is told before the
last line, which is the count; the exit code says the same.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from clients.report import Step, build_failure, print_steps, summarize
from clients.toolchains import ToolchainError
from conformance.stage import Stage, StageError, open_stage
from conformance.suite import AS_EXPECTED, Suite, SuiteError, prepare_suite

_REVISIONS = ("2025-11-25", "2026-07-28")
_MODERN = "2026-07-28"
_UNCOUNTED = (("http-header-validation", _MODERN), ("http-custom-header-server-validation", _MODERN))
_EXACT = tuple(("json-schema-2020-12", revision) for revision in _REVISIONS)


def main() -> int:
    """Run everything; the exit code. The run's folder stays when something failed in it."""
    folder = Path(tempfile.mkdtemp(prefix="colabhive-conformance-"))
    steps = []
    for heading, played in _run_all(folder):
        print_steps(heading, played)
        steps += played
    line, code = summarize(steps)
    expected = sum(step.note == AS_EXPECTED for step in steps)
    sys.stdout.write(
        f"{expected} of these scenarios fail as conformance/baseline.yml expects, each for its reason there\n"
    )
    if code:
        sys.stdout.write(f"what each scenario saw, and the logs: {folder}\n")
    else:
        shutil.rmtree(folder)
    sys.stdout.write(f"{line}\n")
    return code


def _run_all(folder: Path) -> Iterator[tuple[str, list[Step]]]:
    """The parts of the run, each with its heading."""
    try:
        suite = prepare_suite(folder)
        with open_stage(folder) as stage:
            yield from _run_relays(suite, stage)
    except (ToolchainError, StageError, SuiteError) as error:
        yield "run", [build_failure("run", error)]


def _run_relays(suite: Suite, stage: Stage) -> Iterator[tuple[str, list[Step]]]:
    """Two relays: what clients get unasked, and one that lists schemas exactly as the manifest has them."""
    with stage.open_relay("default") as relay:
        for revision in _REVISIONS:
            yield f"required by {revision}", list(suite.run_required(revision, relay.url))
        yield "not counted", [_run_alone(suite, relay.url, *scenario) for scenario in _UNCOUNTED]
    with stage.open_relay("exact", "--schemas", "exact") as exact:
        yield "not counted, exact schemas", [_run_alone(suite, exact.url, *scenario) for scenario in _EXACT]
    yield "relays", [relay.check_end(), exact.check_end()]


def _run_alone(suite: Suite, url: str, name: str, revision: str) -> Step:
    step = suite.run_alone(name, revision, url)
    return replace(step, name=f"{name} ({revision})")


if __name__ == "__main__":
    sys.exit(main())
