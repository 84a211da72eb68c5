"""The client of the Builder Gateway: connections, the key, time-outs and bounds.

The only module that knows ``requests``. It must not know what a tool is: it takes slugs, ids and ready requests, and
answers JSON. Nothing in it changes from call to call, so threads share one client.
"""

from __future__ import annotations

import random as randomness
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, Timeout, disable_warnings, encode_multipart_formdata
from urllib3.exceptions import ConnectTimeoutError, HTTPError, IncompleteRead, InsecureRequestWarning, ProxyError
from urllib3.response import BaseHTTPResponse

from colabhive_mcp.errors import BadAnswer, Cancelled, ConfigError, GatewayUnreachable
from colabhive_mcp.gateway import questions
from colabhive_mcp.gateway.answers import Answer, to_loose_value, to_object
from colabhive_mcp.gateway.faults import to_failure
from colabhive_mcp.gateway.operations import OperationRequest
from colabhive_mcp.gateway.options import PREFIX, Options, check_ca_bundle
from colabhive_mcp.gateway.pages import ManifestAnswer, Page, join_pages
from colabhive_mcp.gateway.problems import PASSING, to_error
from colabhive_mcp.gateway.questions import Question
from colabhive_mcp.gateway.retries import AttemptError, Cancel, Patience, Safety
from colabhive_mcp.telemetry.events import Record, Warned, discard
from colabhive_mcp.telemetry.logs import Redaction

__all__ = ["Cancel", "GatewayClient", "ManifestAnswer", "Options"]

KEPT_CONNECTIONS = 64

_PIECE = 65536
_MAX_ERROR_BYTES = 262144  # of an error's body, whose words are cut far below
_SHORTEST = 0.001  # seconds; a time-out has to be more than 0


@dataclass(frozen=True, slots=True)
class _Limits:
    """For how long and how far one question may go: *cancel*, *deadline*, and the *bytes* of its answer."""

    cancel: Cancel
    deadline: float
    bytes: int


class _Road(HTTPAdapter):
    """The way to one host: proxy, trust and *pool* are found once. *base* is what every target is put behind.

    Requests go into the pool itself, since what a session and an adapter do for each one is the same every time.
    """

    def __init__(self, sample: requests.PreparedRequest, *, proxies: Any, verify: Any, cert: Any) -> None:
        super().__init__(pool_maxsize=KEPT_CONNECTIONS)
        found: Any = self.get_connection_with_tls_context(sample, verify, proxies=proxies, cert=cert)
        self.pool: HTTPConnectionPool = found
        self.cert_verify(self.pool, sample.url, verify, cert)  # type: ignore[no-untyped-call]
        self.base = self.request_url(sample, proxies)


class GatewayClient:
    """One key's access to one gateway.

    Every call takes *cancel*, and a *deadline* on *clock* (monotonic seconds) that no repeat goes beyond. Calls raise
    Cancelled, KeyRefused (401, 403), GatewayUnreachable, BadAnswer, and GatewayError for every other refusal. *record*
    hears of what an operator should know.
    """

    def __init__(
        self,
        options: Options,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = randomness.random,
        record: Record = discard,
    ) -> None:
        self._options = options
        self._clock = clock
        self._patience = Patience(clock, random)
        self._redact = Redaction([options.api_key])
        self._record = record
        self._headers = _build_headers(options)
        self._taken = frozenset(map(str.lower, self._headers))
        self._host, self._kept, self._own = _build_roads(options)
        if not options.verify:
            disable_warnings(InsecureRequestWarning)  # said once, here, instead of with each request
            record(Warned(f"The certificate of {self._host} is not checked: the key can be read on the way."))

    def fetch_manifest(self, etag: str | None, *, cancel: Cancel, deadline: float) -> ManifestAnswer | None:
        """The whole manifest, all its pages; None while it is the one that *etag* names.

        *etag* covers the first page alone: give None for a manifest that had several.
        """

        def ask(question: Question, read: int) -> Answer:
            return self._ask(question, cancel=cancel, deadline=deadline, read=read)

        def fetch_page(cursor: str, read: int) -> Page:
            return self._to_page(ask(questions.build_manifest_question(cursor=cursor), read))

        first = ask(questions.build_manifest_question(etag=etag), 0)
        return None if first.status == 304 else join_pages(self._to_page(first), fetch_page)

    def invoke(
        self,
        slug: str,
        arguments: Mapping[str, Any],
        *,
        sync_timeout: float,
        idempotency_key: str,
        cancel: Cancel,
        deadline: float,
    ) -> dict[str, Any]:
        """Start the action *slug*, and let the gateway wait up to *sync_timeout* seconds (at most 300) for its result.

        Below one second it is only queued. A repeat carries the same *idempotency_key*, so it starts nothing twice.
        """
        question = questions.build_invoke_question(
            slug, arguments, sync_timeout=sync_timeout, idempotency_key=idempotency_key
        )
        return to_object(self._ask(question, cancel=cancel, deadline=deadline), note=self._note, redact=self._redact)

    def fetch_invocation(self, invocation_id: str, *, cancel: Cancel, deadline: float) -> dict[str, Any]:
        """The state of an invocation, as the gateway tells it."""
        question = questions.build_invocation_question(invocation_id)
        return to_object(self._ask(question, cancel=cancel, deadline=deadline), note=self._note, redact=self._redact)

    def perform(self, request: OperationRequest, *, cancel: Cancel, deadline: float) -> Any:
        """Send an operation's request: its JSON value, its text, or ``{"status": "ok"}`` for an empty answer."""
        question = questions.build_operation_question(request)
        return to_loose_value(
            self._ask(question, cancel=cancel, deadline=deadline), note=self._note, redact=self._redact
        )

    def close(self) -> None:
        """Close the kept connections. Calls in flight are not waited for."""
        self._kept.close()
        self._own.close()

    def _ask(self, question: Question, *, cancel: Cancel, deadline: float, read: int = 0) -> Answer:
        """The good answer, after as many attempts as are safe. *read*: bytes of the same document that came before."""
        limits = _Limits(cancel, deadline, self._options.max_response_bytes - read)

        def attempt(own: bool) -> Answer:
            answer = self._exchange(question, limits, own=own)
            if answer.status // 100 == 2 or (answer.status == 304 and question.conditional):
                return answer
            error = to_error(answer, redact=self._redact, now=time.time())
            raise AttemptError(error, needs=Safety.KEYED if answer.status in PASSING else None)

        return self._patience.repeat(attempt, safety=question.safety, cancel=cancel, deadline=deadline, host=self._host)

    def _exchange(self, question: Question, limits: _Limits, *, own: bool) -> Answer:
        """One request and its answer, on a kept connection or on one of its *own*."""
        body, headers = self._encode(question, own=own)
        road = self._own if own else self._kept
        try:
            with road.pool.urlopen(
                question.method,
                road.base + question.target,
                body=body,
                headers=headers,
                timeout=self._find_timeout(question, limits),
                retries=False,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
            ) as response:
                good = response.status // 100 == 2
                received = self._read(response, limits) if good else _read_beginning(response)
        except HTTPError as error:
            unsent, proxied = isinstance(error, ConnectTimeoutError), isinstance(error, ProxyError)
            raise to_failure(error, host=self._host, unsent=unsent, proxied=proxied) from error
        return Answer(response.status, response.headers, received, self._host, question.subject, len(body or b""))

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

    def _find_timeout(self, question: Question, limits: _Limits) -> Timeout:
        """The options' time-outs, longer by the question's own patience, and within the time left."""
        left = max(limits.deadline - self._clock(), _SHORTEST)
        options = self._options
        return Timeout(
            connect=min(options.connect_timeout, left), read=min(options.read_timeout + question.patience, left)
        )

    def _read(self, response: BaseHTTPResponse, limits: _Limits) -> bytes:
        """A good answer's decoded body, bounded in size and time: piece by piece, as they come."""
        body = bytearray()
        while piece := response.read1(_PIECE, decode_content=True):
            if body:
                self._check(limits)
            body += piece
            if len(body) > limits.bytes:
                allowed = f"the {self._options.max_response_bytes} bytes that the setting `max_response_bytes` allows"
                raise BadAnswer(f"{self._host} answered with more than {allowed}.", status=response.status)
        if not body and _is_open_ended(response):
            raise IncompleteRead(0, 1)
        return bytes(body)

    def _check(self, limits: _Limits) -> None:
        """Between two pieces of a body: a slow stream ends when nobody waits for it any more."""
        if limits.cancel.is_set():
            raise Cancelled("The call was cancelled while its answer was read.")
        if self._clock() >= limits.deadline:
            raise GatewayUnreachable(f"{self._host} had not sent its whole answer in time: try again.")

    def _to_page(self, answer: Answer) -> Page:
        return Page(
            to_object(answer, note=self._note, redact=self._redact),
            answer.headers.get("ETag"),
            len(answer.body),
            self._host,
        )

    def _note(self, message: str) -> None:
        self._record(Warned(message))


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


def _build_headers(options: Options) -> dict[str, str]:
    """What every request carries."""
    account = {} if options.account_id is None else {"X-Account-ID": options.account_id}
    return {
        "X-API-Key": options.api_key,
        "User-Agent": f"colabhive-mcp/{options.version}",
        "Accept-Encoding": "gzip",
        **account,
    }


def _build_roads(options: Options) -> tuple[str, _Road, _Road]:
    """The host for messages, the road of kept connections, and the one where each request makes its own."""
    sample = requests.PreparedRequest()
    try:
        sample.prepare_url(options.api_url.rstrip("/") + PREFIX, None)
    except requests.RequestException:
        raise ConfigError("The setting `api_url` is no address that can be asked.") from None
    trust = _find_trust(str(sample.url), options)
    try:
        return urlsplit(str(sample.url)).netloc, _Road(sample, **trust), _Road(sample, **trust)
    except (requests.RequestException, HTTPError, OSError):
        raise ConfigError("The proxy in the environment cannot be used: check HTTP_PROXY and HTTPS_PROXY.") from None


def _find_trust(url: str, options: Options) -> dict[str, Any]:
    """Proxies and certificates for *url*: the environment's, unless the options name certificates of their own.

    Asked for with our own bundle as the request's, since a session lets the environment's win over the session's.
    """
    with requests.Session() as session:
        found = session.merge_environment_settings(url, {}, None, options.ca_bundle or options.verify, None)
    if isinstance(found["verify"], str) and url.startswith("https:"):
        check_ca_bundle(found["verify"], source="`ca_bundle`, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE")
    return {"proxies": found["proxies"], "verify": found["verify"], "cert": found["cert"]}
