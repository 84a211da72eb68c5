"""Streams that are long silent, over the real relay and in real time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.harness import spec
from tests.harness.gateway import GatewayProcess
from tests.harness.relay import Connection, RelayProcess, build_call, read_events

LONGEST = 15.0  # seconds without a word on any stream
SECONDS = 25  # that are looked at
WANTED = {"notifications": {"toolsListChanged": True}}
SLOW = {"name": "slow-count", "arguments": {"to": 100, "interval": 0.5}}


def open_streams(relay: RelayProcess) -> dict[str, tuple[Connection, HTTPResponse]]:
    """One stream of each kind: those that tell of changes, and calls that wait for the gateway in each way."""
    listen, listen_headers = build_call("subscriptions/listen", WANTED, modern=True)
    plain, plain_headers = build_call("tools/call", SLOW, modern=True)
    told, told_headers = build_call("tools/call", {**SLOW, "_meta": {"progressToken": 1}}, modern=True)
    return {
        "GET": relay.listen(),
        "subscription": relay.open(listen, **listen_headers),
        "call": relay.open(plain, **plain_headers),
        "call of who takes events alone": relay.open(plain, **plain_headers, Accept="text/event-stream"),
        "call with a token": relay.open(told, **told_headers),
    }


def measure_silence(connection: Connection, answer: HTTPResponse) -> tuple[float, int]:
    """The longest time between two signs of life, and how many there were, until the time is up."""
    began = heard = time.monotonic()
    longest, count = 0.0, 0
    for _ in read_events(answer):
        now = time.monotonic()
        longest, heard, count = max(longest, now - heard), now, count + 1
        if now - began > SECONDS:
            break
    connection.hang_up()
    return longest, count


@pytest.mark.parametrize("hanging", [False, True], ids=["polling", "hanging"])
def test_no_stream_is_silent_for_long(hanging: bool, tmp_path: Path) -> None:
    """Whatever a stream waits for, a line comes at least every 15 seconds, so that nothing on the way gives it up."""
    with GatewayProcess(tmp_path) as gateway, RelayProcess(tmp_path, gateway) as relay:
        assert relay.call_as(spec.MODERN, "tools/list").status == 200
        if hanging:
            gateway.fault(path="*:invoke", delay=9.5, times=-1)  # as long as the gateway is asked to wait
            gateway.fault(path="*/invocations/*", delay=3600, times=-1)
        streams = open_streams(relay)
        with ThreadPoolExecutor(len(streams)) as pool:
            measured = dict(zip(streams, pool.map(lambda kind: measure_silence(*streams[kind]), streams), strict=True))
    assert all(longest <= LONGEST and count > 2 for longest, count in measured.values()), measured
