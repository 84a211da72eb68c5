"""The relay as an application without a server: on every way out, all that a request took is given back."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest

from colabhive_mcp.config import Settings
from colabhive_mcp.telemetry.events import Event, OfTenant
from colabhive_mcp.transports.wsgi import Relay
from tests.harness.gateway import GatewayProcess
from tests.harness.processes import wait_until
from tests.harness.relay import build_call, to_body

EVENTS = "text/event-stream"
COUNT = {"name": "slow-count", "arguments": {"to": 600, "interval": 0.1}}
SLOW = ("tools/call", {**COUNT, "_meta": {"progressToken": "t"}})
ECHO = ("tools/call", {"name": "echo", "arguments": {"text": "x"}})


class Site:
    """A relay in this process, and what it recorded."""

    def __init__(self, gateway: GatewayProcess, **settings: Any) -> None:
        self.gateway = gateway
        self.events: list[Event] = []
        self.relay = Relay(Settings(api_url=gateway.url, **settings), record=self.events.append)
        self.gone = False

    def build_environ(self, method: str, path: str, body: bytes = b"", **headers: str | None) -> dict[str, Any]:
        """A request as a server hands it over, with the right key unless *headers* say otherwise."""
        environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path, "REMOTE_ADDR": "127.0.0.1"}
        setup_testing_defaults(environ)
        given = {"Authorization": f"Bearer {self.gateway.key}", **headers}
        sent = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in given.items() if value is not None}
        more = {"CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
        return environ | sent | more | {"waitress.client_disconnected": lambda: self.gone}

    def start(
        self, environ: dict[str, Any], start_response: Callable[..., Any] = lambda *_: None
    ) -> tuple[Iterator[bytes], Callable[[], None]]:
        """The pieces of an answer, and how it is closed."""
        body: Any = self.relay(environ, start_response)
        return iter(body), getattr(body, "close", lambda: None)

    def post(self, method: str, params: Any = None, *, modern: bool = True, **headers: Any) -> dict[str, Any]:
        """The environment of one message."""
        message, sent = build_call(method, params, modern=modern, **headers)
        return self.build_environ("POST", "/mcp", to_body(message), **sent)

    @property
    def uses(self) -> int:
        """How many requests the tenants believe to be at work for."""
        return sum(tenant.uses for tenant in self.relay.tenants.resident)

    def expect_rest(self) -> None:
        """Nothing is held any more."""
        wait_until(lambda: not self.uses)
        assert (self.relay.gate.busy, self.relay.gate._held.total(), self.relay._roll._present) == (0, 0, [])


@pytest.fixture(scope="module")
def shared_site(shared_gateway: GatewayProcess) -> Site:
    """One relay for this module."""
    return Site(shared_gateway)


@pytest.fixture
def site(shared_site: Site, gateway: GatewayProcess) -> Site:
    """The relay with its client there, and its gateway without faults."""
    shared_site.gone = False
    return shared_site


Build = Callable[[Site], dict[str, Any]]
REQUESTS: dict[str, Build] = {
    "a list": lambda site: site.post("tools/list"),
    "a legacy list": lambda site: site.post("tools/list", modern=False),
    "a list as a stream": lambda site: site.post("tools/list", Accept=EVENTS),
    "a call": lambda site: site.post(*ECHO),
    "a call as a stream": lambda site: site.post(*ECHO, Accept=EVENTS),
    "a failed call": lambda site: site.post("tools/call", {"name": "fail", "arguments": {}}),
    "an unknown tool": lambda site: site.post("tools/call", {"name": "nothing"}),
    "an unknown method": lambda site: site.post("nothing"),
    "a wrong header": lambda site: site.post("tools/list", Mcp_Method="tools/call"),
    "a form that is not spoken": lambda site: site.post("tools/list", Accept="text/html"),
    "a notification": lambda site: site.build_environ("POST", "/mcp", b'{"jsonrpc":"2.0","method":"x"}'),
    "no message": lambda site: site.build_environ("POST", "/mcp", b"{"),
    "a batch": lambda site: site.build_environ(
        "POST", "/mcp", b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]'
    ),
    "no key": lambda site: site.build_environ("POST", "/mcp", b"{}", Authorization=None),
    "a bad key": lambda site: site.post("tools/list", Authorization="Bearer hive_" + "unknownToAnybody"),
    "another host": lambda site: site.build_environ("POST", "/mcp", b"{}", Host="evil.example"),
    "health": lambda site: site.build_environ("GET", "/health"),
    "readiness": lambda site: site.build_environ("GET", "/ready"),
    "a refresh": lambda site: site.build_environ("POST", "/admin/manifest/refresh"),
    "no such path": lambda site: site.build_environ("GET", "/nothing"),
    "another method": lambda site: site.build_environ("PUT", "/mcp"),
    "a preflight": lambda site: site.build_environ("OPTIONS", "/mcp"),
}
STREAMS: dict[str, Build] = {
    "the legacy stream": lambda site: site.build_environ("GET", "/mcp", Accept=EVENTS),
    "a subscription": lambda site: site.post(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, Accept=EVENTS
    ),
    "a long call": lambda site: site.post(*SLOW, Accept=EVENTS),
}


@pytest.mark.parametrize("read", [True, False], ids=["read", "unread"])
@pytest.mark.parametrize("case", REQUESTS)
def test_an_answer_gives_back_all_that_it_took(case: str, read: bool, site: Site) -> None:
    """Whether a server sends an answer or closes it unread, no place, use or thread is held afterwards."""
    pieces, close = site.start(REQUESTS[case](site))
    if read:
        list(pieces)
    close()
    site.expect_rest()


@pytest.mark.parametrize("read", [0, 1, 2])
@pytest.mark.parametrize("case", STREAMS)
def test_a_stream_that_is_left_gives_back_all_that_it_took(case: str, read: int, site: Site) -> None:
    """Wherever a server gives a stream up, before it began or behind some pieces of it, nothing is held afterwards."""
    pieces, close = site.start(STREAMS[case](site))
    for _ in range(read if case != "the legacy stream" else min(read, 1)):
        next(pieces)
    close()
    site.expect_rest()


@pytest.mark.parametrize("accept", [EVENTS, "application/json"])
def test_a_call_ends_with_its_client(accept: str, site: Site) -> None:
    """A call whose client has gone ends without an answer, in either form."""
    site.gone = True
    pieces, close = site.start(site.post(*SLOW, Accept=accept))
    sent = b"".join(pieces)
    close()
    assert b"result" not in sent
    site.expect_rest()


@pytest.mark.parametrize("accept", [EVENTS, "application/json"])
def test_each_request_is_told_of_once(accept: str, site: Site) -> None:
    """What was answered, by whom it was asked and how long it took is one event; of a stream it comes at its end."""
    site.events.clear()
    pieces, close = site.start(site.post(*ECHO, Accept=accept))
    assert (find_served(site) == []) == (accept == EVENTS)
    list(pieces)
    close()
    (served,) = find_served(site)
    assert isinstance(served, OfTenant)
    told = served._asdict()
    assert (told["method"], told["path"], told["status"], told["rpc"]) == ("POST", "/mcp", 200, "tools/call")
    assert len(told["tenant"]) == 16


def find_served(site: Site) -> list[Event]:
    """What was told of requests that have ended."""
    return [event for event in site.events if event.name == "http.request"]


@pytest.mark.parametrize("fault", ["what is asked", "how it is answered"])
def test_a_server_that_fails_leaves_nothing_behind(fault: str, site: Site) -> None:
    """Where a request cannot be read, or its answer not begun, nothing that it took is kept."""

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    environ, start_response = site.post(*ECHO), fail
    if fault == "what is asked":
        environ["CONTENT_LENGTH"], start_response = "none", lambda *_: None
    with pytest.raises((ValueError, ZeroDivisionError)):
        site.start(environ, start_response)
    site.expect_rest()


def test_a_stopping_relay_says_so(gateway: GatewayProcess) -> None:
    """From the signal on health is 503; calls are served until there is no more time for them, then 503 as well."""
    site, statuses = Site(gateway), list[str]()

    def ask(environ: dict[str, Any]) -> bytes:
        pieces, close = site.start(environ, lambda status, *_: statuses.append(status[:3]))
        body = b"".join(pieces)
        close()
        return body

    site.relay.stop()
    assert json.loads(ask(site.build_environ("GET", "/health")))["status"] == "stopping"
    ask(site.post(*ECHO))
    site.relay.hurry()
    assert b"stopping" in ask(site.post(*ECHO))
    assert statuses == ["503", "200", "503"]
    site.expect_rest()


def test_a_reload_leaves_what_is_being_answered_alone(gateway: GatewayProcess) -> None:
    """A stream that began before a reload goes on with its bridge, which is closed behind it; others get another."""
    site = Site(gateway)
    pieces, close = site.start(STREAMS["a long call"](site))
    next(pieces)
    (before,) = site.relay.tenants.resident
    site.relay.reload(Settings(api_url=gateway.url, deny_tools=("echo",)))
    assert (site.relay.tenants.resident, before.closed) == ([], False)
    listed = b"".join(site.start(site.post("tools/list"))[0])
    assert b'"echo"' not in listed
    assert next(pieces)
    close()
    assert before.closed


@pytest.mark.parametrize(("limit", "status"), [("2/hour", "429"), ("3/hour", "200")])
def test_a_reload_forgets_no_count(limit: str, status: str, gateway: GatewayProcess) -> None:
    """Requests that were made before a reload count after it, unless the limit is another one."""
    site, statuses = Site(gateway, rate_limit="2/hour"), list[str]()
    for _ in range(2):
        site.start(site.post("tools/list"))
    site.relay.reload(Settings(api_url=gateway.url, rate_limit=limit, deny_tools=("echo",)))
    site.start(site.post("tools/list"), lambda line, *_: statuses.append(line[:3]))
    assert statuses == [status]
