"""One tenant's tools behind the protocol's Toolbox interface.

It joins the rooms and decides what a call means, and which words it gets when it fails; what there is to call is the
offer's to say. It knows neither the wire of the client nor that of the gateway.

``build_bridge(settings, record)`` makes one; ``list_tools``, ``call_tool``, ``read_resource``, ``complete`` and
``changes`` are the Toolbox; ``offer`` is what clients see, for tables; ``close()`` lets the connections go.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from threading import Event
from typing import Any

from colabhive_mcp import __version__
from colabhive_mcp.calls import directory, lookup
from colabhive_mcp.calls.arguments import repair_arguments
from colabhive_mcp.calls.artifacts import save_artifact
from colabhive_mcp.calls.content import Body, Form, add_note, to_error, to_result
from colabhive_mcp.calls.invocation import Invocation, Limits, Outcome
from colabhive_mcp.calls.terms import Terms, load_headers, load_output_checker, load_terms
from colabhive_mcp.config import Settings
from colabhive_mcp.errors import Cancelled, ClientError, GatewayError, KeyRefused, ToolError
from colabhive_mcp.gateway.client import GatewayClient, Options
from colabhive_mcp.gateway.operations import build_request
from colabhive_mcp.gateway.uploads import build_loader
from colabhive_mcp.manifest.adapter import say_deprecation
from colabhive_mcp.manifest.cache import Fetched
from colabhive_mcp.manifest.model import Manifest, Tool
from colabhive_mcp.manifest.resources import (
    ARGUMENT,
    INDEX_URI,
    RESOURCES,
    TEMPLATE,
    TEMPLATES,
    complete_slug,
    parse_uri,
    render_index,
    render_tool,
)
from colabhive_mcp.manifest.schemas import Checker
from colabhive_mcp.offer import Offer, load_pin
from colabhive_mcp.protocol.toolbox import (
    Caller,
    Changed,
    Completion,
    KeepAlive,
    Listing,
    Progress,
    ResourceText,
    ToolResult,
)
from colabhive_mcp.telemetry.events import Record, ToolInvoked, discard
from colabhive_mcp.telemetry.logs import Redaction

OnRefused = Callable[[KeyRefused], None]
REFUSED = "refused"  # of a call that ended before it became an invocation, for the log

Steps = Iterator[Progress | KeepAlive | ToolResult]


class Bridge:
    """A Toolbox over one gateway with one key, for any number of threads."""

    resources = RESOURCES
    resource_templates = TEMPLATES

    def __init__(
        self,
        settings: Settings,
        client: GatewayClient,
        *,
        record: Record,
        clock: Callable[[], float] = time.monotonic,
        pin: Fetched | None = None,
    ) -> None:
        """*pin* is the manifest of the file that ``manifest_pin`` names."""
        self.offer = Offer(settings, client, record=record, clock=clock, pin=pin)
        self._settings = settings
        self._client = client
        self._record = record
        self._clock = clock
        self._answers = lookup.KeptAnswers()
        self._load_file = build_loader(settings.upload_dir)
        self._redact = Redaction([settings.api_key] if settings.api_key else [])

    def list_tools(self, cursor: str | None, caller: Caller) -> Listing:
        """A page of the tools; the session is from then on held to what it was shown."""
        tools, next_cursor = self.offer.list_page(cursor, caller)
        return Listing(tools, next_cursor, self.offer.ttl_ms)

    def call_tool(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> Steps:
        """One call, from its name to its result."""
        if name == lookup.NAME:
            yield from self._finish(name, self._look_up(arguments, caller), self._to_form(caller))
        elif name in directory.NAMES and self.offer.is_searched(caller):
            yield from self._direct(name, arguments, caller)
        else:
            yield from self._call(self.offer.find(name, caller), name, arguments, caller)

    def read_resource(self, uri: str, caller: Caller) -> ResourceText | None:
        """The index of the tools, or the manifest of one; a session reads the copy that its calls are held to."""
        if uri == INDEX_URI:
            return ResourceText(render_index(self.offer.view(caller), caller.revision), self.offer.ttl_ms)
        name = parse_uri(uri)
        try:
            return ResourceText(render_tool(self.offer.find(name, caller)), self.offer.ttl_ms) if name else None
        except ClientError:
            return None

    def complete(self, template: str, argument: str, value: str, caller: Caller) -> Completion | None:
        """The slugs of the tools that are offered."""
        if (template, argument) != (TEMPLATE, ARGUMENT):
            return None
        slugs = complete_slug(self.offer.view(caller), value, caller.revision)
        return Completion(slugs, len(slugs))

    def changes(self, caller: Caller) -> Iterator[Changed | KeepAlive]:
        """A mark whenever this caller's list has changed; keeps the manifest fresh meanwhile."""
        return self.offer.changes(caller)

    def header_parameters(self, name: str, caller: Caller) -> Sequence[tuple[str, tuple[str, ...]]]:
        """The arguments of the tool *name* that its listed schema has clients repeat in HTTP headers."""
        try:
            if self.offer.is_searched(caller):  # what was not listed repeats nothing
                return ()
            return load_headers(self.offer.find(name, caller), exact=self._settings.schemas == "exact")
        except (ClientError, GatewayError):
            return ()

    def prove(self) -> None:
        """Have a copy of the manifest, which only a key that the gateway accepts gets. Raises GatewayError."""
        self.offer.view(None)

    def refresh(self) -> tuple[Manifest, str | None]:
        """The manifest after a look at the gateway now, and why that failed. Raises GatewayError where none is had."""
        return self.offer.refresh()

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def _call(self, tool: Tool, name: str, arguments: Mapping[str, Any], caller: Caller) -> Steps:
        """A call of a tool of the manifest, which the caller knows by *name*."""
        terms = load_terms(tool)
        output = load_output_checker(tool, caller.revision, exact=self._settings.schemas == "exact")
        steps = self._invoke(tool, terms, arguments, caller)
        for step in self._finish(tool.slug, steps, self._to_form(caller), output):
            if isinstance(step, ToolResult) and terms.deprecation is not None:
                yield ToolResult(add_note(dict(step.body), f"{name}: {say_deprecation(terms.deprecation)}"))
            else:
                yield step

    def _direct(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> Steps:
        """A call of one of the tools that stand for all others; one by way of ``call_tool`` is the tool's own."""
        form = self._to_form(caller)
        self.offer.view(caller)  # where no manifest can be had, that is no failure of the tool
        if name != directory.CALL:
            yield from self._finish(name, self._answer(name, arguments, caller, form), form)
            return
        try:
            call = directory.parse_call(arguments)
            tool = self.offer.find(call.name, caller)
        except (ClientError, ToolError) as error:
            yield from self._finish(name, _refuse(error.message), form)
            return
        yield from self._call(tool, call.name, call.arguments, caller)

    def _answer(self, name: str, arguments: Mapping[str, Any], caller: Caller, form: Form) -> Iterator[Outcome]:
        """What one reads to find a tool. An unknown one is a mistake of the model's, in a call that is well-formed."""
        answers = {directory.SEARCH: self._search, directory.DESCRIBE: self._describe}
        try:
            yield Outcome("succeeded", None, answers[name](arguments, caller, form))
        except ClientError as error:
            raise ToolError(error.message) from error

    def _search(self, arguments: Mapping[str, Any], caller: Caller, form: Form) -> str:
        query = directory.parse_search(arguments)
        found, kinds = self.offer.search(query, caller)
        return directory.say_found(found, query, kinds=kinds)

    def _describe(self, arguments: Mapping[str, Any], caller: Caller, form: Form) -> str:
        tool, name = self.offer.describe(directory.parse_description(arguments), caller)
        exact = self._settings.schemas == "exact"
        return directory.to_description(tool, name, limit=form.limit, exact_schemas=exact)

    def _invoke(
        self, tool: Tool, terms: Terms, arguments: Mapping[str, Any], caller: Caller
    ) -> Iterator[Progress | KeepAlive | Outcome]:
        repaired = repair_arguments(arguments, terms.schema, terms.arguments)
        if terms.endpoint is not None:
            yield from self._perform(tool.slug, terms, repaired, caller)
            return
        call = self._start(tool.slug, caller)
        try:
            yield from call.run(tool.slug, repaired, idempotency_key=str(uuid.uuid4()))
        except GatewayError as error:
            if error.status == 404:
                self.offer.look_again(tool.slug)
            raise

    def _perform(
        self, slug: str, terms: Terms, arguments: Mapping[str, Any], caller: Caller
    ) -> Iterator[Progress | KeepAlive | Outcome]:
        """An operation: one request, not polled."""
        request = build_request(
            terms.endpoint,
            arguments,
            schema=terms.schema,
            idempotent=terms.idempotent,
            idempotency_key=str(uuid.uuid4()),
            load_file=self._load_file,
        )
        deadline = self._clock() + self._settings.connect_timeout + self._settings.http_timeout
        client = self._client.traced(caller.trace)
        send = partial(client.perform, request, cancel=caller.cancel, deadline=deadline)
        answer = yield from self._start(slug, caller).perform(send)
        yield Outcome("succeeded", self._answers.keep(answer), answer)

    def _look_up(self, arguments: Mapping[str, Any], caller: Caller) -> Iterator[Progress | KeepAlive | Outcome]:
        wanted = lookup.parse_lookup(arguments)
        kept = self._answers.find(wanted.invocation_id)
        steps = self._start(lookup.NAME, caller).resume(wanted.invocation_id) if kept is None else iter((kept,))
        for step in steps:
            yield replace(step, offset=wanted.offset) if isinstance(step, Outcome) else step

    def _start(self, slug: str, caller: Caller) -> Invocation:
        settings = self._settings
        longest = next((wait for glob, wait in settings.poll_max_wait_for if fnmatchcase(slug, glob)), None)
        limits = Limits(
            settings.sync_timeout, settings.poll_interval, settings.poll_max_wait if longest is None else longest
        )
        return Invocation(
            self._client.traced(caller.trace),
            limits,
            cancel=caller.cancel,
            clock=self._clock,
            progress=caller.progress,
            stopping=caller.stopping,
        )

    def _finish(
        self,
        slug: str,
        steps: Iterator[Progress | KeepAlive | Outcome],
        form: Form,
        output: Checker | None = None,
    ) -> Steps:
        """*steps* with their outcome as a result, and the event that the call ended."""
        started = self._clock()
        sync, status, error = True, REFUSED, None
        try:
            for step in steps:
                if isinstance(step, Outcome):
                    sync, status, error = step.sync, step.status, step.error and self._redact(step.error)
                    yield ToolResult(self._render(step, form, output))
                elif isinstance(step, Progress):
                    yield step._replace(message=self._redact(step.message))
                else:
                    yield step
        except (ToolError, GatewayError) as failure:
            error = self._redact(failure.message)
            yield ToolResult(to_error(error))
        except (Cancelled, GeneratorExit):  # told so, or not asked for more
            status = "cancelled" if status == REFUSED else status
            raise
        finally:
            latency_ms = round((self._clock() - started) * 1000, 1)
            self._record(ToolInvoked(slug, sync, latency_ms, status, error))

    def _render(self, outcome: Outcome, form: Form, output: Checker | None) -> Body:
        """The result as it came; words about a failure without the key, which a gateway may repeat in them."""
        if not outcome.succeeded:
            return to_error(self._redact(_say_outcome(outcome)))
        return to_result(
            outcome.result, form, output=output, invocation_id=outcome.invocation_id, offset=outcome.offset
        )

    def _to_form(self, caller: Caller) -> Form:
        """How *caller* wants results; a profile's limit counts where nobody set another."""
        settings, profile = self._settings, self.offer.find_profile(caller)
        limit, folder = settings.max_result_bytes, settings.artifact_dir
        if profile.result_bytes is not None and settings.source("max_result_bytes") == "default":
            limit = min(limit, profile.result_bytes)
        save = None if folder is None else partial(save_artifact, folder)
        structured = settings.max_result_bytes  # a client's own limit is of what its model reads
        return Form(caller.revision, limit, save, structured=structured, once=profile.structured_once)


def _refuse(words: str) -> Iterator[Outcome]:
    """The steps of a call that was none."""
    yield from ()
    raise ToolError(words)


def _say_outcome(outcome: Outcome) -> str:
    """Why there is no result, and what a model can do about it."""
    if outcome.status == "gave_up":
        why = f" ({outcome.error})" if outcome.error else ""
        return (
            f"The call is not finished yet and goes on at the gateway as invocation {outcome.invocation_id}{why}. "
            f'Call {lookup.NAME} with {{"invocation_id": "{outcome.invocation_id}"}} later to get its result, '
            "at no new cost; calling the tool again would start the work again."
        )
    where = f" (invocation {outcome.invocation_id})" if outcome.invocation_id else ""
    return f"The tool ended as {outcome.status}{where}: {outcome.error or 'the gateway gave no reason'}"


def _ignore(error: KeyRefused) -> None:
    """Of a key that is the only one, each call says for itself that it is refused."""


def build_bridge(settings: Settings, record: Record, *, on_refused: OnRefused = _ignore) -> Bridge:
    """The bridge for *settings*. Raises ConfigError where they lack a key or name what isn't there.

    *on_refused* is told where the gateway does not know the key any more.
    """
    client = build_client(settings, record, on_refused=on_refused)
    return Bridge(settings, client, record=record, pin=load_pin(settings))


def build_client(settings: Settings, record: Record, *, on_refused: OnRefused = _ignore) -> GatewayClient:
    """The gateway's client for *settings*. Raises ConfigError as `build_bridge`."""
    options = Options(
        api_url=settings.api_url,
        api_key=settings.require_key(),
        version=__version__,
        account_id=settings.account_id,
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.http_timeout,
        max_response_bytes=settings.max_response_bytes,
        ca_bundle=settings.ca_bundle,
        verify=settings.verify_tls,
    )
    return GatewayClient(options, record=record, on_refused=on_refused)


def build_probe(settings: Settings) -> Callable[[], str | None]:
    """Asks whether the gateway answers at all, which it does where it refuses who has no key."""
    client = build_client(replace(settings, api_key="-"), discard)

    def probe() -> str | None:
        deadline = time.monotonic() + settings.connect_timeout
        try:
            client.fetch_manifest(None, cancel=Event(), deadline=deadline)
        except KeyRefused:
            return None
        except GatewayError as error:
            return error.message
        return None

    return probe
