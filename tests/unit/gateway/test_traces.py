"""Of a caller's headers the gateway sees those of a trace, where they are valid, and no other."""

from __future__ import annotations

import pytest

from colabhive_mcp.gateway.operations import OperationRequest
from colabhive_mcp.gateway.traces import read_trace
from tests.unit.gateway.conftest import AMPLE, KEY, MakeBench
from tests.unit.gateway.scripted import answer

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DONE = {"invocation_id": "i-1", "status": "succeeded"}


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "x",
        PARENT.upper(),
        PARENT + "-0",
        PARENT[:-1],
        "01" + PARENT[2:],
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        PARENT + "\n",
    ],
)
def test_an_invalid_trace_is_none(parent: str) -> None:
    """Without a valid parent nothing of a trace means anything."""
    assert read_trace({"traceparent": parent, "tracestate": "a=1"}) == {}


@pytest.mark.parametrize(
    ("state", "kept"),
    [("a=1,b=2", True), ("", False), ("x" * 512, True), ("x" * 513, False), ("a=\n", False), ("é", False)],
)
def test_the_state_goes_along_where_it_is_valid(state: str, kept: bool) -> None:
    """A state that cannot be one is left out, and the trace goes on without it."""
    assert read_trace({"traceparent": PARENT, "tracestate": state, "cookie": "c"}) == (
        {"traceparent": PARENT, "tracestate": state} if kept else {"traceparent": PARENT}
    )


def test_every_question_carries_the_trace(bench: MakeBench) -> None:
    """The view's requests carry the trace with its own key, whatever an argument says; the client's own carry none."""
    run = bench(answer(DONE), answer(DONE), answer(DONE))
    run.invoke()
    view = run.client.traced({"traceparent": PARENT, "tracestate": "a=1", "authorization": "Bearer other"})
    strange = OperationRequest("GET", "/jobs", headers={"Traceparent": "other", "X-Mine": "1"})
    view.perform(strange, cancel=run.time, deadline=AMPLE)
    assert run.client.traced({"traceparent": "none"}) is run.client
    plain, traced = run.server.seen[:2]
    assert "traceparent" not in plain.headers
    assert traced.headers["traceparent"] == PARENT
    assert traced.headers["tracestate"] == "a=1"
    assert traced.headers["x-mine"] == "1"
    assert traced.headers["x-api-key"] == KEY
    assert "authorization" not in traced.headers
