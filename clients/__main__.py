"""`python -m clients [NAME …]`: every real client, or those whose name starts with one of the names.

Parse, prepare, run, count. The last line is `N passed, N failed`, and the exit code says the same.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from clients.report import Step, parse_steps, print_steps, summarize
from clients.roster import Client, find_clients
from clients.stage import Rehearsal, Stage, StageError, open_stage
from clients.toolchains import ROOT, ToolchainError, prepare_toolchain

_CLIENT_LIMIT = 60


def main(names: tuple[str, ...]) -> int:
    """Run the clients one after the other; the exit code. The run's folder stays when something failed in it."""
    folder = Path(tempfile.mkdtemp(prefix="colabhive-clients-"))
    steps = list(_run_all(find_clients(names), folder))
    line, code = summarize(steps)
    if code:
        print(f"plans, logs and records: {folder}")
    else:
        shutil.rmtree(folder)
    print(line)
    return code


def _run_all(clients: tuple[Client, ...], folder: Path) -> Iterator[Step]:
    """Every client over one gateway, each printed as soon as it is done."""
    try:
        with open_stage(folder) as stage:
            for client in clients:
                played = list(_run_client(client, stage))
                print_steps(client.name, played)
                yield from played
    except StageError as error:
        failure = Step(name="gateway", passed=False, note=str(error))
        print_steps("gateway", [failure])
        yield failure


def _run_client(client: Client, stage: Stage) -> Iterator[Step]:
    """Every step of one client: the toolchain, the driver's own steps, then what its servers left behind."""
    try:
        command = client.build_command(prepare_toolchain(client.toolchain))
    except ToolchainError as error:
        yield Step(name="toolchain", passed=False, note=str(error))
        return
    rehearsal = stage.rehearse(client.name, mode=client.mode, revision=client.revision)
    yield from _run_driver(command, rehearsal)
    yield rehearsal.check_servers()
    yield rehearsal.check_log()


def _run_driver(command: list[str], rehearsal: Rehearsal) -> Iterator[Step]:
    """The driver in a process group of its own, so that whatever it leaves behind can be ended with it."""
    with rehearsal.log.open("wb") as log:
        driver = subprocess.Popen(
            [*command, str(rehearsal.plan)],
            cwd=ROOT,
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
