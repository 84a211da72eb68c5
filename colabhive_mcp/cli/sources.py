"""Where the commands of `manifest` read a manifest: a file, standard input, or the gateway.

Knows where documents are from, and only as much of their shape as it takes to find the tools in them.
"""

from __future__ import annotations

import io
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
    except RecursionError:
        raise click.UsageError(f"{name} is nested too deep to be read: describe the outer levels only.") from None
    except ValueError as error:
        raise click.UsageError(f"{name} is no JSON: {_say_fault(text, error)}") from None


def _read_text(path: str) -> str:
    name = "standard input" if path == STDIN else path
    try:
        if path == STDIN:
            return _read_stdin()
        with open(path, encoding="utf-8-sig") as stream:
            return stream.read()
    except UnicodeError:
        raise click.UsageError(f"{name} is not UTF-8 text: save it as UTF-8.") from None
    except OSError as error:
        raise click.UsageError(f"{name} cannot be read: {error.strerror}.") from None


def _read_stdin() -> str:
    """All of standard input, read as a file is, whatever the locale; nothing where it is closed."""
    if sys.stdin is None:
        return ""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")
    return sys.stdin.read()


def _say_fault(text: str, fault: ValueError) -> str:
    """What is wrong with a text that is no JSON, and how to mend it."""
    if not text.strip():
        return "it is empty. Write {} to be told of all that a manifest needs."
    if not isinstance(fault, json.JSONDecodeError):
        return f"{fault}."  # a number with too many digits
    place = f"line {fault.lineno}, column {fault.colno}"
    if fault.msg.startswith("Extra data"):
        return f"after its first value there is more, at {place}. Write several manifests as one list: [{{…}}, {{…}}]."
    if text.lstrip()[0] not in "{[":
        return "it begins with neither { nor [. A manifest is JSON: convert YAML or TOML, and leave comments out."
    return f"{fault.msg} at {place}. JSON takes double quotes only, and no comments or trailing commas."


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
