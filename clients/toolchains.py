"""The SDKs, each in a folder of its own under `.clients/`: made when missing, reused when the bounds are the same.

Knows the two package managers and nothing of what the packages do. Every bound ends below the next major version.
"""

import fcntl
import json
import re
import shutil
import subprocess
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clients.servers import ROOT

_HOME = ROOT / ".clients"
_INSTALL_LIMIT = 300
# What the Inspector's package declares; older ones run the SDKs.
_INSPECTOR_NODE = (22, 19)


class ToolchainError(Exception):
    """A toolchain could not be made; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A folder's name, what is installed into it, and by what."""

    name: str
    requirements: tuple[str, ...]
    install: Callable[[Path, tuple[str, ...]], None]

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        return _HOME / self.name


def prepare_toolchain(toolchain: Toolchain) -> Path:
    """The folder of a complete installation. Raises `ToolchainError` with the package manager's last words."""
    _HOME.mkdir(exist_ok=True)
    with (_HOME / "lock").open("w") as lock:
        # Two runs at once must not install into the same folder.
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install_missing(toolchain)
    return toolchain.folder


def _install_missing(toolchain: Toolchain) -> None:
    marker = toolchain.folder / "installed.json"
    wanted = json.dumps(toolchain.requirements)
    if marker.is_file() and marker.read_text() == wanted:
        return
    shutil.rmtree(toolchain.folder, ignore_errors=True)
    toolchain.folder.mkdir()
    toolchain.install(toolchain.folder, toolchain.requirements)
    marker.write_text(wanted)


def find_node(*, minimum: tuple[int, int] = (20, 0)) -> str:
    """A Node that is new enough: the machine's own, else one from the registry. Raises `ToolchainError`."""
    own = shutil.which("node")
    if own is not None and _node_version(own) >= minimum:
        return own
    program = prepare_toolchain(NODE) / "node_modules" / ".bin" / "node"
    if not program.exists():
        raise ToolchainError("the package node brought no program: npm may be told to run no install scripts")
    return str(program)


def find_inspector_node() -> str:
    """A Node that the Inspector accepts. Raises `ToolchainError`."""
    return find_node(minimum=_INSPECTOR_NODE)


def _node_version(node: str) -> tuple[int, int]:
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    found = re.match(r"v(\d+)\.(\d+)", answer)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _install_python(folder: Path, requirements: tuple[str, ...]) -> None:
    venv.create(folder, with_pip=True)
    _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements])


def _install_node(folder: Path, requirements: tuple[str, ...]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise ToolchainError("npm is not on the PATH")
    (folder / "package.json").write_text('{"private": true}\n')
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    _run([npm, "install", "--prefix", str(folder), *quiet, *requirements])


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise ToolchainError(f"{command[0]} took more than {_INSTALL_LIMIT} s") from None
    if done.returncode:
        raise ToolchainError((done.stderr or done.stdout).strip()[-600:])


PYTHON_1 = Toolchain(name="python-1", requirements=("mcp>=1.30,<2",), install=_install_python)
PYTHON_2 = Toolchain(name="python-2", requirements=("mcp>=2.3,<3",), install=_install_python)
TYPESCRIPT_1 = Toolchain(
    name="typescript-1", requirements=("@modelcontextprotocol/sdk@>=1.32 <2",), install=_install_node
)
TYPESCRIPT_2 = Toolchain(
    name="typescript-2", requirements=("@modelcontextprotocol/client@>=2.4 <3",), install=_install_node
)
INSPECTOR = Toolchain(
    name="inspector", requirements=("@modelcontextprotocol/inspector@>=2.12 <3",), install=_install_node
)
FASTMCP = Toolchain(name="fastmcp", requirements=("fastmcp>=4.2,<5",), install=_install_python)
# Below 1.0, a minor version counts as a major one.
MCP_REMOTE = Toolchain(name="mcp-remote", requirements=("mcp-remote@>=0.15.1 <0.16",), install=_install_node)
NODE = Toolchain(name="node", requirements=("node@>=24 <25",), install=_install_node)
