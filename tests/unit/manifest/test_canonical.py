"""The published schema, and the definitions that tools share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from colabhive_mcp.manifest.adapter import Shape, build_definition
from colabhive_mcp.manifest.canonical import SHARED, find_shared, load_canonical
from colabhive_mcp.manifest.checked_form import LONGEST_TEXT
from colabhive_mcp.manifest.client_form import to_exact_input, to_input_form, to_output_form
from colabhive_mcp.manifest.dialects import UnusableSchema
from colabhive_mcp.manifest.document import load_document
from colabhive_mcp.manifest.model import build_tool
from colabhive_mcp.manifest.patterns import is_portable
from colabhive_mcp.manifest.schemas import build_checker
from colabhive_mcp.protocol.revisions import REVISIONS

from .samples import GOOD, OPERATION, SEED

# The reference of the documentation: field, and whether it is required.
REFERENCE = {
    **dict.fromkeys(("name", "displayName", "version", "stability", "kind", "description", "inputSchema"), True),
    **dict.fromkeys(("sideEffects", "costHint", "latencyClass", "annotations"), True),
    **dict.fromkeys(("category", "tags", "longDescription", "outputSchema", "examples"), False),
    **dict.fromkeys(("lineage", "deprecation", "links", "endpoint"), False),
}
MESSAGE = {"role": "user", "content": "Hello"}


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in the schema."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(each)


def test_is_a_schema_of_2020_12() -> None:
    """The file fits the meta-schema that it names, has no name of a host, and resolves within itself."""
    schema = dict(load_canonical())
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert schema["$id"] == "mcp-manifest.schema.json"
    load_document(schema)


def test_has_every_field_of_the_reference() -> None:
    """Each field of the reference is there, required or not as it says, and described in words."""
    schema = load_canonical()
    assert schema["properties"].keys() == REFERENCE.keys()
    assert set(schema["required"]) == {name for name, required in REFERENCE.items() if required}
    for part in (schema, *schema["$defs"].values()):
        for name, each in part.get("properties", {}).items():
            assert each.get("description") or schema["$defs"][each["$ref"].removeprefix("#/$defs/")]["description"], (
                name
            )


def test_patterns_are_portable_and_tried_on_short_texts_only() -> None:
    """Every pattern compiles everywhere, and stands beside a limit that keeps it from running long."""
    for part in parts(load_canonical()):
        if isinstance(part.get("pattern"), str):
            assert is_portable(part["pattern"])
            assert part.get("maxLength", 0 if "type" in part else LONGEST_TEXT) in range(1, LONGEST_TEXT + 1)


@pytest.mark.parametrize("manifest", [SEED, GOOD, OPERATION], ids=lambda manifest: manifest["name"])
def test_any_validator_accepts_good_manifests(manifest: Any) -> None:
    """The file alone, with a library that knows nothing of ours, accepts what we accept."""
    Draft202012Validator(dict(load_canonical())).validate(manifest)


def test_shared_definitions_are_self_contained() -> None:
    """They refer to nothing but each other."""
    for name in SHARED:
        for part in parts(find_shared(name)):
            assert part.get("$ref", "#/$defs/Usage").removeprefix("#/$defs/") in SHARED


@pytest.mark.parametrize("uri", [None, "http://json-schema.org/draft-07/schema#"])
def test_schemas_may_refer_to_shared_definitions(uri: str | None) -> None:
    """What a schema refers to and does not define is checked as the contract has it, in every dialect."""
    schema = {**({} if uri is None else {"$schema": uri}), "properties": {"m": {"$ref": "#/$defs/ChatMessage"}}}
    checker = build_checker(schema)
    assert checker.accepts({"m": MESSAGE})
    assert [each.path for each in checker.findings({"m": {"role": "nobody"}})] == ["m.role"]


def test_shared_definitions_reach_clients() -> None:
    """A list never refers to what it does not have: shared definitions are inlined, or bundled in the exact form."""
    inlined = to_input_form(SEED["inputSchema"]).schema
    assert inlined["properties"]["messages"]["items"]["properties"]["role"]["enum"]
    assert "$ref" not in str(inlined)
    assert "$ref" not in str(to_output_form(SEED["outputSchema"]))
    assert to_exact_input(SEED["inputSchema"])["$defs"] == {"ChatMessage": find_shared("ChatMessage")}
    exact = build_definition(build_tool(SEED), "seed", Shape(REVISIONS["2025-11-25"], exact_schemas=True))
    for name in SHARED:
        assert f'"{name}":{{'.encode() in exact.body


def test_own_definitions_come_first() -> None:
    """A definition of the schema's own is not replaced, and nothing is bundled that nobody refers to."""
    own = {"ChatMessage": {"type": "string"}}
    document = load_document({"properties": {"m": {"$ref": "#/$defs/ChatMessage"}}, "$defs": own})
    assert document.root["$defs"] == own
    bundled = load_document({"properties": {"u": {"$ref": "#/$defs/Usage"}}, "$defs": own}).root["$defs"]
    assert bundled == {**own, "Usage": find_shared("Usage")}


def test_the_schema_is_never_changed() -> None:
    """Bundling makes a copy: the manifest stays as the gateway has it."""
    schema = {"properties": {"m": {"$ref": "#/$defs/Choice"}}}
    load_document(schema)
    assert schema == {"properties": {"m": {"$ref": "#/$defs/Choice"}}}


@pytest.mark.parametrize(
    "reference", ["#/$defs/chatmessage", "#/$defs/Example", "#/ChatMessage", "ChatMessage", "#Usage"]
)
def test_nothing_else_is_shared(reference: str) -> None:
    """Only the three names under ``$defs`` are known; all else has to be defined."""
    with pytest.raises(UnusableSchema, match=r"leads nowhere|is not local"):
        load_document({"properties": {"m": {"$ref": reference}}})
