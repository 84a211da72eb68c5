"""The REST contract of the Builder Gateway as a WSGI application.

Owns the routes, the order of the checks on a request and the shape of each answer. Must not know SQL, how an action
runs or which server carries it.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any
from wsgiref.types import WSGIApplication

from colabhive_mcp.localgateway.catalogue import MERGE_INPUT, RETRAIN_FIELDS
from colabhive_mcp.localgateway.checks import check_input
from colabhive_mcp.localgateway.faults import Faults
from colabhive_mcp.localgateway.forms import Form, describe_table, parse_form
from colabhive_mcp.localgateway.pages import Pages, parse_cursor
from colabhive_mcp.localgateway.records import Claim, Endpoint, IdempotencyError, Invocation
from colabhive_mcp.localgateway.runtime import Runtime
from colabhive_mcp.localgateway.store import Store
from colabhive_mcp.localgateway.wire import (
    GZIP_FROM,
    JSON_TYPE,
    RefusedError,
    Request,
    Response,
    build_json,
    build_refusal,
    parse_object,
    to_fault,
    to_text,
    to_wsgi,
)

PREFIX = "/api/builder/v1"
SYNC_TIMEOUT_S = (1, 300)  # what a caller may ask to wait
DEFAULT_SYNC_TIMEOUT_S = 30
MAX_LIMIT = 10_000

logger = logging.getLogger(__name__)

Handler = Callable[["Gateway", Request, str, str], Response]


def build_app(
    store: Store, runtime: Runtime, *, faults: Faults | None = None, page_size: int | None = None
) -> WSGIApplication:
    """The gateway as a WSGI application over *store* and *runtime*, which stay the caller's to start and close.

    With *faults* tests may ask for what goes wrong; with *page_size* the manifest comes in pages of that many tools
    unless the request names its own ``limit``. A call that waits for its result holds a server thread, so the server
    needs more threads than there are callers who wait.
    """
    gateway = Gateway(store, runtime, page_size=page_size)
    return to_wsgi(gateway.answer) if faults is None else faults.wrap(gateway.answer)


class Gateway:
    """The handlers of the routes; each takes the request, the caller's account and the route's argument."""

    def __init__(self, store: Store, runtime: Runtime, *, page_size: int | None = None) -> None:
        self._store = store
        self._runtime = runtime
        self._page_size = page_size
        self._pages = Pages(store)

    def answer(self, request: Request) -> Response:
        """Find the route, check the key, handle; what is refused or fails becomes an error body."""
        try:
            return self._dispatch(request)
        except RefusedError as refusal:
            return build_refusal(refusal)
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return build_json({"error": {"code": "internal", "message": "The gateway failed."}}, status=500)

    def _dispatch(self, request: Request) -> Response:
        if request.path == "/health" and request.method == "GET":
            return build_json({"status": "ok"})
        handler, argument = _find_route(request)
        return handler(self, request, self._authenticate(request), argument)

    def _authenticate(self, request: Request) -> str:
        key = request.headers.get("x-api-key", "")
        account = self._store.account_of(key) if key else None
        if account is None:
            raise RefusedError(401, "The API key is unknown or revoked." if key else "X-API-Key is missing.")
        return account

    # The manifest

    def manifest(self, request: Request, account: str, _: str) -> Response:
        """All that the key may see, or the page of it that was asked for; 304 when the caller has it."""
        page = self._pages.page(account, after=_parse_after(request), limit=_parse_limit(request) or self._page_size)
        headers = {"ETag": page.etag, "Cache-Control": "private, no-cache", "Vary": "Accept-Encoding, X-API-Key"}
        if _is_match(request.headers.get("if-none-match", ""), page.etag):
            return Response(304, b"", headers)
        headers["Content-Type"] = JSON_TYPE
        if len(page.body) > GZIP_FROM and request.accepts_gzip():
            return Response(200, page.zipped, {**headers, "Content-Encoding": "gzip"})
        return Response(200, page.body, headers)

    def manifest_of(self, _: Request, account: str, slug: str) -> Response:
        """The manifest of one tool."""
        text = self._store.manifest_text(slug, account)
        if text is None:
            raise RefusedError(404, f"There is no tool {slug!r}.")
        return Response(200, text.encode(), {"Content-Type": JSON_TYPE})

    # Invocations

    def invoke(self, request: Request, account: str, slug: str) -> Response:
        """Start an invocation, and wait for it when the caller asks to and the model is warm."""
        arguments, wait_s = _parse_invoke(parse_object(request))
        endpoint = self._invocable(slug, account)
        if faults := check_input(endpoint.input_schema, arguments, "body", "input"):
            raise RefusedError(422, faults)
        claim = _parse_claim(request, f"invoke {slug}", arguments)
        try:
            invocation = self._runtime.invoke(endpoint, account, arguments, claim=claim)
        except IdempotencyError:
            raise _build_conflict() from None
        if wait_s and invocation.model_state != "cold":
            self._runtime.wait(invocation.id, wait_s)
            invocation = self._own(invocation.id, account)
        return build_json(_to_answer(invocation))

    def invocation(self, _: Request, account: str, invocation_id: str) -> Response:
        """How far an invocation is, or what came of it."""
        return build_json(_to_report(self._own(invocation_id, account)))

    def _invocable(self, slug: str, account: str) -> Endpoint:
        endpoint = self._store.endpoint(slug, account)
        if endpoint is None:
            raise RefusedError(404, f"There is no action {slug!r}.")
        if endpoint.action is None and isinstance(endpoint.request, dict):
            where = f"{endpoint.request.get('method')} {endpoint.request.get('path')}"
            raise RefusedError(409, {"code": "not_invocable", "message": f"{slug} is called as {where}."})
        return endpoint

    def _own(self, invocation_id: str, account: str) -> Invocation:
        invocation = self._store.invocation(invocation_id, account)
        if invocation is None:
            raise RefusedError(404, f"There is no invocation {invocation_id!r}.")
        return invocation

    # Operations

    def merge(self, request: Request, account: str, _: str) -> Response:
        """Create the job of a merge and the model version that it is to fill."""
        config = parse_object(request)
        if faults := [*check_input(MERGE_INPUT, config, "body"), *self._check_sources(config, account)]:
            raise RefusedError(422, faults)
        claim = _parse_claim(request, "merge", config)
        return build_json(self._create_job(account, "merge", config["name"], config, claim), status=202)

    def retrain(self, request: Request, account: str, model: str) -> Response:
        """Create the job that trains a model on the table that is sent along, and the version that it is to fill."""
        if self._store.endpoint(model, account) is None:
            raise RefusedError(404, f"There is no model {model!r}.")
        form = parse_form(request)
        dataset = _parse_dataset(form)
        fields = _parse_fields(form)
        if faults := [*check_input(RETRAIN_FIELDS, fields, "body"), *_check_label(fields, dataset)]:
            raise RefusedError(422, faults)
        config = {**fields, "dataset": dataset}
        claim = _parse_claim(request, f"retrain {model}", config)
        job = self._create_job(account, "retrain", model, config, claim)
        return build_json({**job, "dataset": dataset}, status=202)

    def _create_job(
        self, account: str, operation: str, model: str, config: Mapping[str, Any], claim: Claim | None
    ) -> dict[str, Any]:
        try:
            return self._store.create_job(account, operation, model, config, claim=claim)
        except IdempotencyError:
            raise _build_conflict() from None

    def _check_sources(self, config: Mapping[str, Any], account: str) -> list[dict[str, Any]]:
        sources, weights = config.get("sources"), config.get("weights")
        if not isinstance(sources, list):
            return []
        faults = [
            to_fault(f"There is no model {source!r}", "body", "sources", place, kind="unknown_model")
            for place, source in enumerate(sources)
            if isinstance(source, str) and self._store.endpoint(source, account) is None
        ]
        if isinstance(weights, list) and len(weights) != len(sources):
            faults.append(to_fault("There has to be one weight a source", "body", "weights"))
        return faults


ROUTES: list[tuple[str, re.Pattern[str], Handler]] = [
    ("POST", re.compile(PREFIX + r"/actions/(.+):invoke"), Gateway.invoke),
    ("GET", re.compile(PREFIX + r"/invocations/(.+)"), Gateway.invocation),
    ("GET", re.compile(PREFIX + r"/mcp/manifest()"), Gateway.manifest),
    ("GET", re.compile(PREFIX + r"/mcp/manifest/(.+)"), Gateway.manifest_of),
    ("POST", re.compile(PREFIX + r"/training/merges()"), Gateway.merge),
    ("POST", re.compile(PREFIX + r"/training/models/(.+)/versions"), Gateway.retrain),
]


def _find_route(request: Request) -> tuple[Handler, str]:
    allowed = []
    for method, pattern, handler in ROUTES:
        if match := pattern.fullmatch(request.path):
            if method == request.method:
                return handler, match[1]
            allowed.append(method)
    if allowed:
        raise RefusedError(405, "Method Not Allowed", Allow=", ".join(allowed))
    raise RefusedError(404, "Not Found")


def _parse_limit(request: Request) -> int | None:
    text = request.query.get("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= MAX_LIMIT):
        raise RefusedError(422, [to_fault(f"Input should be an integer from 1 to {MAX_LIMIT}", "query", "limit")])
    return int(text)


def _parse_after(request: Request) -> str:
    try:
        return parse_cursor(request.query.get("cursor", ""))
    except ValueError:
        raise RefusedError(400, {"code": "bad_cursor", "message": "The cursor is none of this gateway."}) from None


def _is_match(header: str, etag: str) -> bool:
    """Weak comparison of If-None-Match (RFC 9110, 13.1.2)."""
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return "*" in tags or etag.removeprefix("W/") in tags


def _parse_invoke(body: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """The input and the seconds to wait for a result, 0 when the caller does not wait."""
    arguments, is_sync = body.get("input", {}), body.get("sync", False)
    timeout = body.get("sync_timeout_s", DEFAULT_SYNC_TIMEOUT_S)
    low, high = SYNC_TIMEOUT_S
    faults = []
    if not isinstance(arguments, dict):
        faults.append(to_fault("Input should be a valid object", "body", "input", kind="dict_type"))
    if not isinstance(is_sync, bool):
        faults.append(to_fault("Input should be a valid boolean", "body", "sync", kind="bool_type"))
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not low <= timeout <= high:
        faults.append(to_fault(f"Input should be a number from {low} to {high}", "body", "sync_timeout_s"))
    if faults:
        raise RefusedError(422, faults)
    return arguments, timeout if is_sync else 0


def _parse_claim(request: Request, what: str, content: Any) -> Claim | None:
    """The request's claim; how long the caller waits is no part of what makes two requests the same."""
    key = request.headers.get("idempotency-key")
    if not key:
        return None
    return Claim(key, hashlib.sha256(f"{what} {to_text(content)}".encode()).hexdigest())


def _parse_fields(form: Form) -> dict[str, Any]:
    """The fields of a form, which are all text: what the schema calls an integer becomes one where it is."""
    properties = RETRAIN_FIELDS["properties"]
    whole = {name for name, schema in properties.items() if schema["type"] == "integer"}
    return {
        name: int(text) if name in whole and text.isascii() and text.isdecimal() and len(text) < 10 else text
        for name, text in form.fields.items()
    }


def _parse_dataset(form: Form) -> dict[str, Any]:
    """What the table of a form holds; a 422 where there is none."""
    try:
        return describe_table(form.files["dataset"])
    except KeyError:
        raise RefusedError(422, [to_fault("Field required", "body", "dataset", kind="missing")]) from None
    except ValueError as error:
        raise RefusedError(422, [to_fault(str(error), "body", "dataset")]) from None


def _check_label(fields: Mapping[str, Any], dataset: Mapping[str, Any]) -> list[dict[str, Any]]:
    label = fields.get("label_column")
    if label in (None, *dataset["columns"]):
        return []
    return [to_fault(f"The table has no column {label!r}", "body", "label_column")]


def _build_conflict() -> RefusedError:
    message = "This Idempotency-Key came before with another request."
    return RefusedError(409, {"code": "idempotency_conflict", "message": message})


def _to_answer(invocation: Invocation) -> dict[str, Any]:
    return {
        "invocation_id": invocation.id,
        "action_slug": invocation.slug,
        "status": invocation.status,
        "model_state": invocation.model_state,
        "result": invocation.result,
        "error": invocation.error,
        "metrics": invocation.metrics or {},
        "poll_url": f"{PREFIX}/invocations/{invocation.id}",
    }


def _to_report(invocation: Invocation) -> dict[str, Any]:
    return {
        "invocation_id": invocation.id,
        "action_slug": invocation.slug,
        "status": invocation.status,
        "status_detail": invocation.status_detail,
        "model_state": invocation.model_state,
        "result": invocation.result,
        "error": invocation.error,
        "metrics": invocation.metrics or {},
        "created_at": invocation.created_at,
        "started_at": invocation.started_at,
        "finished_at": invocation.finished_at,
    }
