"""The ``unevaluated…`` keywords: what they ask about is what no other keyword of the same value has looked at.

A finder is built beside the tests of a schema, from the table of the keywords that look at members or items. It is
only built where a schema asks for it. Since 2020-12 `contains` looks at what it finds; 2019-09 is read in the same
way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from colabhive_mcp.manifest.checking import Compiler, Finder, Run, Schema, Test
from colabhive_mcp.manifest.wording import Trail

FinderBuilder = Callable[[Any, Schema, Compiler], Finder]


def build_unevaluated_properties(others: Any, schema: Schema, compiler: Compiler) -> Test:
    """The test of the members that no keyword of *schema* has looked at."""
    node, find = compiler.node(others), _build_finder(schema, compiler, without="unevaluatedProperties")

    def test(value: Any, place: Trail, run: Run) -> None:
        if type(value) is dict:
            seen = set(find(value, run))
            for name in value:
                if name not in seen:
                    node.apply(value[name], (place, name), run)

    return test


def build_unevaluated_items(others: Any, schema: Schema, compiler: Compiler) -> Test:
    """The test of the items that no keyword of *schema* has looked at."""
    node, find = compiler.node(others), _build_finder(schema, compiler, without="unevaluatedItems")

    def test(value: Any, place: Trail, run: Run) -> None:
        if type(value) is list:
            seen = set(find(value, run))
            for at, item in enumerate(value):
                if at not in seen:
                    node.apply(item, (place, at), run)

    return test


def _find_nothing(value: Any, run: Run) -> Iterable[Any]:
    return ()


def _finder(schema: Any, compiler: Compiler) -> Finder:
    """The finder of a subschema, built once."""
    if type(schema) is bool:
        return _find_nothing
    if id(schema) not in compiler.finders:
        compiler.finders[id(schema)] = _build_finder(compiler.rules(schema), compiler)
    return compiler.finders[id(schema)]


def _build_finder(rules: Schema, compiler: Compiler, *, without: str = "") -> Finder:
    finders = [_FINDERS[key](rules[key], rules, compiler) for key in rules if key in _FINDERS and key != without]

    def find(value: Any, run: Run) -> Iterable[Any]:
        run.spend(1)
        return {each for finder in finders for each in finder(value, run)}

    return find


def _find_properties(properties: Any, schema: Schema, compiler: Compiler) -> Finder:
    return lambda value, run: properties.keys() & value.keys() if type(value) is dict else ()


def _find_patterns(patterns: Any, schema: Schema, compiler: Compiler) -> Finder:
    compiled = [compiler.pattern(source) for source in patterns]

    def find(value: Any, run: Run) -> Iterable[Any]:
        names = value if type(value) is dict else ()
        return [
            name for name in names for pattern in compiled if not pattern or run.matches(pattern, name, untried=True)
        ]

    return find


def _find_members(_: Any, schema: Schema, compiler: Compiler) -> Finder:
    return lambda value, run: value if type(value) is dict else ()


def _find_every(_: Any, schema: Schema, compiler: Compiler) -> Finder:
    return lambda value, run: range(len(value)) if type(value) is list else ()


def _find_first(schemas: Any, schema: Schema, compiler: Compiler) -> Finder:
    return lambda value, run: range(min(len(schemas), len(value))) if type(value) is list else ()


def _find_items(items: Any, schema: Schema, compiler: Compiler) -> Finder:
    return (_find_first if type(items) is list else _find_every)(items, schema, compiler)


def _find_additional(items: Any, schema: Schema, compiler: Compiler) -> Finder:
    return _find_every(items, schema, compiler) if type(schema.get("items")) is list else _find_nothing


def _find_contained(wanted: Any, schema: Schema, compiler: Compiler) -> Finder:
    node = compiler.node(wanted)

    def find(value: Any, run: Run) -> Iterable[Any]:
        return [at for at, item in enumerate(value) if run.accepts(node, item)] if type(value) is list else ()

    return find


def _find_by_target(target: Any, schema: Schema, compiler: Compiler) -> Finder:
    return _finder(target, compiler)


def _find_by_fitting(schemas: Any, schema: Schema, compiler: Compiler) -> Finder:
    pairs = [(compiler.node(each), _finder(each, compiler)) for each in schemas]

    def find(value: Any, run: Run) -> Iterable[Any]:
        return [each for node, finder in pairs if run.accepts(node, value) for each in finder(value, run)]

    return find


def _find_by_condition(condition: Any, schema: Schema, compiler: Compiler) -> Finder:
    node = compiler.node(condition)
    found, then, other = (
        _finder(each, compiler) for each in (condition, schema.get("then", True), schema.get("else", True))
    )

    def find(value: Any, run: Run) -> Iterable[Any]:
        return {*found(value, run), *then(value, run)} if run.accepts(node, value) else other(value, run)

    return find


def _find_by_dependents(schemas: Any, schema: Schema, compiler: Compiler) -> Finder:
    finders = {name: _finder(each, compiler) for name, each in schemas.items()}

    def find(value: Any, run: Run) -> Iterable[Any]:
        names = finders if type(value) is dict else {}
        return [each for name, finder in names.items() if name in value for each in finder(value, run)]

    return find


_FINDERS: Mapping[str, FinderBuilder] = {
    "properties": _find_properties,
    "patternProperties": _find_patterns,
    "additionalProperties": _find_members,
    "unevaluatedProperties": _find_members,
    "items": _find_items,
    "prefixItems": _find_first,
    "additionalItems": _find_additional,
    "unevaluatedItems": _find_every,
    "contains": _find_contained,
    "$ref": _find_by_target,
    "$dynamicRef": _find_by_target,
    "$recursiveRef": _find_by_target,
    "allOf": _find_by_fitting,
    "anyOf": _find_by_fitting,
    "oneOf": _find_by_fitting,
    "if": _find_by_condition,
    "dependentSchemas": _find_by_dependents,
}
