"""Connections that fail, as people read of them: what happened, what to do, and the cause kept for the log."""

from __future__ import annotations

import http.client
import socket
import ssl
from dataclasses import dataclass, replace

import pytest

from colabhive_mcp.errors import BadAnswer, GatewayError, GatewayUnreachable, KeyRefused
from colabhive_mcp.gateway.faults import to_failure
from colabhive_mcp.gateway.operations import OperationRequest
from colabhive_mcp.gateway.retries import Safety
from tests.unit.gateway.conftest import AMPLE, MakeBench, Time
from tests.unit.gateway.scripted import HANG_UP, RESET, SILENCE, ScriptedServer, Step, answer

POST = OperationRequest("POST", "/jobs", json={}, has_body=True)
CUT = Step(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "close")
CUT_CHUNK = Step(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{", "close")
BAD_CHUNK = Step(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{", "close")
BAD_GZIP = answer(b"no gzip", headers={"Content-Encoding": "gzip"})
NO_HTTP = Step(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "close")
LONG_LINE = Step(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", "close")


@pytest.mark.parametrize(
    ("step", "kind", "words"),
    [
        (HANG_UP, GatewayUnreachable, "closed the connection before it had answered"),
        (RESET, GatewayUnreachable, "closed the connection before it had answered"),
        (CUT, GatewayUnreachable, "in the middle of its answer"),
        (CUT_CHUNK, GatewayUnreachable, "in the middle of its answer"),
        (BAD_CHUNK, GatewayUnreachable, "in the middle of its answer"),
        (BAD_GZIP, BadAnswer, "not compressed as it says"),
        (NO_HTTP, BadAnswer, "not HTTP"),
        (LONG_LINE, BadAnswer, "not HTTP"),
    ],
)
def test_what_goes_wrong_on_a_connection(bench: MakeBench, step: Step, kind: type[GatewayError], words: str) -> None:
    """Each fault of the wire has its own sentence, names the host, and keeps its cause."""
    run = bench(step)
    with pytest.raises(kind, match=words) as caught:
        run.perform(POST)
    assert f"127.0.0.1:{run.server.port}" in str(caught.value)
    assert caught.value.status is None
    assert isinstance(caught.value.__cause__, Exception)
    assert len(run.server.seen) == 1


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_half_a_head_is_never_taken_for_an_empty_answer(bench: MakeBench, head: bytes) -> None:
    """An answer that ends before it told its length, and is empty, is no success of an operation."""
    with pytest.raises(GatewayUnreachable, match="in the middle of its answer"):
        bench(Step(head, "close")).perform(POST)


def test_an_answer_that_ends_with_its_connection(bench: MakeBench) -> None:
    """A body without a length is taken as it came."""
    assert bench(Step(b"HTTP/1.0 200 OK\r\n\r\n{}", "close")).perform(POST) == {}


def test_a_silent_gateway(bench: MakeBench) -> None:
    """A time-out names the setting that makes it longer."""
    with pytest.raises(GatewayUnreachable, match="`http_timeout`"):
        bench(SILENCE, read_timeout=0.05).perform(POST)


def test_a_gateway_that_stops_within_its_answer(bench: MakeBench) -> None:
    """A body that stops coming is a time-out as well."""
    stuck = Step(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "hold")
    with pytest.raises(GatewayUnreachable, match="did not answer in time"):
        bench(stuck, read_timeout=0.05).perform(POST)


@pytest.mark.parametrize("step", [CUT, BAD_GZIP], ids=["cut", "bad gzip"])
def test_a_status_counts_even_where_its_body_is_broken(bench: MakeBench, step: Step) -> None:
    """A refusal whose words are lost is still that refusal."""
    run = bench(replace(step, data=step.data.replace(b" 200 ", b" 401 ")))
    with pytest.raises(KeyRefused, match="HTTP 401"):
        run.invoke()
    assert len(run.server.seen) == 1


@dataclass
class LateTime(Time):
    """Time in which the call is over once the answer has begun."""

    calls: int = 0

    def clock(self) -> float:
        """0, and from the third question on the deadline."""
        self.calls += 1
        return AMPLE if self.calls > 2 else 0.0


def test_a_dripping_answer_ends_with_the_call(bench: MakeBench) -> None:
    """An answer that comes byte by byte, each in good time, is left at the call's deadline."""
    drip = Step(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{", "drip")
    run = bench(drip, time=LateTime())
    with pytest.raises(GatewayUnreachable):
        run.perform(POST)
    assert len(run.server.seen) == 1


def test_an_answer_that_is_whole_counts_even_if_it_is_late(bench: MakeBench) -> None:
    """What has arrived is not thrown away."""
    assert bench(answer({"id": 1}), time=LateTime()).perform(POST) == {"id": 1}


def test_a_refused_connection(bench: MakeBench) -> None:
    """Nobody listening is said so, and tried again even for an operation, since nothing was sent."""
    with ScriptedServer([HANG_UP]) as gone:
        port = gone.port
    run = bench(answer({}), api_url=f"http://127.0.0.1:{port}")
    with pytest.raises(
        GatewayUnreachable, match=f"127.0.0.1:{port} refused the connection: check the setting `api_url`"
    ):
        run.perform(POST)
    assert run.time.waits == [0.25, 0.5, 1.0]


def test_an_unknown_name(bench: MakeBench) -> None:
    """A name that cannot be resolved is told from a gateway that is away (RFC 6761: .invalid never resolves)."""
    run = bench(answer({}), api_url="http://gateway.invalid")
    with pytest.raises(GatewayUnreachable, match=r"name of gateway\.invalid cannot be resolved"):
        run.perform(POST)


@pytest.mark.parametrize(
    ("error", "unsent", "proxied", "needs"),
    [
        (TimeoutError(), True, False, Safety.UNSENT),
        (TimeoutError(), False, False, Safety.READING),
        (OSError("unreachable"), True, False, Safety.UNSENT),
        (socket.gaierror(), True, False, Safety.UNSENT),
        (ConnectionResetError(), False, False, Safety.KEYED),
        (http.client.RemoteDisconnected(), False, False, Safety.KEYED),
        (ssl.SSLEOFError(), False, False, Safety.KEYED),
        (ssl.SSLCertVerificationError(), False, False, None),
        (ssl.SSLError(), False, False, None),
        (http.client.BadStatusLine(""), False, False, None),
        (ValueError("strange"), False, False, Safety.KEYED),
        (ConnectionResetError(), False, True, Safety.UNSENT),
    ],
    ids=repr,
)
def test_what_may_be_repeated(error: Exception, unsent: bool, proxied: bool, needs: Safety | None) -> None:
    """Each fault says how safe a request must be to be sent again, however deep its cause lies."""
    outer = RuntimeError("wrapped", error)
    outer.__cause__ = ValueError()
    failure = to_failure(outer, host="h", unsent=unsent, proxied=proxied)
    assert failure.needs is needs
    assert failure.broken
    assert failure.error.__cause__ is outer
    assert "wrapped" not in str(failure.error)
