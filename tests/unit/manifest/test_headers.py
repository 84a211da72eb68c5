"""Arguments that are repeated in HTTP headers: which, which annotations break a rule, and what clients are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.manifest.adapter import Shape, build_definition
from colabhive_mcp.manifest.client_form import find_mirrored, to_input_form
from colabhive_mcp.manifest.contract import validate
from colabhive_mcp.manifest.headers import (
    MIRROR,
    HeaderParameter,
    find_header_fault,
    find_header_parameters,
    find_headers,
)
from colabhive_mcp.manifest.model import build_tool
from colabhive_mcp.manifest.schemas import UnusableSchema, build_checker
from colabhive_mcp.protocol.revisions import REVISIONS

SHAPE = Shape(REVISIONS["2026-07-28"])
REGION = {"type": "string", MIRROR: "Region"}
GOOD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": REGION,
        "where": {
            "type": "object",
            "properties": {"zone": {"type": "integer", MIRROR: "Where-Zone"}, MIRROR: {"type": "string"}},
        },
        "dry": {"type": "boolean", MIRROR: "Dry!#$%&'*+-.^`|~9"},
        "text": {"type": "string", "default": REGION, "enum": ["a", REGION], "examples": [REGION]},
    },
    "required": ["region"],
    "x-more": {"properties": {"region": REGION}},
}
FOUND = (
    HeaderParameter("Mcp-Param-Region", ("region",), "string"),
    HeaderParameter("Mcp-Param-Dry!#$%&'*+-.^`|~9", ("dry",), "boolean"),
    HeaderParameter("Mcp-Param-Where-Zone", ("where", "zone"), "integer"),
)


def under(keyword: str, value: Any) -> dict[str, Any]:
    """An input whose argument ``a`` is valid, and that has *value* under *keyword* as well."""
    return {"type": "object", "properties": {"a": {"type": "string", MIRROR: "A"}, "b": {}}, keyword: value}


def test_parameters_are_found_by_their_paths() -> None:
    """Annotated properties are found at any depth; a property of that name and mere data are no annotations."""
    assert find_header_parameters(GOOD) == FOUND
    assert find_header_fault(GOOD) is None


INNER = {"properties": {"b": REGION}}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (under(MIRROR, "Root"), ""),
        (under("items", REGION), "/items"),
        (under("prefixItems", [REGION]), "/prefixItems/0"),
        (under("contains", REGION), "/contains"),
        (under("additionalProperties", REGION), "/additionalProperties"),
        (under("patternProperties", {"x": REGION}), "/patternProperties/x"),
        (under("propertyNames", REGION), "/propertyNames"),
        *((under(keyword, [INNER]), f"/{keyword}/0/properties/b") for keyword in ("allOf", "anyOf", "oneOf")),
        *((under(keyword, INNER), f"/{keyword}/properties/b") for keyword in ("not", "if", "then", "else")),
        (under("dependentSchemas", {"a": INNER}), "/dependentSchemas/a/properties/b"),
        (under("$defs", {"unused": REGION}), "/$defs/unused"),
        (under("definitions", {"unused": REGION}), "/definitions/unused"),
        ({"properties": {"a": {"items": {"properties": {"b": REGION}}}}}, "/properties/a/items/properties/b"),
        ({"items": [REGION]}, "/items/0"),
    ],
)
def test_only_properties_lead_to_a_parameter(schema: Any, place: str) -> None:
    """An annotation that anything but ``properties`` leads to breaks the rules, and takes all others with it."""
    assert [fault.steps for fault in find_headers(schema).faults] == [tuple(to_steps(f"{place}/{MIRROR}"))]
    assert "properties alone do not lead to" in str(find_header_fault(schema))
    assert find_header_parameters(schema) == ()


def to_steps(pointer: str) -> list[str | int]:
    """The steps of a JSON pointer without escapes."""
    return [int(step) if step.isdecimal() else step for step in pointer.split("/")[1:]]


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", ["string"], ["string", "null"], None, 5])
def test_only_simple_types_are_repeated(kind: Any) -> None:
    """A parameter is of one type, which is string, integer or boolean: floats are written differently everywhere."""
    schema = {"properties": {"a": {"type": kind, MIRROR: "A"}, "b": REGION}}
    assert "is not of the one type string, integer or boolean" in str(find_header_fault(schema))
    assert find_header_parameters(schema) == ()


@pytest.mark.parametrize("name", ["", " ", "a b", "a:b", "a\r\nb", "ä", "(a)", "a/b", "a\x00", None, 5, ["A"], {}])
def test_names_are_tokens(name: Any) -> None:
    """What is no token of RFC 9110 cannot be part of a header's name."""
    schema = {"properties": {"a": {"type": "string", MIRROR: name}}}
    assert "is no name that a header can have (at /properties/a/x-mcp-header)" in str(find_header_fault(schema))


def test_underscores_do_not_arrive() -> None:
    """A header with an underscore is dropped by servers on the way, so that every call would be refused for it."""
    assert "underscore" in str(find_header_fault({"properties": {"a": {"type": "string", MIRROR: "User_Id"}}}))


def test_names_are_unique_without_case() -> None:
    """Two parameters cannot share a header, however it is written."""
    schema = {"properties": {"a": {"properties": {"b": {"type": "string", MIRROR: "REGION"}}}, "z": REGION}}
    assert str(find_header_fault(schema)).startswith("x-mcp-header 'REGION' is the name of another header too")


# What clients are shown


def define(schema: Any, shape: Shape = SHAPE) -> tuple[Any, str | None]:
    """The input schema of a listed tool, and what an operator is told of it."""
    definition = build_definition(build_tool({"name": "t", "inputSchema": schema}), "t", shape)
    body = json.loads(definition.body)
    assert MIRROR not in body.get("description", "")
    return body["inputSchema"], definition.rewriting


def test_good_annotations_are_shown_where_they_were() -> None:
    """The form that all clients take keeps the annotations of a tool at the same properties, without a word."""
    shown, told = define(GOOD)
    assert find_header_parameters(shown) == find_mirrored(GOOD, exact=False) == FOUND
    assert told is None


def test_a_bad_annotation_takes_all_away() -> None:
    """Clients leave out a tool with a bad annotation, so none is shown, and the operator is told why."""
    schema = {**GOOD, "properties": {**GOOD["properties"], "list": {"type": "array", "items": REGION}}}
    shown, told = define(schema)
    assert find_header_parameters(shown) == find_mirrored(schema, exact=False) == ()
    assert find_header_fault(shown) is None
    assert told == (
        "No argument is repeated in a header: x-mcp-header stands at a place that properties alone do not lead to "
        "(at /properties/list/items/x-mcp-header)."
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": REGION, "b": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"type": ["object", "string"], "properties": {"b": REGION}}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$ref": "#/x", **REGION}}, "x": {}},
    ],
)
def test_annotations_that_would_move_are_not_shown(schema: Any) -> None:
    """Where the form would repeat, move or lose an annotation none is shown, and none is waited for."""
    assert find_mirrored(schema, exact=True) == find_header_parameters(schema) != ()
    shown, told = define(schema)
    assert find_header_parameters(shown) == find_mirrored(schema, exact=False) == ()
    assert find_header_fault(shown) is None
    assert "an argument with x-mcp-header would stand elsewhere" in str(told)


def test_exact_schemas_have_what_the_manifest_has() -> None:
    """On request the annotations are shown as they are, and nothing is told."""
    schema = under("items", REGION)
    assert define(schema, SHAPE._replace(exact_schemas=True)) == (schema, None)


def test_annotations_are_no_rules_about_values() -> None:
    """Arguments are checked as if there were none, good or bad."""
    schema = {"properties": {"a": {"type": "number", MIRROR: "no name"}, "b": {MIRROR: "B", "$ref": "#/properties/a"}}}
    assert build_checker(schema).accepts({"a": 1.5, "b": 2})
    assert not build_checker(schema).accepts({"b": "x"})


def test_each_bad_annotation_is_a_finding() -> None:
    """`manifest validate` tells of every annotation that breaks a rule, and the tool is offered all the same."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number", MIRROR: "A"}, "b": {"type": "string", MIRROR: ""}},
    }
    found = [each for each in validate({"name": "t", "inputSchema": schema}) if each.code == "unusable-header"]
    assert [each.pointer for each in found] == [
        "/inputSchema/properties/a/x-mcp-header",
        "/inputSchema/properties/b/x-mcp-header",
    ]
    assert not any(each.breaks for each in found)


NAMES = st.sampled_from(["a", "b"])
GOOD_LEAVES = st.sampled_from([{"type": "string", MIRROR: "A"}, {"type": "integer", MIRROR: "B"}, {}])
LEAVES = GOOD_LEAVES | st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "boolean", "number", ["string", "null"]]),
        "enum": st.just(["x"]),
        "$ref": st.sampled_from(["#/properties/a", "#/$defs/a"]),
        MIRROR: st.sampled_from(["A", "b", "no name", "x_y"]),
    },
)


def combine(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects and alternatives of *inner*, some of them annotated."""
    named = st.dictionaries(NAMES, inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {"properties": named},
        optional={
            "type": st.sampled_from(["object", ["object", "null"], ["object", "string"]]),
            "required": st.just(["a"]),
            **dict.fromkeys(("allOf", "anyOf", "oneOf"), st.lists(inner, min_size=1, max_size=2)),
            "items": inner,
            "if": inner,
            "$ref": st.just("#/$defs/a"),
        },
    )


ANNOTATED = st.tuples(combine(st.recursive(LEAVES, combine, max_leaves=4)), LEAVES).map(
    lambda pair: {**pair[0], "type": "object", "$defs": {"a": pair[1]}}
)


@given(ANNOTATED)
def test_no_client_leaves_a_tool_out(schema: Any) -> None:
    """What is shown has all annotations of the original or none, none that breaks a rule, and is what is waited for."""
    own = find_header_parameters(schema)
    assert (find_header_fault(schema) is None) or own == ()
    try:
        form = to_input_form(schema)
    except UnusableSchema:
        return
    assert find_header_fault(form.schema) is None
    shown = find_header_parameters(form.schema)
    assert set(shown) in (set(own), set())
    assert shown == find_mirrored(schema, exact=False)
    assert find_mirrored(schema, exact=True) == own
    assert (form.unmirrored is None) == (len(shown) == len(own) and find_header_fault(schema) is None)


WORDS = st.sampled_from([MIRROR, "properties", "items", "anyOf", "type", "dependencies", "$defs", "a"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("string"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(ANYTHING)
def test_no_value_is_too_odd(schema: Any) -> None:
    """Any value at all has parameters or faults, and never both."""
    assert find_header_parameters(schema) == () or find_header_fault(schema) is None
