"""The built-in endpoints as manifests: complete, honest, and exact to the last example."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from colabhive_mcp.localgateway.catalogue import ENDPOINTS, seed
from colabhive_mcp.localgateway.store import Store

from .conftest import Gateway, build_form
from .test_actions import decode_png

KINDS = {
    "echo": "tool",
    "text-stats": "specialist",
    "hash-embedding": "model",
    "sparkline": "tool",
    "tone": "generative",
    "slow-count": "tool",
    "notes-append": "tool",
    "chat": "llm",
    "training.merge": "operation",
    "training.retrain_on": "operation",
}
REQUIRED = {
    "name",
    "displayName",
    "version",
    "stability",
    "kind",
    "description",
    "inputSchema",
    "examples",
    "sideEffects",
    "costHint",
    "latencyClass",
    "annotations",
}
BUILT_IN = pytest.mark.parametrize("entry", ENDPOINTS, ids=lambda entry: entry["name"])


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every property of a schema, at any depth."""
    if isinstance(schema, dict):
        for name, value in schema.get("properties", {}).items():
            yield name, value
        for value in schema.values():
            yield from properties(value)


def test_kinds(store: Store) -> None:
    """Each built-in endpoint is of the kind that its joins make."""
    seed(store)
    assert {manifest["name"]: manifest["kind"] for manifest in store.manifests()} == KINDS


def test_seeding_again_changes_nothing(store: Store) -> None:
    """Seeding adds what is missing and leaves what the owner has changed."""
    seed(store)
    store.register_endpoint({"name": "echo", "action": "echo", "description": "mine"})
    store.remove_endpoint("tone")
    revision = store.manifest_revision()
    seed(store)
    assert {manifest["name"] for manifest in store.manifests()} == set(KINDS)
    assert store.manifest_text("echo", "local") == '{"name":"echo","description":"mine","kind":"tool"}'
    after = store.manifest_revision()
    seed(store)
    assert revision < after == store.manifest_revision()


@BUILT_IN
def test_manifest_is_complete(store: Store, entry: dict[str, Any]) -> None:
    """Every required field is there, the description is short enough, and nothing is null."""
    store.register_endpoint(entry)
    (manifest,) = store.manifests()
    assert set(manifest) >= REQUIRED
    assert 20 <= len(manifest["description"]) <= 200
    assert len(manifest["examples"]) >= 2
    assert None not in manifest.values()
    assert set(manifest["annotations"]) == {"readOnly", "idempotent", "destructive", "openWorld"}


@BUILT_IN
def test_schemas_are_valid_and_described(entry: dict[str, Any]) -> None:
    """Both schemas are valid, and say of every property what it is."""
    for schema in (entry["inputSchema"], entry["outputSchema"]):
        Draft202012Validator.check_schema(schema)
        assert [name for name, value in properties(schema) if "description" not in value and "$ref" not in value] == []


@BUILT_IN
def test_examples_conform(entry: dict[str, Any]) -> None:
    """Each example has a name and words, and fits the schemas."""
    for example in entry["examples"]:
        assert set(example) == {"name", "description", "input", "output"}
        Draft202012Validator(entry["inputSchema"]).validate(example["input"])
        Draft202012Validator(entry["outputSchema"]).validate(example["output"])


@pytest.mark.parametrize("slug", sorted(set(KINDS) - {"slow-count", "training.merge", "training.retrain_on"}))
def test_examples_are_what_comes_out(gateway: Gateway, slug: str) -> None:
    """An action given an example's input answers with the example's output."""
    entry = next(entry for entry in ENDPOINTS if entry["name"] == slug)
    for example in entry["examples"]:
        result = gateway.finished(gateway.invoke(slug, example["input"]).json["invocation_id"])["result"]
        if slug == "sparkline":  # zlib versions compress differently; the pixels are the same
            result, expected = (decode_png(base64.b64decode(r["image_b64"])) for r in (result, example["output"]))
            assert result == expected
        elif example["output"] != {"choices": [{"message": {"role": "assistant", "content": "Paris."}}]}:
            assert result == example["output"]


def test_examples_of_the_merge(gateway: Gateway) -> None:
    """The operation's examples are requests that its endpoint takes, and its answers fit its output schema."""
    entry = next(entry for entry in ENDPOINTS if entry["name"] == "training.merge")
    for example in entry["examples"]:
        reply = gateway.send(entry["endpoint"]["method"], entry["endpoint"]["path"], example["input"])
        assert reply.status == 202
        Draft202012Validator(entry["outputSchema"]).validate(reply.json)
        assert {**example["output"], "version": 0}.keys() == reply.json.keys()
        assert reply.json["version"] == example["output"]["version"]


def test_examples_of_the_retraining(gateway: Gateway) -> None:
    """Sent as a form the examples are taken, and their answers fit the output schema and tell the same table."""
    entry = next(entry for entry in ENDPOINTS if entry["name"] == "training.retrain_on")
    for example in entry["examples"]:
        given = {name: str(value) for name, value in example["input"].items()}
        path = entry["endpoint"]["path"].format(model=given.pop("model"))
        table = given.pop("dataset")
        content = base64.b64decode(table.partition("base64,")[2]) if table.startswith("data:") else table.encode()
        body, kind = build_form(given, {"dataset": content})
        reply = gateway.send(entry["endpoint"]["method"], path, body, Content_Type=kind)
        assert reply.status == 202
        Draft202012Validator(entry["outputSchema"]).validate(reply.json)
        assert reply.json.keys() == example["output"].keys()
        assert reply.json["version"] == example["output"]["version"]
        assert {**reply.json["dataset"], "name": ""} == {**example["output"]["dataset"], "name": ""}


def test_side_effects_are_honest() -> None:
    """What writes says so in its side-effects and its annotations, and everything else says that it does not."""
    writing = {entry["name"]: entry["sideEffects"] for entry in ENDPOINTS if entry["sideEffects"]}
    assert writing == {
        "notes-append": ["storage", "mutating"],
        "training.merge": ["creates_job", "creates_model_version"],
        "training.retrain_on": ["creates_job", "creates_model_version"],
    }
    assert {entry["name"] for entry in ENDPOINTS if not entry["annotations"]["readOnly"]} == set(writing)
    merge, retrain = (entry for entry in ENDPOINTS if entry["name"].startswith("training."))
    assert (merge["costHint"], merge["latencyClass"]) == ("training_quota", "minutes")
    assert (retrain["costHint"], retrain["latencyClass"]) == ("training_quota", "long")
