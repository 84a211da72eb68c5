"""The MCP Inspector's command line: `python -m clients.inspector FOLDER NODE PLAN`, one process an invocation.

It can list, call, and show what was negotiated; it cannot cancel. Every invocation connects, asks and closes. Its exit
codes: 0 done, 5 the tool answered with an error or is not listed, 6 a schema that some clients refuse (`--strict`).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.report import Step, build_failure, write_step

_INVOCATION_LIMIT = 20
_TOOL_ERROR = 5
_ENTRY = Path("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one invocation left: its exit code and the JSON on its standard output."""

    code: int
    value: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """The text blocks of a tool's result."""
        return [block["text"] for block in self.value.get("content", []) if block["type"] == "text"]


class Inspector:
    """The command line for one plan. The server stands in a configuration file: no key is on a command line."""

    def __init__(self, folder: Path, node: str, plan_path: Path) -> None:
        plan = json.loads(plan_path.read_text())
        self.revision: str = plan["revision"]
        config = plan_path.with_name("inspector.json")
        server = {"command": plan["command"][0], "args": plan["command"][1:], "env": plan["environment"]}
        config.write_text(json.dumps({"mcpServers": {"colabhive": server}}))
        chosen = ["--config", str(config), "--server", "colabhive", "--protocol-era", plan["mode"]]
        self._command = [node, str(folder / _ENTRY), "--cli", *chosen]
        # It keeps a folder in the user's home and secrets in the user's keyring, which this run must not touch.
        own = {"HOME": str(plan_path.parent), "MCP_INSPECTOR_SECRET_STORE": "memory"}
        self._environment = {**os.environ, **own}

    def ask(self, method: str, *options: str) -> Answer:
        """Run one invocation. Raises when it takes too long or prints no JSON object."""
        done = subprocess.run(
            [*self._command, "--method", method, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=self._environment,
            timeout=_INVOCATION_LIMIT,
            check=False,
        )
        return Answer(code=done.returncode, value=json.loads(done.stdout or b"{}"))

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Call one tool."""
        return self.ask("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))


def _connect(inspector: Inspector) -> str:
    value = inspector.ask("initialize").value
    _require(value.get("protocolVersion") == inspector.revision, f"answered {value}")
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


_STEPS: tuple[tuple[str, Callable[[Inspector], str]], ...] = (
    ("connect", _connect),
    ("list", _list),
    ("call", _call),
    ("call with structured content", _call_structured),
    ("failing call", _call_wrong),
    ("slow call", _call_slow),
)


def play(inspector: Inspector) -> None:
    """Run every step, each with a process of its own, and report it."""
    for name, step in _STEPS:
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
    play(Inspector(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
