"""The store: keys, endpoints, and manifests derived from joined rows."""

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from colabhive_mcp.localgateway.manifests import RawJson
from colabhive_mcp.localgateway.records import Claim, IdempotencyError
from colabhive_mcp.localgateway.store import Store

JOB = {
    "id": "0b1f6f0e-43a8-4a4e-8f0e-6b6b0d6a9b52",
    "base_model": "bert-classification-gpu",
    "framework": "transformers",
    "dataset": "fraud-transactions-2026",
    "dataset_domain": "tabular",
    "columns": {"text_column": "description", "label_column": "is_fraud"},
}
DEEP = 100_000


def registered(store: Store, **entry: Any) -> dict[str, Any]:
    """The manifest of an endpoint after its registration."""
    store.register_endpoint({"name": "subject", **entry})
    return next(manifest for manifest in store.manifests() if manifest["displayName"] == "S")


class TestKeys:
    """Who a key speaks for."""

    def test_made_key(self, store: Store) -> None:
        """A key made at random starts with hive_, differs each time and speaks for its account."""
        one, other = store.create_key(), store.create_key(account="other")
        assert one.startswith("hive_")
        assert one != other
        assert (store.account_of(one), store.account_of(other)) == ("local", "other")

    def test_only_the_hash_is_kept(self, tmp_path: Path) -> None:
        """The database holds no key in clear."""
        with Store(tmp_path / "a.db") as store:
            key = store.create_key()
        assert key.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())

    def test_revoked_key(self, store: Store) -> None:
        """A revoked key speaks for nobody until it is created again."""
        key = store.create_key("hive_fixed")
        assert store.revoke_key(key)
        assert not store.revoke_key(key)
        assert store.account_of(key) is None
        store.create_key(key)
        assert store.account_of(key) == "local"

    def test_unknown_key(self, store: Store) -> None:
        """A key that was never made speaks for nobody."""
        assert store.account_of("hive_nobody") is None


class TestDerivation:
    """A manifest says what the joined rows say."""

    @pytest.mark.parametrize(
        ("joins", "kind"),
        [
            ({}, "tool"),
            ({"model_config": {"generates": "text"}}, "llm"),
            ({"model_config": {"generates": "image"}}, "generative"),
            ({"model_config": {"generates": "video"}}, "generative"),
            ({"model_config": {"task": "sentiment"}}, "specialist"),
            ({"model_config": {}}, "model"),
            ({"training_job": JOB}, "trained_model"),
            ({"training_job": JOB, "model_config": {"generates": "text"}}, "trained_model"),
            ({"endpoint": {"method": "GET", "path": "/x"}}, "operation"),
            ({"endpoint": None}, "operation"),
        ],
    )
    def test_kind_follows_from_the_joins(self, store: Store, joins: dict[str, Any], kind: str) -> None:
        """The kind is computed from what the endpoint is joined to."""
        assert registered(store, displayName="S", **joins)["kind"] == kind

    @pytest.mark.parametrize("kind", ["tool", "llm", "generative", "specialist", "model", "trained_model", "operation"])
    def test_a_kind_alone_makes_its_join(self, store: Store, kind: str) -> None:
        """A registration that names only a kind is joined so that this kind follows."""
        assert registered(store, displayName="S", kind=kind)["kind"] == kind

    def test_unknown_kind(self, store: Store) -> None:
        """A kind that no join makes is refused."""
        with pytest.raises(ValueError, match="banana"):
            store.register_endpoint({"name": "a", "kind": "banana"})

    def test_lineage_has_exactly_six_fields(self, store: Store) -> None:
        """The lineage of a trained model is the six fields of the job, its base and its dataset."""
        assert registered(store, displayName="S", training_job=JOB)["lineage"] == {
            "jobId": "0b1f6f0e-43a8-4a4e-8f0e-6b6b0d6a9b52",
            "baseModel": "bert-classification-gpu",
            "dataset": "fraud-transactions-2026",
            "datasetDomain": "tabular",
            "architecture": "bert-classification-gpu (transformers)",
            "columns": {"text_column": "description", "label_column": "is_fraud"},
        }

    def test_lineage_of_a_bare_job(self, store: Store) -> None:
        """What the job's rows lack is null in the lineage, which keeps its six fields."""
        lineage = registered(store, displayName="S", training_job={})["lineage"]
        assert list(lineage) == ["jobId", "baseModel", "dataset", "datasetDomain", "architecture", "columns"]
        assert set(map(type, list(lineage.values())[1:])) == {type(None)}

    def test_no_job_no_lineage(self, store: Store) -> None:
        """An endpoint without a training job has no lineage, and without a date or a heir no deprecation."""
        assert not {"lineage", "deprecation"} & set(registered(store, displayName="S", kind="llm"))

    @pytest.mark.parametrize(
        ("entry", "deprecation"),
        [
            ({"deprecated_at": "2026-03-01T00:00:00Z"}, {"deprecatedAt": "2026-03-01T00:00:00Z", "replacedBy": None}),
            ({"replaced_by": "heir"}, {"deprecatedAt": None, "replacedBy": "heir"}),
        ],
    )
    def test_deprecation(self, store: Store, entry: dict[str, Any], deprecation: dict[str, Any]) -> None:
        """Either of the two columns makes a deprecation of exactly two fields."""
        assert registered(store, displayName="S", **entry)["deprecation"] == deprecation

    def test_null_columns_are_missing_fields(self, store: Store) -> None:
        """What a registration leaves out is not in the manifest, and what it says as null is null."""
        manifest = registered(store, displayName="S", inputSchema=None, description=None)
        assert manifest == {
            "name": "subject",
            "displayName": "S",
            "kind": "tool",
            "inputSchema": None,
            "description": None,
        }

    @pytest.mark.parametrize("value", [5, 2.5, True, ["x"], {"a": 1}, "", "é漢🎉", "\ud83d", "\u2028"])
    @pytest.mark.parametrize("field", ["description", "version", "inputSchema", "tags", "annotations"])
    def test_odd_values_are_kept(self, store: Store, field: str, value: Any) -> None:
        """A value of the wrong type is served as it was given, and not judged."""
        kept = registered(store, displayName="S", **{field: value})[field]
        assert (kept, type(kept)) == (value, type(value))

    def test_raw_json_is_kept_byte_for_byte(self, store: Store) -> None:
        """A schema nested deeper than the encoder goes can be registered as text and is served as that text."""
        text = '{"a": ' * DEEP + "{}" + "}" * DEEP
        store.register_endpoint({"name": "deep", "inputSchema": RawJson(text)})
        assert text in dict(store.manifest_texts("local"))["deep"]
        endpoint = store.endpoint("deep", "local")
        assert endpoint is not None
        assert endpoint.input_schema is None

    def test_extra_lies_over_the_manifest(self, store: Store) -> None:
        """The extra object adds fields, and replaces derived ones."""
        extra = {"name": None, "kind": "banana", "vendor": [1]}
        assert registered(store, displayName="S", extra=extra) == {"displayName": "S", **extra}

    @pytest.mark.parametrize(
        ("entry", "words"),
        [
            ({}, "name"),
            ({"name": ""}, "name"),
            ({"name": "a", "input_schema": {}}, "input_schema"),
            ({"name": "a", "lineage": {"jobId": "x"}}, "lineage"),
            ({"name": "a", "visibility": "secret"}, "visibility"),
            ({"name": "a", "cold_start_s": "long"}, "cold_start_s"),
            ({"name": "a", "action": ["echo"]}, "action"),
            ({"name": "a", "model_config": {"engine": "x"}}, "engine"),
        ],
    )
    def test_refused_registrations(self, store: Store, entry: dict[str, Any], words: str) -> None:
        """What the gateway itself reads has to be right, and an unknown key is a mistake; nothing is written."""
        with pytest.raises(ValueError, match=words):
            store.register_endpoint(entry)
        assert store.manifests() == []

    def test_a_whole_manifest_can_be_registered_again(self, store: Store) -> None:
        """A manifest with null lineage and deprecation, as the contract shows it, is a registration."""
        manifest = registered(store, displayName="S", kind="llm", lineage=None, deprecation=None)
        store.register_endpoint(manifest)
        assert store.manifests() == [manifest]


class TestEndpoints:
    """Registering, replacing, removing, seeing."""

    def test_registering_again_replaces_the_whole(self, store: Store) -> None:
        """A second registration leaves nothing of the first."""
        store.register_endpoint({"name": "a", "description": "one", "endpoint": {"path": "/x"}, "training_job": JOB})
        store.register_endpoint({"name": "a", "displayName": "two"})
        assert store.manifests() == [{"name": "a", "displayName": "two", "kind": "tool"}]

    def test_removed_endpoint(self, store: Store) -> None:
        """A removed endpoint is served no longer."""
        store.register_endpoint({"name": "a", "kind": "operation"})
        assert store.remove_endpoint("a")
        assert not store.remove_endpoint("a")
        assert store.manifests() == []
        assert store.endpoint("a", "local") is None

    def test_private_endpoint(self, store: Store) -> None:
        """A private endpoint is seen by its own account only, in the list and alone."""
        store.register_endpoint({"name": "mine", "visibility": "private", "account": "one"})
        store.register_endpoint({"name": "ours", "account": "one"})
        assert [manifest["name"] for manifest in store.manifests("one")] == ["mine", "ours"]
        assert [manifest["name"] for manifest in store.manifests("two")] == ["ours"]
        assert store.endpoint("mine", "two") is None
        assert store.manifest_text("mine", "two") is None
        assert store.manifest_text("mine", "one") is not None

    def test_manifests_are_in_the_order_of_their_slugs(self, store: Store) -> None:
        """The order does not depend on the order of registration."""
        for slug in ("b", "c", "a"):
            store.register_endpoint({"name": slug})
        assert [manifest["name"] for manifest in store.manifests()] == ["a", "b", "c"]

    def test_revision_rises_with_what_another_connection_changes(self, store: Store) -> None:
        """A change by another process is noticed, and what no manifest shows is none."""
        with Store(store.path) as other:
            before = store.manifest_revision()
            other.register_endpoint({"name": "a", "action": "echo", "training_job": JOB})
            registered_at = store.manifest_revision()
            assert registered_at > before
            endpoint = other.endpoint("a", "local")
            assert endpoint is not None
            other.create_invocation(endpoint, "local", {}, model_state="warm", claim=None)
            other.create_key("hive_other")
            assert store.manifest_revision() == registered_at
            other.remove_endpoint("a")
            assert store.manifest_revision() > registered_at


class TestFile:
    """The database file itself."""

    def test_many_open_a_new_file_at_once(self, tmp_path: Path) -> None:
        """Whoever opens a file that does not exist yet finds the tables, however many do so at the same moment."""
        barrier, keys = threading.Barrier(8), []

        def open_and_write() -> None:
            barrier.wait(10)
            with Store(tmp_path / "new.db") as store:
                keys.append(store.create_key())

        threads = [threading.Thread(target=open_and_write) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        with Store(tmp_path / "new.db") as store:
            assert [store.account_of(key) for key in keys] == ["local"] * 8

    def test_newer_schema_is_refused(self, tmp_path: Path) -> None:
        """A file of a newer schema is not touched."""
        connection = sqlite3.connect(tmp_path / "new.db")
        connection.execute("PRAGMA user_version = 99")
        connection.close()
        with pytest.raises(ValueError, match="99"):
            Store(tmp_path / "new.db")

    def test_journal_and_foreign_keys(self, store: Store) -> None:
        """The file is in WAL mode, so that readers and a writer do not wait for each other, and keys are enforced."""
        assert store._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert store._connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1

    def test_closing_twice(self, tmp_path: Path) -> None:
        """Closing a closed store does nothing."""
        store = Store(tmp_path / "a.db")
        store.close()
        store.close()

    def test_threads_share_a_store(self, store: Store) -> None:
        """Threads that write through one store at once lose nothing."""
        store.register_endpoint({"name": "a", "action": "echo"})
        endpoint = store.endpoint("a", "local")
        assert endpoint is not None

        def write(name: str) -> None:
            for number in range(20):
                invocation, _ = store.create_invocation(endpoint, "local", {}, model_state="warm", claim=None)
                store.append_note("local", invocation.id, f"{name} {number}")
                store.finish(invocation.id, status="succeeded", metrics={})

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(store.notes()) == sorted(f"{name} {number}" for name in "abcd" for number in range(20))
        assert store.requeue() == []


class TestInvocations:
    """What is kept of a run."""

    def test_repeated_claim(self, store: Store) -> None:
        """A claim that came before gives the first invocation; each account has its own claims."""
        store.register_endpoint({"name": "a", "action": "echo"})
        endpoint = store.endpoint("a", "local")
        assert endpoint is not None
        for account in ("local", "other"):
            store.create_key(account=account)
        options: dict[str, Any] = {"model_state": "warm", "claim": Claim("k", "f")}
        first, is_first = store.create_invocation(endpoint, "local", {}, **options)
        again, is_first_again = store.create_invocation(endpoint, "local", {}, **options)
        foreign, is_first_elsewhere = store.create_invocation(endpoint, "other", {}, **options)
        assert (is_first, is_first_again, is_first_elsewhere) == (True, False, True)
        assert first.id == again.id != foreign.id

    def test_claim_for_another_request(self, store: Store) -> None:
        """A claim that came with another request is refused, and nothing is recorded."""
        store.register_endpoint({"name": "a", "action": "echo"})
        endpoint = store.endpoint("a", "local")
        assert endpoint is not None
        store.create_invocation(endpoint, "local", {}, model_state="warm", claim=Claim("k", "f"))
        with pytest.raises(IdempotencyError):
            store.create_invocation(endpoint, "local", {"x": 1}, model_state="warm", claim=Claim("k", "g"))
        assert len(store.requeue()) == 1

    def test_an_end_is_final(self, store: Store) -> None:
        """What has ended is neither ended again nor set running."""
        store.register_endpoint({"name": "a", "action": "echo"})
        endpoint = store.endpoint("a", "local")
        assert endpoint is not None
        invocation, _ = store.create_invocation(endpoint, "local", {}, model_state="warm", claim=None)
        store.finish(invocation.id, status="succeeded", result=[1], metrics={})
        store.finish(invocation.id, status="failed", error="late", metrics={})
        store.note_status(invocation.id, status="running", detail="late")
        kept = store.invocation(invocation.id, "local")
        assert kept is not None
        assert (kept.status, kept.status_detail, kept.result, kept.error) == ("succeeded", None, [1], None)

    def test_old_ends_are_forgotten(self, store: Store) -> None:
        """Pruning takes what ended before and leaves what has not ended."""
        store.register_endpoint({"name": "a", "action": "echo"})
        endpoint = store.endpoint("a", "local")
        assert endpoint is not None
        ended, _ = store.create_invocation(endpoint, "local", {}, model_state="warm", claim=None)
        waiting, _ = store.create_invocation(endpoint, "local", {}, model_state="warm", claim=None)
        store.finish(ended.id, status="succeeded", metrics={})
        store.prune(days=1)
        assert store.invocation(ended.id, "local") is not None
        store.prune(days=-1)
        assert store.invocation(ended.id, "local") is None
        assert store.invocation(waiting.id, "local") is not None

    def test_a_note_is_written_once_an_invocation(self, store: Store) -> None:
        """An invocation that is run again after a crash leaves one note, and odd characters do no harm."""
        store.create_key()
        assert store.append_note("local", "one", "a\ud83d") == 1
        assert store.append_note("local", "one", "a\ud83d") == 1
        assert store.append_note("local", "two", "b") == 2
        assert store.notes() == ["a?", "b"]
