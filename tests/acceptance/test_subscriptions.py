"""``subscriptions/listen`` on a pipe that it shares with everything else."""

from __future__ import annotations

import time

from colabhive_mcp.transports.stdio import LISTENERS
from tests.conftest import Connect
from tests.harness import spec
from tests.harness.client import META, StdioClient
from tests.harness.gateway import GatewayProcess, manifest

WANTED = {"notifications": {"toolsListChanged": True}}
BUSY = {"manifest_ttl": 0.2}
SUBSCRIPTION = META + "subscriptionId"


def subscribe(client: StdioClient, request_id: int | str) -> None:
    """Ask for a subscription and see that it is acknowledged."""
    client.request("subscriptions/listen", WANTED, request_id=request_id)
    acknowledged = client.receive()
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["_meta"][SUBSCRIPTION] == request_id


def test_each_subscription_hears_of_a_change(own_gateway: GatewayProcess, connect: Connect) -> None:
    """Two subscriptions on one pipe are each told once, by their own ids, and calls go on meanwhile."""
    client = connect(own_gateway, revision=spec.MODERN, **BUSY)
    client.tools()
    for request_id in (7, "seven"):
        subscribe(client, request_id)
    own_gateway.register(manifest("fresh"))
    told = sorted(str(client.receive()["params"]["_meta"][SUBSCRIPTION]) for _ in range(2))
    assert told == ["7", "seven"]
    assert client.call("echo", {"text": "x"})["isError"] is False


def test_a_cancelled_subscription_is_silent(own_gateway: GatewayProcess, connect: Connect) -> None:
    """Once it is cancelled nothing more comes for it, not even an answer; another one still hears."""
    client = connect(own_gateway, revision=spec.MODERN, **BUSY)
    client.tools()
    for request_id in (1001, 1002):
        subscribe(client, request_id)
    client.notify("notifications/cancelled", {"requestId": 1001})
    client.ask("server/discover")
    own_gateway.register(manifest("fresh"))
    assert client.receive()["params"]["_meta"][SUBSCRIPTION] == 1002
    assert client.drain() == []


def test_subscriptions_have_a_limit(gateway: GatewayProcess, connect: Connect) -> None:
    """One more than there are threads for is refused at once; the place of a cancelled one is free again."""
    client = connect(gateway, revision=spec.MODERN)
    for request_id in range(2000, 2000 + LISTENERS):
        subscribe(client, request_id)
    assert client.ask("subscriptions/listen", WANTED)["error"]["code"] == -32600
    client.notify("notifications/cancelled", {"requestId": 2000})
    subscribe(client, 3000)


def test_a_subscription_does_not_delay_the_end(gateway: GatewayProcess, connect: Connect) -> None:
    """At the end of input nobody waits for a subscription, which has no end of its own."""
    client = connect(gateway, revision=spec.MODERN, drain_timeout=30)
    subscribe(client, 1)
    started = time.monotonic()
    assert client.close() == 0
    assert time.monotonic() - started < 15
