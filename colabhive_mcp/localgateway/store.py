"""SQLite: the source of truth of the local gateway.

Owns the database file, its schema and every statement that reads or writes it; no other module imports sqlite3. Any
thread may call any method, and several processes may share one file. Must not know HTTP or how an action runs.
"""

import hashlib
import json
import secrets
import sqlite3
import threading
import uuid
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from colabhive_mcp.localgateway.manifests import derive_manifest, to_columns, to_joins
from colabhive_mcp.localgateway.records import (
    Claim,
    Endpoint,
    IdempotencyError,
    Invocation,
    to_endpoint,
    to_invocation,
)
from colabhive_mcp.localgateway.wire import to_text

SCHEMA_VERSION = 1
ACCOUNT = "local"
BUSY_TIMEOUT_S = 10.0


class Store:
    """The gateway's database. Usable as a context manager; closes itself when it is no longer referred to."""

    def __init__(self, path: str | Path) -> None:
        """Open the file at *path*, creating it and its tables when they do not exist yet.

        Raises ValueError when the file was written by a newer schema.
        """
        self.path = path
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        self._finalizer = weakref.finalize(self, self._connection.close)
        self._connection.row_factory = sqlite3.Row
        self._prepare()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; calling it again does nothing."""
        with self._lock:
            self._finalizer()

    # Keys and accounts

    def create_key(self, key: str | None = None, *, account: str = ACCOUNT) -> str:
        """Let *key* (made at random when None) speak for *account* and return it; only its hash is kept.

        A key that was revoked is valid again.
        """
        key = key or f"hive_{secrets.token_urlsafe(24)}"
        with self._transaction():
            self._ensure_account(account)
            self._execute(
                "INSERT INTO keys (sha256, account_id, created_at) VALUES (?, ?, ?)"
                " ON CONFLICT (sha256) DO UPDATE SET account_id = excluded.account_id, revoked_at = NULL",
                (_digest(key), account, _now()),
            )
        return key

    def revoke_key(self, key: str) -> bool:
        """Refuse *key* from the next request on; False when it was not valid to begin with."""
        changed = self._execute(
            "UPDATE keys SET revoked_at = ? WHERE sha256 = ? AND revoked_at IS NULL", (_now(), _digest(key))
        )
        return changed.rowcount == 1

    def account_of(self, key: str) -> str | None:
        """The account that *key* speaks for; None when it is unknown or revoked."""
        row = self._one("SELECT account_id FROM keys WHERE sha256 = ? AND revoked_at IS NULL", (_digest(key),))
        return row["account_id"] if row else None

    # Endpoints and manifests

    def register_endpoint(self, entry: Mapping[str, Any]) -> None:
        """Add the endpoint ``entry["name"]``, or replace it whole.

        *entry* takes the fields of a manifest, ``action`` (what runs it), ``visibility`` (``public``, or ``private`` to
        ``account``), ``cold_start_s``, ``keep_warm_s``, ``deprecated_at`` and ``replaced_by``. What it is joined to
        makes its kind: ``model_config`` (``name``, ``framework``, ``generates``, ``task``), ``training_job`` (``id``,
        ``base_model``, ``framework``, ``dataset``, ``dataset_domain``, ``columns``) or an ``endpoint`` block; ``kind``
        alone makes a fitting join. ``extra`` is an object laid over the derived manifest. Values are not judged, so
        that a bad manifest can be served too. Raises ValueError for an unknown key, and for a wrong value of what the
        gateway itself reads, such as the name.
        """
        columns = to_columns(entry)
        joins = to_joins(entry)
        account = entry.get("account", ACCOUNT)
        with self._transaction():
            self._ensure_account(account)
            columns |= {
                "account_id": account,
                "model_config": self._join_model(columns["slug"], joins.get("model_config")),
                "training_job_id": self._join_job(account, columns["slug"], joins.get("training_job")),
            }
            endpoint_id = self._upsert_endpoint(columns)
            self._execute("DELETE FROM operations WHERE endpoint_id = ?", (endpoint_id,))
            if "endpoint" in joins:
                block = None if joins["endpoint"] is None else to_text(joins["endpoint"])
                self._execute("INSERT INTO operations VALUES (?, ?)", (endpoint_id, block))

    def remove_endpoint(self, slug: str) -> bool:
        """Stop serving *slug*; False when there was no such endpoint."""
        return self._execute("DELETE FROM inference_endpoints WHERE slug = ?", (slug,)).rowcount == 1

    def has_endpoint(self, slug: str) -> bool:
        """Whether *slug* is registered, for whichever account."""
        return self._one("SELECT 1 FROM inference_endpoints WHERE slug = ?", (slug,)) is not None

    def endpoint(self, slug: str, account: str) -> Endpoint | None:
        """The endpoint *slug*, when *account* may see it."""
        row = self._visible(slug, account)
        return to_endpoint(row) if row else None

    def manifest_texts(self, account: str, *, after: str = "", limit: int = -1) -> list[tuple[str, str]]:
        """What *account* may see as (slug, manifest as JSON text), by slug, from the one after *after*."""
        rows = self._all(
            "SELECT * FROM manifest_rows WHERE slug > :after AND (visibility = 'public' OR account_id = :account)"
            " ORDER BY slug LIMIT :limit",
            {"after": after, "account": account, "limit": limit},
        )
        return [(row["slug"], derive_manifest(row)) for row in rows]

    def manifests(self, account: str = ACCOUNT) -> list[dict[str, Any]]:
        """What *account* may see, as manifests, by slug."""
        return [json.loads(text) for _, text in self.manifest_texts(account)]

    def manifest_text(self, slug: str, account: str) -> str | None:
        """One manifest as JSON text, when *account* may see it."""
        row = self._visible(slug, account)
        return derive_manifest(row) if row else None

    def manifest_revision(self) -> int:
        """A number that rises with every change that a manifest could show, made by whichever process."""
        return int(self._one_row("SELECT value FROM manifest_revision")["value"])

    # Invocations

    def create_invocation(
        self, endpoint: Endpoint, account: str, arguments: dict[str, Any], *, model_state: str, claim: Claim | None
    ) -> tuple[Invocation, bool]:
        """Record a queued invocation; with a *claim* that came before, the first one again and False.

        Raises IdempotencyError when the claim came before with another request.
        """
        invocation_id = str(uuid.uuid4())
        row = {
            "id": invocation_id,
            "account_id": account,
            "slug": endpoint.slug,
            "action": endpoint.action,
            "input": to_text(arguments),
            "status": "queued",
            "model_state": model_state,
            "cold_start_s": endpoint.cold_start_s,
            "keep_warm_s": endpoint.keep_warm_s,
            "created_at": _now(),
        }
        with self._transaction():
            first = self._claim(account, claim, invocation_id)
            if first == invocation_id:
                self._insert("invocations", row)
            return self._invocation(first), first == invocation_id

    def invocation(self, invocation_id: str, account: str) -> Invocation | None:
        """The invocation, when it is *account*'s own."""
        row = self._one("SELECT * FROM invocations WHERE id = ? AND account_id = ?", (invocation_id, account))
        return to_invocation(row) if row else None

    def requeue(self) -> list[Invocation]:
        """Every invocation that has not ended, oldest first, each queued again from its beginning."""
        with self._transaction():
            self._execute(
                "UPDATE invocations SET status = 'queued', status_detail = NULL, started_at = NULL"
                " WHERE finished_at IS NULL"
            )
            rows = self._all("SELECT * FROM invocations WHERE finished_at IS NULL ORDER BY created_at, rowid")
        return [to_invocation(row) for row in rows]

    def note_status(self, invocation_id: str, *, status: str, detail: str | None) -> None:
        """Say how far an unfinished invocation has come; the first ``running`` is its start."""
        self._execute(
            "UPDATE invocations SET status = :status, status_detail = :detail,"
            " started_at = CASE WHEN :status = 'running' THEN coalesce(started_at, :now) ELSE started_at END"
            " WHERE id = :id AND finished_at IS NULL",
            {"id": invocation_id, "status": status, "detail": detail, "now": _now()},
        )

    def finish(self, invocation_id: str, *, status: str, result: Any = None, error: Any = None, metrics: Any) -> None:
        """Record how an invocation ended; one that has ended stays as it is."""
        self._execute(
            "UPDATE invocations SET status = ?, status_detail = NULL, result = ?, error = ?, metrics = ?,"
            " finished_at = ? WHERE id = ? AND finished_at IS NULL",
            (status, to_text(result), to_text(error), to_text(metrics), _now(), invocation_id),
        )

    def prune(self, *, days: float = 7.0) -> None:
        """Forget invocations that ended more than *days* ago, and the keys that repeat them."""
        before = _format(datetime.now(UTC) - timedelta(days=days))
        with self._transaction():
            self._execute("DELETE FROM invocations WHERE finished_at < ?", (before,))
            self._execute("DELETE FROM idempotency WHERE created_at < ?", (before,))

    # What the actions and operations write

    def append_note(self, account: str, invocation_id: str, line: str) -> int:
        """Append *line* to the account's notes, once an invocation; returns how many notes there are."""
        line = line.encode("utf-8", "replace").decode()
        with self._transaction():
            self._execute(
                "INSERT OR IGNORE INTO notes (account_id, invocation_id, line, created_at) VALUES (?, ?, ?, ?)",
                (account, invocation_id, line, _now()),
            )
            return int(self._one_row("SELECT count(*) AS n FROM notes WHERE account_id = ?", (account,))["n"])

    def notes(self, account: str = ACCOUNT) -> list[str]:
        """The account's notes, oldest first."""
        return [row["line"] for row in self._all("SELECT line FROM notes WHERE account_id = ? ORDER BY id", (account,))]

    def create_job(
        self, account: str, operation: str, model: str, config: Mapping[str, Any], *, claim: Claim | None
    ) -> dict[str, Any]:
        """Queue a job that fills the next version of *model*; the first job again for a repeated *claim*.

        Raises IdempotencyError when the claim came before with another request.
        """
        job_id = str(uuid.uuid4())
        with self._transaction():
            first = self._claim(account, claim, job_id)
            if first == job_id:
                self._insert_job(account, job_id, operation, to_text(config))
                self._insert_version(account, job_id, model)
            row = self._one_row(
                "SELECT t.id AS job_id, t.operation, t.status, v.model, v.id AS model_version_id, v.version,"
                " t.created_at FROM training_jobs AS t JOIN model_versions AS v ON v.training_job_id = t.id"
                " WHERE t.id = ?",
                (first,),
            )
            return dict(row)

    # The connection

    def _prepare(self) -> None:
        self._execute("PRAGMA foreign_keys = ON")
        self._execute("PRAGMA synchronous = NORMAL")
        version = self._one_row("PRAGMA user_version")["user_version"]
        if version > SCHEMA_VERSION:
            raise ValueError(f"the database has schema {version}, this gateway knows {SCHEMA_VERSION}")
        if version < SCHEMA_VERSION:
            self._execute("PRAGMA journal_mode = WAL")
            script = resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
            self._connection.executescript(script)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            # IMMEDIATE takes the write lock before the first read, so that no other process writes between the two.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        with self._lock:
            return self._connection.execute(sql, values)

    def _one(self, sql: str, values: Any = ()) -> sqlite3.Row | None:
        with self._lock:
            row: sqlite3.Row | None = self._connection.execute(sql, values).fetchone()
            return row

    def _one_row(self, sql: str, values: Any = ()) -> sqlite3.Row:
        row = self._one(sql, values)
        assert row is not None
        return row

    def _all(self, sql: str, values: Any = ()) -> list[sqlite3.Row]:
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def _insert(self, table: str, row: Mapping[str, Any], *, conflict: str = "") -> None:
        names = ", ".join(row)
        places = ", ".join(f":{name}" for name in row)
        self._execute(f"INSERT INTO {table} ({names}) VALUES ({places}) {conflict}", row)  # noqa: S608

    # Steps inside a transaction

    def _ensure_account(self, account: str) -> None:
        self._execute("INSERT OR IGNORE INTO accounts VALUES (?, ?)", (account, _now()))

    def _upsert_endpoint(self, columns: dict[str, Any]) -> int:
        updates = ", ".join(f"{name} = excluded.{name}" for name in columns)
        self._insert("inference_endpoints", columns, conflict=f"ON CONFLICT (slug) DO UPDATE SET {updates}")
        return int(self._one_row("SELECT id FROM inference_endpoints WHERE slug = ?", (columns["slug"],))["id"])

    def _join_model(self, slug: str, model: Mapping[str, Any] | None) -> str | None:
        if model is None:
            return None
        row = {"name": slug, "framework": None, "generates": None, "task": None, **model}
        updates = ", ".join(f"{name} = excluded.{name}" for name in row if name != "name")
        self._insert("model_configs", row, conflict=f"ON CONFLICT (name) DO UPDATE SET {updates}")
        return str(row["name"])

    def _join_job(self, account: str, slug: str, job: Mapping[str, Any] | None) -> str | None:
        if job is None:
            return None
        base = self._join_base(job)
        row = {
            "id": job.get("id") or str(uuid.uuid5(uuid.NAMESPACE_URL, f"{account}/{slug}")),
            "account_id": account,
            "operation": "train",
            "status": "completed",
            "base_model": base,
            "dataset_id": self._join_dataset(account, job),
            "columns": to_text(job["columns"]) if "columns" in job else None,
            "created_at": _now(),
        }
        changed = ("base_model", "dataset_id", "columns")
        updates = ", ".join(f"{name} = excluded.{name}" for name in changed)
        self._insert("training_jobs", row, conflict=f"ON CONFLICT (id) DO UPDATE SET {updates}")
        return str(row["id"])

    def _join_base(self, job: Mapping[str, Any]) -> str | None:
        if (name := job.get("base_model")) is None:
            return None
        self._execute(
            "INSERT INTO model_configs (name, framework) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET framework = coalesce(excluded.framework, framework)",
            (name, job.get("framework")),
        )
        return str(name)

    def _join_dataset(self, account: str, job: Mapping[str, Any]) -> str | None:
        if (name := job.get("dataset")) is None:
            return None
        self._execute(
            "INSERT INTO datasets VALUES (?, ?, ?, ?)"
            " ON CONFLICT (account_id, name) DO UPDATE SET domain = coalesce(excluded.domain, domain)",
            (str(uuid.uuid4()), account, name, job.get("dataset_domain")),
        )
        row = self._one_row("SELECT id FROM datasets WHERE account_id = ? AND name = ?", (account, name))
        return str(row["id"])

    def _claim(self, account: str, claim: Claim | None, resource_id: str) -> str:
        """The id of what the claim was first made for: *resource_id* itself when it is the first."""
        if claim is None:
            return resource_id
        self._execute(
            "INSERT OR IGNORE INTO idempotency VALUES (?, ?, ?, ?, ?)",
            (account, claim.key, claim.fingerprint, resource_id, _now()),
        )
        row = self._one_row("SELECT * FROM idempotency WHERE account_id = ? AND key = ?", (account, claim.key))
        if row["fingerprint"] != claim.fingerprint:
            raise IdempotencyError(claim.key)
        return str(row["resource_id"])

    def _visible(self, slug: str, account: str) -> sqlite3.Row | None:
        return self._one(
            "SELECT * FROM manifest_rows WHERE slug = ? AND (visibility = 'public' OR account_id = ?)", (slug, account)
        )

    def _invocation(self, invocation_id: str) -> Invocation:
        return to_invocation(self._one_row("SELECT * FROM invocations WHERE id = ?", (invocation_id,)))

    def _insert_job(self, account: str, job_id: str, operation: str, config: str) -> None:
        job = {"id": job_id, "account_id": account, "operation": operation, "status": "queued", "config": config}
        self._insert("training_jobs", {**job, "created_at": _now()})

    def _insert_version(self, account: str, job_id: str, model: str) -> None:
        last = self._one_row(
            "SELECT coalesce(max(version), 0) AS n FROM model_versions WHERE account_id = ? AND model = ?",
            (account, model),
        )
        self._insert(
            "model_versions",
            {
                "id": str(uuid.uuid4()),
                "account_id": account,
                "model": model,
                "version": last["n"] + 1,
                "training_job_id": job_id,
                "status": "pending",
                "created_at": _now(),
            },
        )


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> str:
    return _format(datetime.now(UTC))


def _format(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
