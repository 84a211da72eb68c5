"""The table of clients: which SDK, how it is asked to negotiate, which revision must come of it, and over which ways.

`legacy` opens with `initialize`; `auto` probes with `server/discover`; a revision as the mode is taken without asking
(modern) or offered in `initialize` (legacy, which only the SDK for TypeScript can be told). `mcp-remote` passes on what
its own client says.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from clients.scenario import Local, Remote
from clients.servers import ROOT
from clients.toolchains import (
    FASTMCP,
    INSPECTOR,
    MCP_REMOTE,
    PYTHON_1,
    PYTHON_2,
    TYPESCRIPT_1,
    TYPESCRIPT_2,
    Toolchain,
    find_inspector_node,
    find_node,
    prepare_toolchain,
)

_NEWEST_LEGACY = "2025-11-25"
_MODERN = "2026-07-28"

Approach = Callable[[Local | Remote, Mapping[str, str]], Local | Remote]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client over one way.

    `build_command` gives the driver's command line and may raise `ToolchainError`; `approach` turns what is to be
    reached, and the environment of the client's processes, into what the driver is told to reach.
    """

    name: str
    build_command: Callable[[], list[str]]
    mode: str
    revision: str
    way: str
    approach: Approach


def _build_python(toolchain: Toolchain, driver: str) -> Callable[[], list[str]]:
    return lambda: [str(prepare_toolchain(toolchain) / "bin" / "python"), "-m", f"clients.{driver}"]


def _build_typescript(toolchain: Toolchain) -> Callable[[], list[str]]:
    return lambda: [find_node(), str(ROOT / "clients" / "typescript.mjs"), str(prepare_toolchain(toolchain))]


def _build_inspector() -> list[str]:
    return [sys.executable, "-m", "clients.inspector", str(prepare_toolchain(INSPECTOR)), find_inspector_node()]


def _approach_straight(target: Local | Remote, _environment: Mapping[str, str]) -> Local | Remote:
    return target


def _approach_bridged(target: Local | Remote, environment: Mapping[str, str]) -> Local:
    """By `mcp-remote`, which is a local server for its client; the key stays out of its command line."""
    assert isinstance(target, Remote)
    program = prepare_toolchain(MCP_REMOTE) / "node_modules" / "mcp-remote" / "dist" / "proxy.js"
    options = ("--allow-http", "--transport", "http-only", "--header", "Authorization:${AUTHORIZATION}")
    return Local(
        command=(find_node(), str(program), target.url, *options),
        environment={**environment, "AUTHORIZATION": target.headers["Authorization"]},
    )


_STRAIGHT_WAYS = ("stdio", "http")
_ALL_WAYS = (*_STRAIGHT_WAYS, "nginx")
_REMOTE_WAYS = ("http", "nginx")
_AUTO = (("auto", _MODERN),)
_LEGACY = (("legacy", _NEWEST_LEGACY),)
_OLDER = tuple((revision, revision) for revision in ("2025-06-18", "2025-03-26", "2024-11-05"))


class _Row(NamedTuple):
    """Some modes of one kind of client, each with the revision that must come of it, over some ways."""

    kind: str
    build_command: Callable[[], list[str]]
    modes: tuple[tuple[str, str], ...]
    ways: tuple[str, ...]
    approach: Approach = _approach_straight


_PYTHON_1 = _build_python(PYTHON_1, "python_sdk_1")
_PYTHON_2 = _build_python(PYTHON_2, "python_sdk_2")
_FASTMCP = _build_python(FASTMCP, "fastmcp_client")
_TYPESCRIPT_1 = _build_typescript(TYPESCRIPT_1)
_TYPESCRIPT_2 = _build_typescript(TYPESCRIPT_2)
_ROWS = (
    _Row("python-1", _PYTHON_1, _LEGACY, _ALL_WAYS),
    _Row("python-2", _PYTHON_2, (*_AUTO, *_LEGACY), _ALL_WAYS),
    _Row("python-2", _PYTHON_2, ((_MODERN, _MODERN),), _STRAIGHT_WAYS),
    _Row("fastmcp", _FASTMCP, (*_AUTO, *_LEGACY), _REMOTE_WAYS),
    _Row("typescript-1", _TYPESCRIPT_1, _LEGACY, _ALL_WAYS),
    _Row("typescript-2", _TYPESCRIPT_2, (*_AUTO, *_LEGACY), _ALL_WAYS),
    _Row("typescript-2", _TYPESCRIPT_2, _OLDER, _STRAIGHT_WAYS),
    _Row("mcp-remote", _PYTHON_1, _LEGACY, _REMOTE_WAYS, _approach_bridged),
    _Row("inspector", _build_inspector, (("modern", _MODERN),), _ALL_WAYS),
    _Row("inspector", _build_inspector, _LEGACY, _STRAIGHT_WAYS),
)

CLIENTS: tuple[Client, ...] = tuple(
    Client(
        name=f"{row.kind}-{mode}-{way}",
        build_command=row.build_command,
        mode=mode,
        revision=revision,
        way=way,
        approach=row.approach,
    )
    for row in _ROWS
    for (mode, revision), way in product(row.modes, row.ways)
)


def find_clients(words: tuple[str, ...]) -> tuple[Client, ...]:
    """The clients whose name holds one of `words`, in the table's order; all of them without words."""
    return tuple(client for client in CLIENTS if not words or any(word in client.name for word in words))
