"""What is asked of the gateway: the path, headers and body of each kind of request, and what makes it safe to repeat.

Pure: it must not know how a question is sent. Whatever a slug or an id holds stays one segment of the path.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from colabhive_mcp.errors import BadAnswer, ToolError
from colabhive_mcp.gateway.operations import OperationRequest
from colabhive_mcp.gateway.retries import Safety

MIN_SYNC, MAX_SYNC = 1, 300  # seconds that the gateway can be asked to wait for a result

_ETAG = re.compile(r"[\x20-\x7e\x80-\xff]+")

Part = tuple[str, str | tuple[str, bytes, str]]

_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_JSON = {"Accept": "application/json"}
_JSON_TYPE = {"Content-Type": "application/json"}
_ANY = {"Accept": "application/json, */*;q=0.5"}


@dataclass(frozen=True, slots=True)
class Question:
    """One request to a *target* (path and query) below the prefix. *subject* says in words what is asked for.

    *patience* is the seconds that the gateway was asked to take before it answers; *conditional*: 304 is an answer.
    The body is *body*, or multipart of *parts*: names with a text, or with a file's name, content and type.
    *idempotent*: asked twice it does what it does once.
    """

    method: str
    target: str
    subject: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    parts: tuple[Part, ...] = field(default=(), repr=False)
    patience: float = 0.0
    conditional: bool = False
    idempotent: bool = False

    @property
    def safety(self) -> Safety:
        """What makes it safe to repeat."""
        if self.method == "GET":
            return Safety.READING
        return Safety.KEYED if self.idempotent else Safety.UNSENT

    def with_trace(self, trace: Mapping[str, str]) -> Question:
        """The same question with the headers of a trace, which no argument takes the place of."""
        own = {name: value for name, value in self.headers.items() if name.lower() not in trace}
        return replace(self, headers=own | dict(trace))


def build_manifest_question(*, etag: str | None = None, cursor: str | None = None) -> Question:
    """For a page of the manifest: the first, or the one that *cursor* names.

    *etag* makes the request conditional, unless it is one that no gateway can have sent.
    """
    query = "" if cursor is None else f"?cursor={_quote(cursor)}"
    etag = etag if etag is not None and _ETAG.fullmatch(etag) else None
    condition = _JSON if etag is None else {**_JSON, "If-None-Match": etag}
    subject = "a manifest below the setting `api_url`"
    return Question("GET", f"/mcp/manifest{query}", subject, condition, conditional=etag is not None)


def build_invoke_question(
    slug: str, arguments: Mapping[str, Any], *, sync_timeout: float, idempotency_key: str
) -> Question:
    """To start the action *slug*. Below one second of *sync_timeout* it is only queued. Raises ToolError."""
    waits = min(math.ceil(sync_timeout), MAX_SYNC) if sync_timeout >= MIN_SYNC else 0
    order = {"sync": True, "sync_timeout_s": waits} if waits else {"sync": False}
    return Question(
        "POST",
        f"/actions/{_quote(slug)}:invoke",
        f"the tool {slug!r}",
        {**_JSON, **_JSON_TYPE, "Idempotency-Key": idempotency_key},
        _encode({"input": arguments, **order}),
        patience=waits,
        idempotent=True,  # by its key
    )


def build_invocation_question(invocation_id: str) -> Question:
    """For the state of an invocation. Raises BadAnswer for an id that no path can carry."""
    if invocation_id in {"", ".", ".."}:  # percent-encoding does not keep these from naming another path
        raise BadAnswer(f"The gateway gave an invocation the id {invocation_id!r}, which cannot be asked for.")
    return Question("GET", f"/invocations/{_quote(invocation_id)}", f"the invocation {invocation_id!r}", _JSON)


def build_operation_question(request: OperationRequest) -> Question:
    """For what an operation's request means. Raises ToolError."""
    query = urlencode(request.query, quote_via=quote)
    accepts = {} if "accept" in map(str.lower, request.headers) else _ANY
    return Question(
        request.method,
        f"{request.path}?{query}" if query else request.path,
        "what this operation asks for",
        {**accepts, **request.headers, **(_JSON_TYPE if request.has_body else {})},
        _encode(request.json) if request.has_body else None,
        (*request.fields, *((part.name, (part.filename, part.content, part.media_type)) for part in request.files)),
        idempotent=request.idempotent,
    )


def _quote(text: str) -> str:
    return quote(text, safe="", errors="replace")


def _encode(value: Any) -> bytes:
    try:
        return _ENCODER.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError("The arguments hold a value that JSON cannot carry.") from error
