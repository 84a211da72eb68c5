"""JSON Schema for tools: whether a schema can be used, and checkers of values with words that a model can act on.

Values are checked by ``jsonschema`` against the manifest's own schema, bounded in time. The library is loaded with the
first checker, not with this module: nobody waits for it before a tool is called. Nothing is ever fetched: the registry
is empty and retrieves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from threading import local
from time import monotonic
from typing import TYPE_CHECKING, Any

from colabhive_mcp.manifest.dialects import UnusableSchema
from colabhive_mcp.manifest.document import load_document
from colabhive_mcp.manifest.patterns import Pattern, Untranslatable, build_pattern
from colabhive_mcp.manifest.wording import Trail, to_count, to_list, to_path, to_quoted, to_words

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

SECONDS = 1.0  # for one check; a schema can be made to multiply, and no client waits for that
MATCHING = 30_000_000  # steps of regular expressions: a few tenths of a second
DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# The keywords that apply schemas to a value: whatever multiplies goes through one of them.
_COMPOSING = (
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "properties",
    "items",
    "prefixItems",
    "contains",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
)

__all__ = ["Checker", "Finding", "UnusableSchema", "build_checker", "check_schema"]

Keyword = Callable[[Any, Any, Any, Mapping[str, Any]], Iterator["ValidationError"]]


class _TooExpensive(Exception):
    """The check takes more work than it may."""


class _Budget(local):
    """What is left of the work of the check that this thread is doing."""

    deadline = 0.0
    matching = 0.0


_budget = _Budget()


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a value: where (as in ``messages[0].role``, empty for the whole), and what was expected."""

    path: str
    message: str


class Checker:
    """A compiled schema; threads may share it."""

    __slots__ = ("_validator",)

    def __init__(self, validator: Validator) -> None:
        self._validator = validator

    def findings(self, value: Any, *, limit: int = 5) -> list[Finding]:
        """At most *limit* things that are wrong with *value*; empty where it fits."""
        _budget.deadline, _budget.matching = monotonic() + SECONDS, MATCHING
        try:
            errors = list(islice(self._validator.iter_errors(value), limit))
            return [Finding(_to_path(error), _to_message(error)) for error in errors]
        except _TooExpensive:
            return [Finding("", "is too expensive to check against the schema; a smaller value may pass")]
        except RecursionError:
            return [Finding("", "is nested too deeply to check")]
        except re.error:  # the library's own reading of patternProperties, for what is left over
            return []

    def accepts(self, value: Any) -> bool:
        """Whether *value* fits."""
        return not self.findings(value, limit=1)


def check_schema(schema: Any) -> None:
    """Refuse what no call could be checked against.

    ``$schema`` is honoured (2020-12 where there is none; 2019-09, draft-07, draft-06, draft-04). The time is linear in
    the size of the schema, whatever its form. Raises UnusableSchema: a value has the wrong shape for its dialect, the
    dialect is unknown, a reference is not local or leads nowhere or back to itself, the nesting or the number of
    subschemas is over its bound.
    """
    load_document(schema)


def build_checker(schema: Any) -> Checker:
    """The checker of *schema* in its own dialect. Raises UnusableSchema for what no value could be checked against."""
    load_document(schema)
    dialect = schema.get("$schema", DEFAULT_DIALECT) if isinstance(schema, dict) else DEFAULT_DIALECT
    return Checker(_load_validators()[dialect.rstrip("#")](schema))


@cache
def _load_validators() -> Mapping[str, Callable[[Any], Validator]]:
    """A bounded validator for each dialect."""
    from jsonschema import validators  # noqa: PLC0415 - takes long to import, and no start-up needs it
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415 - likewise

    drafts = (
        validators.Draft202012Validator,
        validators.Draft201909Validator,
        validators.Draft7Validator,
        validators.Draft6Validator,
        validators.Draft4Validator,
    )

    def bind(draft: Any) -> Callable[[Any], Validator]:
        timed = {name: _limit(draft.VALIDATORS[name]) for name in _COMPOSING if name in draft.VALIDATORS}
        bounded: Any = validators.extend(draft, {**timed, **_OWN})  # type: ignore[no-untyped-call]
        return lambda schema: bounded(schema, registry=EMPTY_REGISTRY)

    return {str(draft.META_SCHEMA.get("$id", draft.META_SCHEMA.get("id"))).rstrip("#"): bind(draft) for draft in drafts}


def _limit(keyword: Keyword) -> Keyword:
    """*keyword*, which looks at the time with each application."""

    def timed(validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
        if monotonic() > _budget.deadline:
            raise _TooExpensive
        yield from keyword(validator, rule, instance, schema) or ()

    return timed


def _match(validator: Any, rule: str, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    """``pattern``; one that could run away on this value is not tried."""
    pattern = read_pattern(rule) if isinstance(instance, str) else None
    if pattern is None:
        return
    _budget.matching -= pattern.price(instance)
    if _budget.matching >= 0 and not pattern.matches(instance):
        yield _to_error(f"must match {rule}")


def _pattern_properties(
    validator: Any, rule: Mapping[str, Any], instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """``patternProperties``, its names read as ECMAScript's patterns."""
    if not isinstance(instance, dict):
        return
    for source, subschema in rule.items():
        pattern = read_pattern(source)
        for name, member in instance.items():
            if pattern is not None and pattern.matches(name):
                yield from validator.descend(member, subschema, path=name, schema_path=source)


def _additional_properties(
    validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """``additionalProperties``, by the same reading of the names."""
    if not isinstance(instance, dict):
        return
    patterns = [read_pattern(source) for source in schema.get("patternProperties", ())]
    known = schema.get("properties", ())
    others = [
        name for name in instance if name not in known and not any(each and each.matches(name) for each in patterns)
    ]
    if isinstance(rule, dict):
        for name in others:
            yield from validator.descend(instance[name], rule, path=name)
    elif others and not rule:
        yield _to_error(_say_extra(others, known))


def read_pattern(source: str) -> Pattern | None:
    """The pattern as Python reads it; None where it can't, so that it is not enforced."""
    try:
        return build_pattern(source)
    except Untranslatable:
        return None


def _to_error(words: str) -> ValidationError:
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415 - loaded by now

    return ValidationError(words)


def _to_path(error: ValidationError) -> str:
    trail: Trail = None
    for step in error.absolute_path:
        trail = (trail, step)
    return to_path(trail)


def _to_message(error: ValidationError) -> str:
    """What was expected, and what there is instead, however large it is."""
    words = _WORDS.get(str(error.validator))
    return words(error) if words else f"does not fit {to_quoted(error.validator)}: {to_words(error.instance)}"


def _expected(phrase: Callable[[Any], str]) -> Callable[[ValidationError], str]:
    return lambda error: f"must be {phrase(error.validator_value)}, not {to_words(error.instance)}"


def _say_types(types: Any) -> str:
    names = types if isinstance(types, list) else [types]
    return to_list(_ARTICLES.get(name, str(name)) for name in names)


def _say_missing(error: ValidationError) -> str:
    required: Any = error.validator_value
    present: Any = error.instance
    missing = [name for name in required if name not in present]
    return f"{to_list(map(to_quoted, missing), joined='and')} is required but missing"


def _say_extra(names: Iterable[str], known: Collection[str]) -> str:
    allowed = f"; known are {to_list(map(to_quoted, known), joined='and')}" if known else ""
    return f"{to_list(map(to_quoted, names), joined='and')} is not known here{allowed}"


def _say_alternatives(error: ValidationError) -> str:
    """None of several schemas fits: the complaint of the one that came nearest."""
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - loaded by now

    nearest = best_match(error.context or ())
    if nearest is None:
        return f"fits more than one of the alternatives: {to_words(error.instance)}"
    place = _to_path(nearest)
    return f"fits none of the alternatives; nearest: {f'{place} ' if place else ''}{_to_message(nearest)}"


_OWN: Mapping[str, Keyword] = {
    "pattern": _match,
    "patternProperties": _pattern_properties,
    "additionalProperties": _limit(_additional_properties),
}
_ARTICLES = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}
_WORDS: Mapping[str, Callable[[ValidationError], str]] = {
    "type": _expected(_say_types),
    "enum": _expected(lambda values: f"one of {to_list(map(to_words, values))}"),
    "const": _expected(to_words),
    "minimum": _expected(lambda bound: f"at least {bound}"),
    "maximum": _expected(lambda bound: f"at most {bound}"),
    "exclusiveMinimum": _expected(lambda bound: f"more than {bound}"),
    "exclusiveMaximum": _expected(lambda bound: f"less than {bound}"),
    "multipleOf": _expected(lambda unit: f"a multiple of {unit}"),
    "minLength": _expected(lambda number: f"at least {to_count(number, 'character', 'characters')} long"),
    "maxLength": _expected(lambda number: f"at most {to_count(number, 'character', 'characters')} long"),
    "minItems": _expected(lambda number: f"a list of at least {to_count(number, 'item', 'items')}"),
    "maxItems": _expected(lambda number: f"a list of at most {to_count(number, 'item', 'items')}"),
    "uniqueItems": _expected(lambda _: "a list without repeats"),
    "pattern": _expected(lambda pattern: f"a text that matches {to_quoted(pattern)}"),
    "required": _say_missing,
    "additionalProperties": lambda error: error.message,  # written here
    "anyOf": _say_alternatives,
    "oneOf": _say_alternatives,
}
