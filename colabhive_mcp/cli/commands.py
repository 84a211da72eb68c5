"""The command line: one table of commands, each loaded only when it is called or listed.

Knows where each command is, and nothing of what it does. Without a command it is the stdio server.
"""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Sequence
from typing import Any

import click

from colabhive_mcp import __version__
from colabhive_mcp.cli.exits import EXIT_INTERRUPTED, run_guarded
from colabhive_mcp.cli.options import GROUPS, SettingsHelp, add_flags, load, refuse_strange

COMMANDS = {
    "tools": "colabhive_mcp.cli.tools",
    "call": "colabhive_mcp.cli.tools",
    "test": "colabhive_mcp.cli.checks",
    "config": "colabhive_mcp.cli.checks",
    "version": "colabhive_mcp.cli.checks",
    "gateway": "colabhive_mcp.cli.run",
    "demo": "colabhive_mcp.cli.run",
}


def load_command(name: str) -> click.Command:
    """The command *name* from its module."""
    command: click.Command = getattr(importlib.import_module(COMMANDS[name]), f"{name}_command")
    return command


class CommandLine(SettingsHelp, click.Group):
    """The commands in the table's order; `colabhive-mcp --help` shows them before the options."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command *cmd_name*, loaded by now."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, then the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def _serve(**options: Any) -> int | None:
    """The bridge between AI agents and the models of a ColabHive gateway.

    Without a command it is an MCP server on standard input and output, for a client to start. It needs an API key:
    set COLABHIVE_API_KEY. `colabhive-mcp demo` shows all of it without one.
    """
    name = click.get_current_context().invoked_subcommand
    if name is not None:
        refuse_strange(options, load_command(name))
        return None
    from colabhive_mcp.cli.server import run_server  # noqa: PLC0415 - other commands do without

    profile = options.pop("profile")
    return run_server(load(options, profile))


command_line = click.version_option(__version__, message="colabhive-mcp %(version)s")(
    click.command(
        cls=CommandLine,
        name="colabhive-mcp",
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )(add_flags(_serve, *GROUPS))
)


def run_arguments(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (the process's own where None) ask for; answers the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the console cannot show stops nothing
    return run_guarded(lambda: _invoke(sys.argv[1:] if arguments is None else arguments))


def _invoke(arguments: Sequence[str]) -> int:
    """click's own `main` would answer a closed pipe itself, so it is not used."""
    try:
        with command_line.make_context("colabhive-mcp", list(arguments)) as context:
            return int(command_line.invoke(context) or 0)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
