"""The official Python SDK, 2.x: its client and its ways behind the scenario's `Session`.

Runs in the SDK's own environment. The plan's mode is the client's own: `auto` probes with `server/discover`, `legacy`
opens with `initialize`, a revision is taken without asking. A reply that nobody waits for is only logged by this SDK,
so the log is where strays are read; over HTTP it says the same of the error that it makes up itself for a cancelled
call. A session of a legacy revision then hears of nothing that no request waits for: the SDK opens that stream only
where the server gives out a session id, which the relay does not.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from clients.report import SkippedError
from clients.scenario import Outcome, Plan, Progress, RefusedError, Remote, Target, load_plan, play


class _StrayLog(logging.Handler):
    """Keeps the SDK's warnings and, unless `remote`, what it says about replies that it had to drop."""

    def __init__(self, strays: list[str], *, remote: bool) -> None:
        super().__init__(logging.DEBUG)
        self._strays = strays
        self._remote = remote

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        is_drop = message.startswith("dropping response") and not self._remote
        if is_drop or record.levelno >= logging.WARNING:
            self._strays.append(message)


class _Session:
    def __init__(self, client: Client, *, strays: list[str], changes: "asyncio.Queue[object]", remote: bool) -> None:
        self._client = client
        self._changes = changes
        self._remote = remote
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

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[Callable[[], Awaitable[object]]]:
        if self.revision in MODERN_PROTOCOL_VERSIONS:
            async with self._client.listen(tools_list_changed=True) as subscription:
                yield subscription.__anext__
        elif self._remote:
            raise SkippedError("this SDK opens no stream of notifications where there is no session id")
        else:
            yield self._changes.get

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
async def _connect(plan: Plan, target: Target) -> AsyncIterator[_Session]:
    strays: list[str] = []
    changes: asyncio.Queue[object] = asyncio.Queue()

    async def take(message: object) -> None:
        if isinstance(message, Exception):
            strays.append(str(message))
        elif isinstance(message, types.ToolListChangedNotification):
            changes.put_nowait(message)

    remote = isinstance(target, Remote)
    with _keep_strays(strays, remote=remote):
        async with (
            _open_server(target) as server,
            Client(server, mode=plan.mode, message_handler=take) as client,
        ):
            yield _Session(client, strays=strays, changes=changes, remote=remote)


@asynccontextmanager
async def _open_server(target: Target) -> AsyncIterator[Any]:
    """What the client takes for a server; its HTTP client, which carries the key, is the application's to close."""
    if isinstance(target, Remote):
        async with create_mcp_http_client(headers=target.headers) as http:
            yield streamable_http_client(target.url, http_client=http)
    else:
        command, *arguments = target.command
        yield StdioServerParameters(command=command, args=arguments, env=target.environment)


@contextmanager
def _keep_strays(strays: list[str], *, remote: bool) -> Iterator[None]:
    log = logging.getLogger("mcp.shared.jsonrpc_dispatcher")
    log.setLevel(logging.DEBUG)
    handler = _StrayLog(strays, remote=remote)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


if __name__ == "__main__":
    _plan = load_plan()
    play(f"mcp {version('mcp')}", _plan, partial(_connect, _plan))
