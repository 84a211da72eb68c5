"""FastMCP's client: its ways behind the scenario's `Session`.

Runs in its own environment: it is built on the official SDK, whose version it chooses itself. It has no call for
`subscriptions/listen`, and with a legacy revision the SDK beneath it opens its stream of notifications only where the
server gives out a session id.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

import mcp_types as types
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp import MCPError

from clients.report import SkippedError
from clients.scenario import Outcome, Plan, Progress, RefusedError, Remote, Target, load_plan, play


class _Session:
    def __init__(self, client: Client[StreamableHttpTransport], strays: list[str]) -> None:
        self._client = client
        self.revision = client.protocol_version or ""
        self.server = client.server_info.name if client.server_info is not None else ""
        self.strays = strays

    async def list_tools(self) -> list[str]:
        return [tool.name for tool in await self._client.list_tools()]

    async def call(
        self, tool: str, arguments: dict[str, Any], *, on_progress: Callable[[Progress], None] | None = None
    ) -> Outcome:
        async def hand_over(progress: float, total: float | None, message: str | None) -> None:
            if on_progress is not None:
                on_progress(Progress(progress=progress, message=message))

        try:
            result = await self._client.call_tool(tool, arguments, progress_handler=hand_over, raise_on_error=False)
        except MCPError as error:
            raise RefusedError(error.code, error.error.message) from error
        return Outcome(
            is_error=result.is_error,
            texts=tuple(block.text for block in result.content if isinstance(block, types.TextContent)),
            images=tuple(base64.b64decode(one.data) for one in result.content if isinstance(one, types.ImageContent)),
            structured=result.structured_content,
        )

    async def list_resources(self) -> list[str]:
        return [str(resource.uri) for resource in await self._client.list_resources()]

    async def read(self, uri: str) -> str:
        try:
            (content,) = await self._client.read_resource(uri)
        except MCPError as error:
            raise RefusedError(error.code, error.error.message) from error
        assert isinstance(content, types.TextResourceContents)
        return content.text

    async def complete(self, template: str, argument: str, value: str) -> list[str]:
        reference = types.ResourceTemplateReference(type="ref/resource", uri=template)
        return (await self._client.complete(reference, {"name": argument, "value": value})).values

    def listen(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[object]]]:
        raise SkippedError("this client opens no stream of notifications where there is no session id")

    async def cancel(self, call: "asyncio.Task[Outcome]") -> None:
        call.cancel()


@asynccontextmanager
async def _connect(plan: Plan, target: Target) -> AsyncIterator[_Session]:
    assert isinstance(target, Remote)
    strays: list[str] = []

    async def take(message: object) -> None:
        if isinstance(message, Exception):
            strays.append(str(message))

    transport = StreamableHttpTransport(target.url, headers=target.headers)
    async with Client(transport, mode=plan.mode, message_handler=take) as client:
        yield _Session(client, strays)


if __name__ == "__main__":
    _plan = load_plan()
    play(f"fastmcp {version('fastmcp')}", _plan, partial(_connect, _plan))
