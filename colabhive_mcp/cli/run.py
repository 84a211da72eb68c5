"""What goes on until it is stopped, or is over: `gateway` and `demo`."""

from __future__ import annotations

from typing import Any

import click

from colabhive_mcp.cli.exits import warn
from colabhive_mcp.cli.hosting import HostedGateway, Plan, build_chat, open_database, until_stopped
from colabhive_mcp.config import GATEWAY_KEY


@click.command("gateway")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    default=8766,
    show_default=True,
    type=click.IntRange(0, 65535),
    metavar="NUMBER",
    help="The port; 0 is any free one.",
)
@click.option("--db", metavar="FILE", help="Keep everything in this file; without it all is gone at the end.")
@click.option("--key", envvar=GATEWAY_KEY, metavar="KEY", help=f"Its API key; better given as {GATEWAY_KEY}.")
@click.option("--openai-url", metavar="URL", help="An OpenAI-compatible server that answers the chat tool.")
@click.option("--openai-model", metavar="NAME", help="The model of that server; without it the first one.")
@click.option(
    "--page-size", type=click.IntRange(1), metavar="NUMBER", help="Serve the manifest in pages of this many tools."
)
@click.option("--faults", is_flag=True, help="Let tests ask for faults at /_faults.")
@click.pass_context
def gateway_command(
    context: click.Context, /, *, db: str | None, openai_url: str | None, openai_model: str | None, **plan: Any
) -> None:
    """Run a gateway of your own, with tools that need no model.

    It prints its address and an API key, and ends with Ctrl-C.
    """
    if context.get_parameter_source("key") is click.core.ParameterSource.COMMANDLINE:
        warn(f"--key can be read by every user of this machine in the list of processes: use {GATEWAY_KEY} instead.")
    chat = build_chat(openai_url, openai_model)
    with until_stopped(), open_database(db) as path, HostedGateway(Plan(path=path, chat=chat, **plan)) as gateway:
        click.echo(f"Local gateway: {gateway.address}")
        click.echo(f"Key: {gateway.key or 'as it was (give another one with --key)'}")
        gateway.wait()


@click.command("demo", short_help="Show a whole session, without a key.")
def demo_command() -> int:
    """Show a whole session: gateway, server and client on this machine, without a key.

    It takes a few seconds, leaves nothing behind, and exits with 70 when anything goes otherwise than it has to.
    """
    from colabhive_mcp.cli.demo import run_demo  # noqa: PLC0415 - the gateway does without

    return run_demo()
