"""`manifest pin`: the gateway's manifest in a file that ``manifest_pin`` accepts."""

from __future__ import annotations

import os
import shlex
import tempfile
from typing import TYPE_CHECKING

import click

from colabhive_mcp.cli.options import SettingsHelp, with_settings
from colabhive_mcp.cli.sources import fetch_answer
from colabhive_mcp.errors import ConfigError

if TYPE_CHECKING:
    from colabhive_mcp.config import Settings


@click.command("pin", cls=SettingsHelp, short_help="Freeze the manifest in a file.")
@click.option("-o", "--output", metavar="FILE", required=True, help="The file to write; - prints it.")
@with_settings("gateway", "logs")
def pin_command(settings: Settings, *, output: str) -> None:
    """Write the gateway's whole manifest, with its ETag, to a file.

    A server with manifest_pin set to that file serves exactly these tools, whatever the gateway lists later.
    """
    from colabhive_mcp.manifest.pins import build_pin  # noqa: PLC0415 - after the settings were found in order

    answer = fetch_answer(settings)
    text = build_pin(answer.document, etag=answer.etag, pages=answer.pages)
    if output == "-":
        click.echo(text, nl=False)
        return
    _write(output, text)
    click.echo(f"{len(answer.document['tools'])} tools pinned in {output}, ETag {answer.etag or 'none'}.")
    click.echo(
        f"To serve them: colabhive-mcp --manifest-pin {shlex.quote(output)}, "
        f"or COLABHIVE_MANIFEST_PIN={shlex.quote(os.path.abspath(output))}"
    )


def _write(path: str, text: str) -> None:
    """All of *text* or nothing: a server may be reading the file that is there. A device or a pipe is written to."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
        else:
            _replace(os.path.realpath(path), text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


def _replace(path: str, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=os.path.dirname(path), delete=False) as stream:
        try:
            stream.write(text)
            stream.flush()
            os.chmod(stream.name, 0o644)
            os.replace(stream.name, path)
        except BaseException:  # an interrupt, too, leaves nothing behind
            os.unlink(stream.name)
            raise
