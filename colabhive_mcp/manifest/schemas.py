"""JSON Schema for tools: whether a schema can be used, and checkers of values with words that a model can act on.

Values are checked by ``jsonschema`` against the manifest's own schema, bounded in time. The library is loaded with the
first checker, not with this module: nobody waits for it before a tool is called. Nothing is ever fetched: the registry
is empty and retrieves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from threading import local
from time import monotonic
from typing import TYPE_CHECKING, Any

from colabhive_mcp.manifest.checked_form import to_checked_form
from colabhive_mcp.manifest.dialects import UnusableSchema
from colabhive_mcp.manifest.document import load_document
from colabhive_mcp.manifest.wording import Trail, to_count, to_list, to_path, to_quoted, to_words

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

SECONDS = 0.5  # for one check; a schema can be made to multiply, and no client waits for that
SECONDS_EACH = 5e-6  # more for each value in what is checked, so that a million numbers are no matter

__all__ = ["Checker", "Finding", "UnusableSchema", "build_checker", "check_schema"]

Keyword = Callable[[Any, Any, Any, Mapping[str, Any]], Iterable["ValidationError"] | None]


class _TooExpensive(Exception):
    """The check takes more time than it may."""


class _Budget(local):
    """What is left of the time of the check that this thread is doing."""

    deadline = 0.0


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
        """At most *limit* things that are wrong with *value*; empty where it fits.

        A value that cannot be checked within the time or the stack has one finding that says so.
        """
        _budget.deadline = monotonic() + SECONDS + SECONDS_EACH * count_values(value)
        found: dict[Finding, None] = {}
        try:
            for error in self._validator.iter_errors(value):
                found[Finding(_to_path(error), _to_message(error))] = None
                if len(found) == limit:
                    break
        except _TooExpensive:
            found = found or {
                Finding("", "is too expensive to check against the schema; a smaller value may pass"): None
            }
        except RecursionError:
            return [Finding("", "is nested too deeply to check")]
        return list(found)

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
    return Checker(_load_validator()(to_checked_form(load_document(schema))))


def count_values(value: Any) -> int:
    """How many values there are in *value*, itself included."""
    count = 0
    level = [value]
    while level:
        count += len(level)
        level = [each for holder in level if isinstance(holder, dict | list) for each in _to_members(holder)]
    return count


def _to_members(holder: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return holder.values() if isinstance(holder, dict) else holder


@cache
def _load_validator() -> Callable[[Any], Validator]:
    """The library's validator of 2020-12, which is what a checked form is written in, with a limit on its time."""
    from jsonschema import validators  # noqa: PLC0415 - takes long to import, and no start-up needs it
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415 - likewise

    draft: Any = validators.Draft202012Validator
    keywords = {name: _limit(keyword) for name, keyword in {**draft.VALIDATORS, **_OWN}.items()}
    bounded: Any = validators.extend(draft, keywords)  # type: ignore[no-untyped-call]
    return lambda schema: bounded(schema, registry=EMPTY_REGISTRY)


def _limit(keyword: Keyword) -> Keyword:
    """*keyword*, which looks at the time first."""

    def timed(validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]) -> Iterable[ValidationError] | None:
        if monotonic() > _budget.deadline:
            raise _TooExpensive
        return keyword(validator, rule, instance, schema)

    return timed


# Keywords that the library has too: here faster, in bounded time, or without the whole value in the message

_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def _check_type(
    validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterable[ValidationError] | None:
    kind = type(instance)
    for name in (rule,) if isinstance(rule, str) else rule:
        if kind in _PYTHON_TYPES[name] or (name == "integer" and kind is float and instance.is_integer()):
            return None
    return (_to_error("is of another type"),)


def _check_multiple(validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    """``multipleOf`` of numbers as they are written: 0.3 is a multiple of 0.1, though not as they are stored."""
    if type(instance) in (int, float) and not _is_multiple(instance, rule):
        yield _to_error("is no multiple")


def _is_multiple(number: float, unit: float) -> bool:
    if isinstance(number, int) and isinstance(unit, int):
        return number % unit == 0
    try:
        quotient = number / unit
        return abs(quotient - round(quotient)) <= 1e-9 * max(1.0, abs(quotient))
    except OverflowError:  # so large that no fraction is left
        return True


def _check_unique(validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    if rule and isinstance(instance, list) and len({_to_key(item) for item in instance}) < len(instance):
        yield _to_error("repeats an item")


def _to_key(value: Any) -> Hashable:
    """A key that is equal for values that JSON Schema calls equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return ("array", *map(_to_key, value))
    if isinstance(value, dict):
        return ("object", frozenset((name, _to_key(each)) for name, each in value.items()))
    key: Hashable = value
    return key


def _check_required(validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        missing = [name for name in rule if name not in instance]
        if missing:
            yield _to_error(_say_missing(missing))


def _check_properties(validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for name in rule if len(rule) <= len(instance) else instance:
            if name in instance and name in rule:
                yield from _descend(validator, instance[name], rule[name], name)


def _check_pattern_properties(
    validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    for source, subschema in rule.items() if isinstance(instance, dict) else ():
        pattern = re.compile(source)
        for name, member in instance.items():
            if pattern.search(name):
                yield from _descend(validator, member, subschema, name)


def _check_additional_properties(
    validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    patterns = [re.compile(source) for source in schema.get("patternProperties", ())]
    known = schema.get("properties", ())
    others = [name for name in instance if name not in known and not any(each.search(name) for each in patterns)]
    if isinstance(rule, dict):
        for name in others:
            yield from _descend(validator, instance[name], rule, name)
    elif others and not rule:
        yield _to_error(_say_extra(others, known))


def _check_items(validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    if isinstance(instance, list):
        for place in range(len(schema.get("prefixItems", ())), len(instance)):
            yield from _descend(validator, instance[place], rule, place)


def _descend(validator: Any, member: Any, rule: Any, step: str | int) -> Iterable[ValidationError]:
    """As the library's ``descend``, which makes a validator for each member; most members can be passed without one."""
    if _LEAVES.issuperset(rule) and _fits_leaf(validator, member, rule):
        return ()
    errors: Iterable[ValidationError] = validator.descend(member, rule, path=step)
    return errors


def _fits_leaf(validator: Any, member: Any, rule: Mapping[str, Any]) -> bool:
    for keyword, value in rule.items():
        check = validator.VALIDATORS.get(keyword)
        for _ in (check and check(validator, value, member, rule)) or ():
            return False
    return True


_LEAVES = frozenset(
    {"type", "enum", "const", "pattern", "$comment", "required", "dependentRequired", "uniqueItems", "multipleOf"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"}
    | {"minItems", "maxItems", "minProperties", "maxProperties"}
)
_OWN: Mapping[str, Keyword] = {
    "type": _check_type,
    "multipleOf": _check_multiple,
    "uniqueItems": _check_unique,
    "required": _check_required,
    "properties": _check_properties,
    "patternProperties": _check_pattern_properties,
    "additionalProperties": _check_additional_properties,
    "items": _check_items,
}


# Words


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


def _counted(words: str, one: str, many: str) -> Callable[[ValidationError], str]:
    return _expected(lambda number: words.format(to_count(int(number), one, many)))


def _say_types(types: Any) -> str:
    names = types if isinstance(types, list) else [types]
    return to_list(_ARTICLES.get(name, f"a {name}") for name in names)


def _say_missing(names: Collection[str]) -> str:
    return f"{to_list(map(to_quoted, names), joined='and')} {'is' if len(names) == 1 else 'are'} required but missing"


def _say_extra(names: Collection[str], known: Collection[str]) -> str:
    allowed = f"; known are {to_list(map(to_quoted, known), joined='and')}" if known else ""
    return (
        f"{to_list(map(to_quoted, names), joined='and')} {'is' if len(names) == 1 else 'are'} not known here{allowed}"
    )


def _say_dependents(error: ValidationError) -> str:
    instance: Any = error.instance
    rule: Any = error.validator_value
    missing = {other: None for name, others in rule.items() if name in instance for other in others}
    return _say_missing([name for name in missing if name not in instance])


def _say_pattern(error: ValidationError) -> str:
    """The pattern as the manifest has it."""
    schema: Any = error.schema
    return to_quoted(schema["$comment"])


def _say_alternatives(error: ValidationError) -> str:
    """None of several schemas fits: the complaint of the one that came nearest."""
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - loaded by now

    nearest = best_match(error.context or ())
    if nearest is None:
        return f"fits more than one of the alternatives: {to_words(error.instance)}"
    place = _to_path(nearest)
    return f"fits none of the alternatives; nearest: {f'{place} ' if place else ''}{_to_message(nearest)}"


_ARTICLES = {
    "integer": "an integer",
    "object": "an object",
    "array": "an array",
    "boolean": "true or false",
    "null": "null",
}
_WORDS: Mapping[str, Callable[[ValidationError], str]] = {
    "type": _expected(_say_types),
    "enum": _expected(lambda values: f"one of {to_list(map(to_words, values))}"),
    "const": _expected(to_words),
    "minimum": _expected(lambda bound: f"at least {to_words(bound)}"),
    "maximum": _expected(lambda bound: f"at most {to_words(bound)}"),
    "exclusiveMinimum": _expected(lambda bound: f"more than {to_words(bound)}"),
    "exclusiveMaximum": _expected(lambda bound: f"less than {to_words(bound)}"),
    "multipleOf": _expected(lambda unit: f"a multiple of {to_words(unit)}"),
    "minLength": _counted("at least {} long", "character", "characters"),
    "maxLength": _counted("at most {} long", "character", "characters"),
    "minItems": _counted("a list of at least {}", "item", "items"),
    "maxItems": _counted("a list of at most {}", "item", "items"),
    "minProperties": _counted("an object of at least {}", "property", "properties"),
    "maxProperties": _counted("an object of at most {}", "property", "properties"),
    "uniqueItems": _expected(lambda _: "a list without repeats"),
    "pattern": lambda error: f"must be a text that matches {_say_pattern(error)}, not {to_words(error.instance)}",
    **dict.fromkeys(("contains", "minContains"), lambda error: "has too few items of the kind that it must contain"),
    "maxContains": lambda error: "has too many items of one kind",
    "required": lambda error: error.message,  # written here
    "additionalProperties": lambda error: error.message,  # written here
    "dependentRequired": _say_dependents,
    "not": lambda error: "is not allowed here",
    "anyOf": _say_alternatives,
    "oneOf": _say_alternatives,
}
