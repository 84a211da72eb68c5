"""Faults on request, for tests: what a network and a gateway can do wrong, asked for over HTTP.

Owns ``/_faults`` and what stands between the server and the application when faults are switched on. A fault is met
before the key is looked at. Must not know the gateway's routes.
"""

import base64
import binascii
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from colabhive_mcp.localgateway.connection import Connection
from colabhive_mcp.localgateway.wire import (
    JSON_TYPE,
    Answer,
    RefusedError,
    Request,
    Response,
    build_json,
    build_refusal,
    parse_object,
    parse_request,
    parse_text,
    send,
    to_fault,
    to_text,
)

CONTROL = "/_faults"
MAX_SEEN = 5000
MAX_WAIT_S = 60.0
SECRET_HEADERS = frozenset({"x-api-key", "authorization"})
SERVER_HEADERS = frozenset({"connection", "content-length", "keep-alive", "trailers", "transfer-encoding", "upgrade"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with the requests that match *method* and the glob *path*."""

    method: str | None = None
    path: str = "*"
    delay: float = 0.0
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    reset: Literal["before", "after"] | None = None
    truncate: int | None = None
    drip: float = 0.0

    def matches(self, request: Request) -> bool:
        """Whether *request* meets this fault."""
        return self.method in {None, request.method} and fnmatchcase(request.path, self.path)

    def answer(self, request: Request, proceed: Answer) -> Response:
        """The fault's own response when it has one, else what the application answers."""
        if self.status is None and self.body is None:
            return proceed(request)
        return Response(self.status or 200, self.body or b"", self.headers)


@dataclass(slots=True)
class _Rule:
    id: int
    fault: Fault
    left: int


class Faults:
    """The faults asked for and the requests seen; one object a gateway."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._count = 0
        self._seen: deque[tuple[Request, dict[str, Any]]] = deque(maxlen=MAX_SEEN)
        self._changed = threading.Condition()
        self._released = threading.Event()

    def add(self, fault: Fault, *, times: int = 1) -> int:
        """Let the next *times* matching requests meet *fault* (-1: until cleared); returns its id."""
        with self._changed:
            self._count += 1
            self._rules.append(_Rule(self._count, fault, times))
            return self._count

    def clear(self) -> None:
        """Drop every fault and let go of each request that one of them holds up."""
        with self._changed:
            self._rules.clear()
            self._released.set()
            self._released = threading.Event()

    def take(self, request: Request) -> Fault | None:
        """The first fault that *request* meets, one time less from then on."""
        with self._changed:
            for rule in self._rules:
                if rule.left and rule.fault.matches(request):
                    rule.left -= 1 if rule.left > 0 else 0
                    return rule.fault
        return None

    def seen(self, method: str | None = None, path: str = "*") -> list[dict[str, Any]]:
        """The requests seen since the last ``forget``, oldest first."""
        wanted = Fault(method=method, path=path)
        with self._changed:
            return [record for request, record in self._seen if wanted.matches(request)]

    def forget(self) -> None:
        """Start the list of seen requests anew."""
        with self._changed:
            self._seen.clear()

    def wrap(self, answer: Answer) -> WSGIApplication:
        """The WSGI application that meets the faults in front of *answer*."""

        def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            try:
                request = parse_request(environ)
                if request.path.startswith(CONTROL):
                    return send(self._control(request), start_response)
                self._remember(request)
                return self._meet(request, answer, Connection(environ, start_response))
            except RefusedError as refusal:
                return send(build_refusal(refusal), start_response)

        return application

    # Meeting a fault

    def _meet(self, request: Request, answer: Answer, connection: Connection) -> Iterable[bytes]:
        released = self._released
        fault = self.take(request) or Fault()
        if fault.delay:
            released.wait(fault.delay)
        if fault.reset == "before":
            connection.reset()
        response = fault.answer(request, answer)
        if fault.reset == "after":
            connection.reset()
        if fault.truncate is not None and fault.truncate < len(response.body):
            connection.truncate(response, fault.truncate)
        if fault.drip:
            return connection.drip(response, fault.drip, released)
        return send(response, connection.start_response)

    def _remember(self, request: Request) -> None:
        entry = (Request(request.method, request.path), _to_record(request))
        with self._changed:
            self._seen.append(entry)
            self._changed.notify_all()

    # The control

    def _control(self, request: Request) -> Response:
        handler = CONTROLS.get((request.method, request.path))
        if handler is None:
            raise RefusedError(404, "Not Found")
        return handler(self, request)

    def _post(self, request: Request) -> Response:
        body = parse_object(request)
        times = body.pop("times", 1)
        if not isinstance(times, int) or isinstance(times, bool) or times < -1:
            raise RefusedError(422, [to_fault("Input should be an integer of at least -1", "body", "times")])
        return build_json({"id": self.add(parse_fault(body), times=times)}, status=201)

    def _delete(self, _: Request) -> Response:
        self.clear()
        return build_json({"status": "ok"})

    def _list(self, request: Request) -> Response:
        """What was seen; with ``at_least=N`` it waits up to ``timeout`` seconds for that many."""
        method, path = request.query.get("method"), request.query.get("path", "*")
        try:
            at_least = int(request.query.get("at_least", 0))
            timeout = min(float(request.query.get("timeout", 10)), MAX_WAIT_S)
        except ValueError:
            raise RefusedError(422, [to_fault("Input should be a number", "query")]) from None
        with self._changed:
            self._changed.wait_for(lambda: len(self.seen(method, path)) >= at_least, timeout)
            return build_json(self.seen(method, path))

    def _forget(self, _: Request) -> Response:
        self.forget()
        return build_json({"status": "ok"})


CONTROLS: Mapping[tuple[str, str], Callable[[Faults, Request], Response]] = {
    ("POST", CONTROL): Faults._post,
    ("DELETE", CONTROL): Faults._delete,
    ("GET", f"{CONTROL}/requests"): Faults._list,
    ("DELETE", f"{CONTROL}/requests"): Faults._forget,
}


def parse_fault(body: Mapping[str, Any]) -> Fault:
    """Read a fault as a test writes it. Raises RefusedError naming each field that is wrong."""
    faults = [to_fault("Extra inputs are not permitted", "body", name) for name in body if name not in FIELDS]
    faults += [
        to_fault(f"Input should be {words}", "body", name)
        for name, (fits, words) in FIELDS.items()
        if name in body and not fits(body[name])
    ]
    if faults:
        raise RefusedError(422, faults)
    plain = {name: value for name, value in body.items() if name not in {"body", "body_b64", "headers"}}
    content, content_type = _parse_body(body)
    headers = {"Content-Type": content_type} if content_type else {}
    given = body.get("headers", {})
    named = {name.lower() for name in given}
    return Fault(
        **plain, body=content, headers={**{k: v for k, v in headers.items() if k.lower() not in named}, **given}
    )


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_headers(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(text, str) and not set(name + text) & {"\r", "\n"} and name.lower() not in SERVER_HEADERS
        for name, text in value.items()
    )


def _is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
    except (binascii.Error, ValueError):
        return False


FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {  # field -> what fits, and how that is said
    "method": (lambda value: isinstance(value, str), "a method"),
    "path": (lambda value: isinstance(value, str), "a glob"),
    "delay": (_is_seconds, "seconds"),
    "status": (lambda value: isinstance(value, int) and 200 <= value <= 599, "a status from 200 to 599"),
    "headers": (_is_headers, "an object of strings, none of them framing or hop-by-hop"),
    "body": (lambda _: True, "a string or any JSON"),
    "body_b64": (_is_base64, "base64"),
    "reset": (lambda value: value in ("before", "after"), "before or after"),
    "truncate": (lambda value: isinstance(value, int) and value >= 0, "a number of bytes"),
    "drip": (_is_seconds, "seconds"),
}


def _parse_body(body: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    """The fault's body and the type that goes with it."""
    if "body_b64" in body:
        return base64.b64decode(body["body_b64"]), None
    if "body" not in body:
        return None, None
    if isinstance(body["body"], str):
        return body["body"].encode("utf-8", "surrogatepass"), "text/html" if body["body"][:1] == "<" else "text/plain"
    return to_text(body["body"]).encode(), JSON_TYPE


def _to_record(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "path": request.path,
        "query": dict(request.query),
        "headers": {name: _hide(name, value) for name, value in request.headers.items()},
        "body": _to_body(request.body),
        "at": time.monotonic(),
    }


def _hide(name: str, value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest() if name in SECRET_HEADERS else value


def _to_body(body: bytes) -> Any:
    if not body:
        return None
    try:
        return parse_text(body)
    except ValueError:
        return body.decode("utf-8", "replace")
