"""Which era a request is of, and who asks: what a request says of itself before its method is looked at.

It knows the reserved members of ``_meta``. It must not know any method but those that need no session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colabhive_mcp.errors import UNSUPPORTED_VERSION, ClientError
from colabhive_mcp.protocol.messages import Request
from colabhive_mcp.protocol.revisions import OLDEST, REVISIONS, SUPPORTED, Revision
from colabhive_mcp.protocol.toolbox import Caller, Client, Context

META = "io.modelcontextprotocol/"
VERSION_KEY = META + "protocolVersion"
CLIENT_KEY = META + "clientInfo"
CAPABILITIES_KEY = META + "clientCapabilities"
SERVER_KEY = META + "serverInfo"
SUBSCRIPTION_KEY = META + "subscriptionId"
_WITHOUT_SESSION = {"initialize", "ping"}
_NO_META: Mapping[str, Any] = {}


def identify(request: Request, context: Context) -> Caller:
    """The caller of *request*: of the modern era by its ``_meta``, of the legacy one by the session's handshake.

    Raises ClientError for a request that lacks what its era requires.
    """
    meta, session = read_meta(request), context.session
    if is_modern(request):
        revision, client = _read_modern(meta), read_client(meta.get(CLIENT_KEY))
        return _to_caller(request, context, revision)._replace(session=None, client=client)
    nearly = CLIENT_KEY in meta or CAPABILITIES_KEY in meta
    if request.method not in _WITHOUT_SESSION and (nearly or session.revision is None):
        raise ClientError(_missing_version(request.method))
    return _to_caller(request, context, session.revision or OLDEST)


def _to_caller(request: Request, context: Context, revision: Revision) -> Caller:
    session, logs = context.session, context.session.verbosity.level is not None
    wants_progress = find_progress_token(request) is not None or (logs and not revision.modern)
    return Caller(revision, session, context.cancel, wants_progress, stopping=context.stopping, trace=context.trace)


def is_modern(request: Request) -> bool:
    """Whether *request* says which version it is of; a handshake does so in its own way, whatever ``_meta`` holds."""
    shakes_hands = request.method == "initialize" and "protocolVersion" in request.params
    return VERSION_KEY in read_meta(request) and not shakes_hands


def read_meta(request: Request) -> Mapping[str, Any]:
    """The ``_meta`` of *request*; empty where it has none."""
    meta = request.params.get("_meta")
    return meta if isinstance(meta, dict) else _NO_META


def find_progress_token(request: Request) -> str | int | None:
    """The client's token, 0 and "" included; one of another type is none, and the call is served all the same."""
    token = read_meta(request).get("progressToken")
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None


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


def read_client(value: Any) -> Client:
    """Who *value*, an Implementation, says the client is."""
    members = value if isinstance(value, dict) else {}
    name, version = members.get("name"), members.get("version")
    return Client(name if isinstance(name, str) else None, version if isinstance(version, str) else None)
