"""Who this server is to its clients, on every transport, and how its faults and its clients reach the log."""

from __future__ import annotations

from colabhive_mcp import __version__
from colabhive_mcp.protocol.revisions import Revision
from colabhive_mcp.protocol.server import Server
from colabhive_mcp.protocol.toolbox import Client, Toolbox
from colabhive_mcp.telemetry.events import Failed, Record, SessionStarted

INFO = {
    "name": "colabhive-mcp",
    "title": "ColabHive",
    "version": __version__,
    "description": "Models and tools of the ColabHive platform as MCP tools.",
}
INSTRUCTIONS = (
    "Each tool is a model or a tool of the ColabHive platform; its description says what it costs, how long it takes "
    "and what else it does. A call waits until the work is done. If one takes too long it names an invocation id: call "
    "get_invocation_result with it later instead of calling the tool again, which would start and bill the work again. "
    "The resource colabhive://manifest/{slug} holds all that is known of one tool."
)


def report_fault(error: Exception, record: Record) -> None:
    """A fault of our own, with its traceback, for the log."""
    import traceback  # noqa: PLC0415 - for a fault of ours alone

    lines = traceback.format_exception(type(error), error, error.__traceback__)
    record(Failed(f"{type(error).__name__}: {error}", "".join(lines)))


def build_server(toolbox: Toolbox, *, transport: str, record: Record, announces: bool = True) -> Server:
    """The protocol's server for one toolbox on *transport*, which *announces* changes where it can."""

    def report(error: Exception) -> None:
        report_fault(error, record)

    def greet(client: Client, revision: Revision) -> None:
        record(SessionStarted(client.name, client.version, revision.name, transport))

    return Server(toolbox, info=INFO, instructions=INSTRUCTIONS, report=report, greet=greet, announces=announces)
