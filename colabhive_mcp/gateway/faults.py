"""A connection that failed, in plain words: what happened, what to do, and which requests may then be repeated.

Pure: it reads the chain of causes by their built-in types, and must not know the library that made the connection.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from colabhive_mcp.errors import BadAnswer, GatewayError, GatewayUnreachable
from colabhive_mcp.gateway.retries import AttemptError, Safety


class Fault(NamedTuple):
    """One kind of failure. *needs* is what a request must be to be repeated after it; None: no repeat would help."""

    words: str
    needs: Safety | None
    kind: type[GatewayError] = GatewayUnreachable


_PROXY = Fault(
    "The proxy on the way to {host} cannot be used: check HTTP_PROXY, HTTPS_PROXY and NO_PROXY in the environment.",
    Safety.UNSENT,
)
_UNMADE = Fault(
    "No connection to {host} could be made: check the setting `api_url`, the network and any firewall.", Safety.UNSENT
)
_CLOSED = Fault("{host} closed the connection before it had answered: try again.", Safety.KEYED)

# The first row that fits anything in the chain of causes counts.
_UNSENT_FAULTS: tuple[tuple[type[BaseException], Fault], ...] = (
    (
        socket.gaierror,
        Fault(
            "The name of {host} cannot be resolved: check the setting `api_url`, the network and DNS.", Safety.UNSENT
        ),
    ),
    (
        ConnectionRefusedError,
        Fault(
            "{host} refused the connection: check the setting `api_url`, and that the gateway runs there.",
            Safety.UNSENT,
        ),
    ),
    (
        TimeoutError,
        Fault(
            "{host} did not take the connection in time: check the setting `api_url`, the network and any firewall.",
            Safety.UNSENT,
        ),
    ),
)
_SENT_FAULTS: tuple[tuple[type[BaseException], Fault], ...] = (
    (
        ssl.SSLCertVerificationError,
        Fault(
            "The certificate of {host} is not trusted: name your authority's certificates in the setting `ca_bundle`, "
            "or check the setting `api_url`.",
            None,
        ),
    ),
    (ssl.SSLEOFError, _CLOSED),
    (
        ssl.SSLError,
        Fault(
            "No TLS connection to {host} can be made: check that the setting `api_url` begins with https:// for a port "
            "that speaks TLS, and any proxy in between.",
            None,
        ),
    ),
    (TimeoutError, Fault("{host} did not answer in time: try again, or raise `http_timeout`.", Safety.READING)),
    (
        http.client.IncompleteRead,
        Fault("{host} closed the connection in the middle of its answer: try again.", Safety.KEYED),
    ),
    (zlib.error, Fault("{host} answered with a body that is not compressed as it says.", None, BadAnswer)),
    (ConnectionError, _CLOSED),
    (
        http.client.HTTPException,
        Fault("{host} answered with something that is not HTTP: check the setting `api_url`.", None, BadAnswer),
    ),
)


def to_failure(error: Exception, *, host: str, unsent: bool, proxied: bool) -> AttemptError:
    """What *error* means for a request to *host*.

    *unsent*: the connection could not be made. *proxied*: the proxy is at fault. The words never hold those of *error*,
    which may name a URL.
    """
    fault = _PROXY if proxied else _find_fault(error, unsent=unsent)
    failure = fault.kind(fault.words.format(host=host))
    failure.__cause__ = error
    return AttemptError(failure, needs=fault.needs, broken=True)


def _find_fault(error: Exception, *, unsent: bool) -> Fault:
    causes = list(_walk(error))
    for kind, fault in _UNSENT_FAULTS if unsent else _SENT_FAULTS:
        if any(isinstance(cause, kind) for cause in causes):
            return fault
    return _UNMADE if unsent else _CLOSED


def _walk(error: BaseException) -> Iterator[BaseException]:
    """*error* and everything that it was raised from or wraps, each once."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        cause = waiting.pop()
        if isinstance(cause, BaseException) and id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            waiting += [cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args]
