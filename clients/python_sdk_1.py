"""The official Python SDK, 1.x: its session and its ways behind the scenario's `Session`.

Runs in the SDK's own environment. This SDK tells the server nothing when a call's task is cancelled: the application
sends the notification, with the request id that the progress token repeats. Over HTTP it hears of nothing that no
request waits for: it opens that stream only where the server gives out a session id, which the relay does not.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from pydantic import AnyUrl

from clients.report import SkippedError
from clients.scenario import Outcome, Progress, RefusedError, Remote, Target, load_plan, play


class _Session:
    def __init__(self, *, hears: bool) -> None:
        self.revision = ""
        self.server = ""
        self.strays: list[str] = []
        self._hears = hears
        self._changes: asyncio.Queue[object] = asyncio.Queue()
        self._client: ClientSession
        self._last_token: types.RequestId = -1

    async def take(self, message: object) -> None:
        """Everything that the SDK hands over besides replies: notifications, and faults of the transport."""
        notice = message.root if isinstance(message, types.ServerNotification) else message
        if isinstance(notice, Exception):
            self.strays.append(str(notice))
        elif isinstance(notice, types.ProgressNotification):
            self._last_token = notice.params.progressToken
        elif isinstance(notice, types.ToolListChangedNotification):
            self._changes.put_nowait(notice)

    async def open(self, client: ClientSession) -> None:
        self._client = client
        opened = await client.initialize()
        self.revision = str(opened.protocolVersion)
        self.server = opened.serverInfo.name

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
        except McpError as error:
            raise RefusedError(error.error.code, error.error.message) from error

    async def list_resources(self) -> list[str]:
        return [str(resource.uri) for resource in (await self._client.list_resources()).resources]

    async def read(self, uri: str) -> str:
        try:
            (content,) = (await self._client.read_resource(AnyUrl(uri))).contents
        except McpError as error:
            raise RefusedError(error.error.code, error.error.message) from error
        assert isinstance(content, types.TextResourceContents)
        return content.text

    async def complete(self, template: str, argument: str, value: str) -> list[str]:
        reference = types.ResourceTemplateReference(type="ref/resource", uri=template)
        return (await self._client.complete(reference, {"name": argument, "value": value})).completion.values

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[Callable[[], Awaitable[object]]]:
        if not self._hears:
            raise SkippedError("this SDK opens no stream of notifications where there is no session id")
        yield self._changes.get

    async def cancel(self, call: "asyncio.Task[Outcome]") -> None:
        call.cancel()
        params = types.CancelledNotificationParams(requestId=self._last_token, reason="the user stopped it")
        notification = types.CancelledNotification(method="notifications/cancelled", params=params)
        await self._client.send_notification(types.ClientNotification(notification))


def _to_outcome(result: types.CallToolResult) -> Outcome:
    return Outcome(
        is_error=result.isError,
        texts=tuple(block.text for block in result.content if isinstance(block, types.TextContent)),
        images=tuple(base64.b64decode(block.data) for block in result.content if isinstance(block, types.ImageContent)),
        structured=result.structuredContent,
    )


@asynccontextmanager
async def _connect(target: Target) -> AsyncIterator[_Session]:
    session = _Session(hears=not isinstance(target, Remote))
    async with (
        _open_streams(target) as (read, write),
        ClientSession(read, write, message_handler=session.take) as client,
    ):
        await session.open(client)
        yield session


@asynccontextmanager
async def _open_streams(target: Target) -> AsyncIterator[tuple[Any, Any]]:
    if isinstance(target, Remote):
        async with (
            create_mcp_http_client(headers=target.headers) as http,
            streamable_http_client(target.url, http_client=http) as (read, write, _),
        ):
            yield read, write
    else:
        command, *arguments = target.command
        server = StdioServerParameters(command=command, args=arguments, env=target.environment)
        async with stdio_client(server) as (read, write):
            yield read, write


if __name__ == "__main__":
    play(f"mcp {version('mcp')}", load_plan(), _connect)
