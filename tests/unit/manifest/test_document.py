"""Which schemas can be used: every refusal with its reason, quickly, and without the network."""

import socket
from time import thread_time
from typing import Any

import pytest

from colabhive_mcp.manifest.dialects import UnusableSchema
from colabhive_mcp.manifest.document import load_document

DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT6 = "http://json-schema.org/draft-06/schema#"
DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"


def nest(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def nest_value(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def chain(length: int) -> dict[str, Any]:
    links = {f"d{place}": {"$ref": f"#/$defs/d{place + 1}"} for place in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "int"}, "type 'int' is no JSON Schema type (at the root)"),
        ({"properties": {"a": {"type": "int"}}}, "type 'int' is no JSON Schema type (at /properties/a)"),
        ({"type": []}, "is no JSON Schema type"),
        ({"type": ["string", "string"]}, "is no JSON Schema type"),
        ({"properties": {"a/b": {"items": 5}}}, "items 5 is no schema (at /properties/a~1b)"),
        ({"items": [{}]}, "items an array of 1 item is no schema"),
        ({"anyOf": []}, "is no list of schemas"),
        ({"anyOf": [{"minLength": -1}]}, "minLength -1 is no whole number from 0 up (at /anyOf/0)"),
        ({"minLength": 1.5}, "is no whole number"),
        ({"minLength": True}, "is no whole number"),
        ({"maximum": "5"}, "maximum '5' is no number"),
        ({"multipleOf": 0}, "is no number above 0"),
        ({"required": True}, "required true is no list of distinct strings"),
        ({"required": ["a", "a"]}, "is no list of distinct strings"),
        ({"enum": "a"}, "enum 'a' is no list"),
        ({"pattern": 5}, "pattern 5 is no string"),
        ({"uniqueItems": 1}, "is neither true nor false"),
        ({"properties": []}, "is no object of schemas"),
        ({"properties": {"a": None}}, "is no object of schemas"),
        ({"dependentRequired": {"a": "b"}}, "is no object of lists"),
        ({"$anchor": "5"}, "is no anchor name"),
        ({"$id": "a#b"}, "is no URI without a fragment"),
        ({"exclusiveMinimum": True}, "exclusiveMinimum true is no number"),
        ({"$schema": DRAFT4, "exclusiveMinimum": 3}, "is neither true nor false"),
        ({"$ref": 5}, "$ref 5 is no string"),
        ({"$ref": "http://127.0.0.1:1/a.json"}, "$ref 'http://127.0.0.1:1/a.json' is not local"),
        ({"properties": {"a": {"$ref": "https://example.com/a#/b"}}}, "is not local"),
        ({"$ref": "file:///etc/passwd"}, "is not local"),
        ({"$ref": "other.json"}, "is not local"),
        ({"$ref": "http://[x"}, "is not local"),
        ({"$ref": "#/$defs/a"}, "$ref '#/$defs/a' leads nowhere"),
        ({"$ref": "#a"}, "leads nowhere"),
        ({"$ref": "#/enum/01", "enum": [{}, {}]}, "leads nowhere"),
        ({"$ref": "#/title", "title": "x"}, "leads to no schema"),
        ({"$ref": "#/x/a", "x": {"a": {"type": "int"}}}, "type 'int'"),
        ({"$ref": "#"}, "references '#' lead back to themselves"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"not": {"$ref": "#/$defs/a"}}]}}}, "lead back to themselves"),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}, "lead back to themselves"),
        ({"$dynamicAnchor": "a", "$defs": {"b": {"$dynamicAnchor": "a"}}, "$dynamicRef": "#a"}, "more than one target"),
        ({"$schema": "https://example.com/dialect"}, "dialect 'https://example.com/dialect' is not supported"),
        ({"$schema": 5}, "dialect 5 is not supported"),
        ({"properties": {"a": {"$schema": DRAFT7}}}, "is not supported within another"),
        (nest(100), "nested deeper than 100 levels"),
        (nest(2_000), "nested deeper than 100 levels"),
        ({"default": nest_value(2_000)}, "nested deeper than 100 levels"),
        ({"x-unknown": nest_value(2_000)}, "nested deeper than 100 levels"),
        (chain(15_000), "nested deeper than 100 levels"),
        ({"properties": {f"p{n}": {} for n in range(20_000)}}, "has more than 20,000 subschemas"),
        (None, "null is no schema"),
        ([], "an array of 0 items is no schema"),
        ("string", "is no schema"),
        (5, "is no schema"),
    ],
)
def test_refused(schema: Any, reason: str) -> None:
    """A schema that no value could be checked against is refused in words, in well under a second."""
    started = thread_time()
    with pytest.raises(UnusableSchema) as refusal:
        load_document(schema)
    assert reason in str(refusal.value)
    assert len(str(refusal.value)) < 1_000
    assert thread_time() - started < 5


@pytest.mark.parametrize(
    "schema",
    [
        True,
        False,
        {},
        {"type": ["string", "null"], "x-anything": {"type": "int"}},
        {"minLength": 3.0},
        {"const": {"type": "int"}, "enum": [{"$ref": "nowhere"}], "default": {"minLength": -1}},
        {"properties": {"$ref": {"type": "string"}, "type": {"type": "string"}, "$id": True}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"b": {"$ref": "#/$defs/a"}}}}},
        {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {}}},
        {"$ref": "#x", "$defs": {"a": {"$anchor": "x"}}},
        {"$ref": "#/x-lib/a", "x-lib": {"a": {"type": "string"}}},
        {"$id": "https://example.com/r", "$ref": "https://example.com/r#/$defs/a", "$defs": {"a": {}}},
        {"$id": "https://example.com/r", "$ref": "b", "$defs": {"b": {"$id": "b", "type": "string"}}},
        {"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}},
        {"$schema": DRAFT2020 + "#", "prefixItems": [{}]},
        {"$schema": DRAFT2019, "items": [{}], "additionalItems": False, "properties": {"a": {"$recursiveRef": "#"}}},
        {"$schema": DRAFT7, "items": [{}], "definitions": {"a": {"$id": "#x"}}, "contains": {"$ref": "#x"}},
        {"$schema": DRAFT7.replace("http:", "https:"), "$ref": "#/definitions/a", "definitions": {"a": {}}},
        {"$schema": DRAFT7, "$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {"$schema": DRAFT6.removesuffix("#"), "exclusiveMinimum": 3, "const": 1},
        {"$schema": DRAFT4, "minimum": 3, "exclusiveMinimum": True, "id": "x", "properties": {"a": {"$ref": "x#"}}},
        {"$schema": DRAFT4, "if": 5, "const": 1, "$defs": 7},
        {"pattern": "(", "patternProperties": {"(?<a>x)": {}}, "format": "anything"},
        nest(99),
        chain(90),
        {"properties": {f"p{n}": {"type": "string"} for n in range(10_000)}},
    ],
)
def test_usable(schema: Any) -> None:
    """What its dialect allows is usable, and that is known in well under a second."""
    started = thread_time()
    load_document(schema)
    assert thread_time() - started < 5


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """No reference is ever fetched: not even a socket is made."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr(socket.socket, "__init__", refuse)
    for reference in ("http://127.0.0.1:9/s.json", "https://example.com/s.json", "file:///etc/hosts", "//10.0.0.1/s"):
        with pytest.raises(UnusableSchema):
            load_document({"properties": {"a": {"$ref": reference}}})


def test_meta_schemas() -> None:
    """The meta-schemas of all dialects, the largest schemas that everybody knows, are schemas here too."""
    from jsonschema import validators

    for uri in (DRAFT4, DRAFT6, DRAFT7):
        load_document(validators.validator_for({"$schema": uri}).META_SCHEMA)


@pytest.mark.parametrize("uri", [DRAFT2020, DRAFT2019, DRAFT7, DRAFT6, DRAFT4])
@pytest.mark.parametrize("value", [None, True, -1, 1.5, "x", [], [1], [{}], ["a", "a"], {}, {"a": 1}, {"a": ["b"]}])
def test_agrees_with_the_meta_schema(uri: str, value: Any) -> None:
    """Every keyword takes what the meta-schema of its dialect lets it have, but for two harmless leniencies."""
    from jsonschema import validators

    validator = validators.validator_for({"$schema": uri})
    keywords = set(validator.VALIDATORS) - {"$ref", "$dynamicRef", "$recursiveRef", "format"}
    for keyword in sorted(keywords | {"title", "description", "default"}):
        schema = {"minimum": 1, "maximum": 2, keyword: value}
        meta = validator(validator.META_SCHEMA).is_valid(schema)
        lenient = uri == DRAFT4 and (value is True or value in ([], ["a", "a"]) or keyword == "enum")
        assert meta is is_usable({"$schema": uri, **schema}) or lenient, (keyword, value)


def is_usable(schema: Any) -> bool:
    try:
        load_document(schema)
    except UnusableSchema:
        return False
    return True
