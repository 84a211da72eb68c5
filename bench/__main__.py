"""``python -m bench``: measure, print one table, and exit 0 unless a measurement could not be made.

A figure over its target is printed as such and is no failure: figures are for people to judge.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from bench import contract, floors, profiles, relay, stdio
from bench.child import ChildError
from bench.figures import Failure, Figure, to_json, to_table
from bench.place import Place, open_place
from bench.stdio import Setting
from bench.upstream import Upstream, measure_ceiling, open_upstream
from bench.wrk import Missing

QUICK = 0.2
SOAK_SECONDS = 20.0
PARTS = {"stdio": (*stdio.MEASUREMENTS, *contract.MEASUREMENTS), "relay": relay.MEASUREMENTS}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="How fast the bridge is, and how much it keeps.")
    parser.add_argument("part", nargs="?", choices=list(PARTS), help="one part only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="a fifth of the runs: faster, and less to be trusted")
    parser.add_argument("--only", choices=list(to_measurements()), help="one question only")
    parser.add_argument(
        "--soak", type=float, default=SOAK_SECONDS, metavar="SECONDS", help="how long the relay is soaked (20; try 600)"
    )
    parser.add_argument(
        "--profile", choices=list(profiles.PROFILES), help="show where the time goes, and measure nothing"
    )
    return parser.parse_args(arguments)


def to_measurements(part: str | None = None) -> dict[str, Callable[[Setting], list[Figure]]]:
    """The measurements, of one part or of all, by the name that `--only` takes."""
    every = [measure for name, measures in PARTS.items() if part in {None, name} for measure in measures]
    return {measure.__name__.removeprefix("measure_"): measure for measure in every}


def run(options: argparse.Namespace) -> int:
    begun = time.perf_counter()
    with open_place() as place, open_upstream(place, count=stdio.TOOLS) as upstream:
        if options.profile:
            return print_profile(profiles.PROFILES[options.profile], place, upstream)
        about = describe_run(upstream)
        print("\n".join(f"{name}: {value}" for name, value in about.items()), flush=True)
        setting = Setting(
            place=place, upstream=upstream, effort=QUICK if options.quick else 1, soak_seconds=options.soak
        )
        figures, failures = measure_all(setting, part=options.part, only=options.only)
    report(figures, failures, seconds=time.perf_counter() - begun)
    if options.json:
        options.json.write_text(to_json(figures, failures, about=about) + "\n")
    return 1 if failures else 0


def print_profile(profile: Callable[[Place, Upstream], str], place: Place, upstream: Upstream) -> int:
    try:
        print(profile(place, upstream))
    except ChildError as error:
        print(f"FAILED: {error}")
        return 1
    return 0


def describe_run(upstream: Upstream) -> dict[str, Any]:
    """The machine, and what the gateway of the benchmark can do: it must not be the limit."""
    with closing(upstream.connect()) as connection:
        posts = sorted(floors.measure_post(connection, stdio.INSTANT) for _ in range(200))
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "tools": upstream.tools,
        "manifest bytes": f"{upstream.manifest_bytes:,} ({upstream.manifest_bytes // upstream.tools:,} a tool)",
        "gateway ceiling": f"{measure_ceiling(upstream):,.0f} POSTs/s; http.client: {posts[100] * 1e3:.2f} ms a POST",
    }


def measure_all(setting: Setting, *, part: str | None, only: str | None) -> tuple[list[Figure], list[Failure]]:
    """Make each measurement; one that fails, or that lacks a program, does not take the others away."""
    figures: list[Figure] = []
    failures: list[Failure] = []
    for name, measure in to_measurements(part).items():
        if only in {None, name}:
            try:
                figures += measure(setting)
            except Missing as error:
                print(f"SKIPPED {name}: {error}", flush=True)
            except (ChildError, OSError, KeyError, ValueError) as error:
                failures.append(Failure(name, f"{type(error).__name__}: {error}"))
    return figures, failures


def report(figures: Sequence[Figure], failures: Sequence[Failure], *, seconds: float) -> None:
    print(f"\n{to_table(figures)}" if figures else "")
    for failure in failures:
        print(f"FAILED {failure.what}: {failure.reason}")
    over = sum(not figure.is_within for figure in figures)
    print(f"\n{len(figures)} figures, {over} over, {len(failures)} failed, {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(run(parse_arguments(sys.argv[1:])))
