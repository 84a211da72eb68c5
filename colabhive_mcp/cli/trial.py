"""Everything that a client needs, tried step by step, each with its time, for `test`.

Owns the order of the steps and what each failure means. Prints nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

from colabhive_mcp.bridge import Bridge
from colabhive_mcp.cli.assembly import build_client, expecting_manifest, open_log
from colabhive_mcp.cli.terminal import to_size
from colabhive_mcp.config import Settings
from colabhive_mcp.errors import (
    EXIT_OK,
    BridgeError,
    ConfigError,
    GatewayError,
    GatewayUnreachable,
    KeyRefused,
)
from colabhive_mcp.offer import load_pin
from colabhive_mcp.telemetry.events import Event as Happening
from colabhive_mcp.telemetry.events import ManifestFetched

NO_INVOCATION = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: *good* is None where an earlier one failed; *detail* says what was found, or what is wrong."""

    name: str
    good: bool | None
    seconds: float
    detail: str
    exit_code: int = EXIT_OK

    def to_json(self) -> dict[str, Any]:
        """As `test --json` shows it."""
        return {"step": self.name, "ok": self.good, "ms": round(self.seconds * 1000, 1), "detail": self.detail}


class Trial:
    """What the steps of the test hand to each other."""

    def __init__(self, load: Callable[[], Settings], resources: ExitStack) -> None:
        self._load = load
        self._resources = resources
        self._refusal: KeyRefused | None = None
        self._fetched: ManifestFetched | None = None

    def check_settings(self) -> str:
        """They hold a key and contradict nowhere."""
        self._settings = self._load()
        self._settings.require_key()
        self._record = self._resources.enter_context(open_log(self._settings, quiet=True))
        self._client = build_client(self._settings)
        self._resources.callback(self._client.close)
        return f"the key is from {self._settings.source('api_key')}"

    def check_reach(self) -> str:
        """Any answer at all will do; what is asked for is small, and not there."""
        try:
            self._ask()
        except KeyRefused as error:
            self._refusal = error
        return self._settings.api_url

    def check_key(self) -> str:
        """The key was not refused; asked again, which shows the time of an answer over an open connection."""
        if self._refusal is not None:
            raise self._refusal
        self._ask()
        return "it was not refused"

    def check_manifest(self) -> str:
        """There is a manifest; whatever else the gateway answers is none."""
        self._bridge = Bridge(self._settings, self._client, record=self._note, pin=load_pin(self._settings))
        with expecting_manifest():
            manifest = self._bridge.offer.view(None).manifest
        size = f", {to_size(self._fetched.bytes)}" if self._fetched else ""
        lag = self._bridge.offer.measure_lag()
        unusable = len(manifest.left_out)
        told = [
            f"{len(manifest.tools)} tools{size}",
            f"{unusable} {'entry is' if unusable == 1 else 'entries are'} unusable" if unusable else None,
            None if lag is None else f"pinned to {self._settings.manifest_pin}, {lag}",
        ]
        return "; ".join(filter(None, told))

    def check_tools(self) -> str:
        """What the filters leave; none at all is an error of the settings."""
        inventory = self._bridge.offer.view(None)
        offered, refused = len(inventory.offered), len(inventory.refused)
        if refused and not offered:
            raise ConfigError(f"The filters leave none of {refused} tools; colabhive-mcp tools --why says why.")
        return f"{offered} offered" + (f", {refused} left out by the filters" if refused else "")

    def _ask(self) -> None:
        """One small question. An answer that only says no is an answer."""
        timeout = self._settings.connect_timeout + self._settings.http_timeout
        try:
            self._client.fetch_invocation(NO_INVOCATION, cancel=Event(), deadline=time.monotonic() + timeout)
        except (GatewayUnreachable, KeyRefused):
            raise
        except GatewayError:
            return

    def _note(self, event: Happening) -> None:
        if isinstance(event, ManifestFetched):
            self._fetched = event
        self._record(event)


STEPS: tuple[tuple[str, Callable[[Trial], str]], ...] = (
    ("settings", Trial.check_settings),
    ("gateway", Trial.check_reach),
    ("key", Trial.check_key),
    ("manifest", Trial.check_manifest),
    ("tools", Trial.check_tools),
)


def try_steps(load: Callable[[], Settings]) -> Iterator[Step]:
    """Each step as soon as it is done; after a failure the others are only named."""
    with ExitStack() as resources:
        trial, sound = Trial(load, resources), True
        for name, check in STEPS:
            step = _try(name, partial(check, trial)) if sound else Step(name, None, 0.0, "not tried")
            sound = sound and bool(step.good)
            yield step


def _try(name: str, check: Callable[[], str]) -> Step:
    started = time.perf_counter()
    try:
        detail = check()
    except BridgeError as error:
        return Step(name, False, time.perf_counter() - started, error.message, error.exit_code)
    return Step(name, True, time.perf_counter() - started, detail)
