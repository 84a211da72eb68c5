"""One tenant's tools: the manifest, the filters and the calls behind the protocol's Toolbox interface.

It joins the rooms and decides what a call means: which tool, which copy of it, which words when it fails. It knows
neither the wire of the client nor that of the gateway.

``build_bridge(settings, record)`` makes one; ``list_tools``, ``call_tool`` and ``changes`` are the Toolbox;
``inventory()`` is what the client sees, for tables; ``close()`` lets the connections go.
"""

from __future__ import annotations

import math
import os
import time
import uuid
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from threading import Event, Lock
from typing import Any

from colabhive_mcp import __version__
from colabhive_mcp.calls import lookup
from colabhive_mcp.calls.arguments import repair_arguments
from colabhive_mcp.calls.content import Body, Form, to_error, to_result
from colabhive_mcp.calls.invocation import Invocation, Limits, Outcome
from colabhive_mcp.config import Settings
from colabhive_mcp.errors import BadAnswer, Cancelled, ClientError, GatewayError, ToolError
from colabhive_mcp.gateway.client import GatewayClient, Options
from colabhive_mcp.gateway.operations import build_request
from colabhive_mcp.manifest.adapter import shape_output
from colabhive_mcp.manifest.cache import Fetched, ManifestCache, NotModified
from colabhive_mcp.manifest.client_form import to_exact_input
from colabhive_mcp.manifest.filters import Rule, build_filters
from colabhive_mcp.manifest.inventory import Form as ListForm
from colabhive_mcp.manifest.inventory import Inventory, build_inventory
from colabhive_mcp.manifest.model import LeftOut, Manifest, Tool
from colabhive_mcp.manifest.schemas import Checker, UnusableSchema, build_checker
from colabhive_mcp.protocol.revisions import Revision
from colabhive_mcp.protocol.server import Caller, Changed, KeepAlive, Listing, Progress, ToolResult
from colabhive_mcp.telemetry.events import Record, ToolInvoked, ToolLeftOut, ToolRewritten, Warned
from colabhive_mcp.telemetry.logs import Redaction

MANY_TOOLS = 40  # the least that a known client takes (Cursor)
KEEP_ALIVE_EVERY = 15.0
REFUSED = "refused"  # of a call that ended before it became an invocation, for the log
KEPT_ANSWERS = 16  # answers of operations that were cut; the gateway has no invocation to read them on from
_NEVER = Event()

Steps = Iterator[Progress | KeepAlive | ToolResult]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a call of one tool is held to: its own schemas, and its endpoint where it is an operation."""

    schema: Any
    arguments: Checker
    output_schema: Any
    endpoint: Mapping[str, Any] | None


@lru_cache(maxsize=512)
def load_terms(tool: Tool) -> Terms:
    """The terms of *tool*. Raises UnusableSchema where no arguments could fit or be checked."""
    manifest = tool.load()
    schema = manifest.get("inputSchema")
    schema = {} if schema is None else schema
    to_exact_input(schema)  # refuses what no client is shown, so that what is not listed cannot be called
    endpoint = manifest.get("endpoint")
    return Terms(
        schema,
        build_checker(schema),
        manifest.get("outputSchema"),
        endpoint if tool.kind == "operation" and isinstance(endpoint, dict) else None,
    )


@lru_cache(maxsize=512)
def load_output_checker(tool: Tool, revision: Revision, *, exact: bool) -> Checker | None:
    """The checker of *tool*'s own output schema; None where the revision's clients were shown none."""
    schema = load_terms(tool).output_schema
    try:
        return None if shape_output(schema, revision, exact=exact) is None else build_checker(schema)
    except UnusableSchema:
        return None


class _Answers:
    """The last few answers that have no invocation at the gateway to be read on from."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Any] = OrderedDict()
        self._lock = Lock()

    def keep(self, answer: Any) -> str:
        """Keep *answer*; answers the id by which it can be read."""
        key = f"answer-{uuid.uuid4()}"
        with self._lock:
            self._answers[key] = answer
            if len(self._answers) > KEPT_ANSWERS:
                self._answers.popitem(last=False)
        return key

    def find(self, key: str) -> Outcome | None:
        """The answer as a finished call."""
        with self._lock:
            found = key in self._answers
            return Outcome("succeeded", key, self._answers[key]) if found else None


class Bridge:
    """A Toolbox over one gateway with one key, for any number of threads."""

    def __init__(
        self,
        settings: Settings,
        client: GatewayClient,
        *,
        record: Record,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._client = client
        self._record = record
        self._clock = clock
        self._rules = _build_rules(settings)
        self._form = ListForm(settings.tool_names == "exact", settings.schemas == "exact", settings.page_size)
        ttl = math.inf if settings.manifest_pin else settings.manifest_ttl
        self._cache = ManifestCache(self._fetch, ttl=ttl, record=record, clock=clock)
        self._lock = Lock()
        self._current: Inventory | None = None
        self._told: set[LeftOut] = set()
        self._answers = _Answers()
        self._redact = Redaction([settings.api_key] if settings.api_key else [])

    def inventory(self) -> Inventory:
        """What a client sees now; the manifest is fetched where there is no fresh copy. Raises BridgeError."""
        return self._view(self._cache.get())

    def list_tools(self, cursor: str | None, caller: Caller) -> Listing:
        """A page of the tools; the session is from then on held to what it was shown."""
        try:
            inventory = self.inventory()
        except GatewayError:
            if caller.session is not None:
                caller.session.listed = caller.session.listed or _NOTHING
            raise
        tools, next_cursor = inventory.read_page(caller.revision, cursor)
        encoded = inventory.encode(caller.revision)
        self._tell(ToolLeftOut, encoded.left_out)
        self._tell(ToolRewritten, encoded.rewritten)
        if caller.session is not None:
            caller.session.listed = inventory
        return Listing(tools, next_cursor, math.ceil(self._settings.manifest_ttl * 1000))

    def call_tool(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> Steps:
        """One call, from its name to its result."""
        form = Form(caller.revision, self._settings.max_result_bytes, self._saver())
        if name == lookup.NAME:
            yield from self._finish(name, self._look_up(arguments, caller), form, None)
            return
        tool = self._resolve(name, caller)
        output = load_output_checker(tool, caller.revision, exact=self._form.exact_schemas)
        yield from self._finish(tool.slug, self._invoke(tool, arguments, caller), form, output)

    def changes(self, caller: Caller) -> Iterator[Changed | KeepAlive]:
        """A mark whenever this caller's list has changed; keeps the manifest fresh meanwhile.

        A change is measured against what was listed or told of last, or else against what was there when the watch
        began; a session that has not said ``notifications/initialized`` hears of it when it has.
        """
        known, told, listed = self._cache.copy, None, None
        told = None if known is None else self._view(known)
        while not caller.cancel.is_set():
            known = self._await_copy(known)
            yield KeepAlive.MARK
            if known is None or (caller.session is not None and not caller.session.initialized):
                continue
            if caller.session is not None and caller.session.listed is not listed:
                told = listed = caller.session.listed
            current = self._view(known)
            if told is not None and not told.shows_same(current):
                current.encode(caller.revision)
                yield Changed.MARK
            told = current

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def _await_copy(self, known: Manifest | None) -> Manifest | None:
        """Another copy than *known* as soon as there is one, fetched here when due; the same one after a while."""
        wait = min(max(self._cache.until_due(), 0.05), KEEP_ALIVE_EVERY)
        copy = self._cache.wait_change(known, wait)
        if copy is not known or self._cache.until_due() > 0:
            return copy
        try:
            return self._cache.get()
        except GatewayError:
            return known  # the cache has recorded it, and tries again when it is due

    def _fetch(self, etag: str | None) -> Fetched | NotModified:
        settings = self._settings
        answer = self._client.fetch_manifest(
            etag if settings.use_etag else None,
            cancel=_NEVER,
            deadline=self._clock() + settings.connect_timeout + settings.http_timeout,
        )
        if answer is None:
            return NotModified()
        if settings.manifest_pin and answer.etag != settings.manifest_pin:
            raise BadAnswer(
                f"The pinned manifest {settings.manifest_pin} is no longer served; the gateway serves {answer.etag}: "
                "set manifest_pin to that, or unset it"
            )
        return Fetched(answer.document, answer.etag, answer.size, answer.pages)

    def _view(self, manifest: Manifest) -> Inventory:
        with self._lock:
            if self._current is None or self._current.manifest is not manifest:
                self._current = build_inventory(manifest, self._rules, self._form, extras=(lookup.DEFINITION,))
                self._hint(len(self._current.offered))
            return self._current

    def _hint(self, count: int) -> None:
        hint = LeftOut("", "many tools")
        if count > MANY_TOOLS and hint not in self._told:
            self._told.add(hint)
            self._record(
                Warned(
                    f"{count} tools are offered; some clients take at most {MANY_TOOLS} (Cursor) or 128 (VS Code): "
                    "choose some with allow_tools, deny_tools, allow_kinds or stability"
                )
            )

    def _tell(self, event: type[ToolLeftOut | ToolRewritten], entries: tuple[LeftOut, ...]) -> None:
        """One warning a tool and reason, however often it is listed."""
        for entry in entries:
            with self._lock:
                known = entry in self._told
                self._told.add(entry)
            if not known:
                self._record(event(entry.name, entry.reason))

    def _resolve(self, name: str, caller: Caller) -> Tool:
        """The tool that *name* means to this caller.

        Raises ClientError where it is not offered; nothing is sent then.
        """
        current = self.inventory()
        listed = caller.session.listed if caller.session is not None else None
        slug = (listed.find_slug(name) if listed else None) or current.find_slug(name)
        if slug is None or slug not in current.manifest.tools:
            current = self._view(self._cache.refresh_for(slug or name))
            slug = current.find_slug(slug or name)
        if slug is None:
            raise ClientError(f"Unknown tool: {name[:80]}" + _say_replacement(listed, name))
        if slug in current.refused:
            raise ClientError(f"Tool {name[:80]} is not offered: {current.refused[slug]}")
        tool = (listed.offered.get(slug) if listed else None) or current.offered[slug]
        try:
            load_terms(tool)
        except UnusableSchema as error:
            self._tell(ToolLeftOut, (LeftOut(slug, str(error)),))
            raise ClientError(f"Tool {name[:80]} is not offered: {error}") from error
        return tool

    def _invoke(
        self, tool: Tool, arguments: Mapping[str, Any], caller: Caller
    ) -> Iterator[Progress | KeepAlive | Outcome]:
        terms = load_terms(tool)
        repaired = repair_arguments(arguments, terms.schema, terms.arguments)
        if terms.endpoint is not None:
            yield from self._perform(terms.endpoint, repaired, caller)
            return
        call = self._start(tool.slug, caller)
        try:
            yield from call.run(tool.slug, repaired, idempotency_key=str(uuid.uuid4()))
        except GatewayError as error:
            if error.status == 404:
                self._cache.refresh_for(tool.slug)
            raise

    def _perform(
        self, endpoint: Mapping[str, Any], arguments: Mapping[str, Any], caller: Caller
    ) -> Iterator[Progress | KeepAlive | Outcome]:
        """An operation: one request, not polled."""
        if caller.progress:
            yield Progress(0.0, "Started")
        deadline = self._clock() + self._settings.connect_timeout + self._settings.http_timeout
        answer = self._client.perform(build_request(endpoint, arguments), cancel=caller.cancel, deadline=deadline)
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
        return Invocation(self._client, limits, cancel=caller.cancel, clock=self._clock, progress=caller.progress)

    def _finish(
        self,
        slug: str,
        steps: Iterator[Progress | KeepAlive | Outcome],
        form: Form,
        output: Checker | None,
    ) -> Steps:
        """*steps* with their outcome as a result, and the event that the call ended."""
        started = self._clock()
        sync, status, error = True, REFUSED, None
        try:
            for step in steps:
                if isinstance(step, Outcome):
                    sync, status, error = step.sync, step.status, step.error
                    yield ToolResult(self._render(step, form, output))
                elif isinstance(step, Progress):
                    yield step._replace(message=self._redact(step.message))
                else:
                    yield step
        except (ToolError, GatewayError) as failure:
            error = failure.message
            yield ToolResult(to_error(self._redact(error)))
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

    def _saver(self) -> Callable[[str, str], str] | None:
        directory = self._settings.artifact_dir
        return None if directory is None else lambda data, mime_type: _save(directory, data, mime_type)


class _Nothing:
    """What a session has seen whose list could not be had: any tools at all are news to it."""

    offered: Mapping[str, Tool] = {}

    def find_slug(self, name: str) -> None:
        """Nothing is known by any name."""

    def shows_same(self, other: Inventory) -> bool:
        """Only an empty inventory is the same."""
        return not other.offered


_NOTHING = _Nothing()


def _build_rules(settings: Settings) -> tuple[Rule, ...]:
    return build_filters(
        allow_tools=settings.allow_tools,
        deny_tools=settings.deny_tools,
        allow_kinds=settings.allow_kinds,
        deny_side_effects=settings.deny_side_effects,
        stability=settings.stability,
    )


def _say_replacement(listed: Any, name: str) -> str:
    """What took the place of a tool that this session was shown and that has left."""
    slug = listed.find_slug(name) if listed else None
    tool = listed.offered.get(slug) if slug else None
    if tool is None:
        return ""
    return f" (it left the manifest; use {tool.replaced_by} instead)" if tool.replaced_by else " (it left the manifest)"


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


def _save(directory: str, data: str, mime_type: str) -> str:
    """Write base64 *data* into a file of its own; answers the file's URI."""
    suffix = "".join(letter for letter in mime_type.rpartition("/")[2] if letter.isalnum())[:8]
    path = Path(directory).expanduser().absolute() / f"{uuid.uuid4()}.{suffix or 'bin'}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b64decode(data))
    except OSError as error:
        raise ToolError(f"The result could not be kept in artifact_dir ({error.strerror}): {directory}") from error
    return path.as_uri()


def build_bridge(settings: Settings, record: Record) -> Bridge:
    """The bridge for *settings*. Raises ConfigError where they lack a key or name what isn't there."""
    return Bridge(settings, build_client(settings, record), record=record)


def build_client(settings: Settings, record: Record) -> GatewayClient:
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
    return GatewayClient(options, record=record)
