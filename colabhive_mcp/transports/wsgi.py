"""MCP over HTTP for many keys at once: one WSGI application, a thread per request.

It owns the routes and what every request goes through. What is posted to MCP is the endpoint's, who asks the tenants',
how much may be at work the gate's. It must not know the server that it runs on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from io import BytesIO
from math import ceil
from threading import Event
from typing import Any, NamedTuple

from colabhive_mcp import __version__
from colabhive_mcp.bridge import build_probe
from colabhive_mcp.config import Settings
from colabhive_mcp.errors import BridgeError, KeyRefused
from colabhive_mcp.protocol.messages import Request, decode
from colabhive_mcp.protocol.revisions import REVISIONS
from colabhive_mcp.telemetry.events import OfTenant, Record, RequestRefused, RequestServed
from colabhive_mcp.transports.endpoint import Endpoint, Limits, Stops, count_requests, name_method
from colabhive_mcp.transports.gate import LIST, PROOF, Gate, TurnedAway
from colabhive_mcp.transports.identity import report_fault
from colabhive_mcp.transports.intake import WHERE, Intake, Unidentified, read_intake, read_key, refuse_key
from colabhive_mcp.transports.origins import Headers, Origins, build_preflight, is_loopback
from colabhive_mcp.transports.presence import Roll
from colabhive_mcp.transports.rates import Rates
from colabhive_mcp.transports.readiness import Readiness
from colabhive_mcp.transports.replies import (
    Reply,
    build_empty,
    build_refusal,
    build_value,
    read_accepted,
)
from colabhive_mcp.transports.tenants import SHOWN_DIGITS, Tenant, Tenants, build_tenant

AS_FILE_FROM = 65_536  # bytes of a body that the server had better not copy
FILE_PIECE = 1 << 20
LONGEST_LOOK = 65_536  # bytes of a body in which an id is looked for, of somebody who is not let in
ALLOWED = [("Allow", "POST, OPTIONS")]
LOGIN = ("/.well-known/", "/register", "/authorize", "/token")  # where clients look for OAuth once a key is refused
STOPPING_SECONDS = 5  # after which somebody else may have taken over
Scrape = Callable[[str], tuple[bytes, str]]
StartResponse = Callable[[str, Headers], object]


class Rules(NamedTuple):
    """What follows from the settings, and changes with them while requests go on."""

    settings: Settings
    origins: Origins
    rates: Rates
    tenants: Tenants
    endpoint: Endpoint
    readiness: Readiness
    outdated: Event  # others took their place: streams that began by them end, so that who listens comes again


class Visit(NamedTuple):
    """One request on its way: *ending* is what has to be done when its answer has been sent, or cannot be."""

    intake: Intake
    rules: Rules
    ending: ExitStack
    notes: dict[str, str]  # for the log: the method, and who asked


class Relay:
    """The WSGI application. *scrape* renders the metrics for an ``Accept`` header; None where they are elsewhere."""

    def __init__(self, settings: Settings, *, record: Record, scrape: Scrape | None = None) -> None:
        self.gate = Gate(settings.threads)
        self._record = record
        self._scrape = scrape
        self._roll = Roll()
        self._stopping = Event()
        self._hurried = Event()
        self._rules = self._build_rules(settings, self._build_rates(settings))

    def __call__(self, environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        started = time.monotonic()
        with ExitStack() as ending:
            self.gate.enter()
            ending.callback(self.gate.leave)
            visit = Visit(read_intake(environ), self._rules, ending, {})
            reply = self._answer(visit)
            ending.callback(self._tell, visit, reply.status, started)
            cors = visit.rules.origins.build_cors(visit.intake.headers)
            start_response(reply.status_line, [*reply.headers, *cors])
            if visit.intake.method == "HEAD":
                return ()
            if isinstance(reply.body, bytes):  # nobody has to wait until it is sent
                return _hand_over(reply.body, environ)
            return _Stream(reply.body, ending.pop_all())

    @property
    def tenants(self) -> Tenants:
        """Who is served now."""
        return self._rules.tenants

    def reload(self, settings: Settings) -> None:
        """Serve by other *settings* from the next request on; those that are being answered go on as they began."""
        before = self._rules
        same = _name_rates(settings) == _name_rates(before.settings)  # then they go on counting
        self._rules = self._build_rules(settings, before.rates if same else self._build_rates(settings))
        before.outdated.set()
        before.tenants.close("reload")

    def stop(self) -> None:
        """Take no more work, and end the streams."""
        self._stopping.set()

    def hurry(self) -> None:
        """Have calls that wait for a job answered with how to fetch its result later."""
        self._hurried.set()

    def abandon(self) -> None:
        """Wait for nothing any more."""
        self._hurried.set()
        self._roll.recall_all()

    def _build_rates(self, settings: Settings) -> Rates:
        limit, storage = _name_rates(settings)
        return Rates(limit, storage=storage, record=self._record)

    def _build_rules(self, settings: Settings, rates: Rates) -> Rules:
        def build(key: str, digest: str, on_refused: Callable[[KeyRefused], None]) -> Tenant:
            return build_tenant(settings, key, digest, on_refused, record=self._record)

        limits = Limits(settings.tenant_concurrency, settings.max_streams)
        outdated = Event()
        stops = Stops(lambda: self._stopping.is_set() or outdated.is_set(), self._hurried.is_set)
        return Rules(
            settings,
            Origins((*settings.allowed_hosts, settings.host.lower()), settings.cors_origins),
            rates,
            Tenants(build, capacity=settings.max_tenants, proving=self._take_proof, record=self._record),
            Endpoint(self.gate, self._roll, limits, stops, log_frames=settings.log_jsonrpc),
            Readiness(build_probe(settings)),
            outdated,
        )

    def _take_proof(self) -> Callable[[], None]:
        return self.gate.take(PROOF, "", self.gate.threads // 2)

    def _answer(self, visit: Visit) -> Reply:
        """The reply, or the refusal that says why there is none."""
        fault = visit.rules.origins.find_fault(visit.intake.headers)
        if fault is not None:
            return build_refusal(403, f"{fault}.")
        try:
            return self._route(visit)
        except Unidentified as error:
            return _refuse(visit, 401, str(error), headers=error.headers)
        except KeyRefused as error:
            return _refuse_key(visit, error)
        except BridgeError as error:
            return _refuse(visit, 502, error.message)
        except TurnedAway as error:
            visit.notes["refused"] = error.reason
            wait = str(max(1, ceil(error.retry_after)))
            return _refuse(visit, error.status, str(error), headers=[("Retry-After", wait)])
        except Exception as error:  # a fault of ours, for the log alone
            report_fault(error, self._record)
            return _refuse(visit, 500, "Internal error: see the server's log")

    def _route(self, visit: Visit) -> Reply:
        method, path = visit.intake.method, visit.intake.path
        if method == "OPTIONS":
            return build_empty(204, [*ALLOWED, *build_preflight(visit.intake.headers)])
        if path.rstrip("/") == visit.rules.settings.path:
            return self._serve(visit) if method in _SERVED else _refuse_method()
        handler = _ROUTES.get(("GET" if method == "HEAD" else method, path))
        if handler is not None:
            return handler(self, visit)
        if path.startswith(LOGIN):
            return build_refusal(404, f"There is no login here: {WHERE}, and check the one that you send.")
        return build_refusal(404, f"There is nothing at {path[:80]}: MCP is at {visit.rules.settings.path}.")

    def _serve(self, visit: Visit) -> Reply:
        """A message, or the stream of notices."""
        return _SERVED[visit.intake.method](self, visit)

    def _post(self, visit: Visit) -> Reply:
        tenant = self._admit(visit)
        frame = visit.rules.endpoint.read_frame(visit.intake.body(), tenant)
        visit.notes["rpc"] = name_method(frame)
        self._check_rate(visit, tenant, count_requests(frame))
        return visit.rules.endpoint.post(frame, visit.intake, tenant, visit.ending)

    def _listen(self, visit: Visit) -> Reply:
        """The legacy stream; where none is to be had a client takes 405 for an answer, by its specification."""
        if not visit.rules.settings.max_streams or not _asks_for_stream(visit.intake):
            return _refuse_method()
        try:
            tenant = self._admit(visit)
            return visit.rules.endpoint.listen(visit.intake, tenant, visit.ending)
        except Unidentified:
            return _refuse_method()
        except TurnedAway as error:
            visit.notes["refused"] = error.reason
            return _refuse_method()

    def _refresh(self, visit: Visit) -> Reply:
        """Look at the gateway's manifest now."""
        tenant = self._admit(visit)
        self._check_rate(visit, tenant, 1)
        with self.gate.hold(LIST, tenant.digest, visit.rules.settings.tenant_concurrency):
            manifest, error = tenant.bridge.refresh()
        status = 200 if error is None else 502
        body = {"tools": len(manifest.tools), "etag": manifest.etag, **({"error": error} if error else {})}
        return build_value(body, status=status)

    def _health(self, visit: Visit) -> Reply:
        threads = {"busy": self.gate.busy, "all": self.gate.threads}
        status = "stopping" if self._stopping.is_set() else "ok"
        tenants = len(visit.rules.tenants.resident)
        body = {"status": status, "version": __version__, "tenants": tenants, "threads": threads}
        return build_value(body, status=503 if self._stopping.is_set() else 200)

    def _ready(self, visit: Visit) -> Reply:
        fault = visit.rules.readiness.find_fault()
        if fault is not None:
            return build_value({"status": "unready", "error": fault}, status=503)
        return build_value({"status": "ready"})

    def _metrics(self, visit: Visit) -> Reply:
        """For who is on this machine, and asked it by no other name: behind a proxy everybody's address is its own."""
        here = is_loopback(visit.intake.peer) and Origins((), ()).find_fault(visit.intake.headers) is None
        if self._scrape is None or not here:
            return build_refusal(404, "There are no metrics here: the setting metrics_listen says where they are.")
        body, kind = self._scrape(visit.intake.headers.get("accept", ""))
        return Reply(200, [("Content-Type", kind), ("Content-Length", str(len(body)))], body)

    def _admit(self, visit: Visit) -> Tenant:
        """Who asks, once the gateway has accepted the key. Raises Unidentified, KeyRefused, TurnedAway."""
        key = read_key(visit.intake.headers)
        if self._hurried.is_set():  # until then, what comes on a kept connection has nobody else to do it
            raise TurnedAway("stopping", 503, "This server is stopping: ask again in a moment.", STOPPING_SECONDS)
        tenant = visit.rules.tenants.acquire(key)
        visit.ending.callback(visit.rules.tenants.release, tenant)
        visit.notes["tenant"] = tenant.digest[:SHOWN_DIGITS]
        return tenant

    def _check_rate(self, visit: Visit, tenant: Tenant, cost: int) -> None:
        wait = visit.rules.rates.check(tenant.digest, cost) if cost else None
        if wait is not None:
            words = f"This key may make {visit.rules.settings.rate_limit} requests: wait {wait:.0f} s."
            raise TurnedAway("rate", 429, words, wait)

    def _tell(self, visit: Visit, status: int, started: float) -> None:
        notes, intake = visit.notes, visit.intake
        duration_ms = round((time.monotonic() - started) * 1000, 1)
        events: list[Any] = [RequestServed(intake.method, intake.path[:80], status, duration_ms, notes.get("rpc"))]
        if "refused" in notes:
            events.append(RequestRefused(notes["refused"], status))
        for event in events:
            self._record(OfTenant(event, notes["tenant"]) if "tenant" in notes else event)


def _name_rates(settings: Settings) -> tuple[str | None, str | None]:
    return settings.rate_limit, settings.rate_limit_storage


def _hand_over(body: bytes, environ: Mapping[str, Any]) -> Iterable[bytes]:
    """*body* for the server to send: a large one as a file, which it reads from without a copy of its own."""
    if len(body) < AS_FILE_FROM or "wsgi.file_wrapper" not in environ:
        return (body,)
    wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](BytesIO(body), FILE_PIECE)
    return wrapped


class _Stream:
    """The pieces of an answer; the server closes it when they have been sent, or can't be."""

    def __init__(self, pieces: Iterable[bytes], ending: ExitStack) -> None:
        self._pieces = pieces
        self.close = ending.close

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)


_SERVED: dict[str, Callable[[Relay, Visit], Reply]] = {"POST": Relay._post, "GET": Relay._listen}
_ROUTES: dict[tuple[str, str], Callable[[Relay, Visit], Reply]] = {
    ("GET", "/health"): Relay._health,
    ("GET", "/ready"): Relay._ready,
    ("GET", "/metrics"): Relay._metrics,
    ("POST", "/admin/manifest/refresh"): Relay._refresh,
}


def _asks_for_stream(intake: Intake) -> bool:
    """Whether a GET wants the stream, which no modern revision has; a browser that looks in does not."""
    revision = REVISIONS.get(intake.headers.get("mcp-protocol-version", ""))
    if revision is not None and revision.modern:
        return False
    return "accept" in intake.headers and read_accepted(intake.headers).events and "*/*" not in intake.headers["accept"]


def _refuse_method() -> Reply:
    return build_refusal(405, "This is an MCP endpoint: send its messages with POST.", headers=ALLOWED)


def _refuse(visit: Visit, status: int, message: str, *, headers: Iterable[tuple[str, str]] = ()) -> Reply:
    """A refusal with the id of the request where one can be read: some clients show no words without it."""
    frame = decode(visit.intake.body()) if 0 < visit.intake.length <= LONGEST_LOOK else None
    request_id = frame.id if isinstance(frame, Request) else None
    return build_refusal(status, message, headers=headers, request_id=request_id)


def _refuse_key(visit: Visit, error: KeyRefused) -> Reply:
    """401 for a key that the gateway doesn't know, 403 for one that may not."""
    if error.status == 403:
        return _refuse(visit, 403, f"The gateway lets this API key do nothing here: {error.message}")
    headers = [("WWW-Authenticate", refuse_key("the gateway does not know this key"))]
    words = f"The gateway does not know this API key: {WHERE}, and check that it is not revoked."
    return _refuse(visit, 401, words, headers=headers)
