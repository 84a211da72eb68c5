"""`python -m clients [WORD …]`: every real client over every way, or those whose name holds one of the words.

Parse, prepare, run, count. The last line is `N passed, N failed`, and what was skipped; the exit code says the same.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from clients.report import Step, build_failure, parse_steps, print_steps, summarize
from clients.roster import Client, find_clients
from clients.servers import ROOT, ServerError
from clients.stage import Rehearsal, Stage, open_stage

_CLIENT_LIMIT = 60
# Most of a run is waiting for jobs that take their time.
_AT_ONCE = 3


def main(words: tuple[str, ...]) -> int:
    """Run the clients, some at once; the exit code. The run's folder stays when something failed in it."""
    folder = Path(tempfile.mkdtemp(prefix="colabhive-clients-"))
    steps = list(_run_all(find_clients(words), folder))
    line, code = summarize(steps)
    if code:
        print(f"plans, logs and records: {folder}")
    else:
        shutil.rmtree(folder)
    print(line)
    return code


def _run_all(clients: tuple[Client, ...], folder: Path) -> Iterator[Step]:
    """Every client over one gateway, each printed as soon as it and those before it are done."""
    try:
        with open_stage(folder) as stage, ThreadPoolExecutor(_AT_ONCE) as pool:
            runs = [(client, pool.submit(_run_client, client, stage)) for client in clients]
            for client, run in runs:
                played = run.result()
                print_steps(client.name, played)
                yield from played
    except ServerError as error:
        failure = build_failure("gateway", error)
        print_steps("gateway", [failure])
        yield failure


def _run_client(client: Client, stage: Stage) -> list[Step]:
    """Every step of one client: the driver's own, then what its servers left behind."""
    steps: list[Step] = []
    try:
        command = client.build_command()
        with stage.rehearse(client) as rehearsal:
            steps += _run_driver(command, rehearsal)
        steps += rehearsal.check()
    except Exception as error:
        steps.append(build_failure("stage", error))
    return steps


def _run_driver(command: list[str], rehearsal: Rehearsal) -> Iterator[Step]:
    """The driver in a process group of its own, so that whatever it leaves behind can be ended with it."""
    with rehearsal.log.open("wb") as log:
        driver = subprocess.Popen(
            [*command, str(rehearsal.plan)],
            cwd=ROOT,
            env={**os.environ, **rehearsal.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            output, ended = driver.communicate(timeout=_CLIENT_LIMIT)[0], True
        except subprocess.TimeoutExpired:
            os.killpg(driver.pid, signal.SIGKILL)
            output, ended = driver.communicate()[0], False
    yield from parse_steps(output.splitlines())
    if driver.returncode:
        how = f"exit code {driver.returncode}" if ended else f"stopped after {_CLIENT_LIMIT} s"
        words = rehearsal.log.read_text(errors="replace").strip()[-800:]
        yield Step(name="driver", passed=False, note=f"{how}; its last words: {words}")


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
