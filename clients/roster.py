"""The table of clients: which SDK, how it is asked to negotiate, and which revision must come of it.

`legacy` opens with `initialize`; `auto` probes with `server/discover`; a revision as the mode is taken without asking
(modern) or offered in `initialize` (legacy, which only the SDK for TypeScript can be told).
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clients.toolchains import (
    INSPECTOR,
    PYTHON_1,
    PYTHON_2,
    ROOT,
    TYPESCRIPT_1,
    TYPESCRIPT_2,
    Toolchain,
    find_inspector_node,
    find_node,
)

_NEWEST_LEGACY = "2025-11-25"
_MODERN = "2026-07-28"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client of the run. `build_command` gives the driver's command line for the folder of its toolchain."""

    name: str
    toolchain: Toolchain
    build_command: Callable[[Path], list[str]]
    mode: str
    revision: str


def _build_python_1(folder: Path) -> list[str]:
    return [str(folder / "bin" / "python"), "-m", "clients.python_sdk_1"]


def _build_python_2(folder: Path) -> list[str]:
    return [str(folder / "bin" / "python"), "-m", "clients.python_sdk_2"]


def _build_typescript(folder: Path) -> list[str]:
    return [find_node(), str(ROOT / "clients" / "typescript.mjs"), str(folder)]


def _build_inspector(folder: Path) -> list[str]:
    return [sys.executable, "-m", "clients.inspector", str(folder), find_inspector_node()]


_KINDS: tuple[tuple[str, Toolchain, Callable[[Path], list[str]], tuple[tuple[str, str], ...]], ...] = (
    ("python-1", PYTHON_1, _build_python_1, (("legacy", _NEWEST_LEGACY),)),
    ("python-2", PYTHON_2, _build_python_2, (("auto", _MODERN), (_MODERN, _MODERN), ("legacy", _NEWEST_LEGACY))),
    ("typescript-1", TYPESCRIPT_1, _build_typescript, (("legacy", _NEWEST_LEGACY),)),
    (
        "typescript-2",
        TYPESCRIPT_2,
        _build_typescript,
        (
            ("auto", _MODERN),
            ("legacy", _NEWEST_LEGACY),
            ("2025-06-18", "2025-06-18"),
            ("2025-03-26", "2025-03-26"),
            ("2024-11-05", "2024-11-05"),
        ),
    ),
    ("inspector", INSPECTOR, _build_inspector, (("modern", _MODERN), ("legacy", _NEWEST_LEGACY))),
)

CLIENTS: tuple[Client, ...] = tuple(
    Client(name=f"{kind}-{mode}", toolchain=toolchain, build_command=build, mode=mode, revision=revision)
    for kind, toolchain, build, modes in _KINDS
    for mode, revision in modes
)


def find_clients(names: tuple[str, ...]) -> tuple[Client, ...]:
    """The clients whose name starts with one of `names`, in the table's order; all of them without names."""
    return tuple(client for client in CLIENTS if not names or client.name.startswith(names))
