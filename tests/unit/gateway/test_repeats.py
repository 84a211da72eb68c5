"""How often the gateway sees an operation, by its method, by what its manifest says of it, and by what goes wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from colabhive_mcp.errors import GatewayError
from colabhive_mcp.gateway.client import GatewayClient, Options
from colabhive_mcp.gateway.operations import OperationRequest, build_request
from tests.harness.gateway import GatewayProcess
from tests.unit.gateway.conftest import AMPLE, MakeBench, Time
from tests.unit.gateway.scripted import HANG_UP, ScriptedServer, answer

ALL, ONCE = 4, 1
MERGE = {"name": "hive", "sources": ["chat", "echo"]}

READING = [("GET", None), ("GET", False)]
REPEATABLE = [("PUT", None), ("DELETE", None), ("PUT", True), ("DELETE", True), ("POST", True), ("PATCH", True)]
UNREPEATABLE = [("POST", None), ("PATCH", None), ("POST", False), ("PATCH", False), ("PUT", False), ("DELETE", False)]

PASSING: list[dict[str, Any]] = [
    {"reset": "before"},
    {"reset": "after"},
    *({"status": status, "body": {"detail": "later"}} for status in (429, 502, 503, 504)),
]
LASTING: list[dict[str, Any]] = [
    {"status": status, "body": {"detail": "no"}} for status in (400, 401, 403, 404, 409, 422, 500)
]
SLOW: dict[str, Any] = {"delay": 30}
ROWS = [
    *((how, fault, ALL) for how, fault in product(READING + REPEATABLE, PASSING)),
    *((how, fault, ONCE) for how, fault in product(UNREPEATABLE, PASSING)),
    *(
        (how, fault, ONCE)
        for how, fault in product([READING[0], REPEATABLE[0], REPEATABLE[4], UNREPEATABLE[0]], LASTING)
    ),
    (READING[0], SLOW, ALL),
    *((how, SLOW, ONCE) for how in (REPEATABLE[0], REPEATABLE[4], UNREPEATABLE[0])),
]


def build(method: str, said: bool | None) -> OperationRequest:
    """The request of an operation of which the manifest says that it is idempotent, that it is not, or nothing."""
    return build_request({"method": method, "path": "/jobs/x"}, {}, idempotent=said, idempotency_key="key-1")


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[GatewayClient]:
    """A client of the local gateway in whose time no pause takes any."""
    options = Options(gateway.url, gateway.key, "0", read_timeout=0.2)
    client = GatewayClient(options, clock=Time().clock, random=random.Random(0).random)
    yield client
    client.close()
    gateway.clear()


@pytest.mark.parametrize(
    ("how", "fault", "times"),
    ROWS,
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple | dict) else "",
)
def test_how_often_an_operation_is_sent(
    how: tuple[str, bool | None], fault: dict[str, Any], times: int, client: GatewayClient, gateway: GatewayProcess
) -> None:
    """What may have been done is sent again only where that does no harm, and always under the same key."""
    gateway.fault(path="*/jobs/x", times=-1, **fault)
    with pytest.raises(GatewayError):
        client.perform(build(*how), cancel=Time(), deadline=AMPLE)
    seen = gateway.seen("/jobs/x")
    assert len(seen) == times
    keys = {each["headers"].get("idempotency-key") for each in seen}
    assert keys == ({None} if how[0] == "GET" else {"key-1"})


@pytest.mark.parametrize("how", READING + REPEATABLE + UNREPEATABLE)
def test_what_was_never_sent_is_sent_again(how: tuple[str, bool | None], bench: MakeBench) -> None:
    """A connection that could not be made loses nothing, so every operation is tried four times."""
    with ScriptedServer([HANG_UP]) as gone:
        port = gone.port
    run = bench(answer({}), api_url=f"http://127.0.0.1:{port}")
    with pytest.raises(GatewayError, match="refused the connection"):
        run.perform(build(*how))
    assert len(run.time.waits) == ALL - 1


@pytest.mark.parametrize(("said", "succeeds"), [(True, True), (False, False)])
def test_a_job_whose_answer_was_lost(
    said: bool, succeeds: bool, client: GatewayClient, gateway: GatewayProcess
) -> None:
    """The job was created; where the operation may be repeated, its key brings back that job and no other."""
    endpoint = {"method": "POST", "path": "/training/merges"}
    request = build_request(endpoint, MERGE, idempotent=said, idempotency_key=f"merge-{said}")
    gateway.fault(path="*/training/merges", reset="after")
    if succeeds:
        job = client.perform(request, cancel=Time(), deadline=AMPLE)
        assert len(gateway.seen("/training/merges")) == 2
        assert client.perform(request, cancel=Time(), deadline=AMPLE) == job
    else:
        with pytest.raises(GatewayError, match="closed the connection"):
            client.perform(request, cancel=Time(), deadline=AMPLE)
        assert len(gateway.seen("/training/merges")) == 1
