"""Schemas and values as hypothesis draws them: small, and made to meet each other."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "c", "ab")
TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
NUMBERS = st.sampled_from([0, 1, 2, 3, 1.5, -1])
COUNTS = st.integers(0, 3)
PATTERNS = st.sampled_from(["^a", "b$", "[0-9]", "^a+$"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 2, 3, 1.0, 2.5, -1, "", "a", "ab", "b1", "abc"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)
NAME_LISTS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)
DEFINITIONS = ("#/$defs/d0", "#/$defs/d1")

DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"


def _named(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=2)


def _keywords(inner: st.SearchStrategy[Any], uri: str) -> dict[str, st.SearchStrategy[Any]]:
    listed = st.lists(inner, min_size=1, max_size=2)
    keywords = {
        "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=2),
        "const": VALUES,
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), NUMBERS),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), COUNTS),
        **dict.fromkeys(("minProperties", "maxProperties"), COUNTS),
        "uniqueItems": st.booleans(),
        "pattern": PATTERNS,
        "required": NAME_LISTS,
        "properties": _named(inner),
        "patternProperties": st.dictionaries(PATTERNS, inner, min_size=1, max_size=1),
        **dict.fromkeys(("additionalProperties", "propertyNames", "contains", "not", "if", "then", "else"), inner),
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), listed),
        "description": st.just("words"),
        "$ref": st.sampled_from(DEFINITIONS),
    }
    if uri == DRAFT7:
        return keywords | {
            "items": listed,
            "additionalItems": inner,
            "dependencies": st.dictionaries(st.sampled_from(NAMES), inner | NAME_LISTS, max_size=1),
        }
    return keywords | {
        "items": inner,
        "prefixItems": listed,
        **dict.fromkeys(("minContains", "maxContains"), COUNTS),
        "dependentRequired": st.dictionaries(st.sampled_from(NAMES), NAME_LISTS, max_size=1),
        "dependentSchemas": _named(inner),
        **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), inner),
    }


def _combine(inner: st.SearchStrategy[Any], uri: str) -> st.SearchStrategy[dict[str, Any]]:
    keywords = _keywords(inner, uri)
    chosen = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=4, unique=True)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: keywords[name] for name in names}))


def schemas(uri: str = DRAFT2020) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas with two definitions that anything in them may refer to, in circles too."""
    leaf = st.just({}) | st.booleans() | st.sampled_from(TYPES).map(lambda name: {"type": name})
    inner = st.recursive(leaf, lambda deeper: _combine(deeper, uri), max_leaves=4)
    definitions = st.fixed_dictionaries({"d0": inner, "d1": inner})
    root = _combine(inner, uri)
    return st.builds(lambda schema, defs: {"$schema": uri, **schema, "$defs": defs}, root, definitions)
