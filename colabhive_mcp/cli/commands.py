"""The command line: one table of commands, each loaded only when it is called or listed.

Knows where each command is, and nothing of what it does. Without a command it is the stdio server.
"""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from colabhive_mcp import __version__
from colabhive_mcp.cli.exits import EXIT_INTERRUPTED, run_guarded
from colabhive_mcp.cli.options import GROUPS, SettingsHelp, add_flags, load, refuse_strange
from colabhive_mcp.config import build_environ

COMMANDS = {
    "tools": "colabhive_mcp.cli.tools",
    "call": "colabhive_mcp.cli.tools",
    "manifest": "colabhive_mcp.cli.manifest",
    "test": "colabhive_mcp.cli.checks",
    "config": "colabhive_mcp.cli.checks",
    "version": "colabhive_mcp.cli.checks",
    "serve": "colabhive_mcp.cli.relay",
    "gateway": "colabhive_mcp.cli.run",
    "demo": "colabhive_mcp.cli.run",
}


def load_command(name: str, table: Mapping[str, str] = COMMANDS) -> click.Command:
    """The command *name* of *table* from its module."""
    command: click.Command = getattr(importlib.import_module(table[name]), f"{name}_command")
    return command


def list_options(command: click.Command) -> set[str]:
    """The names of all options that *command*, or a command below it, takes."""
    below = command.load_all() if isinstance(command, CommandTable) else []
    return {str(param.name) for each in (command, *below) for param in each.params}


class CommandTable(SettingsHelp, click.Group):
    """The commands of *table* (a name and the module where it is) in its order; its help shows them before options."""

    def __init__(self, *args: Any, table: Mapping[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command *cmd_name*, loaded by now."""
        return load_command(cmd_name, self._table) if cmd_name in self._table else None

    def load_all(self) -> list[click.Command]:
        """Every command."""
        return [load_command(name, self._table) for name in self._table]

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
        refuse_strange(options, list_options(load_command(name)), name)
        return None
    from colabhive_mcp.cli.server import run_server  # noqa: PLC0415 - other commands do without

    profile = options.pop("profile")
    return run_server(load(options, profile))


command_line = click.version_option(__version__, message="colabhive-mcp %(version)s")(
    click.command(
        cls=CommandTable,
        table=COMMANDS,
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
    plain = bool(build_environ({}).get("NO_COLOR"))  # https://no-color.org
    try:
        with command_line.make_context("colabhive-mcp", list(arguments), color=False if plain else None) as context:
            return int(command_line.invoke(context) or 0)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
