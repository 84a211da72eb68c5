"""Schemas that are recognised as plain: what is said to need no rewriting needs none."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colabhive_mcp.manifest.client_form import to_input_form
from colabhive_mcp.manifest.document import load_document
from colabhive_mcp.manifest.plain import MAX_DEPTH, inline_plain, is_plain
from colabhive_mcp.manifest.profiles import PROFILES
from tests.unit.manifest.generated import COUNTS, NAMES, NUMBERS, SCALARS, TYPES, VALUES, schemas

TEXT = {"type": "string"}


def obj(**properties: Any) -> dict[str, Any]:
    """An object schema."""
    return {"type": "object", "properties": properties}


PLAIN = {
    "no properties": obj(),
    "a text": obj(a=TEXT),
    "limits": obj(a={"type": "integer", "minimum": 0, "exclusiveMaximum": 9, "default": 3, "description": "d"}),
    "a choice": obj(a={"type": "string", "enum": ["x", "y"]}),
    "a list": obj(a={"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True}),
    "objects within": obj(a=obj(b=obj(c={"type": "boolean"}))),
    "closed": {**obj(a=TEXT), "required": ["a"], "additionalProperties": False, "title": "T"},
    "a known format": obj(a={"type": "string", "format": "date-time"}),
}
OTHER = {
    "nothing": None,
    "true": True,
    "no type": {"properties": {}},
    "no properties": {"type": "object"},
    "types": {"type": ["object"], "properties": {}},
    "properties that are none": {"type": "object", "properties": []},
    "a reference": {**obj(a={"$ref": "#/$defs/A"}), "$defs": {"A": TEXT}},
    "alternatives": {**obj(a=TEXT), "anyOf": [{"required": ["a"]}]},
    "a root of few values": {**obj(), "enum": [{}]},
    "a root of one value": {**obj(), "const": "x"},
    "two types": obj(a={"type": ["string", "null"]}),
    "a list of anything": obj(a={"type": "array"}),
    "another format": obj(a={"type": "string", "format": "int32"}),
    "a pattern": obj(a={"type": "string", "pattern": "^a"}),
    "a wrong limit": obj(a={"type": "integer", "minimum": "0"}),
    "a wrong type": obj(a={"type": "int"}),
    "a property that is none": obj(a=5),
    "a name for itself": {**obj(), "$id": "x"},
    "another dialect": {**obj(), "$schema": "http://json-schema.org/draft-07/schema#"},
    "an unknown keyword": obj(a={"type": "string", "x-secret": 1}),
}


@pytest.mark.parametrize("case", PLAIN)
def test_plain_schemas(case: str) -> None:
    """Most of what authors write is recognised."""
    assert is_plain(PLAIN[case])


@pytest.mark.parametrize("case", OTHER)
def test_other_schemas(case: str) -> None:
    """What a form may change, or what has to be read whole, is not plain."""
    assert not is_plain(OTHER[case])


@pytest.mark.parametrize(("levels", "plain"), [(MAX_DEPTH - 1, True), (MAX_DEPTH, False), (100_000, False)])
def test_deep_schemas(levels: int, plain: bool) -> None:
    """A schema that is nested deep is left to the reader that is bounded, and no overflow."""
    schema: Any = TEXT
    for _ in range(levels):
        schema = obj(a=schema)
    assert is_plain(schema) is plain
    while schema != TEXT:  # an ordinary release of it would go as deep as it is
        schema = schema["properties"].pop("a")


# Whatever is plain

_GOOD: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("title", "description"), st.text(max_size=3)),
    "required": st.lists(st.sampled_from(NAMES), max_size=2),
    "enum": st.lists(SCALARS, max_size=3),
    "const": SCALARS,
    "default": VALUES,
    "format": st.sampled_from(["date", "uri", "int32", "binary"]),
    **dict.fromkeys(("additionalProperties", "uniqueItems"), st.booleans()),
    **dict.fromkeys(("minimum", "exclusiveMaximum", "multipleOf"), NUMBERS),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "minProperties"), COUNTS),
}
_ODD = st.dictionaries(
    st.sampled_from([*_GOOD, "type", "items", "properties", "pattern", "$id", "$ref", "$defs", "anyOf", "nullable"]),
    st.sampled_from([None, True, 5, "x", [], {}, ["a"], -1, 1.5, "string", ["string"]]),
    max_size=2,
)
_WORDS = st.lists(st.sampled_from(sorted(_GOOD)), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: _GOOD[name] for name in names})
)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects and lists of *inner*."""
    named = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    objects = st.builds(lambda properties, words: {**obj(**properties), **words}, named, _WORDS)
    return objects | st.builds(lambda items, words: {"type": "array", "items": items, **words}, inner, _WORDS)


_LEAF = st.builds(
    lambda name, words, odd: {"type": name, **words, **odd}, st.sampled_from(TYPES), _WORDS, st.just({}) | _ODD
)
_NAMED = st.dictionaries(st.sampled_from(NAMES), st.recursive(_LEAF, _around, max_leaves=4), max_size=3)
_NEARLY_PLAIN = st.builds(
    lambda properties, words, odd: {**obj(**properties), **words, **odd}, _NAMED, _WORDS, st.just({}) | _ODD
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=_NEARLY_PLAIN | schemas(), profile=st.sampled_from([PROFILES["default"], PROFILES["gemini-cli"]]))
def test_what_is_plain_stays_as_it_is(schema: Any, profile: Any) -> None:
    """A plain schema can be used, and its form for a client is itself, to the order of its members, without a note."""
    written, dropped = json.dumps(schema), frozenset(profile.dropped)
    if is_plain(schema, dropped=dropped):
        form = to_input_form(copy.deepcopy(schema), dropped=dropped)
        assert (json.dumps(form.schema), form.notes) == (written, ())
        assert load_document(schema).root is schema


@pytest.mark.parametrize(
    ("reference", "name"),
    [("A", "A"), ("A/b", "A/b"), ("#/$defs/A/b", "A/b"), ("#/$defs/a%20b", "a%20b"), ("#/$defs/a~1b", "a~1b")],
)
def test_only_a_reference_to_a_definition_is_inlined(reference: str, name: str) -> None:
    """A reference that means something else, or nothing, than the definition that is named alike is left to be read."""
    schema = {**obj(a={"$ref": reference}), "$defs": {name: TEXT}}
    assert inline_plain(schema) is None
    assert inline_plain({**obj(a={"$ref": "#/$defs/A"}), "$defs": {"A": TEXT}}) == obj(a=TEXT)


@pytest.mark.parametrize("around", [lambda part: part, lambda part: obj(a=part), lambda part: obj(a=obj(b=part))])
def test_properties_are_no_reference(around: Callable[[Any], Any]) -> None:
    """What stands in the place of properties refers to nothing, whatever it looks like; a property of that name may."""
    definitions = {"$defs": {"A": {"b": TEXT}}}
    assert inline_plain({**around({"type": "object", "properties": {"$ref": "#/$defs/A"}}), **definitions}) is None
    named = {"$ref": {"$ref": "#/$defs/B"}}
    inlined = inline_plain({**around({"type": "object", "properties": named}), "$defs": {"B": TEXT}})
    assert inlined == around({"type": "object", "properties": {"$ref": TEXT}})


@pytest.mark.parametrize("keyword", ["title", "description"])
def test_words_beside_a_reference_hide_no_fault(keyword: str) -> None:
    """A definition whose own words are no text is left to be read, and refused, though others would replace them."""
    schema = {**obj(a={"$ref": "#/$defs/A", keyword: "t"}), "$defs": {"A": {**TEXT, keyword: {}}}}
    assert inline_plain(schema) is None
    sound = {**schema, "$defs": {"A": {**TEXT, keyword: "other"}}}
    assert inline_plain(sound) == obj(a={**TEXT, keyword: "t"})
