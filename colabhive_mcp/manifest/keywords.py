"""The keywords of JSON Schema as tests of a value: a table from keyword to what builds its test.

A builder gets the keyword's value and the schema that it stands in, and gives a test, or None where the keyword asks
for nothing by itself. Dialects are told apart by the shape of a value alone; what a dialect does not have never comes
here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from colabhive_mcp.manifest.checking import Builder, Compiler, Node, Run, Schema, Test
from colabhive_mcp.manifest.evaluation import build_unevaluated_items, build_unevaluated_properties
from colabhive_mcp.manifest.wording import Trail, to_count, to_list, to_words

MAX_EXPLAINED = 5
_TOLERANCE = 1e-9  # 0.3 is a multiple of 0.1 as it is written, though not as it is stored


def to_key(value: Any, spend: Callable[[int], None] = lambda _: None) -> Hashable:
    """A key that is equal for values that JSON Schema calls equal: 1 and 1.0 are, 1 and true are not.

    *spend* is told the length of each array and object on the way.
    """
    if type(value) is bool:
        return ("boolean", value)
    if type(value) is list:
        spend(len(value))
        return ("array", *(to_key(each, spend) for each in value))
    if type(value) is dict:
        spend(len(value))
        return ("object", frozenset((name, to_key(each, spend)) for name, each in value.items()))
    key: Hashable = value
    return key


# What a value is

_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a string", (str,)),
    "number": ("a number", (int, float)),
    "integer": ("an integer", (int,)),
    "boolean": ("true or false", (bool,)),
    "object": ("an object", (dict,)),
    "array": ("an array", (list,)),
    "null": ("null", (type(None),)),
}


def _build_type(types: Any, schema: Schema, compiler: Compiler) -> Test:
    names = [types] if isinstance(types, str) else types
    allowed = frozenset(kind for name in names for kind in _TYPES[name][1])
    words = f"must be {to_list(_TYPES[name][0] for name in names)}"

    def test(value: Any, place: Trail, run: Run) -> None:
        # A number with a zero fraction is an integer (JSON Schema Validation 2020-12, 6.1.1).
        if type(value) not in allowed and not (int in allowed and type(value) is float and value.is_integer()):
            run.report_value(place, words, value)

    return test


def _build_enum(values: Any, schema: Schema, compiler: Compiler) -> Test:
    keys = frozenset(map(to_key, values))
    words = f"must be {'one of ' * (len(values) > 1)}{to_list(map(to_words, values))}"

    def test(value: Any, place: Trail, run: Run) -> None:
        if to_key(value, run.spend) not in keys:
            run.report_value(place, words, value)

    return test


def _build_const(value: Any, schema: Schema, compiler: Compiler) -> Test:
    return _build_enum([value], schema, compiler)


# How much of it there is

_NUMBERS = frozenset({int, float})
_STRINGS = frozenset({str})
_ARRAYS = frozenset({list})
_OBJECTS = frozenset({dict})


def _is_no_multiple(value: Any, factor: Any) -> bool:
    if type(value) is int and type(factor) is int:
        return bool(value % factor)
    try:
        quotient = value / factor
        return bool(abs(quotient - round(quotient)) > _TOLERANCE * max(1.0, abs(quotient)))
    except OverflowError:  # too large for a fraction to be left
        return False


def _is_shorter(value: Any, limit: Any) -> bool:
    return bool(len(value) < limit)


def _is_longer(value: Any, limit: Any) -> bool:
    return bool(len(value) > limit)


def _say_count(words: str, one: str, many: str) -> Callable[[Any], str]:
    return lambda limit: f"must have at {words} {to_count(int(limit), one, many)}"


_Limit = tuple[frozenset[type], Callable[[Any, Any], bool], Callable[[Any], str]]

# keyword → the kinds of value that it limits, when one is refused, and what it then says
_LIMITS: Mapping[str, _Limit] = {
    "minimum": (_NUMBERS, operator.lt, lambda limit: f"must be at least {to_words(limit)}"),
    "maximum": (_NUMBERS, operator.gt, lambda limit: f"must be at most {to_words(limit)}"),
    "exclusiveMinimum": (_NUMBERS, operator.le, lambda limit: f"must be above {to_words(limit)}"),
    "exclusiveMaximum": (_NUMBERS, operator.ge, lambda limit: f"must be below {to_words(limit)}"),
    "multipleOf": (_NUMBERS, _is_no_multiple, lambda factor: f"must be a multiple of {to_words(factor)}"),
    "minLength": (_STRINGS, _is_shorter, _say_count("least", "character", "characters")),
    "maxLength": (_STRINGS, _is_longer, _say_count("most", "character", "characters")),
    "minItems": (_ARRAYS, _is_shorter, _say_count("least", "item", "items")),
    "maxItems": (_ARRAYS, _is_longer, _say_count("most", "item", "items")),
    "minProperties": (_OBJECTS, _is_shorter, _say_count("least", "property", "properties")),
    "maxProperties": (_OBJECTS, _is_longer, _say_count("most", "property", "properties")),
}
# In draft-04 a flag beside the limit says whether the limit itself is excluded.
_EXCLUSIVE = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}


def _limit(keyword: str) -> Builder:
    def build(limit: Any, schema: Schema, compiler: Compiler) -> Test | None:
        if type(limit) is bool:
            return None
        beside = _EXCLUSIVE.get(keyword, "")
        kinds, fails, say = _LIMITS[beside if schema.get(beside) is True else keyword]
        words = say(limit)

        def test(value: Any, place: Trail, run: Run) -> None:
            if type(value) in kinds and fails(value, limit):
                run.report_value(place, words, value)

        return test

    return build


def _build_pattern(source: Any, schema: Schema, compiler: Compiler) -> Test | None:
    pattern = compiler.pattern(source)
    if pattern is None:
        return None
    words = f"must match the pattern {source[:200]}"

    def test(value: Any, place: Trail, run: Run) -> None:
        if type(value) is str and not run.matches(pattern, value, untried=True):
            run.report_value(place, words, value)

    return test


# Objects


def _build_required(names: Any, schema: Schema, compiler: Compiler) -> Test:
    def test(value: Any, place: Trail, run: Run) -> None:
        if type(value) is dict:
            for name in names:
                if name not in value:
                    run.report((place, name), "is required")

    return test


def _build_properties(properties: Any, schema: Schema, compiler: Compiler) -> Test:
    nodes = {name: compiler.node(each) for name, each in properties.items()}

    def test(value: Any, place: Trail, run: Run) -> None:
        if type(value) is dict:
            for name in nodes if len(nodes) <= len(value) else value:
                if name in value and name in nodes:
                    nodes[name].apply(value[name], (place, name), run)

    return test


def _build_pattern_properties(patterns: Any, schema: Schema, compiler: Compiler) -> Test:
    nodes = [(compiler.pattern(source), compiler.node(each)) for source, each in patterns.items()]

    def test(value: Any, place: Trail, run: Run) -> None:
        if type(value) is dict:
            run.spend(len(value) * len(nodes) // 8)
            for pattern, node in nodes:
                for name in value:
                    if pattern is not None and run.matches(pattern, name, untried=False):
                        node.apply(value[name], (place, name), run)

    return test


def _build_additional_properties(others: Any, schema: Schema, compiler: Compiler) -> Test | None:
    known = schema.get("properties", {})
    patterns = [compiler.pattern(source) for source in schema.get("patternProperties", {})]
    if others is True or None in patterns:  # whom an unenforced pattern lets in, nobody can tell
        return None
    node = compiler.node(others)
    words = f"is unknown; known here: {to_list(known, joined='and') or 'nothing'}"

    def test(value: Any, place: Trail, run: Run) -> None:
        if type(value) is dict:
            run.spend(len(value) * (1 + len(patterns)) // 8)
            for name in value:
                if name in known or any(run.matches(pattern, name, untried=True) for pattern in patterns if pattern):
                    continue
                if others is False:
                    run.report((place, name), words)
                else:
                    node.apply(value[name], (place, name), run)

    return test


def _build_property_names(names: Any, schema: Schema, compiler: Compiler) -> Test:
    node = compiler.node(names)

    def test(value: Any, place: Trail, run: Run) -> None:
        for name in value if type(value) is dict else ():
            if not run.accepts(node, name):
                run.report((place, name), "has a name that is not allowed here")

    return test


def _build_dependencies(needs: Any, schema: Schema, compiler: Compiler) -> Test:
    nodes = {name: compiler.node(each) for name, each in needs.items() if type(each) is not list}
    lists = {name: each for name, each in needs.items() if type(each) is list}

    def test(value: Any, place: Trail, run: Run) -> None:
        if type(value) is not dict:
            return
        for name, others in lists.items():
            for other in others if name in value else ():
                if other not in value:
                    run.report((place, other), f"is required beside {name}")
        for name, node in nodes.items():
            if name in value:
                node.apply(value, place, run)

    return test


# Arrays


def _build_items(items: Any, schema: Schema, compiler: Compiler) -> Test:
    if type(items) is list:  # a tuple, as dialects before 2020-12 write it
        return _build_prefix_items(items, schema, compiler)
    return _build_rest(items, len(schema.get("prefixItems", ())), compiler)


def _build_additional_items(others: Any, schema: Schema, compiler: Compiler) -> Test | None:
    first = schema.get("items")
    return _build_rest(others, len(first), compiler) if type(first) is list else None


def _build_rest(schema: Any, start: int, compiler: Compiler) -> Test:
    node = compiler.node(schema)

    def test(value: Any, place: Trail, run: Run) -> None:
        if type(value) is list:
            for at in range(start, len(value)):
                node.apply(value[at], (place, at), run)

    return test


def _build_prefix_items(schemas: Any, schema: Schema, compiler: Compiler) -> Test:
    nodes = [compiler.node(each) for each in schemas]

    def test(value: Any, place: Trail, run: Run) -> None:
        if type(value) is list:
            for at, (node, item) in enumerate(zip(nodes, value, strict=False)):
                node.apply(item, (place, at), run)

    return test


def _build_contains(wanted: Any, schema: Schema, compiler: Compiler) -> Test:
    node = compiler.node(wanted)
    least, most = schema.get("minContains", 1), schema.get("maxContains", math.inf)

    def test(value: Any, place: Trail, run: Run) -> None:
        if type(value) is list:
            count = sum(run.accepts(node, item) for item in value)
            if not least <= count <= most:
                bound = f"at least {least}" if count < least else f"at most {most}"
                run.report(place, f"must contain {bound} of a certain kind of item, contains {count}")

    return test


def _build_unique_items(unique: Any, schema: Schema, compiler: Compiler) -> Test | None:
    if not unique:
        return None

    def test(value: Any, place: Trail, run: Run) -> None:
        seen: dict[Hashable, int] = {}
        for at, item in enumerate(value if type(value) is list else ()):
            first = seen.setdefault(to_key(item, run.spend), at)
            if first != at:
                run.report((place, at), f"must be unique, repeats [{first}]")

    return test


# Schemas for the same value


def _build_reference(target: Any, schema: Schema, compiler: Compiler) -> Test:
    return compiler.node(target).apply


def _build_all_of(schemas: Any, schema: Schema, compiler: Compiler) -> Test:
    nodes = [compiler.node(each) for each in schemas]

    def test(value: Any, place: Trail, run: Run) -> None:
        for node in nodes:
            node.apply(value, place, run)

    return test


def _build_any_of(schemas: Any, schema: Schema, compiler: Compiler) -> Test:
    nodes = [compiler.node(each) for each in schemas]

    def test(value: Any, place: Trail, run: Run) -> None:
        if not any(run.accepts(node, value) for node in nodes):
            _report_none(nodes, value, place, run)

    return test


def _build_one_of(schemas: Any, schema: Schema, compiler: Compiler) -> Test:
    nodes = [compiler.node(each) for each in schemas]

    def test(value: Any, place: Trail, run: Run) -> None:
        count = sum(run.accepts(node, value) for node in nodes)
        if count == 0:
            _report_none(nodes, value, place, run)
        elif count > 1:
            run.report(place, f"must fit exactly one of {len(nodes)} alternatives, fits {count}")

    return test


def _report_none(nodes: Sequence[Node], value: Any, place: Trail, run: Run) -> None:
    """Say why each alternative refuses *value*; one level deep, for each level would multiply the work."""
    if run.found is None or run.explaining:
        run.report(place, f"fits none of {len(nodes)} alternatives")
    reasons = list(dict.fromkeys(run.explain(node, value) for node in nodes[:MAX_EXPLAINED]))
    more = "; or something else" * (len(nodes) > MAX_EXPLAINED)
    run.report(place, reasons[0] if len(reasons) == 1 and not more else "; or ".join(reasons) + more)


def _build_not(unwanted: Any, schema: Schema, compiler: Compiler) -> Test:
    node = compiler.node(unwanted)

    def test(value: Any, place: Trail, run: Run) -> None:
        if run.accepts(node, value):
            run.report(place, "is of a kind that is not allowed here")

    return test


def _build_if(condition: Any, schema: Schema, compiler: Compiler) -> Test | None:
    node = compiler.node(condition)
    then, other = (compiler.node(schema.get(keyword, True)) for keyword in ("then", "else"))

    def test(value: Any, place: Trail, run: Run) -> None:
        (then if run.accepts(node, value) else other).apply(value, place, run)

    return test


BUILDERS: Mapping[str, Builder] = {
    "$ref": _build_reference,
    "$dynamicRef": _build_reference,
    "$recursiveRef": _build_reference,
    "type": _build_type,
    "enum": _build_enum,
    "const": _build_const,
    **{keyword: _limit(keyword) for keyword in _LIMITS},
    "pattern": _build_pattern,
    "required": _build_required,
    "properties": _build_properties,
    "patternProperties": _build_pattern_properties,
    "additionalProperties": _build_additional_properties,
    "propertyNames": _build_property_names,
    "dependentRequired": _build_dependencies,
    "dependentSchemas": _build_dependencies,
    "dependencies": _build_dependencies,
    "items": _build_items,
    "prefixItems": _build_prefix_items,
    "additionalItems": _build_additional_items,
    "contains": _build_contains,
    "uniqueItems": _build_unique_items,
    "allOf": _build_all_of,
    "anyOf": _build_any_of,
    "oneOf": _build_one_of,
    "not": _build_not,
    "if": _build_if,
    "unevaluatedProperties": build_unevaluated_properties,
    "unevaluatedItems": build_unevaluated_items,
}
