"""The manifest as a contract: `manifest show`, `validate`, `lint`, `diff`, `pin`.

Knows where each command is, and nothing of what it does.
"""

from __future__ import annotations

from colabhive_mcp.cli.commands import CommandTable

COMMANDS = {
    "show": "colabhive_mcp.cli.sheets",
    "validate": "colabhive_mcp.cli.review",
    "lint": "colabhive_mcp.cli.review",
    "diff": "colabhive_mcp.cli.changes",
    "pin": "colabhive_mcp.cli.pins",
}

manifest_command = CommandTable(
    name="manifest",
    table=COMMANDS,
    help="Read, check, compare and freeze what the gateway says of its tools.",
    no_args_is_help=True,
)
