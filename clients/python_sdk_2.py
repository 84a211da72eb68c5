"""The official Python SDK, 2.x: its client and its ways behind the scenario's `Session`.

Runs in the SDK's own environment. The plan's mode is the client's own: `auto` probes with `server/discover`, `legacy`
opens with `initialize`, a revision is taken without asking. A reply that nobody waits for is only logged by this SDK,
so the log is where strays are read.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters

from clients.scenario import Outcome, Plan, Progress, RefusedError, load_plan, play


class _StrayLog(logging.Handler):
    """Keeps what the SDK says about replies that it had to drop."""

    def __init__(self, strays: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._strays = strays

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message.startswith("dropping response") or record.levelno >= logging.WARNING:
            self._strays.append(message)


class _Session:
    def __init__(self, client: Client, strays: list[str]) -> None:
        self._client = client
        self.revision = client.protocol_version
        self.server = client.server_info.name if client.server_info is not None else ""
        self.strays = strays

    async def list_tools(self) -> list[str]:
        return [tool.name for tool in (await self._client.list_tools()).tools]

    async def call(
        self, tool: str, arguments: dict[str, Any], *, on_progress: Callable[[Progress], None] | None = None
    ) -> Outcome:
        async def hand_over(progress: float, total: float | None, message: str | None) -> None:
            if on_progress is not None:
                on_progress(Progress(progress=progress, message=message))

        callback = hand_over if on_progress is not None else None
        try:
            return _to_outcome(await self._client.call_tool(tool, arguments, progress_callback=callback))
        except MCPError as error:
            raise RefusedError(error.code, error.error.message) from error

    async def list_resources(self) -> list[str]:
        return [str(resource.uri) for resource in (await self._client.list_resources()).resources]

    async def read(self, uri: str) -> str:
        try:
            (content,) = (await self._client.read_resource(uri)).contents
        except MCPError as error:
            raise RefusedError(error.code, error.error.message) from error
        assert isinstance(content, types.TextResourceContents)
        return content.text

    async def complete(self, template: str, argument: str, value: str) -> list[str]:
        reference = types.ResourceTemplateReference(type="ref/resource", uri=template)
        return (await self._client.complete(reference, {"name": argument, "value": value})).completion.values

    async def cancel(self, call: "asyncio.Task[Outcome]") -> None:
        call.cancel()


def _to_outcome(result: types.CallToolResult) -> Outcome:
    return Outcome(
        is_error=bool(result.is_error),
        texts=tuple(block.text for block in result.content if isinstance(block, types.TextContent)),
        images=tuple(base64.b64decode(block.data) for block in result.content if isinstance(block, types.ImageContent)),
        structured=result.structured_content,
    )


@asynccontextmanager
async def _connect(plan: Plan) -> AsyncIterator[_Session]:
    server = StdioServerParameters(command=plan.command[0], args=list(plan.command[1:]), env=plan.environment)
    strays: list[str] = []

    async def take(message: object) -> None:
        if isinstance(message, Exception):
            strays.append(str(message))

    log = logging.getLogger("mcp.shared.jsonrpc_dispatcher")
    log.setLevel(logging.DEBUG)
    handler = _StrayLog(strays)
    log.addHandler(handler)
    try:
        async with Client(server, mode=plan.mode, message_handler=take) as client:
            yield _Session(client, strays)
    finally:
        log.removeHandler(handler)


if __name__ == "__main__":
    _plan = load_plan()
    play(f"mcp {version('mcp')}", _plan, lambda: _connect(_plan))
