"""What a call of one tool is held to, made of its own manifest and kept while the tool is in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from colabhive_mcp.gateway.endpoints import find_endpoint_fault as check_block
from colabhive_mcp.manifest.adapter import shape_output
from colabhive_mcp.manifest.client_form import find_mirrored, to_exact_input
from colabhive_mcp.manifest.document import load_document
from colabhive_mcp.manifest.inventory import find_fault, say_unusable
from colabhive_mcp.manifest.model import Tool
from colabhive_mcp.manifest.schemas import Checker, UnusableSchema, build_checker
from colabhive_mcp.protocol.revisions import Revision


@dataclass(frozen=True, slots=True)
class Terms:
    """A tool's own schemas, its endpoint where it is an operation that has one, and what its manifest says of repeats.

    *idempotent* and *deprecation* are None where it says nothing.
    """

    schema: Any
    arguments: Checker
    output_schema: Any
    endpoint: Mapping[str, Any] | None
    deprecation: Mapping[str, Any] | None
    idempotent: bool | None


@lru_cache(maxsize=512)
def load_terms(tool: Tool) -> Terms:
    """The terms of *tool*. Raises UnusableSchema where no arguments could fit or be checked."""
    fault = find_fault(tool, check_block)
    if fault is not None:
        raise UnusableSchema(fault)
    manifest = tool.load()
    schema = _load_input(manifest.get("inputSchema"))
    annotations = manifest.get("annotations")
    idempotent = annotations.get("idempotent") if isinstance(annotations, dict) else None
    return Terms(
        schema,
        build_checker(schema),
        manifest.get("outputSchema"),
        manifest.get("endpoint") if tool.kind == "operation" else None,
        manifest["deprecation"] if tool.deprecated else None,
        idempotent if isinstance(idempotent, bool) else None,
    )


def _load_input(schema: Any) -> Any:
    """The input schema with what it refers to; refuses what no client is shown: what is not listed cannot be called."""
    try:
        to_exact_input(schema)
    except UnusableSchema as error:
        raise UnusableSchema(say_unusable(error), place=error.place) from error
    return {} if schema is None else load_document(schema).root


@lru_cache(maxsize=512)
def load_headers(tool: Tool, *, exact: bool) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The arguments of *tool* that clients repeat in HTTP headers, by the schema that they were shown."""
    return tuple((each.header, each.path) for each in find_mirrored(load_terms(tool).schema, exact=exact))


@lru_cache(maxsize=512)
def load_output_checker(tool: Tool, revision: Revision, *, exact: bool) -> Checker | None:
    """The checker of *tool*'s own output schema; None where the revision's clients were shown none."""
    schema = load_terms(tool).output_schema
    try:
        return None if shape_output(schema, revision, exact=exact) is None else build_checker(schema)
    except UnusableSchema:
        return None
