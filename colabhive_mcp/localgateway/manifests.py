"""Rows to manifests, and registrations to rows.

Owns which manifest field lives in which column. A manifest says what the joined rows say and nothing else: a NULL
column is a missing field, the kind and the lineage come from the joins. Must not know SQLite.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from colabhive_mcp.localgateway.records import Row
from colabhive_mcp.localgateway.wire import to_text

FIELDS: dict[str, tuple[str, bool]] = {  # manifest field -> its column, and whether the column holds JSON
    "displayName": ("mcp_display_name", False),
    "version": ("mcp_version", False),
    "stability": ("mcp_stability", False),
    "description": ("mcp_description", False),
    "longDescription": ("mcp_long_description", False),
    "kind": ("kind", False),
    "category": ("mcp_category", False),
    "tags": ("mcp_tags", True),
    "inputSchema": ("mcp_input_schema", True),
    "outputSchema": ("mcp_output_schema", True),
    "examples": ("mcp_examples", True),
    "sideEffects": ("mcp_side_effects", True),
    "costHint": ("mcp_cost_hint", False),
    "latencyClass": ("mcp_latency_class", False),
    "annotations": ("mcp_annotations", True),
    "endpoint": ("mcp_endpoint", True),
    "links": ("mcp_links", True),
}
DERIVED = frozenset({"kind", "endpoint"})  # fields that are no column of the endpoint's own row
ROW_KEYS = {  # registration key -> column, for what is no manifest field
    "action": "action",
    "cold_start_s": "cold_start_s",
    "keep_warm_s": "keep_warm_s",
    "deprecated_at": "mcp_deprecated_at",
    "replaced_by": "mcp_replaced_by",
}
JOINED = frozenset({"lineage", "deprecation"})  # fields that a registration may name as null and never set
JOINS = frozenset({"model_config", "training_job", "endpoint", "kind"})
KEYS = frozenset({"name", "account", "visibility", "extra", *FIELDS, *ROW_KEYS, *JOINS})
JOIN_KEYS: dict[str, frozenset[str]] = {
    "model_config": frozenset({"name", "framework", "generates", "task"}),
    "training_job": frozenset({"id", "base_model", "framework", "dataset", "dataset_domain", "columns"}),
}
ROW_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {  # what the gateway itself reads has to be right
    "name": (lambda value: isinstance(value, str) and value != "", "a slug"),
    "account": (lambda value: isinstance(value, str) and value != "", "an account"),
    "visibility": (lambda value: value in ("public", "private"), "public or private"),
    "action": (lambda value: value is None or isinstance(value, str), "the name of an action"),
    "cold_start_s": (lambda value: isinstance(value, int | float) and value >= 0, "seconds"),
    "keep_warm_s": (lambda value: isinstance(value, int | float) and value >= 0, "seconds"),
    "deprecated_at": (lambda value: isinstance(value, str), "an RFC 3339 time"),
    "replaced_by": (lambda value: isinstance(value, str), "a slug"),
    "extra": (lambda value: isinstance(value, dict), "an object"),
}
KIND_JOINS: dict[str, dict[str, Any]] = {  # what an endpoint has to be joined to, to be of a kind
    "tool": {},
    "llm": {"model_config": {"generates": "text"}},
    "generative": {"model_config": {"generates": "image"}},
    "specialist": {"model_config": {"task": "unnamed"}},
    "model": {"model_config": {}},
    "trained_model": {"training_job": {}},
    "operation": {"endpoint": None},
}


class RawJson(str):
    """JSON text to be kept byte for byte, such as a schema that no encoder would write."""

    __slots__ = ()


def derive_manifest(row: Row) -> str:
    """One manifest as JSON text, from one row of the ``manifest_rows`` view."""
    fields = {"name": to_text(row["slug"])}
    for field, (column, is_json) in FIELDS.items():
        if (value := row[column]) is not None:
            fields[field] = value if is_json else _to_field(value)
    if row["training_job_id"] is not None:
        fields["lineage"] = _derive_lineage(row)
    if row["mcp_deprecated_at"] is not None or row["mcp_replaced_by"] is not None:
        fields["deprecation"] = _derive_deprecation(row)
    if row["mcp_extra"] is not None:
        fields |= {name: to_text(value) for name, value in json.loads(row["mcp_extra"]).items()}
    return _to_object(fields)


def to_columns(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The endpoint's own columns for a registration; a key that is absent becomes NULL.

    What only a manifest shows is not judged: a wrong type is kept as it is. Raises ValueError for a key that nothing
    is known of, and for a wrong value of what the gateway itself reads.
    """
    _check_entry(entry)
    columns = {"slug": entry["name"], "visibility": entry.get("visibility", "public")}
    columns |= {column: entry.get(key) for key, column in ROW_KEYS.items()}
    columns |= {
        column: _to_column(entry, field, is_json) for field, (column, is_json) in FIELDS.items() if field not in DERIVED
    }
    return columns | {"mcp_extra": to_text(entry["extra"]) if entry.get("extra") else None}


def to_joins(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the endpoint is to be joined to: any of ``model_config``, ``training_job`` and ``endpoint``.

    An entry that names none of them but a ``kind`` gets the joins from which that kind follows. Raises ValueError for
    an unknown kind or an unknown key of a join.
    """
    joins = {key: entry[key] for key in JOINS - {"kind"} if key in entry}
    for key, known in JOIN_KEYS.items():
        if unknown := sorted(set(joins.get(key) or {}) - known):
            raise ValueError(f"{key} has no {', '.join(unknown)}; it has {', '.join(sorted(known))}")
    if joins or "kind" not in entry:
        return joins
    if entry["kind"] not in KIND_JOINS:
        raise ValueError(f"no join makes the kind {entry['kind']!r}; the kinds are {', '.join(KIND_JOINS)}")
    return KIND_JOINS[entry["kind"]]


def _check_entry(entry: Mapping[str, Any]) -> None:
    if derived := sorted(key for key in JOINED if entry.get(key) is not None):
        raise ValueError(f"{', '.join(derived)}: derived from training_job, deprecated_at and replaced_by")
    if unknown := sorted(set(entry) - KEYS - JOINED):
        raise ValueError(f"unknown keys {', '.join(unknown)}: a field beyond the contract goes into 'extra'")
    for key, (fits, words) in ROW_CHECKS.items():
        if (key in entry or key == "name") and not fits(entry.get(key)):
            raise ValueError(f"{key} has to be {words}, not {entry.get(key)!r}")


def _to_column(entry: Mapping[str, Any], field: str, is_json: bool) -> Any:
    if field not in entry:
        return None
    value = entry[field]
    if isinstance(value, RawJson):
        return str(value) if is_json else value.encode()
    if is_json:
        return to_text(value)
    return value if isinstance(value, str) and _is_encodable(value) else to_text(value).encode()


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _to_field(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else to_text(value)


def _derive_lineage(row: Row) -> str:
    base, framework = row["base_model"], row["base_framework"]
    columns = row["dataset_columns"]
    return _to_object(
        {
            "jobId": to_text(row["training_job_id"]),
            "baseModel": to_text(base),
            "dataset": to_text(row["dataset"]),
            "datasetDomain": to_text(row["dataset_domain"]),
            "architecture": to_text(f"{base} ({framework})" if base and framework else base),
            "columns": "null" if columns is None else columns,
        }
    )


def _derive_deprecation(row: Row) -> str:
    return _to_object(
        {
            "deprecatedAt": _to_field(row["mcp_deprecated_at"]),
            "replacedBy": _to_field(row["mcp_replaced_by"]),
        }
    )


def _to_object(fields: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{to_text(name)}:{text}" for name, text in fields.items()) + "}"
