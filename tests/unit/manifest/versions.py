"""Two versions of a schema, drawn from a seed, and values that are near what they speak of.

Thousands of pairs are needed to meet a wrong rule, so they are made here and not by hypothesis, which gives the seeds.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cached_property
from random import Random
from typing import Any

NAMES = ("a", "b", "ab", "c")
PATTERNS = ("^a", "b$", "^[ab]+$")
SCALARS = (None, True, False, 0, 1, 2, 3, 4, -1, 1.5, 2.0, 0.5, "", "a", "b", "ab", "abc", "abab")
COUNTS = (0, 1, 2, 3)
TYPES = ("string", "null", "integer", "number", "object", "array", "boolean")


class Maker:
    """Everything that one seed gives."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def choose(self, *options: Any) -> Any:
        """One of *options*."""
        return self.random.choice(options)

    def build_value(self, depth: int = 2) -> Any:
        """A value of any type."""
        kind = self.random.random()
        if depth == 0 or kind < 0.5:
            return self.choose(*SCALARS)
        if kind < 0.7:
            return [self.build_value(depth - 1) for _ in range(self.choose(*COUNTS))]
        return {name: self.build_value(depth - 1) for name in NAMES if self.random.random() < 0.5}

    def build_schema(self, depth: int = 3) -> Any:
        """A schema, most often of one type and with a few of its keywords."""
        if depth <= 0 or self.random.random() < 0.1:
            return self.choose({}, True, False, {"type": "string"}, {"type": "integer"}, {"enum": ["a", 1]})
        kind = self.choose(
            "string", "number", "integer", "array", "object", "object", "object", "union", "any", "boolean"
        )
        schema: Any = {"type": kind} if kind not in ("union", "any") else {}
        for _ in range(self.choose(0, 1, 1, 2, 3)):
            schema |= self.build_keyword(kind, depth)
        return schema

    def build_list(self, depth: int) -> list[Any]:
        """One to three schemas."""
        return [self.build_schema(depth) for _ in range(self.choose(1, 2, 2, 3))]

    def build_names(self) -> list[str]:
        """Some names."""
        return [name for name in NAMES if self.random.random() < 0.4]

    def build_keyword(self, kind: str, depth: int) -> dict[str, Any]:
        """One keyword that speaks of *kind*, and what else it needs; *depth* is how deep schemas in it may be."""
        build: Callable[[int], dict[str, Any]] = self.choose(*self._builders.get(kind, self._builders["any"]))
        return build(depth - 1)

    @cached_property
    def _builders(self) -> dict[str, list[Callable[[int], dict[str, Any]]]]:
        choose, inner = self.choose, self.build_schema
        listed = [lambda _: {"enum": [choose(*SCALARS) for _ in range(3)]}]
        numbers = [
            lambda _: {choose("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"): choose(0, 1, 2, 1.5, -1)},
            lambda _: {"multipleOf": choose(1, 2, 0.5, 3)},
            *listed,
        ]
        return {
            "number": numbers,
            "integer": numbers,
            "string": [
                lambda _: {choose("minLength", "maxLength"): choose(*COUNTS)},
                lambda _: {"pattern": choose(*PATTERNS)},
                *listed,
            ],
            "boolean": [lambda _: {"const": choose(True, False)}, *listed],
            "array": [
                lambda depth: {"items": inner(depth)},
                lambda depth: {"prefixItems": self.build_list(depth)},
                lambda _: {choose("minItems", "maxItems"): choose(*COUNTS)},
                lambda _: {"uniqueItems": choose(True, False)},
                lambda depth: {"contains": inner(depth), choose("minContains", "maxContains"): choose(*COUNTS)},
                lambda depth: {"unevaluatedItems": inner(depth)},
            ],
            "object": [
                *[lambda depth: {"properties": {name: inner(depth) for name in self.build_names()}}] * 4,
                *[lambda depth: {"additionalProperties": choose(False, False, True, inner(depth))}] * 2,
                *[lambda _: {"required": self.build_names()}] * 2,
                lambda depth: {"patternProperties": {choose(*PATTERNS): inner(depth)}},
                lambda _: {"propertyNames": {"pattern": choose(*PATTERNS)}},
                lambda _: {choose("minProperties", "maxProperties"): choose(*COUNTS)},
                lambda _: {"dependentRequired": {choose(*NAMES): self.build_names()}},
                lambda depth: {"dependentSchemas": {choose(*NAMES): inner(depth)}},
                lambda depth: {"unevaluatedProperties": choose(False, inner(depth))},
            ],
            "any": [
                *[lambda depth: {choose("anyOf", "oneOf", "allOf"): self.build_list(depth)}] * 4,
                *[lambda _: {"$ref": choose("#/$defs/x", "#/$defs/y")}] * 2,
                lambda depth: {"oneOf": self._build_overlap(depth)},
                lambda depth: {"not": inner(depth)},
                lambda depth: {"if": inner(depth), "then": inner(depth), "else": inner(depth)},
                lambda _: {"enum": [self.build_value() for _ in range(3)]},
                lambda _: {"const": self.build_value()},
                lambda _: {"type": self.random.sample(TYPES, 2)},
            ],
        }

    def build_versions(self) -> tuple[Any, Any]:
        """A schema with two definitions, and one that was made of it in a few steps."""
        old = self._build_object()
        if "$ref" in json.dumps(old):
            old["$defs"] = {"x": self.build_schema(), "y": self.build_schema()}
        new = copy.deepcopy(old)
        for _ in range(self.choose(1, 1, 2, 3)):
            self._change(new)
        return (old, new) if self.choose(True, False) else (new, old)

    def _build_overlap(self, depth: int) -> list[Any]:
        """Two alternatives of which one is most often within the other."""
        schema = {"type": self.choose("string", "number", "object")}
        return [schema, {**schema, **self.build_keyword(schema["type"], depth)}]

    def _build_object(self) -> dict[str, Any]:
        schema = self.build_schema()
        return schema if isinstance(schema, dict) else {}

    def _change(self, schema: Any) -> None:
        holder = self.choose(*[each for each in find_holders(schema) if each] or [{"minimum": 1}])
        place = self.choose(*(holder if isinstance(holder, dict) else range(len(holder))))
        step = self.random.random()
        if step < 0.25:
            del holder[place]
        elif step < 0.75:
            holder[place] = self._move(holder[place])
        elif isinstance(holder, dict):
            kind = self.choose("string", "number", "array", "object", "object", "union")
            holder |= self.build_keyword(kind, 2)

    def _move(self, value: Any) -> Any:
        """What may stand where *value* does, and differs from it a little."""
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return value + self.choose(1, -1, 0.5)
        if isinstance(value, str):
            return self.choose("string", "integer", "number", "object", "array", *NAMES, *PATTERNS)
        if value is None:
            return self.choose(*SCALARS)
        if isinstance(value, list):
            return self.choose(value[::-1], value[:-1], [*value, self.choose(*SCALARS, {"type": "string"})])
        return self.choose(self.build_schema(1), {**value, **self.build_keyword(self.choose("object", "union"), 1)})

    def build_values(self, *schemas: Any) -> list[Any]:
        """Values of all kinds, and some that hold what stands in the schemas."""
        stated = [each for schema in schemas for each in find_scalars(schema)]
        values = [self.build_value() for _ in range(40)]
        values += [{name: self.choose(*stated, self.build_value(1)) for name in self.build_names()} for _ in range(30)]
        return [*values, *SCALARS, *stated]


def find_holders(value: Any) -> list[Any]:
    """Every object and array in *value*."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    inner = [holder for member in members for holder in find_holders(member)]
    return [value, *inner] if isinstance(value, dict | list) else inner


def find_scalars(value: Any) -> list[Any]:
    """Everything in *value* that is neither an object nor an array."""
    holders = [each.values() if isinstance(each, dict) else each for each in find_holders(value)]
    return [each for holder in holders for each in holder if not isinstance(each, dict | list)]
