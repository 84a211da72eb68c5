"""Look at the tools and use one: `tools`, `call`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from colabhive_mcp.cli.assembly import expecting_manifest, open_bridge, open_log
from colabhive_mcp.cli.exits import warn
from colabhive_mcp.cli.options import SettingsHelp, with_settings
from colabhive_mcp.cli.results import Files, to_json, to_text
from colabhive_mcp.cli.terminal import ProgressBar, clean, clean_lines, is_terminal, print_table
from colabhive_mcp.errors import EXIT_OK, EXIT_TOOL_FAILED
from colabhive_mcp.manifest.wording import to_count
from colabhive_mcp.protocol.revisions import REVISIONS, SUPPORTED
from colabhive_mcp.protocol.toolbox import Caller, Progress, ToolResult

if TYPE_CHECKING:
    from colabhive_mcp.bridge import Bridge
    from colabhive_mcp.config import Settings
    from colabhive_mcp.manifest.inventory import Inventory
    from colabhive_mcp.manifest.model import Tool

NEWEST = REVISIONS[SUPPORTED[0]]
HEAD = ("name", "kind", "stability", "cost", "latency", "side-effects", "description")
UNSTATED = "-"


@click.command("tools", cls=SettingsHelp)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--why", is_flag=True, help="List what is not offered, too, each with the reason.")
@with_settings("gateway", "manifest", "filters", "listing", "logs")
def tools_command(settings: Settings, *, as_json: bool, why: bool) -> None:
    """List the tools that a client would see."""
    with open_log(settings, quiet=True) as record, open_bridge(settings, record) as bridge:
        with expecting_manifest():
            inventory = bridge.offer.view(None)
        hidden = dict(_list_hidden(inventory))
    tools = [tool for tool in _in_order(inventory) if tool.slug not in hidden]
    if as_json:
        shown: dict[str, Any] = {"tools": [_to_json(tool, inventory.find_name(tool.slug)) for tool in tools]}
        if why:
            shown["left_out"] = [{"slug": slug, "reason": reason} for slug, reason in hidden.items()]
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    print_table(HEAD, [_to_row(tool) for tool in tools])
    if why and hidden:
        click.echo()
        print_table(("not offered", "reason"), list(hidden.items()))
    elif hidden and not tools:
        warn(f"none of {to_count(len(hidden), 'tool', 'tools')} is offered; --why says why.")
    if inventory.searched:
        warn("the list of a client has four tools that find, describe and call these (setting `listing`).")


def _in_order(inventory: Inventory) -> list[Tool]:
    """The tools that are offered as they are listed: the deprecated ones last."""
    return sorted(inventory.offered.in_order, key=lambda tool: tool.deprecated)


def _list_hidden(inventory: Inventory) -> Iterator[tuple[str, str]]:
    """What the manifest holds and a client does not see, with the reason."""
    yield from inventory.refused.items()
    for entry in (*inventory.manifest.left_out, *inventory.encode(NEWEST).left_out):
        yield entry.name, entry.reason


def _to_row(tool: Tool) -> tuple[str, ...]:
    effects = UNSTATED if tool.side_effects is None else ", ".join(tool.side_effects) or "none"
    instead = f"Deprecated, use {tool.replaced_by}. " if tool.replaced_by else "Deprecated. " if tool.deprecated else ""
    stated = (value or UNSTATED for value in (tool.kind, tool.stability, tool.cost, tool.latency))
    return (tool.slug, *stated, effects, f"{instead}{tool.description or ''}")


def _to_json(tool: Tool, name: str) -> dict[str, Any]:
    return {
        "slug": tool.slug,
        "name": name,
        "kind": tool.kind,
        "stability": tool.stability,
        "costHint": tool.cost,
        "latencyClass": tool.latency,
        "sideEffects": tool.side_effects,
        "deprecated": tool.deprecated,
        "replacedBy": tool.replaced_by,
        "description": tool.description,
    }


@click.command("call", cls=SettingsHelp, short_help="Call one tool and print its result.")
@click.argument("slug")
@click.option("--arg", "pairs", multiple=True, metavar="NAME=VALUE", help="One argument; give it once for each.")
@click.option("--json", "source", metavar="TEXT|@FILE|-", help="All arguments as a JSON object; - reads stdin.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="What to print.")
@click.option("--save", metavar="DIR", help="Write images, sounds and other data to files there.")
@with_settings("gateway", "manifest", "filters", "calls", "logs")
def call_command(
    settings: Settings, *, slug: str, pairs: tuple[str, ...], source: str | None, output: str, save: str | None
) -> int:
    """Call one tool and print its result; exit code 1 where the tool answered with an error."""
    arguments = {**_load_object(source), **_parse_pairs(pairs)}
    settings = replace(settings, client_profile="default", listing="all")  # nobody's client but a person or a script
    if settings.source("max_result_bytes") == "default":
        settings = replace(settings, max_result_bytes=settings.max_response_bytes)  # a pipe takes what a model cannot
    with open_log(settings, quiet=True) as record, open_bridge(settings, record) as bridge, expecting_manifest():
        body = _call(bridge, slug, arguments)
    files = Files(save, slug) if save is not None else None
    failed = bool(body.get("isError"))
    if output == "json":
        click.echo(to_json(body, files))
    else:
        text = to_text(body, files)
        stream = sys.stderr if failed else sys.stdout
        click.echo(clean_lines(text) if is_terminal(stream) else text, file=stream)
    return EXIT_TOOL_FAILED if failed else EXIT_OK


def _call(bridge: Bridge, slug: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body of the result, with its progress on a terminal. A failure of the call itself is a result, too."""
    caller = Caller(NEWEST, None, Event(), progress=True)
    message = ""
    with ProgressBar(clean(slug)) as bar:
        for step in bridge.call_tool(slug, arguments, caller):
            if isinstance(step, ToolResult):
                return step.body
            if isinstance(step, Progress):
                message = step.message
                bar.show(message, progress=step.progress, total=step.total)
            else:
                bar.show(message)
    raise AssertionError("a call ends with a result")


def _parse_pairs(pairs: tuple[str, ...]) -> dict[str, str]:
    """``NAME=VALUE`` words; the bridge turns a value into what the tool's schema wants."""
    arguments: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE.", param_hint="--arg")
        if name in arguments:
            raise click.BadParameter(f"{name} is given twice.", param_hint="--arg")
        arguments[name] = value
    return arguments


def _load_object(source: str | None) -> dict[str, Any]:
    """The JSON object that ``--json`` names."""
    if source is None:
        return {}
    try:
        arguments = json.loads(_read_source(source))
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"That is no JSON: {error}", param_hint="--json") from None
    if not isinstance(arguments, dict):
        raise click.BadParameter("The arguments of a tool are a JSON object.", param_hint="--json")
    return arguments


def _read_source(source: str) -> str:
    if source == "-":
        return sys.stdin.read()
    if not source.startswith("@"):
        return source
    try:
        with open(source[1:], encoding="utf-8-sig") as stream:
            return stream.read()
    except OSError as error:
        words = f"{source[1:]} cannot be read: {error.strerror}."
        raise click.BadParameter(words, param_hint="--json") from error
