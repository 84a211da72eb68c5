"""Where the measured processes run: an interpreter as an installation has it, and an environment with nothing in it.

A development install puts an import hook into every start of its interpreter, which would make the floor as slow as
what is measured. So the benchmark makes a virtual environment of its own that finds the same packages by plain paths.
"""

from __future__ import annotations

import os
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ")


@dataclass(frozen=True, slots=True)
class Place:
    """An interpreter and the variables that its processes get."""

    python: str
    variables: dict[str, str]


@contextmanager
def open_place() -> Iterator[Place]:
    """Make the interpreter's place, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="colabhive-bench-") as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=False, symlinks=True)
        packages = next((home / "venv").glob("lib/python*/site-packages"))
        found = [path for path in sys.path if path.endswith("-packages")]
        (packages / "bench.pth").write_text("\n".join([str(_ROOT), *found]) + "\n")
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        yield Place(python=str(home / "venv/bin/python"), variables=kept | {"HOME": folder})
