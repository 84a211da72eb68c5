"""Values against schemas: what is found, how it is said, in every dialect, and within bounds."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from time import thread_time
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from colabhive_mcp.manifest.schemas import Finding, UnusableSchema, build_checker
from tests.unit.manifest.generated import DRAFT7, DRAFT2020, VALUES, schemas

DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT6 = "http://json-schema.org/draft-06/schema#"
DRAFT2019 = "https://json-schema.org/draft/2019-09/schema"
NODE = {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"items": {"$ref": "#"}}}}
SHORT = 1_200


def find(schema: Any, value: Any, **options: Any) -> list[tuple[str, str]]:
    return [(each.path, each.message) for each in build_checker(schema).findings(value, **options)]


@pytest.mark.parametrize(
    ("schema", "value", "path", "words"),
    [
        ({"type": "integer"}, "5", "", "must be an integer, not \"5\""),
        ({"type": "integer"}, True, "", "must be an integer, not true"),
        ({"type": "integer"}, 3.5, "", "must be an integer, not 3.5"),
        ({"type": "boolean"}, 1, "", "must be true or false"),
        ({"type": ["string", "null"]}, 5, "", "must be a string or null"),
        ({"type": "object"}, [1], "", "must be an object, not an array of 1 item"),
        ({"enum": ["a", "b"]}, "c", "", 'must be one of "a" or "b", not "c"'),
        ({"enum": [1]}, True, "", "must be one of 1, not true"),
        ({"const": [1]}, [2], "", "must be an array of 1 item"),
        ({"minimum": 3}, 2, "", "must be at least 3, not 2"),
        ({"maximum": 3}, 4, "", "must be at most 3"),
        ({"maximum": 3}, 10**400, "", "not a very large number"),
        ({"exclusiveMinimum": 3}, 3, "", "must be more than 3"),
        ({"exclusiveMaximum": 3}, 3, "", "must be less than 3"),
        ({"$schema": DRAFT4, "minimum": 3, "exclusiveMinimum": True}, 3, "", "must be more than 3"),
        ({"multipleOf": 0.1}, 0.35, "", "must be a multiple of 0.1"),
        ({"minLength": 1}, "", "", "must be at least 1 character long"),
        ({"maxLength": 2}, "abc", "", "must be at most 2 characters long"),
        ({"minItems": 2}, [1], "", "must be a list of at least 2 items"),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "", "must be an object of at most 1 property"),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], "", "must be a list without repeats"),
        ({"pattern": "^(?<a>x)$"}, "y", "", "must be a text that matches '^(?<a>x)$', not \"y\""),
        ({"contains": {"type": "string"}}, [1], "", "too few"),
        ({"required": ["a", "b"]}, {"a": 1}, "", "'b' is required but missing"),
        ({"required": ["a", "b"]}, {}, "", "'a' and 'b' are required but missing"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "", "'b' is required but missing"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"x": 1}, "", "'x' is not known here; known are"),
        ({"additionalProperties": {"type": "string"}}, {"x": 1}, "x", "must be a string"),
        ({"patternProperties": {"^x": {"type": "string"}}}, {"x1": 1}, "x1", "must be a string"),
        ({"properties": {"a": False}}, {"a": 1}, "a", "is not allowed here"),
        ({"not": {"type": "string"}}, "a", "", "is not allowed here"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, 5, "", "fits none of the alternatives"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 0}]}, 5, "", "fits more than one of the alternatives"),
        ({"properties": {"m": {"items": {"required": ["role"]}}}}, {"m": [{}]}, "m[0]", "'role' is required"),
        (NODE, {"kids": [{"kids": [{"v": "x"}]}]}, "kids[0].kids[0].v", "must be an integer"),
        ({"properties": {"a b": {"items": {"type": "null"}}}}, {"a b": [1]}, '["a b"][0]', "must be null"),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "null"}}, ["a", 1], "[1]", "must be null"),
        ({"$schema": DRAFT7, "items": [{}], "additionalItems": False}, [1, 2], "[1]", "is not allowed here"),
        ({"$schema": DRAFT7, "dependencies": {"a": ["b"]}}, {"a": 1}, "", "'b' is required"),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, "", "'b' is required"),
    ],
)  # fmt: skip
def test_finding(schema: Any, value: Any, path: str, words: str) -> None:
    """A value that does not fit has one finding: where, and in words what was expected and what there is."""
    [(found, message)] = find(schema, value)
    assert found == path
    assert words in message


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (True, {"anything": 1}),
        ({}, None),
        ({"type": "integer"}, 3.0),
        ({"$schema": DRAFT4, "type": "integer"}, 3.0),
        ({"type": "number"}, 10**400),
        ({"multipleOf": 0.1}, 0.3),
        ({"multipleOf": 0.01}, 1e308),
        ({"multipleOf": 0.5}, 10**400),
        ({"const": 1}, 1.0),
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}, {"a": True}]),
        ({"minLength": 1}, 5),
        ({"format": "email"}, "no address"),
        ({"pattern": r"^\d$"}, 5),
        ({"pattern": r"\p{L}"}, "not enforced"),
        ({"pattern": "("}, "not enforced"),
        ({"patternProperties": {r"\p{L}": {}}, "additionalProperties": False}, {"anything": 1}),
        ({"patternProperties": {"(?<n>x)": {}}, "unevaluatedProperties": False}, {"x": 1}),
        ({"dependencies": {"a": ["b"]}}, {"a": 1}),
        ({"$schema": DRAFT7, "items": True, "additionalItems": False}, [1, 2]),
        ({"$schema": DRAFT7, "$ref": "#/definitions/a", "minimum": 5, "definitions": {"a": {}}}, 1),
        ({"$schema": DRAFT6, "if": {}, "then": False}, 1),
        ({"$schema": DRAFT2019, "$recursiveRef": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, "a"),
        ({"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}}, {"a": {"a": {}}}),
        ({"$id": "https://e.com/r", "$ref": "b#x", "$defs": {"b": {"$id": "b", "$defs": {"c": {"$anchor": "x"}}}}}, 1),
        ({"$ref": "#/x-lib/a", "x-lib": {"a": {"type": "string"}}}, "a"),
    ],
)
def test_accepted(schema: Any, value: Any) -> None:
    """A value that fits has no finding; what cannot be enforced refuses nothing."""
    checker = build_checker(schema)
    assert checker.accepts(value)
    assert checker.findings(value) == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"type": "string"}}, list(range(1_000))),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(100)}}, {f"p{n}": n for n in range(100)}),
    ],
)
@pytest.mark.parametrize("limit", [1, 5, 7])
def test_limit(schema: Any, value: Any, limit: int) -> None:
    """No more findings are given than were asked for."""
    assert len(find(schema, value, limit=limit)) == limit


def test_no_finding_twice() -> None:
    """What two rules find alike is found once."""
    assert len(find({"allOf": [{"type": "string"}, {"type": "string"}]}, 5)) == 1


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, "x" * 1_000_000),
        ({"enum": ["y" * 10_000] * 3 + [f"z{n}" for n in range(1_000)]}, "x" * 1_000_000),
        ({"anyOf": [{"type": "integer"}, {"const": "y" * 10_000}]}, {f"p{n}": n for n in range(10_000)}),
        ({"properties": {"k" * 10_000: {"type": "string"}}}, {"k" * 10_000: 5}),
        ({"additionalProperties": False}, {f"{'k' * 1_000}{n}": n for n in range(100)}),
        ({"required": [f"{'k' * 1_000}{n}" for n in range(100)]}, {}),
        ({"pattern": "^" + "a" * 10_000}, "b"),
    ],
)
def test_findings_are_short(schema: Any, value: Any) -> None:
    """However large value, names and schema are, a finding stays a short sentence."""
    for path, message in find(schema, value):
        assert len(path) + len(message) < SHORT


def double(keyword: str, depth: int) -> dict[str, Any]:
    """A schema that applies itself to the value 2 ** *depth* times."""
    steps = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{depth}": {"type": "string"}}}


def nest(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"kids": [value]}
    return value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (double("anyOf", 40), 5),
        (double("oneOf", 40), "a"),
        (double("allOf", 40), "a"),
        (NODE, nest(300)),
        ({"unevaluatedProperties": False, "patternProperties": {"(a+)+$": {}}}, {"a" * 60 + "!": 1}),
        ({"patternProperties": {"(a+)+$": {}}, "additionalProperties": False}, {"a" * 60 + "!": 1}),
    ],
)
def test_bounded_refusal(schema: Any, value: Any) -> None:
    """A check that would never end, or is too deep, ends soon with a finding and not with an exception."""
    started = thread_time()
    assert len(find(schema, value)) == 1
    assert thread_time() - started < 5


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "(a+)+$"}, "a" * 100 + "!"),
        ({"properties": {"a": {"$schema": DRAFT2020, "pattern": "(a+)+$"}}}, {"a": "a" * 100 + "!"}),
        ({"$schema": DRAFT2020, "pattern": "(a+)+$", "properties": {"c": {"$ref": "#"}}}, {"c": "a" * 100 + "!"}),
        ({"patternProperties": {"(a+)+$": {"type": "string"}}}, {"a" * 100 + "!": 1}),
        ({"uniqueItems": True}, [{"a": n} for n in range(20_000)]),
        ({"items": {"type": "number"}}, [0.5] * 200_000),
        ({"items": {"items": {"type": "number", "minimum": 0}}}, [[0.5] * 1_000] * 100),
        ({"enum": [f"e{n}" for n in range(5_000)]}, "e4999"),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(10_000)}}, {"p1": "x"}),
    ],
)
def test_bounded_acceptance(schema: Any, value: Any) -> None:
    """Large values are checked whole in linear time; a pattern that could run away is not tried on a long text."""
    started = thread_time()
    assert find(schema, value) == []
    assert thread_time() - started < 5


def test_threads_share_a_checker() -> None:
    """Threads that check at once with one checker find each the same."""
    checker = build_checker(NODE)
    bad, good = {"kids": [{"v": "x"}]}, {"kids": [{"v": 1}]}

    def check(_: int) -> bool:
        return checker.findings(bad)[0].path == "kids[0].v" and checker.findings(good) == []

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, range(200)))


def test_schema_stays_as_it_is() -> None:
    """Building and using a checker changes nothing in the schema."""
    schema = {"$schema": DRAFT2020, "properties": {"a": {"type": "string", "pattern": "a"}}, "$defs": {"x": {}}}
    before = repr(schema)
    checker = build_checker(schema)
    checker.findings({"a": 5})
    assert repr(schema) == before


def test_unusable() -> None:
    """A checker of what cannot be used is refused when it is built."""
    with pytest.raises(UnusableSchema, match="'int' is no JSON Schema type"):
        build_checker({"type": "int"})


def test_finding_is_a_value() -> None:
    """Findings are plain values: equal ones are the same."""
    assert Finding("a", "b") == Finding("a", "b")


def test_library_is_not_loaded_early() -> None:
    """Neither this room nor a look at a schema loads the library: the first checker does."""
    lines = [
        "import sys",
        "from colabhive_mcp.manifest import adapter, schemas",
        "adapter.to_input_form({'type': 'object'})",
        "assert not {'jsonschema', 'referencing'} & sys.modules.keys()",
        "schemas.build_checker({'type': 'object'})",
        "assert 'jsonschema' in sys.modules",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, timeout=60)


@pytest.mark.parametrize("uri", [DRAFT2020, DRAFT7])
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_agrees_with_the_library(uri: str, data: st.DataObject) -> None:
    """A checker says what the library says by itself, unbounded and in the schema's own dialect."""
    from jsonschema import validators
    from referencing import Registry

    schema = data.draw(schemas(uri))
    try:
        checker = build_checker(schema)
    except UnusableSchema as refusal:
        assume("lead back to themselves" not in str(refusal))
        raise
    plain = validators.validator_for(schema)(schema, registry=Registry())
    for value in data.draw(st.lists(VALUES, min_size=1, max_size=5)):
        assert checker.accepts(value) is plain.is_valid(value), value
