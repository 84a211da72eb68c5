"""MCP itself: each request as an iterator of messages that ends in exactly one response.

It owns the methods, the two eras and the shape of every answer. It knows no transport, thread, clock or log; the
tools are behind the Toolbox interface, and what the caller waits with comes in the context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from colabhive_mcp.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    BridgeError,
    BrokenInstallation,
    Cancelled,
    ClientError,
)
from colabhive_mcp.protocol.eras import SERVER_KEY, SUBSCRIPTION_KEY, find_progress_token, identify, read_client
from colabhive_mcp.protocol.messages import (
    Encoded,
    ErrorResponse,
    Notification,
    Request,
    Response,
    to_error,
)
from colabhive_mcp.protocol.revisions import OLDEST, SUPPORTED, Revision, negotiate
from colabhive_mcp.protocol.toolbox import (
    Caller,
    Changed,
    Client,
    Completion,
    Context,
    KeepAlive,
    Progress,
    Session,
    Toolbox,
    ToolResult,
)

LOGGER = "colabhive.calls"  # of the log messages that a client is sent
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
MAX_COMPLETIONS = 100  # in one answer, by the specification
DISCOVERY_TTL_MS = 3_600_000  # what discovery tells changes with the program, not while it runs
MOST_MET = 1000  # clients that are remembered, so that each is greeted once


Answer = Notification | KeepAlive | Response | ErrorResponse
_Steps = Iterator[Answer]
_Handler = Callable[["Server", Request, Caller], _Steps]


class _Method(NamedTuple):
    handler: _Handler
    legacy: bool = True
    modern: bool = True
    announces: bool = False  # it is of use only where notices are delivered


class Server:
    """Answers requests for one toolbox.

    *info* is an Implementation with every field that we have; *report* is told of faults of our own, which the peer
    sees only as -32603; *greet* of each client once. *announces* says that the transport delivers what is told unasked:
    only then is a change of the list promised, and ``subscriptions/listen`` offered.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        info: Mapping[str, str],
        instructions: str,
        report: Callable[[Exception], None],
        greet: Callable[[Client, Revision], None],
        announces: bool = True,
    ) -> None:
        self._toolbox = toolbox
        self._info = info
        self._instructions = instructions
        self._report = report
        self._greet = greet
        self._announces = announces
        self._met: set[tuple[Client, str]] = set()

    def answer(self, request: Request, context: Context) -> _Steps:
        """Zero or more notifications and signs of life, then one response; none once the caller has cancelled."""
        try:
            caller = identify(request, context)
        except ClientError as error:
            yield to_error(request.id, error)
        else:
            yield from self.respond(request, caller)

    def respond(self, request: Request, caller: Caller) -> _Steps:
        """The answer to a caller who is known. Behind the response of a stream that the server ends stands a notice."""
        try:
            method = self._find_method(request.method, caller)
            self._meet(caller)
            yield from method.handler(self, request, caller)
        except Cancelled:
            return
        except ClientError as error:
            yield to_error(request.id, error)
        except BridgeError as error:
            yield ErrorResponse(request.id, INTERNAL_ERROR, error.message)
        except ImportError as error:  # of a package that is loaded when it is first needed
            broken = BrokenInstallation(error)
            self._report(broken)
            yield ErrorResponse(request.id, INTERNAL_ERROR, broken.message)
        except Exception as error:  # the one boundary where a fault of ours becomes an answer
            self._report(error)
            yield ErrorResponse(request.id, INTERNAL_ERROR, "Internal error: see the server's log")

    def notice(self, notification: Notification, session: Session) -> None:
        """Take note of a notification. Cancellations are the transport's, which knows what is in flight."""
        if notification.method == "notifications/initialized":
            session.initialized = session.revision is not None

    def notices(self, context: Context) -> Iterator[Notification | KeepAlive]:
        """What a legacy session is told unasked once it said ``notifications/initialized``: that its list changed."""
        session = context.session
        caller = Caller(session.revision or OLDEST, session, context.cancel, stopping=context.stopping)
        for mark in self._toolbox.changes(caller):
            yield Notification("notifications/tools/list_changed") if mark is Changed.MARK else KeepAlive.MARK

    def initialize(self, request: Request, caller: Caller) -> _Steps:
        """The legacy handshake."""
        session = caller.session
        assert session is not None
        version = request.params.get("protocolVersion")
        if not isinstance(version, str):
            raise ClientError('"protocolVersion" must be a string such as "2025-11-25"')
        session.revision = revision = negotiate(version)
        session.client = read_client(request.params.get("clientInfo"))
        session.initialized, session.listed = False, None
        result = {
            "protocolVersion": revision.name,
            "capabilities": self._capabilities(revision),
            "serverInfo": self._shape_info(revision),
            "instructions": self._instructions,
        }
        try:
            yield Response(request.id, result)
        finally:  # after the answer, and even where the caller asks for nothing behind it
            self._greet(session.client, revision)

    def server_discover(self, request: Request, caller: Caller) -> _Steps:
        """What a modern client can learn before it asks for anything."""
        yield self._complete(
            request,
            caller,
            {
                "supportedVersions": list(SUPPORTED),
                "capabilities": self._capabilities(caller.revision),
                "instructions": self._instructions,
            },
            ttl_ms=DISCOVERY_TTL_MS,
            scope="public",
        )

    def ping(self, request: Request, caller: Caller) -> _Steps:
        """A sign of life, legacy only."""
        yield self._complete(request, caller, {})

    def logging_set_level(self, request: Request, caller: Caller) -> _Steps:
        """From which level on this client is told of the stages of its calls, as log messages."""
        level = request.params.get("level")
        if level not in LOG_LEVELS:
            raise ClientError(f'"level" must be one of {", ".join(LOG_LEVELS)}')
        assert caller.session is not None
        caller.session.verbosity.level = level
        yield self._complete(request, caller, {})

    def tools_list(self, request: Request, caller: Caller) -> _Steps:
        """The tools, as one page or by cursor."""
        listing = self._toolbox.list_tools(_read_cursor(request), caller)
        rest = self._finish(caller, ttl_ms=listing.ttl_ms, scope="private")
        if listing.next_cursor is not None:
            rest["nextCursor"] = listing.next_cursor
        yield Response(request.id, Encoded("tools", listing.tools, rest))

    def tools_call(self, request: Request, caller: Caller) -> _Steps:
        """One call. A tool that fails is a result with ``isError``; only what is no call at all is an error."""
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str):
            raise ClientError('"name" must be a string')
        if arguments is not None and not isinstance(arguments, dict):
            raise ClientError('"arguments" must be an object')
        token = find_progress_token(request)
        for step in self._toolbox.call_tool(name, arguments or {}, caller):
            match step:
                case ToolResult(body):
                    yield from _to_log(caller, name, *_LAST_WORDS[bool(body.get("isError"))])
                    yield Response(request.id, _join(body, self._finish(caller)))
                case Progress():
                    yield from _to_log(caller, name, "info", step.message)
                    yield KeepAlive.MARK if token is None else _to_progress(step, token, caller.revision)
                case _:
                    yield KeepAlive.MARK

    def subscriptions_listen(self, request: Request, caller: Caller) -> _Steps:
        """A stream of the changes that were asked for and are told, until the client or the server ends it.

        Subscriptions: "The server MUST send notifications/subscriptions/acknowledged as the first message"; each
        message carries the id of the request. Ended by the server, there is a result first, then the notice that
        Cancellation requires: "A server MUST send notifications/cancelled referencing a subscriptions/listen request".
        """
        honoured = _read_subscriptions(request)
        meta = {SUBSCRIPTION_KEY: request.id}
        yield Notification("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": honoured})
        for mark in self._toolbox.changes(caller):
            wanted = mark is Changed.MARK and honoured
            yield Notification("notifications/tools/list_changed", {"_meta": meta}) if wanted else KeepAlive.MARK
        if not caller.cancel.is_set():
            yield Response(request.id, _join({"_meta": meta}, self._finish(caller)))
            yield Notification("notifications/cancelled", {"_meta": meta, "requestId": request.id})

    def resources_list(self, request: Request, caller: Caller) -> _Steps:
        """The resources that are always there."""
        yield self._list(request, caller, "resources", self._toolbox.resources)

    def resources_templates_list(self, request: Request, caller: Caller) -> _Steps:
        """How the others are named."""
        yield self._list(request, caller, "resourceTemplates", self._toolbox.resource_templates)

    def prompts_list(self, request: Request, caller: Caller) -> _Steps:
        """None: clients ask all the same, and some take an error for a broken server."""
        yield self._list(request, caller, "prompts", ())

    def resources_read(self, request: Request, caller: Caller) -> _Steps:
        """What one resource holds."""
        uri = request.params.get("uri")
        if not isinstance(uri, str):
            raise ClientError('"uri" must be a string')
        found = self._toolbox.read_resource(uri, caller)
        if found is None:
            code = caller.revision.not_found
            raise ClientError(f"Resource not found: {uri[:200]}", code=code, data={"uri": uri})
        contents = [{"uri": uri, "mimeType": "application/json", "text": found.text}]
        yield self._complete(request, caller, {"contents": contents}, ttl_ms=found.ttl_ms, scope="private")

    def completion_complete(self, request: Request, caller: Caller) -> _Steps:
        """The values that an argument of a resource template may have.

        Completion: "Servers return an array of completion values ranked by relevance, with: Maximum 100 items".
        """
        template, argument, value = _read_completion(request)
        found = Completion((), 0) if template is None else self._toolbox.complete(template, argument, value, caller)
        if found is None:
            raise ClientError(f"Nothing is completed for {argument[:80]} of {str(template)[:200]}")
        values = list(found.values[:MAX_COMPLETIONS])
        completion = {"values": values, "total": found.total, "hasMore": found.total > len(values)}
        yield self._complete(request, caller, {"completion": completion})

    def _list(self, request: Request, caller: Caller, key: str, entries: Sequence[Mapping[str, Any]]) -> Response:
        """A list on one page, the same for everybody."""
        if _read_cursor(request):
            raise ClientError("The cursor is not one of this list, which has one page")
        hidden = set() if caller.revision.titles else {"title"}
        shaped = [{name: value for name, value in entry.items() if name not in hidden} for entry in entries]
        return self._complete(request, caller, {key: shaped}, ttl_ms=DISCOVERY_TTL_MS, scope="public")

    def _complete(
        self,
        request: Request,
        caller: Caller,
        body: Mapping[str, Any],
        *,
        ttl_ms: int | None = None,
        scope: str | None = None,
    ) -> Response:
        return Response(request.id, {**body, **self._finish(caller, ttl_ms=ttl_ms, scope=scope)})

    def _finish(self, caller: Caller, *, ttl_ms: int | None = None, scope: str | None = None) -> dict[str, Any]:
        """The members that a modern result has beside its own: who answered, that it is whole, how long it keeps."""
        if not caller.revision.modern:
            return {}
        hints = {} if ttl_ms is None else {"ttlMs": ttl_ms, "cacheScope": scope}
        return {"resultType": "complete", **hints, "_meta": {SERVER_KEY: self._shape_info(caller.revision)}}

    def _find_method(self, name: str, caller: Caller) -> _Method:
        method = _METHODS.get(name)
        unserved = method is not None and method.announces and not self._announces
        if method is None or unserved or not (method.modern if caller.revision.modern else method.legacy):
            raise ClientError(f"Method not found: {name[:80]}", code=METHOD_NOT_FOUND)
        return method

    def _meet(self, caller: Caller) -> None:
        """Greet a modern client, which has no handshake, with the first request that it is known by."""
        known = (caller.client, caller.revision.name)
        if caller.revision.modern and known not in self._met:
            if len(self._met) >= MOST_MET:
                self._met.clear()
            self._met.add(known)
            self._greet(caller.client, caller.revision)

    def _capabilities(self, revision: Revision) -> dict[str, Any]:
        """Only what works: where notices are not delivered none are promised."""
        return {
            "tools": {"listChanged": True} if self._announces else {},
            "resources": {},
            **({"completions": {}} if revision.completions else {}),
            **({"prompts": {}} if revision.modern else {"logging": {}}),  # there, a method that is answered is promised
        }

    def _shape_info(self, revision: Revision) -> dict[str, str]:
        hidden = (set() if revision.titles else {"title"}) | (
            set() if revision.websites else {"websiteUrl", "description"}
        )
        return {key: value for key, value in self._info.items() if key not in hidden}


_METHODS: dict[str, _Method] = {
    "initialize": _Method(Server.initialize, modern=False),
    "ping": _Method(Server.ping, modern=False),
    "logging/setLevel": _Method(Server.logging_set_level, modern=False),
    "server/discover": _Method(Server.server_discover, legacy=False),
    "tools/list": _Method(Server.tools_list),
    "tools/call": _Method(Server.tools_call),
    "resources/list": _Method(Server.resources_list),
    "resources/templates/list": _Method(Server.resources_templates_list),
    "resources/read": _Method(Server.resources_read),
    "prompts/list": _Method(Server.prompts_list),
    "completion/complete": _Method(Server.completion_complete),
    "subscriptions/listen": _Method(Server.subscriptions_listen, legacy=False, announces=True),
}
_LAST_WORDS = {False: ("info", "Finished"), True: ("error", "Failed")}


def _join(body: Mapping[str, Any], finish: Mapping[str, Any]) -> dict[str, Any]:
    """A result with what its era adds; each may have a ``_meta`` of its own."""
    meta = {**body.get("_meta", {}), **finish.get("_meta", {})}
    return {**body, **finish, **({"_meta": meta} if meta else {})}


def _read_cursor(request: Request) -> str | None:
    cursor = request.params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise ClientError('"cursor" must be a string', code=INVALID_PARAMS)
    return cursor


def _read_completion(request: Request) -> tuple[str | None, str, str]:
    """The template, None for a prompt, the argument and the value so far of a request to complete one."""
    reference, argument = request.params.get("ref"), request.params.get("argument")
    members = argument if isinstance(argument, dict) else {}
    name, value = members.get("name"), members.get("value")
    if not isinstance(reference, dict) or not isinstance(name, str) or not isinstance(value, str):
        raise ClientError('"ref" must be an object, and "argument" one with the strings "name" and "value"')
    if reference.get("type") == "ref/prompt" and isinstance(reference.get("name"), str):
        return None, name, value  # there are no prompts, and clients ask all the same
    template = reference.get("uri")
    if reference.get("type") != "ref/resource" or not isinstance(template, str):
        raise ClientError('"ref" must be such as {"type": "ref/resource", "uri": …}, of a resource template')
    return template, name, value


def _to_progress(step: Progress, token: str | int, revision: Revision) -> Notification:
    params: dict[str, Any] = {"progressToken": token, "progress": step.progress}
    if step.total is not None:
        params["total"] = step.total
    if revision.progress_message:
        params["message"] = step.message
    return Notification("notifications/progress", params)


def _to_log(caller: Caller, tool: str, level: str, words: str) -> Iterator[Notification]:
    """A stage of a call as a log message, for a legacy client that asked for messages of that level."""
    wanted = caller.session.verbosity.level if caller.session is not None else None
    if wanted is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(wanted):
        data = {"tool": tool, "message": words}
        yield Notification("notifications/message", {"level": level, "logger": LOGGER, "data": data})


def _read_subscriptions(request: Request) -> dict[str, bool]:
    """The kinds of changes that are asked for and can be told."""
    wanted = request.params.get("notifications")
    if not isinstance(wanted, dict):
        raise ClientError('"notifications" must be an object such as {"toolsListChanged": true}')
    return {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
