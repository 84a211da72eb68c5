"""A frozen manifest: a file made by ``manifest pin``, or the ETag that the gateway must serve.

A pin is a fetch like the gateway's own, so that the cache needs to know nothing of it; it also looks at how far what it
serves is behind. It must not know where the file is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from colabhive_mcp.errors import BadAnswer, ConfigError, GatewayError
from colabhive_mcp.manifest.cache import Fetch, Fetched, NotModified
from colabhive_mcp.manifest.model import Manifest, Tools, build_manifest
from colabhive_mcp.protocol.messages import dump_json
from colabhive_mcp.telemetry.events import ManifestPinned, Record


def build_pin(document: Mapping[str, Any], *, etag: str | None, pages: int) -> str:
    """The text of a pin: the discovery response with all its tools, its ETag and, of several, its number of pages."""
    told = {key: value for key, value in document.items() if key not in ("etag", "hasMore", "nextCursor", "pages")}
    pin = {**told, "etag": etag, **({"pages": pages} if pages > 1 else {})}
    return json.dumps(json.loads(dump_json(pin)), indent=2, ensure_ascii=False) + "\n"


def parse_pin(text: str, name: str) -> Fetched:
    """The manifest in the text of a pin. Raises ConfigError, which calls the file by *name*, where it is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"manifest_pin: {name} is no JSON: make it again with `colabhive-mcp manifest pin`."
        ) from error
    if not isinstance(document, dict) or not isinstance(document.get("tools"), list):
        raise ConfigError(f"manifest_pin: {name} holds no manifest: make one with `colabhive-mcp manifest pin`.")
    etag, pages = document.get("etag"), document.get("pages")
    return Fetched(
        document,
        etag if isinstance(etag, str) else None,
        len(text.encode()),
        pages if isinstance(pages, int) else 1,
    )


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a pinned manifest is behind the gateway's: tools *added* there, *removed* and *changed* since.

    *error* says why that is not known.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    error: str | None = None

    def __str__(self) -> str:
        if self.error is not None:
            return f"how far it is behind cannot be told: {self.error.rstrip('.')}"
        told = [f"{count} {what}" for what, count in self.counts().items() if count]
        return f"behind the gateway by {', '.join(told)}" if told else "the same as the gateway's"

    def counts(self) -> dict[str, int]:
        """The numbers by what was done to so many tools."""
        return {"added": self.added, "removed": self.removed, "changed": self.changed}


def build_lag(pinned: Tools, served: Tools) -> Lag:
    """How *pinned* differs from *served*."""
    common = pinned.keys() & served.keys()
    changed = sum(pinned[slug] != served[slug] for slug in common)
    return Lag(len(served) - len(common), len(pinned) - len(common), changed)


class Pin:
    """A fetch that always answers with the same manifest: that of *file*, or the one whose ETag is *name*.

    *fetch* is the gateway's; *peek* the same for a look that nobody should wait long for. *record* hears how far it is
    behind, and again whenever that has changed.
    """

    def __init__(self, name: str, file: Fetched | None, *, fetch: Fetch, peek: Fetch, record: Record) -> None:
        self._name = name
        self._file = file
        self._fetch = fetch
        self._peek = peek
        self._record = record
        self._frozen: Manifest | None = None
        self._told: Lag | None = None

    def __call__(self, etag: str | None) -> Fetched | NotModified:
        """The pinned manifest, and from then on that it is not modified. Raises BadAnswer for an ETag that has gone."""
        if self._frozen is not None:
            self._tell(self.measure(), self._frozen)
            return NotModified()
        served = self._file or self._find_served()
        self._frozen = _freeze(served)
        self._tell(self.measure() if self._file else Lag(), self._frozen)
        return served

    def measure(self) -> Lag:
        """How far behind it is now, or why that is not known."""
        frozen = self._frozen or (_freeze(self._file) if self._file else None)
        try:
            if frozen is None:
                self._check_served(self._peek(self._name))
                return Lag()
            answer = self._peek(frozen.etag if frozen.pages == 1 else None)
            if isinstance(answer, NotModified):
                return Lag()
            return build_lag(frozen.tools, _freeze(answer).tools)
        except GatewayError as error:
            return Lag(error=error.message)

    def _find_served(self) -> Fetched:
        answer = self._fetch(None)
        if isinstance(answer, NotModified):
            raise BadAnswer(f"The pinned manifest {self._name} cannot be had: the gateway answered 304 to a plain GET")
        self._check_served(answer)
        return answer

    def _check_served(self, answer: Fetched | NotModified) -> None:
        if isinstance(answer, Fetched) and answer.etag != self._name:
            raise BadAnswer(
                f"The pinned manifest {self._name} is no longer served; the gateway serves {answer.etag}: "
                "set manifest_pin to that or to a file made by `colabhive-mcp manifest pin`, or unset it"
            )

    def _tell(self, lag: Lag, frozen: Manifest) -> None:
        if lag != self._told:
            self._told = lag
            counts = {"error": lag.error} if lag.error is not None else lag.counts()
            self._record(ManifestPinned(self._name, frozen.etag, len(frozen.tools), **counts))


def _freeze(served: Fetched) -> Manifest:
    return build_manifest(served.document, etag=served.etag, pages=served.pages)
