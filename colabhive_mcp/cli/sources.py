"""Where the commands of `manifest` read a manifest: a file, standard input, or the gateway.

Knows where documents are from, and only as much of their shape as it takes to find the tools in them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from colabhive_mcp.cli.assembly import build_client, expecting_manifest

if TYPE_CHECKING:
    from colabhive_mcp.config import Settings
    from colabhive_mcp.gateway.client import ManifestAnswer

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Source:
    """A document and where it is from: *name* for messages, *text* as it was written (None where nobody wrote it)."""

    name: str
    document: Any
    text: str | None = None

    @property
    def whole(self) -> bool:
        """Whether it is a discovery response, or a file made by `manifest pin`, and not a single manifest."""
        return isinstance(self.document, dict) and "tools" in self.document

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Each manifest in it with the JSON pointer of its place; a list is one of manifests."""
        tools = self.document["tools"] if self.whole else self.document
        base = "/tools" if self.whole else ""
        if isinstance(tools, list):
            yield from ((f"{base}/{place}", entry) for place, entry in enumerate(tools))
        elif not self.whole:
            yield "", tools


def read_source(path: str) -> Source:
    """The JSON document in the file *path*, or on standard input for ``-``. Raises click's error for what is none."""
    text = _read_text(path)
    name = "standard input" if path == STDIN else path
    try:
        return Source(name, json.loads(text), text)
    except (ValueError, RecursionError) as error:
        words = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise click.UsageError(f"{name} is no JSON: {words}.") from None


def _read_text(path: str) -> str:
    try:
        if path == STDIN:
            return sys.stdin.read()
        with open(path, encoding="utf-8-sig") as stream:
            return stream.read()
    except UnicodeError:
        raise click.UsageError(f"{path} is not UTF-8 text.") from None
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror}.") from None


def fetch_answer(settings: Settings) -> ManifestAnswer:
    """The gateway's whole manifest, now. Raises GatewayError where there is none to be had."""
    client = build_client(settings)
    deadline = time.monotonic() + settings.connect_timeout + settings.http_timeout
    try:
        with expecting_manifest():
            answer = client.fetch_manifest(None, cancel=Event(), deadline=deadline)
    finally:
        client.close()
    assert answer is not None  # an unconditional request is never answered with "not modified"
    return answer


def fetch_source(settings: Settings) -> Source:
    """The gateway's manifest as a source."""
    return Source(settings.api_url, fetch_answer(settings).document)
