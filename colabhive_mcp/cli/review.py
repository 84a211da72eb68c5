"""Check manifests: `manifest validate`, `manifest lint`.

Knows where manifests are from and who is told of the findings; what is looked for is the contract's to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from colabhive_mcp.cli.options import SettingsHelp, with_settings
from colabhive_mcp.cli.sources import STDIN, Source, fetch_source, read_source
from colabhive_mcp.errors import EXIT_FINDINGS, EXIT_OK

if TYPE_CHECKING:
    from colabhive_mcp.cli.reports import Told
    from colabhive_mcp.config import Settings
    from colabhive_mcp.manifest.contract import Finding

Callback = Callable[..., Any]
Judge = Callable[[Any, "list[Finding]"], "list[Finding]"]
"""What is told of a manifest, given what `validate` says of it."""

_ENVELOPE = ("protocolVersion", "server", "generatedAt")
_RESPONSE = "the discovery response"


def _with_sources(function: Callback) -> Callback:
    """The arguments of a command that checks manifests."""
    for decorate in (
        click.option(
            "--fail-on",
            type=click.Choice(["error", "warning", "note"]),
            default="error",
            show_default=True,
            help="Exit code 1 where there are findings as bad as this.",
        ),
        click.option("--sarif", "form", flag_value="sarif", help="As SARIF 2.1.0, for code-scanning tools."),
        click.option("--json", "form", flag_value="json", help="As JSON."),
        click.option("--all", "every", is_flag=True, help="Check every manifest of the gateway."),
        click.option("--slug", metavar="SLUG", help="Check one manifest of the gateway."),
        click.argument("file", required=False),
    ):
        function = decorate(function)
    return function


@click.command("validate", cls=SettingsHelp, short_help="Check manifests against the contract.")
@_with_sources
@with_settings("gateway", "logs", later=True)
def validate_command(load: Callable[[], Settings], **options: Any) -> int:
    """Check manifests against the contract: their fields, their schemas, their examples.

    FILE is a manifest, a list of them or a discovery response; - reads standard input. Exit code 1 where there are
    findings as bad as --fail-on.
    """
    from colabhive_mcp.manifest.contract import check_envelope  # noqa: PLC0415 - not for a wrong command

    source = _choose_source(load, options)
    strange = source.whole and not isinstance(source.document["tools"], list)
    told: list[tuple[str, str, Finding]] = []
    if strange or (source.whole and any(field in source.document for field in _ENVELOPE)):
        told += ((_RESPONSE, "", finding) for finding in check_envelope(source.document))
    return _report(source, [*told, *_judge(source, lambda entry, valid: valid)], options)


@click.command("lint", cls=SettingsHelp, short_help="Check manifests by the authoring rules.")
@_with_sources
@with_settings("gateway", "logs", later=True)
def lint_command(load: Callable[[], Settings], **options: Any) -> int:
    """Check manifests by the authoring rules: what agents need to choose well, and what clients take.

    FILE is a manifest, a list of them or a discovery response; - reads standard input. A manifest that is not valid is
    judged as far as its fields go, and said to be so. Exit code 1 where there are findings as bad as --fail-on.
    """
    from colabhive_mcp.manifest.contract import lint, say_invalid  # noqa: PLC0415 - not for a wrong command

    source = _choose_source(load, options)
    return _report(source, list(_judge(source, lambda entry, valid: [*say_invalid(valid), *lint(entry)])), options)


def _choose_source(load: Callable[[], Settings], options: dict[str, Any]) -> Source:
    """The one source that the options name."""
    file, slug, every = options["file"], options["slug"], options["every"]
    if (file is not None) + (slug is not None) + every != 1:
        raise click.UsageError("Name one source: a FILE, - for standard input, --slug SLUG, or --all.")
    if file is not None:
        return read_source(file)
    source = fetch_source(load())
    return source if slug is None else _choose_tool(source, slug)


def _choose_tool(source: Source, slug: str) -> Source:
    for _, entry in source.entries():
        if isinstance(entry, dict) and entry.get("name") == slug:
            return Source(source.name, entry)
    raise click.UsageError(f"The gateway has no tool {slug!r}: `colabhive-mcp tools` lists those that it has.")


def _judge(source: Source, judge: Judge) -> Iterator[tuple[str, str, Finding]]:
    """What *judge* finds in each manifest, with the manifest's name and place."""
    from colabhive_mcp.gateway.endpoints import find_endpoint_fault  # noqa: PLC0415 - not for a wrong command
    from colabhive_mcp.manifest.contract import find_repeats, validate  # noqa: PLC0415 - likewise

    repeats = find_repeats(source.entries())
    for base, entry in source.entries():
        valid = [*validate(entry, check_endpoint=find_endpoint_fault), *filter(None, [repeats.get(base)])]
        for finding in judge(entry, valid):
            yield _name_entry(entry, base), base, finding


def _name_entry(entry: Any, base: str) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) and name.strip() else base or "the manifest"


def _report(source: Source, found: list[tuple[str, str, Finding]], options: dict[str, Any]) -> int:
    """Print the findings; answers the exit code."""
    from colabhive_mcp.cli import reports  # noqa: PLC0415 - not for a wrong command
    from colabhive_mcp.manifest.contract import RULES  # noqa: PLC0415 - likewise
    from colabhive_mcp.manifest.findings import is_at_least  # noqa: PLC0415 - likewise

    told = [reports.Told(*each) for each in found]
    path = {None: None, STDIN: "stdin"}.get(options["file"], options["file"])
    report = reports.Report(source.name, path, sum(1 for _ in source.entries()), _locate(source, told))
    form = options["form"]
    if form == "sarif":
        click.echo(reports.to_sarif(report, RULES))
    else:
        click.echo(reports.to_json(report) if form == "json" else reports.to_text(report))
    bad = any(is_at_least(each.finding.severity, options["fail_on"]) for each in told)
    return EXIT_FINDINGS if bad else EXIT_OK


def _locate(source: Source, told: list[Told]) -> list[Told]:
    """The findings with their places in the text, where somebody wrote one."""
    if source.text is None:
        return told
    from colabhive_mcp.cli.positions import find_positions  # noqa: PLC0415 - only for files

    positions = find_positions(source.text, {each.pointer for each in told})
    return [each._replace(position=positions[each.pointer]) for each in told]
