"""The toolbox that is built when it is first needed."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from colabhive_mcp.errors import BrokenInstallation, ConfigError
from colabhive_mcp.protocol.revisions import OLDEST
from colabhive_mcp.protocol.toolbox import Caller, Listing
from colabhive_mcp.transports.late import LateToolbox

CALLER = Caller(OLDEST, None, threading.Event())


class Toolbox:
    """A toolbox that says what it was asked."""

    def list_tools(self, cursor: str | None, caller: Caller) -> Listing:
        """A listing that names the cursor."""
        return Listing([], cursor, 0)

    def call_tool(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> Iterator[Any]:
        """The call itself."""
        yield (name, arguments, caller)

    def changes(self, caller: Caller) -> Iterator[Any]:
        """The caller."""
        yield caller


def test_it_stands_for_the_toolbox() -> None:
    """Whatever is asked of it is asked of the toolbox that was built."""
    late = LateToolbox(Toolbox)
    assert late.list_tools("c", CALLER) == Listing([], "c", 0)
    assert list(late.call_tool("n", {"a": 1}, CALLER)) == [("n", {"a": 1}, CALLER)]
    assert list(late.changes(CALLER)) == [CALLER]


def test_nothing_is_built_in_advance() -> None:
    """Until something is asked, nothing is built; then it is built once, however many ask at once."""
    built: list[Toolbox] = []

    def build() -> Toolbox:
        built.append(Toolbox())
        return built[-1]

    late = LateToolbox(build)
    assert built == []
    start = threading.Barrier(16)

    def work() -> None:
        start.wait(10)
        late.list_tools(None, CALLER)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(built) == 1


def test_a_failure_is_told_and_tried_again() -> None:
    """When it cannot be built, who asked is told, and the next one has another try."""
    steps = iter([ConfigError("no key"), ConfigError("no key"), None])

    def build() -> Toolbox:
        if error := next(steps):
            raise error
        return Toolbox()

    late = LateToolbox(build)
    for _ in range(2):
        with pytest.raises(ConfigError, match="no key"):
            late.list_tools(None, CALLER)
    assert late.list_tools(None, CALLER).tools == []


def test_a_package_that_cannot_be_imported() -> None:
    """A package that is missing when the toolbox is built is named, with what to do."""

    def build() -> Toolbox:
        raise ImportError("No module named 'nowhere'", name="nowhere.at.all")

    with pytest.raises(BrokenInstallation, match=r"nowhere \(not installed\) cannot be imported.*Install again"):
        LateToolbox(build).list_tools(None, CALLER)
