"""`manifest diff`: what changed between two manifests, and whether the versions say so.

Knows where the two are from and how changes are told; what a change means is for `manifest.changes` to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from colabhive_mcp.cli.exits import warn
from colabhive_mcp.cli.options import SettingsHelp, with_settings
from colabhive_mcp.cli.sources import STDIN, Source, fetch_source, read_source
from colabhive_mcp.cli.terminal import can_print, clean, get_mark
from colabhive_mcp.errors import EXIT_FINDINGS, EXIT_OK
from colabhive_mcp.manifest.wording import to_count, to_list, to_words

if TYPE_CHECKING:
    from colabhive_mcp.config import Settings
    from colabhive_mcp.manifest.changes import ManifestChange, ToolChange

_UNNAMED = "is no manifest: it is not an object with a name"
_COLOURS = {"breaking": "red", "undecided": "yellow", "additive": "green", "text": "bright_black"}


@click.command("diff", cls=SettingsHelp, short_help="What changed, and the version step it calls for.")
@click.argument("old")
@click.argument("new", required=False)
@click.option("--live", is_flag=True, help="Compare OLD with what the gateway lists now.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--strict", is_flag=True, help="A new input is breaking where the old schema let anything in its place.")
@click.option(
    "--fail-on",
    type=click.Choice(["disagreement", "breaking", "any", "none"]),
    default="disagreement",
    show_default=True,
    help="Exit code 1 where there is such a thing.",
)
@with_settings("gateway", "logs", later=True)
def diff_command(load: Callable[[], Settings], *, old: str, new: str | None, **options: Any) -> int:
    """Compare two manifests: tools added, removed and changed, and the SemVer step that each change calls for.

    OLD and NEW are files: a manifest, a list of them, a discovery response or a pin; - reads standard input.
    An undecided change may be breaking. Below 1.0.0 a minor step suffices for everything.

    \b
    Exit code 1, by --fail-on:
      disagreement  a version's step is too small for its changes, may be too small
                    for what is undecided, goes backwards, or is no SemVer
      breaking      a tool was removed, or has a breaking or an undecided change
      any           anything differs
    """
    from colabhive_mcp.manifest.changes import compare_manifests  # noqa: PLC0415 - not for a wrong command

    before, after = _choose_sources(load, old, new, live=options["live"])
    change = compare_manifests(_read_tools(before), _read_tools(after), strict=options["strict"])
    if options["as_json"]:
        click.echo(json.dumps(_to_json(before, after, change), indent=2, ensure_ascii=False))
    else:
        _print(before, after, change)
    return EXIT_FINDINGS if _FAILURES[options["fail_on"]](change) else EXIT_OK


_FAILURES: Mapping[str, Callable[[ManifestChange], bool]] = {
    "disagreement": lambda change: not all(tool.agrees for tool in change.changed),
    "breaking": lambda change: bool(change.removed) or any(tool.breaking for tool in change.changed),
    "any": lambda change: bool(change.added or change.removed or change.changed),
    "none": lambda change: False,
}


def _choose_sources(load: Callable[[], Settings], old: str, new: str | None, *, live: bool) -> tuple[Source, Source]:
    if live == (new is not None):
        raise click.UsageError("Name what to compare OLD with: a file NEW, - for standard input, or --live.")
    if old == new == STDIN:
        raise click.UsageError("Standard input can be read only once: name a file for OLD or for NEW.")
    before = read_source(old)
    return before, fetch_source(load()) if new is None else read_source(new)


def _read_tools(source: Source) -> dict[str, Any]:
    """The manifests in *source* by name, the first of each name. What is none is told, and an error if it is alone."""
    entries = list(source.entries())
    if not entries and source.document != [] and not _is_list_of_tools(source):
        raise click.UsageError(f'{source.name} holds no manifest: its "tools" is {to_words(source.document["tools"])}.')
    tools: dict[str, Any] = {}
    for pointer, entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name.strip():
            _tell_unnamed(source, pointer)
        elif name in tools:
            warn(f"{source.name}: {clean(name)} is there again at {pointer}; only the first is compared.")
        else:
            tools[name] = entry
    return tools


def _is_list_of_tools(source: Source) -> bool:
    return source.whole and isinstance(source.document["tools"], list)


def _tell_unnamed(source: Source, pointer: str) -> None:
    if not pointer:
        raise click.UsageError(f'{source.name} {_UNNAMED}, a list of such or an object with "tools".')
    warn(f"{source.name}: what is at {pointer} {_UNNAMED}. It is left out.")


# Text


def _print(before: Source, after: Source, change: ManifestChange) -> None:
    click.echo(f"{clean(before.name)} {_get_arrow()} {clean(after.name)}")
    for name in change.removed:
        click.echo(f"{click.style('- removed', fg='red')}  {clean(name)}")
    for name in change.added:
        click.echo(f"{click.style('+ added', fg='green')}    {clean(name)}")
    for tool in change.changed:
        _print_tool(tool)
    click.echo(_say_sum(change))


def _print_tool(tool: ToolChange) -> None:
    mark = get_mark(good=tool.agrees)
    click.echo(f"~ changed  {click.style(clean(tool.name), bold=True)}  {mark} {clean(_say_judgement(tool))}")
    for each in tool.changes:
        level = click.style(f"{each.level:<9}", fg=_COLOURS[each.level])
        click.echo(f"    {level}  {clean(each.pointer or 'the whole')}: {clean(each.words)}")


def _say_judgement(tool: ToolChange) -> str:
    """The version before and after, the step taken and the step needed, and what is wrong with that."""
    needed, undecided, taken, _, reason = tool.judgement
    versions = f"{_say_version(tool.old_version)} {_get_arrow()} {_say_version(tool.new_version)}"
    wanted = f"at least {needed}, undecided" if undecided else str(needed)
    steps = f"step {'unknown' if taken is None else taken}, needed {wanted}"
    return f"{versions}: {steps}{f' ({reason})' if reason else ''}"


def _get_arrow() -> str:
    return "→" if can_print("→") else "->"


def _say_version(version: Any) -> str:
    return "no version" if version is None else version if isinstance(version, str) else to_words(version)


def _say_sum(change: ManifestChange) -> str:
    disagreeing = sum(not tool.agrees for tool in change.changed)
    counts = {
        "removed": len(change.removed),
        "added": len(change.added),
        "changed": len(change.changed),
        "unchanged": change.unchanged,
    }
    told = [f"{count} {what}" for what, count in counts.items() if count] or ["no tools"]
    if not change.changed:
        return f"{to_list(told, joined='and')}."
    verdict = f"{to_count(disagreeing, 'version disagrees', 'versions disagree')} with what changed"
    return f"{to_list(told, joined='and')}; {verdict if disagreeing else 'every version agrees with what changed'}."


# JSON


def _to_json(before: Source, after: Source, change: ManifestChange) -> dict[str, Any]:
    return {
        "old": before.name,
        "new": after.name,
        "removed": list(change.removed),
        "added": list(change.added),
        "changed": list(map(_to_row, change.changed)),
        "unchanged": change.unchanged,
    }


def _to_row(tool: ToolChange) -> dict[str, Any]:
    needed, undecided, taken, verdict, reason = tool.judgement
    return {
        "name": tool.name,
        "oldVersion": tool.old_version,
        "newVersion": tool.new_version,
        "needed": str(needed),
        "undecided": undecided,
        "taken": None if taken is None else str(taken),
        "verdict": verdict,
        "reason": reason,
        "changes": [{"level": each.level, "pointer": each.pointer, "message": each.words} for each in tool.changes],
    }
