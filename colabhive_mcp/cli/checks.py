"""Is everything in order: `test`, `config`, `version`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from colabhive_mcp import __version__
from colabhive_mcp.cli.assembly import open_bridge
from colabhive_mcp.cli.clients import CLIENTS, render_config
from colabhive_mcp.cli.options import GROUPS, ExplainedHelp, SettingsHelp, with_settings
from colabhive_mcp.cli.terminal import clean, get_mark, print_table, to_time
from colabhive_mcp.config import SETTINGS, Settings, public_value
from colabhive_mcp.errors import EXIT_OK
from colabhive_mcp.telemetry.events import discard

if TYPE_CHECKING:
    from colabhive_mcp.cli.trial import Step
    from colabhive_mcp.manifest.pins import Lag

UNSET = "-"


@click.command("test", cls=SettingsHelp, short_help="Try everything that a client needs.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@with_settings("gateway", "manifest", "filters", "logs", later=True)
def test_command(load: Callable[[], Settings], *, as_json: bool) -> int:
    """Try everything that a client needs: settings, gateway, key, manifest, tools."""
    from colabhive_mcp.cli.trial import try_steps  # noqa: PLC0415 - imports requests

    steps, code = [], EXIT_OK
    for step in try_steps(load):
        steps.append(step)
        code = code or step.exit_code
        if not as_json:
            _print_step(step)
    if as_json:
        report = {"ok": code == EXIT_OK, "exit_code": code, "steps": [step.to_json() for step in steps]}
        click.echo(json.dumps(report, indent=2, ensure_ascii=False))
    return code


def _print_step(step: Step) -> None:
    time_taken = to_time(step.seconds) if step.good is not None else ""
    click.echo(f"{get_mark(good=step.good)} {step.name:<9} {time_taken:>7}  {clean(step.detail)}")


@click.command("version")
def version_command() -> None:
    """Print the version."""
    click.echo(f"colabhive-mcp {__version__}")


@click.command("config", cls=ExplainedHelp)
@click.option("--check", is_flag=True, help="Only say whether a server could start with them.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--client", type=click.Choice(list(CLIENTS)), help="Print a client's configuration instead.")
@with_settings(*GROUPS)
def config_command(settings: Settings, *, check: bool, as_json: bool, client: str | None) -> None:
    """Show each setting, its value and where it comes from.

    Each is a flag (--poll-interval 5), a variable (COLABHIVE_POLL_INTERVAL=5) and a key in config.toml
    (poll_interval = 5); a flag beats a variable, and a variable the file.
    """
    if client is not None:
        _print_client(client, settings)
        return
    if check:
        settings.require_key()
    rows = [
        {"name": s.name, "value": public_value(settings, s.name), "source": settings.source(s.name)} for s in SETTINGS
    ]
    lag = _measure_lag(settings)
    if as_json:
        pin = {} if lag is None else {"pin": {**lag.counts(), "error": lag.error}}
        click.echo(json.dumps({"file": settings.file, "settings": rows, **pin}, indent=2, ensure_ascii=False))
    elif check:
        click.echo("The settings are in order.")
    else:
        print_table(("setting", "value", "source"), [(row["name"], _say(row["value"]), row["source"]) for row in rows])
    if lag is not None and not as_json:
        click.echo(f"The manifest is pinned to {settings.manifest_pin}, {clean(lag)}.")


def _measure_lag(settings: Settings) -> Lag | None:
    """How far a pinned manifest is behind the gateway's; None where none is pinned."""
    if settings.manifest_pin is None:
        return None
    from colabhive_mcp.manifest.pins import Lag  # noqa: PLC0415 - only for a pin, and only after the settings

    if settings.api_key is None:
        return Lag(error="there is no API key to ask the gateway with")
    with open_bridge(settings, discard) as bridge:
        return bridge.offer.measure_lag()


def _print_client(client: str, settings: Settings) -> None:
    """A configuration that starts this very installation, whatever the client's PATH."""
    url = {"COLABHIVE_API_URL": settings.api_url} if settings.source("api_url") != "default" else {}
    click.echo(render_config(client, [sys.executable, "-m", "colabhive_mcp"], url))
    where = CLIENTS[client]
    click.echo(
        f"For {where.title}, into {where.file}. No key is in it; see the README for where it comes from.", err=True
    )


def _say(value: Any) -> str:
    """A value as one would write it into a variable."""
    if value is None or value == []:
        return UNSET
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(value) if isinstance(value, list) else str(value)
