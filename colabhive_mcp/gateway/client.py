"""The client of the Builder Gateway: which call asks which question, and what of its answer is given back.

The only module that knows ``requests``, whose part is what it does well: proxies and certificates as the environment
and the options have them. It must not know what a tool is: it takes slugs, ids and ready requests, and answers JSON.
"""

from __future__ import annotations

import random as randomness
import ssl
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3 import disable_warnings
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from colabhive_mcp.errors import ConfigError, KeyRefused
from colabhive_mcp.gateway import questions
from colabhive_mcp.gateway.answers import Answer, parse_deep_json, to_loose_value, to_object
from colabhive_mcp.gateway.guard import guard_pool
from colabhive_mcp.gateway.operations import OperationRequest
from colabhive_mcp.gateway.options import PREFIX, Options
from colabhive_mcp.gateway.pages import ManifestAnswer, Page, join_pages
from colabhive_mcp.gateway.problems import PASSING, to_error
from colabhive_mcp.gateway.questions import Question
from colabhive_mcp.gateway.retries import AttemptError, Cancel, Patience, Safety
from colabhive_mcp.gateway.traces import read_trace
from colabhive_mcp.gateway.trust import build_context, check_bundle
from colabhive_mcp.gateway.wire import Limits, Road, Wire
from colabhive_mcp.telemetry.events import Record, Warned, discard
from colabhive_mcp.telemetry.logs import Redaction

__all__ = ["Cancel", "GatewayClient", "ManifestAnswer", "Options"]

KEPT_CONNECTIONS = 32  # as many as there are calls at a time where nobody set another number


class GatewayClient:
    """One key's access to one gateway, for any number of threads.

    Every call takes *cancel*, and a *deadline* on *clock* (monotonic seconds) that no repeat goes beyond. Calls raise
    Cancelled, KeyRefused (401, 403), GatewayUnreachable, BadAnswer, and GatewayError for every other refusal. *record*
    hears of what an operator should know, *on_refused* of a key that the gateway does not know (any more). Raises
    ConfigError where certificates or the proxy cannot be used.
    """

    def __init__(
        self,
        options: Options,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = randomness.random,
        record: Record = discard,
        on_refused: Callable[[KeyRefused], None] = lambda error: None,
    ) -> None:
        kept, own = _build_roads(options)
        self._wire = Wire(options, kept=kept, own=own, clock=clock)
        self._host = kept.host
        self._max_bytes = options.max_response_bytes
        self._patience = Patience(clock, random)
        self._redact = Redaction([options.api_key])
        self._record = record
        self._on_refused = on_refused
        self._trace: Mapping[str, str] = {}
        if not options.verify:
            disable_warnings(InsecureRequestWarning)  # said once, here, instead of with each request
            record(Warned(f"The certificate of {kept.host} is not checked: the key can be read on the way."))

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
        Raises ToolError for arguments that JSON cannot carry.
        """
        question = questions.build_invoke_question(
            slug, arguments, sync_timeout=sync_timeout, idempotency_key=idempotency_key
        )
        return self._to_object(self._ask(question, cancel=cancel, deadline=deadline))

    def fetch_invocation(self, invocation_id: str, *, cancel: Cancel, deadline: float) -> dict[str, Any]:
        """The state of an invocation, as the gateway tells it."""
        question = questions.build_invocation_question(invocation_id)
        return self._to_object(self._ask(question, cancel=cancel, deadline=deadline))

    def perform(self, request: OperationRequest, *, cancel: Cancel, deadline: float) -> Any:
        """Send an operation's request: its JSON value, its text, or ``{"status": "ok"}`` for an empty answer."""
        answer = self._ask(questions.build_operation_question(request), cancel=cancel, deadline=deadline)
        return to_loose_value(answer, note=self._note, redact=self._redact)

    def traced(self, headers: Mapping[str, str]) -> Self:
        """This client with the headers of a caller's trace (W3C Trace Context) on all that it asks."""
        trace = read_trace(headers)
        if not trace:
            return self
        view = copy(self)
        view._trace = trace
        return view

    def close(self) -> None:
        """Close the idle connections, and each other one after its call."""
        self._wire.close()

    def _ask(self, question: Question, *, cancel: Cancel, deadline: float, read: int = 0) -> Answer:
        """The good answer, after as many attempts as are safe. *read*: bytes of the same document that came before."""
        limits = Limits(cancel, deadline, self._max_bytes - read)
        if self._trace:
            question = question.with_trace(self._trace)

        def attempt(own: bool) -> Answer:
            answer = self._wire.exchange(question, limits, own=own)
            if answer.status // 100 == 2 or (answer.status == 304 and question.conditional):
                return answer
            error = to_error(answer, redact=self._redact, now=time.time())
            if isinstance(error, KeyRefused) and error.status == 401:
                self._on_refused(error)
            raise AttemptError(error, needs=Safety.KEYED if answer.status in PASSING else None)

        return self._patience.repeat(attempt, safety=question.safety, cancel=cancel, deadline=deadline, host=self._host)

    def _to_page(self, answer: Answer) -> Page:
        """One tool that is nested too deeply takes no other with it."""
        document = to_object(answer, note=self._note, redact=self._redact, parse=parse_deep_json)
        return Page(document, answer.headers.get("ETag"), len(answer.body), answer.host)

    def _to_object(self, answer: Answer) -> dict[str, Any]:
        return to_object(answer, note=self._note, redact=self._redact)

    def _note(self, message: str) -> None:
        self._record(Warned(message))


@dataclass(frozen=True, slots=True)
class _Trust:
    """What environment and options say of the way to the gateway; *context* is None where no certificate counts."""

    proxies: dict[str, str]
    verify: bool | str
    context: ssl.SSLContext | None


class _Adapter(HTTPAdapter):
    """Builds the pool to a host once; requests then go into the pool, since an adapter would look for it every time."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(pool_maxsize=KEPT_CONNECTIONS)

    def build_road(self, sample: requests.PreparedRequest, trust: _Trust) -> Road:
        """The road to the host of *sample*, whose URL is the base of all others."""
        pool: Any = self.get_connection_with_tls_context(sample, trust.verify, proxies=trust.proxies)
        guard_pool(pool)
        return Road(urlsplit(str(sample.url)).netloc, self.request_url(sample, trust.proxies), pool)

    def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
        """The pool's attributes, with one context in place of a bundle that every connection would read again."""
        host, tls = super().build_connection_pool_key_attributes(*args, **kwargs)
        return host, {"cert_reqs": tls["cert_reqs"], "ssl_context": self._context}

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        """The proxy's pools; a proxy that is asked over TLS is believed as the gateway is."""
        trust = {"proxy_ssl_context": self._context} if _is_secure(proxy) else {}
        return super().proxy_manager_for(proxy, **trust, **kwargs)


def _build_roads(options: Options) -> tuple[Road, Callable[[], Road]]:
    """The road of kept connections, and what builds the one where each request makes its own, once.

    The adapter has one pool for a host, so threads that ask for that road at once get the same one.
    """
    sample = requests.PreparedRequest()
    try:
        sample.prepare_url(options.api_url.rstrip("/") + PREFIX, None)
    except requests.RequestException:
        raise ConfigError("The setting `api_url` is no address that can be asked.") from None
    trust = _find_trust(str(sample.url), options)
    try:
        kept = _Adapter(trust.context).build_road(sample, trust)
    except (requests.RequestException, HTTPError):
        raise ConfigError("The proxy in the environment cannot be used: check HTTP_PROXY and HTTPS_PROXY.") from None
    return kept, cache(partial(_Adapter(trust.context).build_road, sample, trust))


def _find_trust(url: str, options: Options) -> _Trust:
    """Proxies and certificates for *url*: the environment's, unless the options name certificates of their own.

    Asked for with our own bundle as the request's, since a session lets the environment's win over the session's.
    """
    if options.ca_bundle is not None:
        check_bundle(options.ca_bundle)
    with requests.Session() as session:
        found = session.merge_environment_settings(url, {}, None, options.ca_bundle or options.verify, None)
    proxies, verify = dict(found["proxies"]), found["verify"]
    if not verify or not any(map(_is_secure, (url, *proxies.values()))):
        return _Trust(proxies, bool(verify), None)
    bundle = verify if isinstance(verify, str) else DEFAULT_CA_BUNDLE_PATH
    return _Trust(proxies, bundle, build_context(bundle))


def _is_secure(url: str) -> bool:
    return url.lower().startswith("https:")
