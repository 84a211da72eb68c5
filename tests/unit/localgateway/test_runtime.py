"""The runtime: queue, workers, cold and warm, restarts."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from colabhive_mcp.localgateway.actions import Context, Pause, Steps
from colabhive_mcp.localgateway.records import Endpoint, Invocation
from colabhive_mcp.localgateway.runtime import Runtime
from colabhive_mcp.localgateway.store import Store

from .conftest import Gateway


def endpoint(store: Store, **entry: Any) -> Endpoint:
    """An endpoint that was just registered."""
    store.register_endpoint({"name": "subject", "action": "subject", **entry})
    store.create_key()
    found = store.endpoint("subject", "local")
    assert found is not None
    return found


def report(store: Store, invocation: Invocation) -> Invocation:
    """The invocation as the store has it by then."""
    found = store.invocation(invocation.id, "local")
    assert found is not None
    return found


class Gate:
    """An action that says that it has begun and ends when it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()

    def __call__(self, arguments: Mapping[str, Any], _: Context) -> Any:
        self.begun.release()
        assert self.open.wait(10)
        return arguments


def test_cold_then_warm(store: Store) -> None:
    """A model is cold until it was loaded, warm while it is kept, and cold again after that."""
    now = [100.0]
    subject = endpoint(store, cold_start_s=0, keep_warm_s=0)
    cold = Endpoint(
        **{**{name: getattr(subject, name) for name in Endpoint.__slots__}, "cold_start_s": 0.02, "keep_warm_s": 5}
    )
    with Runtime(store, actions={"subject": lambda *_: 1}, clock=lambda: now[0] + time.monotonic()) as runtime:
        states = []
        for advance in (0, 0, 10_000):
            now[0] += advance
            invocation = runtime.invoke(cold, "local", {})
            runtime.wait(invocation.id, 10)
            states.append((invocation.model_state, report(store, invocation).status))
    assert states == [("cold", "succeeded"), ("warm", "succeeded"), ("cold", "succeeded")]


def test_cold_call_is_answered_at_once(gateway: Gateway) -> None:
    """A cold call is queued whatever the caller is ready to wait, and says what it is at until it is done."""
    gateway.store.register_endpoint({"name": "icy", "action": "echo", "cold_start_s": 60})
    answer = gateway.invoke("icy", {"text": "x"}).json
    assert (answer["status"], answer["model_state"], answer["result"]) == ("queued", "cold", None)
    wait_until(lambda: poll(gateway, answer)["status_detail"] == "loading the model")
    assert poll(gateway, answer)["started_at"] is None


def test_status_details(gateway: Gateway) -> None:
    """A slow count goes from cold to running with the count so far, and from there to its result."""
    long = gateway.invoke("slow-count", {"to": 2, "interval": 60}).json
    wait_until(lambda: poll(gateway, long)["status_detail"] == "counted 0 of 2")
    report = poll(gateway, long)
    assert (report["status"], report["model_state"], report["result"]) == ("running", "cold", None)
    short = gateway.invoke("slow-count", {"to": 3, "interval": 0.01}).json
    report = gateway.finished(short["invocation_id"])
    assert (report["status"], report["status_detail"], report["result"]) == ("succeeded", None, {"counted": 3})


def test_timing_is_honest(gateway: Gateway) -> None:
    """A count takes as long as its intervals, and no argument is needed."""
    gateway.store.register_endpoint({"name": "warm-count", "action": "slow-count"})
    began = time.monotonic()
    answer = gateway.invoke("warm-count", {"to": 4, "interval": 0.05}).json
    assert answer["result"] == {"counted": 4}
    assert time.monotonic() - began >= 0.2
    assert answer["metrics"]["run_ms"] >= 200
    assert gateway.invoke("slow-count", sync=False).status == 200


def test_sync_wait_ends_before_the_result(gateway: Gateway) -> None:
    """A warm action that takes longer than the caller waits is answered as running."""
    gateway.store.register_endpoint({"name": "warm-count", "action": "slow-count"})
    body = {"input": {"to": 1, "interval": 60}, "sync": True, "sync_timeout_s": 1}
    answer = gateway.send("POST", "/actions/warm-count:invoke", body).json
    assert (answer["status"], answer["result"]) == ("running", None)


def test_waiting_holds_no_worker(store: Store) -> None:
    """Any number of actions wait at the same time on a single worker, and a quick one passes them."""
    subject = endpoint(store)

    def act(arguments: Mapping[str, Any], _: Context) -> Any:
        return wait_long() if arguments else "quick"

    def wait_long() -> Steps:
        yield Pause(60, "waiting")

    with Runtime(store, workers=1, actions={"subject": act}) as runtime:
        slow = [runtime.invoke(subject, "local", {"slow": True}) for _ in range(20)]
        quick = runtime.invoke(subject, "local", {})
        runtime.wait(quick.id, 10)
        assert report(store, quick).result == "quick"
        assert {report(store, invocation).status_detail for invocation in slow} == {"waiting"}


def test_workers_run_side_by_side(store: Store) -> None:
    """As many actions are at work as there are workers, and one more has to wait."""
    subject, gate = endpoint(store), Gate()
    with Runtime(store, workers=2, actions={"subject": gate}) as runtime:
        invocations = [runtime.invoke(subject, "local", {}) for _ in range(3)]
        assert gate.begun.acquire(timeout=10)
        assert gate.begun.acquire(timeout=10)
        assert [report(store, invocation).status for invocation in invocations] == ["running", "running", "queued"]
        gate.open.set()
        for invocation in invocations:
            runtime.wait(invocation.id, 10)
    assert {report(store, invocation).status for invocation in invocations} == {"succeeded"}


def test_unexpected_fault_of_an_action(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """An action that breaks is a failed invocation without a trace in it, and the worker goes on."""
    subject = endpoint(store)
    actions = {"subject": lambda arguments, _: 1 / arguments["by"]}
    with Runtime(store, workers=1, actions=actions) as runtime:
        broken, sound = runtime.invoke(subject, "local", {"by": 0}), runtime.invoke(subject, "local", {"by": 2})
        runtime.wait(sound.id, 10)
    assert report(store, broken).error == {"code": "internal", "message": "the action failed"}
    assert report(store, sound).result == 0.5
    assert "ZeroDivisionError" in caplog.text


def test_closing_wakes_who_waits(store: Store) -> None:
    """Closing the runtime ends every wait, and leaves what is unfinished to the next start."""
    subject, waited = endpoint(store, cold_start_s=60), threading.Event()
    with Runtime(store, actions={}) as runtime:
        invocation = runtime.invoke(subject, "local", {})

        def wait() -> None:
            runtime.wait(invocation.id, 60)
            waited.set()

        thread = threading.Thread(target=wait)
        thread.start()
    assert waited.wait(10)
    thread.join(10)
    assert report(store, invocation).status == "queued"


def test_restart_keeps_invocations(start_gateway: Callable[..., Gateway]) -> None:
    """After a restart what had ended is still there, and what had not is run to its end."""
    before = start_gateway()
    before.store.register_endpoint({"name": "icy", "action": "echo", "cold_start_s": 60})
    ended = before.invoke("echo", {"text": "kept"}, Idempotency_Key="one").json
    waiting = before.invoke("icy", {"text": "later"}, Idempotency_Key="two").json
    before.store._execute("UPDATE invocations SET status = 'running', cold_start_s = 0 WHERE finished_at IS NULL")
    before.__exit__()
    after = start_gateway()
    assert after.send("GET", f"/invocations/{ended['invocation_id']}", key=before.key).json["result"] == "kept"
    assert after.finished(waiting["invocation_id"])["result"] == "later"
    repeated = after.invoke("icy", {"text": "later"}, Idempotency_Key="two").json
    assert (repeated["invocation_id"], repeated["result"]) == (waiting["invocation_id"], "later")


def test_waiting_for_what_has_ended(store: Store) -> None:
    """Waiting for an unknown or ended invocation takes no time."""
    with Runtime(store) as runtime:
        runtime.wait("nothing", 60)


def poll(gateway: Gateway, answer: Mapping[str, Any]) -> Any:
    """The report of an invocation."""
    return gateway.send("GET", f"/invocations/{answer['invocation_id']}").json


def wait_until(is_so: Callable[[], bool], seconds: float = 15) -> None:
    """Ask again and again until it is so, at most *seconds* long."""
    end, pause = time.monotonic() + seconds, threading.Event()
    while not is_so():
        assert time.monotonic() < end
        pause.wait(0.01)
