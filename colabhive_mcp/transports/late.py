"""A toolbox that is built when it is first needed: a client's handshake doesn't wait for what only its calls need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from colabhive_mcp.errors import BrokenInstallation
from colabhive_mcp.protocol.toolbox import (
    Caller,
    Changed,
    Completion,
    KeepAlive,
    Listing,
    Progress,
    ResourceText,
    Toolbox,
    ToolResult,
)


class LateToolbox:
    """Stands for the toolbox that *build* makes, once, on whichever thread asks first."""

    def __init__(self, build: Callable[[], Toolbox]) -> None:
        self._build = build
        self._lock = Lock()
        self._toolbox: Toolbox | None = None

    def _load(self) -> Toolbox:
        with self._lock:
            if self._toolbox is None:
                try:
                    self._toolbox = self._build()
                except ImportError as error:
                    raise BrokenInstallation(error) from error
            return self._toolbox

    def list_tools(self, cursor: str | None, caller: Caller) -> Listing:
        """As the toolbox does."""
        return self._load().list_tools(cursor, caller)

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> Iterator[Progress | KeepAlive | ToolResult]:
        """As the toolbox does."""
        return self._load().call_tool(name, arguments, caller)

    @property
    def resources(self) -> Sequence[Mapping[str, Any]]:
        """As the toolbox has them."""
        return self._load().resources

    @property
    def resource_templates(self) -> Sequence[Mapping[str, Any]]:
        """As the toolbox has them."""
        return self._load().resource_templates

    def read_resource(self, uri: str, caller: Caller) -> ResourceText | None:
        """As the toolbox does."""
        return self._load().read_resource(uri, caller)

    def complete(self, template: str, argument: str, value: str, caller: Caller) -> Completion | None:
        """As the toolbox does."""
        return self._load().complete(template, argument, value, caller)

    def header_parameters(self, name: str, caller: Caller) -> Sequence[tuple[str, tuple[str, ...]]]:
        """As the toolbox does."""
        return self._load().header_parameters(name, caller)

    def changes(self, caller: Caller) -> Iterator[Changed | KeepAlive]:
        """As the toolbox does."""
        return self._load().changes(caller)
