"""One HTTP request as this server reads it: headers, key, trace, body. It knows WSGI's environment and no MCP."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from colabhive_mcp.transports.replies import Headers

CHALLENGE = 'Bearer realm="colabhive-mcp"'
WHERE = "send an API key of the platform as `Authorization: Bearer hive_…` or as `X-API-Key: hive_…`"
LONGEST_KEY = 512
_KEY = re.compile(r"[!-~]+")
_TRACE = ("traceparent", "tracestate")


class Intake(NamedTuple):
    """A request; header names are in lower case. *is_gone* tells whether its client has closed the connection."""

    method: str
    path: str
    headers: Mapping[str, str]
    peer: str
    length: int
    body: Callable[[], bytes]
    is_gone: Callable[[], bool]

    @property
    def trace(self) -> dict[str, str]:
        """The headers that go on to the gateway, which are those of W3C Trace Context and no other."""
        return {name: self.headers[name] for name in _TRACE if name in self.headers}


class Unidentified(Exception):
    """There is no key in a request, or none that can be one; *challenge* is what ``WWW-Authenticate`` says."""

    def __init__(self, message: str, challenge: str = CHALLENGE) -> None:
        super().__init__(message)
        self.challenge = challenge

    @property
    def headers(self) -> Headers:
        """What the answer says of how to ask again."""
        return [("WWW-Authenticate", self.challenge)]


def read_intake(environ: Mapping[str, Any]) -> Intake:
    """The request in a WSGI environment."""
    headers = {key[5:].replace("_", "-").lower(): value for key, value in environ.items() if key.startswith("HTTP_")}
    length = int(environ.get("CONTENT_LENGTH") or 0)
    return Intake(
        environ["REQUEST_METHOD"],
        environ.get("PATH_INFO", ""),
        headers,
        environ.get("REMOTE_ADDR", ""),
        length,
        partial(_read_body, environ["wsgi.input"], length),
        environ.get("waitress.client_disconnected", lambda: False),
    )


def _read_body(stream: Any, length: int) -> bytes:
    """The body, from its beginning, however often it is asked for."""
    stream.seek(0)
    body: bytes = stream.read(length)
    return body


def read_key(headers: Mapping[str, str]) -> str:
    """The caller's key. Raises Unidentified where there is none, two that differ, or none that can be one."""
    found = {key for key in (_read_bearer(headers), headers.get("x-api-key", "").strip()) if key}
    if not found:
        raise Unidentified(f"There is no API key: {WHERE}.")
    if len(found) > 1:
        raise Unidentified(f"There are two API keys that differ: {WHERE}.", refuse_key("two keys"))
    key = found.pop()
    if len(key) > LONGEST_KEY or not _KEY.fullmatch(key):
        raise Unidentified(f"The API key is none: {WHERE}.", refuse_key("malformed"))
    return key


def refuse_key(reason: str) -> str:
    """The challenge to a request whose key is not taken (RFC 6750, 3)."""
    return f'{CHALLENGE}, error="invalid_token", error_description="{reason}"'


def _read_bearer(headers: Mapping[str, str]) -> str:
    scheme, _, key = headers.get("authorization", "").strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
