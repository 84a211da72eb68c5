"""Requests, responses and refusals as plain values, and JSON as text.

Owns what every handler takes and gives. Must not know a route, a table or a thread.
"""

import gzip
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Never
from urllib.parse import parse_qsl
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

MAX_BODY = 64 * 1024 * 1024
GZIP_FROM = 1024
JSON_TYPE = "application/json"


class RefusedError(Exception):
    """A request that is answered with an error; *detail* is the body's ``detail`` in one of the contract's forms."""

    def __init__(self, status: int, detail: Any, **headers: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, read whole; header names are in lower case. Its repr shows nothing that may be secret."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)

    def accepts_gzip(self) -> bool:
        """Whether the client takes a gzip body; a weight of 0 is a no (RFC 9110, 12.5.3)."""
        codings = self.headers.get("accept-encoding", "").lower().replace(" ", "").split(",")
        weights = {name: weight for name, _, weight in (coding.partition(";q=") for coding in codings)}
        weight = weights.get("gzip", weights.get("*"))
        return weight is not None and (not weight or weight.strip("0.") != "")


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP response; *body* goes out as it is."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The status line as WSGI wants it."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return f"{self.status} Unknown"


Answer = Callable[[Request], Response]


def to_text(value: Any) -> str:
    """Encode *value* as compact JSON that always survives UTF-8: a lone surrogate stays an escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def parse_text(text: str | bytes) -> Any:
    """Decode JSON strictly: no NaN, no number that overflows to infinity. Raises ValueError."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_float)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def build_json(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Make a JSON response."""
    return Response(status, to_text(value).encode(), {"Content-Type": JSON_TYPE, **(headers or {})})


def parse_object(request: Request) -> dict[str, Any]:
    """The request's body, which has to be a JSON object; anything else is a 422 in the list form."""
    try:
        value = parse_text(request.body)
    except ValueError as error:
        raise RefusedError(422, [to_fault("JSON decode error: " + str(error), "body", kind="json_invalid")]) from None
    if not isinstance(value, dict):
        raise RefusedError(422, [to_fault("Input should be a JSON object", "body", kind="dict_type")])
    return value


def to_fault(message: str, *loc: str | int, kind: str = "value_error") -> dict[str, Any]:
    """One entry of the list form of validation errors."""
    return {"type": kind, "loc": list(loc), "msg": message}


def compress(body: bytes) -> bytes:
    """Gzip *body*, the same bytes each time."""
    return gzip.compress(body, compresslevel=6, mtime=0)


def parse_request(environ: WSGIEnvironment) -> Request:
    """Read a request from the WSGI environment. Raises RefusedError for a body over ``MAX_BODY``."""
    size = int(environ.get("CONTENT_LENGTH") or 0)
    if size > MAX_BODY:
        raise RefusedError(413, f"the body has {size} bytes, at most {MAX_BODY} are taken")
    return Request(
        method=environ["REQUEST_METHOD"],
        path=environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace"),
        query=dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)),
        headers=_headers(environ),
        body=environ["wsgi.input"].read(size) if size else b"",
    )


def build_refusal(refusal: RefusedError) -> Response:
    """The response that a refusal stands for."""
    return build_json({"detail": refusal.detail}, status=refusal.status, headers=refusal.headers)


def send(response: Response, start_response: StartResponse) -> Iterable[bytes]:
    """Hand *response* to the WSGI server."""
    start_response(response.line, [*response.headers.items(), ("Content-Length", str(len(response.body)))])
    return [response.body]


def to_wsgi(answer: Answer) -> WSGIApplication:
    """The WSGI application that answers each request with *answer*."""

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            response = answer(parse_request(environ))
        except RefusedError as refusal:
            response = build_refusal(refusal)
        return send(response, start_response)

    return application


def _headers(environ: WSGIEnvironment) -> dict[str, str]:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    return headers


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is no JSON number")


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large a number")
    return number
