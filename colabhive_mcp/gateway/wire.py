"""One question, one answer: connections, headers, time-outs and bounds.

It must not know what is asked nor what the answer means, and never asks twice. Nothing in it changes from one exchange
to the next, so threads share it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from urllib3 import HTTPConnectionPool, Timeout, encode_multipart_formdata
from urllib3.exceptions import ConnectTimeoutError, HTTPError, IncompleteRead, ProxyError
from urllib3.response import BaseHTTPResponse

from colabhive_mcp.errors import BadAnswer, Cancelled, GatewayUnreachable
from colabhive_mcp.gateway.answers import Answer
from colabhive_mcp.gateway.faults import to_failure
from colabhive_mcp.gateway.guard import GUARD
from colabhive_mcp.gateway.options import Options
from colabhive_mcp.gateway.questions import Question
from colabhive_mcp.gateway.retries import Cancel

_PIECE = 65536  # bytes
_MAX_ERROR_BYTES = 262144  # of an error's body, whose words are cut far below
_SHORTEST = 0.001  # seconds; a time-out has to be more than 0


@dataclass(frozen=True, slots=True)
class Road:
    """The way to one host: its connections, and the *base* that every target is put behind."""

    host: str
    base: str
    pool: HTTPConnectionPool


@dataclass(frozen=True, slots=True)
class Limits:
    """For how long and how far one exchange may go: *cancel*, *deadline*, and the *bytes* of its answer."""

    cancel: Cancel
    deadline: float
    bytes: int


class Wire:
    """Exchanges with one host: on *kept* connections, or each on its *own*, a road that few need and *own* builds."""

    def __init__(self, options: Options, *, kept: Road, own: Callable[[], Road], clock: Callable[[], float]) -> None:
        self._options = options
        self._kept, self._own = kept, own
        self._clock = clock
        self._headers = _build_headers(options)
        self._taken = frozenset(map(str.lower, self._headers))

    def exchange(self, question: Question, limits: Limits, *, own: bool) -> Answer:
        """The answer to *question*, whatever its status.

        Raises AttemptError, Cancelled, GatewayUnreachable past the deadline, and BadAnswer past the limit of bytes.
        """
        body, headers = self._encode(question, own=own)
        road = self._own() if own else self._kept
        try:
            with (
                GUARD.watch(limits.cancel),
                road.pool.urlopen(
                    question.method,
                    road.base + question.target,
                    body=body,
                    headers=headers,
                    timeout=self._find_timeout(question, limits),
                    retries=False,
                    redirect=False,
                    assert_same_host=False,
                    preload_content=False,
                ) as response,
            ):
                good = response.status // 100 == 2
                received = self._read(response, limits) if good else _read_beginning(response)
                if not good or _is_open_ended(response):  # one that the guard has cut off looks like a whole one
                    _check_wanted(limits.cancel)
        except HTTPError as error:
            _check_wanted(limits.cancel)
            unsent, proxied = isinstance(error, ConnectTimeoutError), isinstance(error, ProxyError)
            raise to_failure(error, host=road.host, unsent=unsent, proxied=proxied) from error
        return Answer(response.status, response.headers, received, road.host, question.subject, len(body or b""))

    def close(self) -> None:
        """Close the idle connections, and each other one after its exchange."""
        self._kept.pool.close()
        self._own().pool.close()

    def _encode(self, question: Question, *, own: bool) -> tuple[bytes | None, dict[str, str]]:
        """The body, and the question's headers with ours, which win."""
        headers = {name: value for name, value in question.headers.items() if name.lower() not in self._taken}
        headers |= self._headers
        if own:
            headers["Connection"] = "close"
        if not question.parts:
            return question.body, headers
        body, headers["Content-Type"] = encode_multipart_formdata(question.parts)
        return body, headers

    def _find_timeout(self, question: Question, limits: Limits) -> Timeout:
        """The options' time-outs, longer by the question's own patience, and within the time left."""
        left = max(limits.deadline - self._clock(), _SHORTEST)
        read = self._options.read_timeout + question.patience
        return Timeout(connect=min(self._options.connect_timeout, left), read=min(read, left))

    def _read(self, response: BaseHTTPResponse, limits: Limits) -> bytes:
        """A good answer's decoded body, bounded in size and time: piece by piece, as they come."""
        body = bytearray()
        while piece := response.read1(_PIECE, decode_content=True):
            if body:
                self._check(limits)
            body += piece
            if len(body) > limits.bytes:
                allowed = f"the {self._options.max_response_bytes} bytes that the setting `max_response_bytes` allows"
                raise BadAnswer(f"{self._kept.host} answered with more than {allowed}.", status=response.status)
        if not body and _is_open_ended(response):
            raise IncompleteRead(0, 1)
        return bytes(body)

    def _check(self, limits: Limits) -> None:
        """Between two pieces of a body: a slow stream ends when nobody waits for it any more."""
        _check_wanted(limits.cancel)
        if self._clock() >= limits.deadline:
            raise GatewayUnreachable(f"{self._kept.host} had not sent its whole answer in time: try again.")


def _check_wanted(cancel: Cancel) -> None:
    """Raise Cancelled where nobody waits for the answer any more."""
    if cancel.is_set():
        raise Cancelled("The call was cancelled while it waited for its answer.")


def _build_headers(options: Options) -> dict[str, str]:
    """What every request carries."""
    account = {} if options.account_id is None else {"X-Account-ID": options.account_id}
    return {
        "X-API-Key": options.api_key,
        "User-Agent": f"colabhive-mcp/{options.version}",
        "Accept-Encoding": "gzip",
        **account,
    }


def _is_open_ended(response: BaseHTTPResponse) -> bool:
    """True where only the end of the connection ends the body, so that an empty one may as well be one cut off."""
    sized = {"Content-Length", "Transfer-Encoding"} & {name.title() for name in response.headers}
    return not sized and response.status != 204


def _read_beginning(response: BaseHTTPResponse) -> bytes:
    """As much of an error's body as its words need; its status counts even where the body is cut off."""
    try:
        return response.read(_MAX_ERROR_BYTES, decode_content=True)
    except HTTPError:
        return b""
