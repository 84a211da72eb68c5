"""A message as the bytes that go out: what cannot be written as JSON becomes an error that can."""

from __future__ import annotations

from colabhive_mcp.errors import INTERNAL_ERROR
from colabhive_mcp.protocol.messages import ErrorResponse, Outgoing, RequestId, encode
from colabhive_mcp.telemetry.events import Failed, Record


def encode_answer(message: Outgoing, request_id: RequestId, record: Record) -> tuple[Outgoing, bytes]:
    """*message* to the request *request_id* and its bytes; an internal error in its place where it has none."""
    try:
        return message, encode(message)
    except (ValueError, RecursionError) as error:
        record(Failed(f"A result could not be written as JSON: {error}"))
        failure = ErrorResponse(request_id, INTERNAL_ERROR, "Internal error: the result is not JSON")
        return failure, encode(failure)
