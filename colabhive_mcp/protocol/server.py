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
    UNSUPPORTED_VERSION,
    BridgeError,
    BrokenInstallation,
    Cancelled,
    ClientError,
)
from colabhive_mcp.protocol.messages import (
    Encoded,
    ErrorResponse,
    Notification,
    Request,
    Response,
    to_error,
)
from colabhive_mcp.protocol.revisions import OLDEST, REVISIONS, SUPPORTED, Revision, negotiate
from colabhive_mcp.protocol.toolbox import (
    Caller,
    Changed,
    Client,
    Context,
    KeepAlive,
    Progress,
    Session,
    Toolbox,
    ToolResult,
)

META = "io.modelcontextprotocol/"
VERSION_KEY = META + "protocolVersion"
CLIENT_KEY = META + "clientInfo"
CAPABILITIES_KEY = META + "clientCapabilities"
SERVER_KEY = META + "serverInfo"
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
MAX_COMPLETIONS = 100  # in one answer, by the specification
DISCOVERY_TTL_MS = 3_600_000  # what discovery tells changes with the program, not while it runs


Answer = Notification | KeepAlive | Response | ErrorResponse
_Steps = Iterator[Answer]
_Handler = Callable[["Server", Request, Caller], _Steps]


class _Method(NamedTuple):
    handler: _Handler
    legacy: bool = True
    modern: bool = True


class Server:
    """Answers requests for one toolbox.

    *info* is an Implementation with every field that we have; *report* is told of faults of our own, which the peer
    sees only as -32603; *greet* of each client once.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        info: Mapping[str, str],
        instructions: str,
        report: Callable[[Exception], None],
        greet: Callable[[Client, Revision], None],
    ) -> None:
        self._toolbox = toolbox
        self._info = info
        self._instructions = instructions
        self._report = report
        self._greet = greet

    def answer(self, request: Request, context: Context) -> _Steps:
        """Zero or more notifications and signs of life, then one response; none once the caller has cancelled."""
        try:
            caller = _identify(request, context)
            method = _find_method(request.method, caller)
            if caller.revision.modern and not context.session.greeted:
                context.session.greeted = True
                self._greet(caller.client, caller.revision)
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
        caller = Caller(session.revision or OLDEST, session, context.cancel)
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
        session.client = _read_client(request.params.get("clientInfo"))
        session.initialized, session.listed, session.greeted = False, None, True
        result = {
            "protocolVersion": revision.name,
            "capabilities": _capabilities(revision),
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
                "capabilities": _capabilities(caller.revision),
                "instructions": self._instructions,
            },
            ttl_ms=DISCOVERY_TTL_MS,
            scope="public",
        )

    def ping(self, request: Request, caller: Caller) -> _Steps:
        """A sign of life, legacy only."""
        yield self._complete(request, caller, {})

    def logging_set_level(self, request: Request, caller: Caller) -> _Steps:
        """Accepted; the log goes to stderr at the operator's level."""
        if request.params.get("level") not in LOG_LEVELS:
            raise ClientError(f'"level" must be one of {", ".join(LOG_LEVELS)}')
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
        token = _progress_token(request)
        for step in self._toolbox.call_tool(name, arguments or {}, caller):
            match step:
                case ToolResult(body):
                    yield Response(request.id, _join(body, self._finish(caller)))
                case Progress() if token is not None:
                    yield _to_progress(step, token, caller.revision)
                case _:
                    yield KeepAlive.MARK

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
        found = self._toolbox.complete(template, argument, value, caller)
        if found is None:
            raise ClientError(f"Nothing is completed for {argument[:80]} of {template[:200]}")
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
}
_WITHOUT_SESSION = {"initialize", "ping"}


def _identify(request: Request, context: Context) -> Caller:
    """Which era a request is of: the modern one by its ``_meta``, the legacy one by the session's handshake."""
    meta = request.params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    token = meta.get("progressToken")
    wants_progress = _is_token(token)
    if request.method == "initialize":
        return Caller(OLDEST, context.session, context.cancel)
    if VERSION_KEY in meta:
        return Caller(_read_modern(meta), None, context.cancel, wants_progress, _read_client(meta.get(CLIENT_KEY)))
    revision = context.session.revision
    if CLIENT_KEY in meta or CAPABILITIES_KEY in meta or (revision is None and request.method not in _WITHOUT_SESSION):
        raise ClientError(_missing_version(request.method))
    return Caller(revision or OLDEST, context.session, context.cancel, wants_progress)


def _missing_version(method: str) -> str:
    return (
        f'{method}: begin with "initialize" (up to 2025-11-25), or send "{VERSION_KEY}" and "{CAPABILITIES_KEY}" '
        'in the "_meta" of each request (2026-07-28)'
    )


def _read_modern(meta: Mapping[str, Any]) -> Revision:
    """The revision of a modern request, its required fields checked.

    Basic protocol, ``_meta``: "A request missing any required field is malformed; the server MUST reject it with
    JSON-RPC error code -32602". The version comes first, since of a version that we don't have the other rules are
    not known.
    """
    version, capabilities, client = meta[VERSION_KEY], meta.get(CAPABILITIES_KEY), meta.get(CLIENT_KEY)
    if not isinstance(version, str):
        raise ClientError(f'"{VERSION_KEY}" must be a string')
    revision = REVISIONS.get(version)
    if revision is None or not revision.modern:
        raise ClientError(
            f"Unsupported protocol version: {version[:40]}"
            + ('; it begins with "initialize"' if revision is not None else ""),
            code=UNSUPPORTED_VERSION,
            data={"supported": list(SUPPORTED), "requested": version},
        )
    if not _are_capabilities(capabilities):
        raise ClientError(f'"{CAPABILITIES_KEY}" is required, an object of objects; {{}} means none')
    if client is not None and not _is_implementation(client):
        raise ClientError(f'"{CLIENT_KEY}" must be an object with "name" and "version"')
    return revision


def _are_capabilities(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(member, dict) for member in value.values())


def _is_implementation(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str) and isinstance(value.get("version"), str)


def _find_method(name: str, caller: Caller) -> _Method:
    method = _METHODS.get(name)
    if method is None or not (method.modern if caller.revision.modern else method.legacy):
        raise ClientError(f"Method not found: {name[:80]}", code=METHOD_NOT_FOUND)
    return method


def _capabilities(revision: Revision) -> dict[str, Any]:
    """Only what works: a revision whose notices need a stream that is not offered is promised none."""
    tools = {"listChanged": True} if revision.list_changed else {}
    return {"tools": tools, "resources": {}, **({"completions": {}} if revision.completions else {})}


def _join(body: Mapping[str, Any], finish: Mapping[str, Any]) -> dict[str, Any]:
    """A result with what its era adds; each may have a ``_meta`` of its own."""
    meta = {**body.get("_meta", {}), **finish.get("_meta", {})}
    return {**body, **finish, **({"_meta": meta} if meta else {})}


def _read_client(value: Any) -> Client:
    members = value if isinstance(value, dict) else {}
    name, version = members.get("name"), members.get("version")
    return Client(name if isinstance(name, str) else None, version if isinstance(version, str) else None)


def _read_cursor(request: Request) -> str | None:
    cursor = request.params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise ClientError('"cursor" must be a string', code=INVALID_PARAMS)
    return cursor


def _read_completion(request: Request) -> tuple[str, str, str]:
    """The template, the argument and the value so far of a request to complete one."""
    reference, argument = request.params.get("ref"), request.params.get("argument")
    members = argument if isinstance(argument, dict) else {}
    name, value = members.get("name"), members.get("value")
    if not isinstance(reference, dict) or not isinstance(name, str) or not isinstance(value, str):
        raise ClientError('"ref" must be an object, and "argument" one with the strings "name" and "value"')
    template = reference.get("uri")
    if reference.get("type") != "ref/resource" or not isinstance(template, str):
        raise ClientError(
            '"ref" must be of a resource template, {"type": "ref/resource", "uri": …}: there are no prompts'
        )
    return template, name, value


def _is_token(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _progress_token(request: Request) -> str | int | None:
    """The client's token, 0 and "" included; one of another type is none, and the call is served all the same."""
    meta = request.params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if _is_token(token) else None


def _to_progress(step: Progress, token: str | int, revision: Revision) -> Notification:
    params: dict[str, Any] = {"progressToken": token, "progress": step.progress}
    if step.total is not None:
        params["total"] = step.total
    if revision.progress_message:
        params["message"] = step.message
    return Notification("notifications/progress", params)
