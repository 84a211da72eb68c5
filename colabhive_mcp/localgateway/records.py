"""What the store hands out: endpoints, invocations and claims as frozen values.

Owns how a row becomes one of them. Must not know SQL.
"""

import json
from dataclasses import dataclass
from typing import Any, Protocol


class Row(Protocol):
    """A database row: values by column name."""

    def __getitem__(self, column: str, /) -> Any: ...


class IdempotencyError(Exception):
    """An ``Idempotency-Key`` that came before with another request."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What invoking needs to know of an endpoint; *request* is an operation's endpoint block."""

    slug: str
    action: str | None
    input_schema: Any
    cold_start_s: float
    keep_warm_s: float
    request: Any


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of an action; times are RFC 3339 in UTC, durations are seconds."""

    id: str
    account: str
    slug: str
    action: str | None
    input: dict[str, Any]
    status: str
    status_detail: str | None
    model_state: str
    cold_start_s: float
    keep_warm_s: float
    result: Any
    error: Any
    metrics: Any
    created_at: str
    started_at: str | None
    finished_at: str | None


@dataclass(frozen=True, slots=True)
class Claim:
    """An ``Idempotency-Key`` and the fingerprint of the request that it came with."""

    key: str
    fingerprint: str


def to_endpoint(row: Row) -> Endpoint:
    """The endpoint of a row of ``manifest_rows``."""
    return Endpoint(
        slug=row["slug"],
        action=row["action"],
        input_schema=_decode(row["mcp_input_schema"]),
        cold_start_s=row["cold_start_s"] or 0.0,
        keep_warm_s=row["keep_warm_s"] or 0.0,
        request=_decode(row["mcp_endpoint"]),
    )


def to_invocation(row: Row) -> Invocation:
    """The invocation of a row of ``invocations``."""
    return Invocation(
        id=row["id"],
        account=row["account_id"],
        slug=row["slug"],
        action=row["action"],
        input=_decode(row["input"]),
        status=row["status"],
        status_detail=row["status_detail"],
        model_state=row["model_state"],
        cold_start_s=row["cold_start_s"],
        keep_warm_s=row["keep_warm_s"],
        result=_decode(row["result"]),
        error=_decode(row["error"]),
        metrics=_decode(row["metrics"]),
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
    )


def _decode(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except RecursionError:  # a schema nested beyond what can be checked is served all the same
        return None
