"""The command line as real processes over a real gateway: output, files and exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest

from tests.harness.gateway import GatewayProcess

COMMAND = (sys.executable, "-m", "colabhive_mcp")
HTML = {"status": 200, "headers": {"Content-Type": "text/html"}, "body": "<html><title>Hi</title></html>", "times": -1}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def build_environ(folder: Path, gateway: GatewayProcess | None, settings: dict[str, str]) -> dict[str, str]:
    """An environment with the gateway, its key and *settings* (named in lower case), and nothing of the machine's."""
    own = {"COLABHIVE_API_URL": gateway.url, "COLABHIVE_API_KEY": gateway.key} if gateway else {}
    given = {f"COLABHIVE_{name.upper()}": value for name, value in settings.items()}
    return {"PATH": os.environ["PATH"], "HOME": str(folder), **own, **given}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run("tools", "--json", gateway=gateway, stability="stable")``: one command, to its end."""

    def start(
        *arguments: str, gateway: GatewayProcess | None = None, text: str | None = None, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            env=build_environ(tmp_path, gateway, settings),
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd="/",
        )

    return start


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_tools(run: Run, gateway: GatewayProcess) -> None:
    """The table has one line a tool, with what the manifest says of it."""
    ran = run("tools", gateway=gateway)
    assert (ran.returncode, ran.stderr) == (0, "")
    head, *lines = ran.stdout.splitlines()
    assert head.split() == ["name", "kind", "stability", "cost", "latency", "side-effects", "description"]
    rows = {line.split()[0]: line for line in lines}
    assert re.search(r"^echo +tool +stable +free +instant +none +Returns", rows["echo"])
    assert "mutating" in rows["notes-append"]


def test_tools_json(run: Run, gateway: GatewayProcess) -> None:
    """As JSON each tool has its slug, the name that clients see, and the manifest's words."""
    tools = {tool["slug"]: tool for tool in json.loads(run("tools", "--json", gateway=gateway).stdout)["tools"]}
    assert tools["echo"]["name"] == "echo"
    assert tools["echo"]["sideEffects"] == []
    assert tools["training.merge"]["name"] == "training_merge"


def test_tools_why(run: Run, gateway: GatewayProcess) -> None:
    """``--why`` names what is not offered, each with its reason, and it is not among the tools."""
    flags = ("--why", "--deny-tools", "ec*", "--deny-side-effects", "mutating")
    shown = json.loads(run("tools", "--json", *flags, gateway=gateway).stdout)
    reasons = {entry["slug"]: entry["reason"] for entry in shown["left_out"]}
    assert "deny_tools" in reasons["echo"]
    assert "mutating" in reasons["notes-append"]
    assert not {"echo", "notes-append"} & {tool["slug"] for tool in shown["tools"]}
    table = run("tools", *flags, gateway=gateway).stdout.partition("not offered")[2]
    assert "deny_tools" in table


def test_tools_that_no_client_lists(run: Run, gateway: GatewayProcess) -> None:
    """A table without any tool says where to look, and one that clients search says so; only what is there is shown."""
    ran = run("tools", "--deny-tools", "*", gateway=gateway)
    assert (ran.returncode, len(ran.stdout.splitlines())) == (0, 1)
    assert "--why says why" in ran.stderr
    ran = run("tools", "--listing", "search", "--why", gateway=gateway)
    assert "not offered" not in ran.stdout
    assert "four tools that find, describe and call" in ran.stderr


def test_tools_names_unusable_entries(run: Run, own_gateway: GatewayProcess) -> None:
    """A tool that cannot be offered is named with the reason; words of others cannot forge a line or move a cursor."""
    own_gateway.register(
        {"name": "broken", "inputSchema": 5}, {"name": "evil", "description": "a\n\x1b[2Jfake line", "inputSchema": {}}
    )
    ran = run("tools", "--why", gateway=own_gateway)
    assert "broken" in ran.stdout.partition("not offered")[2]
    assert "\x1b" not in ran.stdout
    assert "\nfake" not in ran.stdout


def test_call_text(run: Run, gateway: GatewayProcess) -> None:
    """Text goes to stdout as it is, and nothing to stderr."""
    ran = run("call", "echo", "--arg", "text=a=b é", gateway=gateway)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "a=b é\n", "")


@pytest.mark.parametrize("source", ["text", "file", "stdin"])
def test_call_json_arguments(run: Run, gateway: GatewayProcess, tmp_path: Path, source: str) -> None:
    """All arguments come as JSON from the command line, a file or stdin; single ones win over them."""
    arguments = json.dumps({"text": "from json", "extra": 1})
    (tmp_path / "arguments.json").write_text(arguments)
    given = {"text": arguments, "file": f"@{tmp_path}/arguments.json", "stdin": "-"}[source]
    text = arguments if source == "stdin" else None
    single = ("--arg", "text=single") if source == "stdin" else ()
    ran = run("call", "echo", "--json", given, *single, gateway=gateway, text=text)
    assert ran.stdout == ("single\n" if single else "from json\n")


def test_call_repairs_arguments(run: Run, gateway: GatewayProcess) -> None:
    """A value of ``--arg`` becomes what the tool's schema wants."""
    ran = run("call", "sparkline", "--arg", "values=[1,2,3]", "--arg", "width=20", "--output", "json", gateway=gateway)
    assert json.loads(ran.stdout)["content"][0]["mimeType"] == "image/png"


def test_call_json_output(run: Run, gateway: GatewayProcess) -> None:
    """``--output json`` is the whole result."""
    result = json.loads(
        run("call", "text-stats", "--arg", "text=two words", "--output", "json", gateway=gateway).stdout
    )
    assert result["structuredContent"]["words"] == 2
    assert result["isError"] is False


def test_call_save(run: Run, gateway: GatewayProcess, tmp_path: Path) -> None:
    """Images and sounds go to files, and their paths are printed."""
    folder = tmp_path / "out"
    image = run("call", "sparkline", "--arg", "values=[1,2]", "--save", str(folder), gateway=gateway)
    sound = run("call", "tone", "--save", str(folder), gateway=gateway)
    assert image.stdout.startswith(f"{folder}/sparkline-1.png (image/png, ")
    assert sound.stdout.startswith(f"{folder}/tone-1.wav (audio/wav, ")
    assert (folder / "sparkline-1.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "tone-1.wav").read_bytes().startswith(b"RIFF")


def test_call_failing(run: Run, gateway: GatewayProcess) -> None:
    """A tool that answers with an error is exit code 1; its words go to stderr, or into the JSON."""
    ran = run("call", "text-stats", "--arg", "texts=1", gateway=gateway)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "text" in ran.stderr
    ran = run("call", "text-stats", "--output", "json", gateway=gateway)
    assert ran.returncode == 1
    assert json.loads(ran.stdout)["isError"] is True


def test_call_polls(run: Run, gateway: GatewayProcess) -> None:
    """A cold job is followed to its end, without a word on stderr where that is no terminal."""
    ran = run("call", "slow-count", "--arg", "to=2", "--arg", "interval=0.1", gateway=gateway, poll_interval="0.1")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == {"counted": 2}


@pytest.mark.parametrize(("slug", "words"), [("nonsense", "Unknown tool"), ("echo", "deny_tools")])
def test_call_of_no_tool(run: Run, gateway: GatewayProcess, slug: str, words: str) -> None:
    """A tool that is unknown or filtered out is wrong usage, and nothing is sent."""
    ran = run("call", slug, "--deny-tools", "echo", gateway=gateway)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert not gateway.seen(":invoke")


@pytest.mark.parametrize("line", [("tools",), ("call", "echo", "--arg", "text=x"), ("test",)], ids=" ".join)
@pytest.mark.parametrize("case", ["unreachable", "refused", "no manifest", "no such path"])
def test_exit_codes(run: Run, gateway: GatewayProcess, line: tuple[str, ...], case: str) -> None:
    """Each cause has its exit code and one sentence, the same for every command."""
    settings, code = {
        "unreachable": (
            {"api_url": f"http://127.0.0.1:{free_port()}", "connect_timeout": "0.3", "http_timeout": "0.3"},
            69,
        ),
        "refused": ({"api_key": "hive_wrong_wrong_wrong"}, 77),
        "no manifest": ({}, 76),
        "no such path": ({}, 76),
    }[case]
    if case.startswith("no "):
        gateway.fault(path="*/mcp/manifest", **{**HTML, "status": 200 if case == "no manifest" else 404})
    ran = run(*line, gateway=gateway, **settings)
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr
    assert "wrong_wrong" not in ran.stdout + ran.stderr
    assert len((ran.stderr or ran.stdout).splitlines()) <= 6


def test_test(run: Run, gateway: GatewayProcess) -> None:
    """Each step has a tick, a time and what was found."""
    ran = run("test", "--deny-tools", "echo", gateway=gateway)
    assert (ran.returncode, ran.stderr) == (0, "")
    steps = [line.split()[:2] for line in ran.stdout.splitlines()]
    assert steps == [["✓", name] for name in ("settings", "gateway", "key", "manifest", "tools")]
    assert all(re.search(r" \d+(\.\d)? m?s  ", line) for line in ran.stdout.splitlines())
    assert "1 left out by the filters" in ran.stdout


@pytest.mark.parametrize(
    ("settings", "failing"),
    [
        ({"api_key": " "}, "settings"),
        ({"api_url": "http://127.0.0.1:9", "connect_timeout": "0.3", "http_timeout": "0.3"}, "gateway"),
        ({"api_key": "hive_other_key_here"}, "key"),
        ({"allow_tools": "nothing"}, "tools"),
    ],
)
def test_test_stops_at_the_cause(run: Run, gateway: GatewayProcess, settings: dict[str, str], failing: str) -> None:
    """The steps before the cause are ticked, it is said what is wrong, and the rest is not tried."""
    ran = run("test", "--json", gateway=gateway, **settings)
    report = json.loads(ran.stdout)
    names = [step["step"] for step in report["steps"]]
    place = names.index(failing)
    assert [step["ok"] for step in report["steps"]] == [True] * place + [False] + [None] * (len(names) - place - 1)
    assert report["exit_code"] == ran.returncode != 0
    assert report["ok"] is False


def test_closed_pipe(gateway: GatewayProcess, tmp_path: Path) -> None:
    """``tools | head -1`` is quiet."""
    command = " ".join([*COMMAND, "tools", "--why", "|", "head", "-1"])
    environ = build_environ(tmp_path, gateway, {})
    ran = subprocess.run(command, shell=True, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.startswith("name ")
    assert ran.stderr == ""


def test_interrupted_call(gateway: GatewayProcess, tmp_path: Path) -> None:
    """Ctrl-C ends a call that waits: exit code 130, nothing said, and soon."""
    command = [*COMMAND, "call", "slow-count", "--arg", "to=1000"]
    child = subprocess.Popen(
        command, env=build_environ(tmp_path, gateway, {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with child:
        deadline = time.monotonic() + 30
        while not gateway.seen("/invocations/"):
            assert child.poll() is None
            assert time.monotonic() < deadline
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=10) == (b"", b"")
    assert child.returncode == 130


def run_on_terminal(arguments: list[str], environ: dict[str, str], *, columns: int) -> tuple[int, str]:
    """The exit code and everything that a terminal of that width would get."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen([*COMMAND, *arguments], env=environ, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    chunks = []
    try:
        while select.select([master], [], [], 60)[0]:
            chunk = os.read(master, 65536)
            if not chunk:
                break
            chunks.append(chunk)
    except OSError:  # Linux answers EIO once the other side is closed
        pass
    finally:
        os.close(master)
    return child.wait(10), b"".join(chunks).decode()


def test_on_a_terminal(gateway: GatewayProcess, tmp_path: Path) -> None:
    """On a terminal a table fits its width, and a call shows a bar that is gone at the end."""
    environ = {**build_environ(tmp_path, gateway, {}), "TERM": "xterm"}
    code, text = run_on_terminal(["tools"], environ, columns=90)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
    assert code == 0
    assert max(map(len, lines)) <= 90
    code, text = run_on_terminal(["call", "slow-count", "--arg", "to=1"], environ, columns=90)
    assert code == 0
    assert re.search(r"slow-count \[[.#]+\] ", text)
    assert text.rpartition("\r\x1b[2K")[2].split() == ['{"counted":1}']


def test_server_flags(connect: Callable[..., Any], gateway: GatewayProcess, tmp_path: Path) -> None:
    """Flags of the bare command configure the stdio server."""
    log = tmp_path / "server.jsonl"
    client = connect(gateway, arguments=("--allow-tools", "echo,tone", "--log-file", str(log), "--log-level", "debug"))
    assert set(client.tools()) - {"get_invocation_result"} == {"echo", "tone"}
    assert client.close() == 0
    assert client.stderr == ""
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert "mcp.session.started" in events
    assert "manifest.fetched" in events


def test_key_is_nowhere(connect: Callable[..., Any], gateway: GatewayProcess) -> None:
    """A debug log of everything, a failing gateway included, holds no part of the key."""
    gateway.fault(method="POST", status=500, body={"detail": f"bad key {gateway.key}"}, times=-1)
    client = connect(gateway, log_level="debug", log_jsonrpc="true")
    result = client.call("echo", {"text": "x"})
    assert client.close() == 0
    secret = gateway.key.removeprefix("hive_")
    text = client.stderr + json.dumps(result)
    assert not any(secret[start : start + 6] in text for start in range(len(secret) - 5))


def test_demo(run: Run) -> None:
    """The demo tells a whole session that went as it has to, without colours in a pipe, and nothing on stderr."""
    ran = run("demo", api_key="hive_of_this_user_s_own", workers="1", poll_max_wait="0.1")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    for words in (
        "initialize",
        "text: Hello",
        "structuredContent",
        "image/png",
        "audio/wav",
        "progress: ",
        "isError",
        "-32602",
    ):
        assert words in ran.stdout
    assert "✗" not in ran.stdout
    assert "\x1b" not in ran.stdout
