"""The MCP Inspector's command line: `python -m clients.inspector FOLDER NODE PLAN`, one process an invocation.

It can list, call, read, and show what was negotiated; it cannot cancel, complete or listen. Every invocation connects,
asks and closes. Its exit codes: 0 done, 5 the tool answered with an error or is not listed, 6 a schema that some
clients refuse (`--strict`); others for what it could not do at all.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.report import Step, build_failure, write_step
from clients.scenario import Local, Plan, Remote, Target, load_plan, send_cue

_INVOCATION_LIMIT = 20
_TOOL_ERROR = 5
_ENTRY = Path("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one invocation left: its exit code, the JSON on its standard output, its words on standard error."""

    code: int
    value: dict[str, Any]
    words: str

    @property
    def texts(self) -> list[str]:
        """The text blocks of a tool's result."""
        return [block["text"] for block in self.value.get("content", []) if block["type"] == "text"]


class Inspector:
    """The command line for one target of a plan."""

    def __init__(self, command: list[str], target: Target, *, plan: Plan) -> None:
        self.plan = plan
        chosen = _to_header_options(target) if isinstance(target, Remote) else _to_config_options(target)
        self._command = [*command, "--cli", *chosen, "--protocol-era", plan.mode]
        # It keeps secrets in the user's keyring, which this run must not touch.
        self._environment = {**os.environ, "MCP_INSPECTOR_SECRET_STORE": "memory"}

    def ask(self, method: str, *options: str) -> Answer:
        """Run one invocation. Raises when it takes too long or prints no JSON object."""
        done = subprocess.run(
            [*self._command, "--method", method, *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=_INVOCATION_LIMIT,
            check=False,
        )
        sys.stderr.write(done.stderr)
        return Answer(code=done.returncode, value=json.loads(done.stdout or "{}"), words=done.stderr.strip())

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Call one tool."""
        return self.ask("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))

    def read(self, uri: str) -> Any:
        """The JSON that one resource holds."""
        return json.loads(self.ask("resources/read", "--uri", uri).value["contents"][0]["text"])


def _to_header_options(target: Remote) -> list[str]:
    headers = [word for name, value in target.headers.items() for word in ("--header", f"{name}: {value}")]
    return ["--transport", "http", "--server-url", target.url, *headers]


def _to_config_options(target: Local) -> list[str]:
    """A configuration file in this run's own home: no key is on a command line where that can be helped."""
    server = {"command": target.command[0], "args": target.command[1:], "env": target.environment}
    handle, config = tempfile.mkstemp(suffix=".json", dir=os.environ["HOME"])
    with os.fdopen(handle, "w") as file:
        json.dump({"mcpServers": {"colabhive": server}}, file)
    return ["--config", config, "--server", "colabhive"]


def _connect(inspector: Inspector) -> str:
    value = inspector.ask("initialize").value
    _require(value.get("protocolVersion") == inspector.plan.revision, f"answered {value}")
    _require("colabhive" in value["serverInfo"]["name"], f"the server calls itself {value['serverInfo']}")
    return f"negotiated {value['protocolVersion']}"


def _list(inspector: Inspector) -> str:
    answer = inspector.ask("tools/list", "--strict")
    names = [tool["name"] for tool in answer.value["tools"]]
    _require(answer.code == 0 and "slow-count" in names, f"exit code {answer.code}, tools {names}")
    return f"{len(names)} tools, no schema that a client would refuse"


def _call(inspector: Inspector) -> str:
    answer = inspector.call("echo", text="h\u00e9 \u6f22")
    _require(answer.code == 0 and "h\u00e9 \u6f22" in answer.texts, f"answered {answer}")
    return ""


def _call_structured(inspector: Inspector) -> str:
    answer = inspector.call("text-stats", text="one two")
    _require(answer.code == 0 and isinstance(answer.value.get("structuredContent"), dict), f"answered {answer}")
    return ""


def _call_wrong(inspector: Inspector) -> str:
    answer = inspector.call("echo")
    _require(answer.code == _TOOL_ERROR and answer.value.get("isError") is True, f"answered {answer}")
    return " ".join(answer.texts[0].split())[:120]


def _call_slow(inspector: Inspector) -> str:
    answer = inspector.call("slow-count", to=4, interval=0.3)
    _require(answer.code == 0 and any("4" in text for text in answer.texts), f"answered {answer}")
    return ""


def _read_manifest(inspector: Inspector) -> str:
    """The index leads to each tool's manifest."""
    index = inspector.read("colabhive://manifest")
    (entry,) = [tool for tool in index["tools"] if tool["slug"] == "echo"]
    _require(inspector.read(entry["uri"])["name"] == "echo", f"the entry is {entry}")
    return f"{len(index['tools'])} entries"


def _outlive_restart(inspector: Inspector) -> str:
    send_cue(inspector.plan, "restart")
    return _list(inspector)


_STEPS: tuple[tuple[str, Callable[[Inspector], str]], ...] = (
    ("connect", _connect),
    ("list", _list),
    ("call", _call),
    ("call with structured content", _call_structured),
    ("failing call", _call_wrong),
    ("slow call", _call_slow),
    ("manifests as resources", _read_manifest),
)
_RESTART_STEPS = (("list after a restart", _outlive_restart),)


def _come_with_wrong_key(inspector: Inspector) -> str:
    """Over HTTP it takes every refused key for the wish that it logs in, which it cannot do here."""
    answer = inspector.ask("tools/list")
    told = [line for line in answer.words.splitlines() if "key" in line or "auth_required" in line]
    _require(answer.code != 0 and told != [], f"answered {answer}")
    return f"exit code {answer.code}: {told[-1][:200]}"


def play(command: list[str], plan: Plan) -> None:
    """Run every step, each with a process of its own, and report it."""
    inspector = Inspector(command, plan.server, plan=plan)
    for name, step in (*_STEPS, *(_RESTART_STEPS if plan.restarts else ())):
        _report(name, step, inspector)
    _report("a wrong key", _come_with_wrong_key, Inspector(command, plan.refused, plan=plan))


def _report(name: str, step: Callable[[Inspector], str], inspector: Inspector) -> None:
    try:
        note = step(inspector)
    except Exception as error:
        write_step(build_failure(name, error))
    else:
        write_step(Step(name=name, passed=True, note=note))


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)


if __name__ == "__main__":
    _folder, _node = sys.argv[1:3]
    play([_node, str(Path(_folder) / _ENTRY)], load_plan())
