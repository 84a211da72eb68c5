"""The keywords of ``jsonschema`` with a limit on their time, and those that are done here, which mean the same.

The library makes a validator for every member of a value, compares every item with every other, and writes the whole
value into its messages: with large values that takes seconds. All this is for checked forms only. Knows no findings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from threading import local
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any

from colabhive_mcp.manifest.wording import to_list, to_quoted

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Keyword = Callable[[Any, Any, Any, Mapping[str, Any]], Iterable["ValidationError"] | None]


class TooExpensive(Exception):
    """The check takes more time than it may."""


class Budget(local):
    """The time that the check in this thread may take: the processor's, so that a busy machine refuses nobody."""

    def __init__(self) -> None:
        self._end = 0.0
        self._next_look = 0.0

    def start(self, seconds: float) -> None:
        """A check begins, and has *seconds*."""
        self._end = thread_time() + seconds
        self._next_look = monotonic() + seconds

    def look(self) -> None:
        """Raises TooExpensive when the time is over. The wall clock, which is cheaper to read, tells when to look."""
        if monotonic() > self._next_look:
            left = self._end - thread_time()
            if left <= 0:
                raise TooExpensive
            self._next_look = monotonic() + left


BUDGET = Budget()


def limit_time(keyword: Keyword) -> Keyword:
    """*keyword*, which looks at the time first."""

    def timed(validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]) -> Iterable[ValidationError] | None:
        BUDGET.look()
        return keyword(validator, rule, instance, schema)

    return timed


def _search(pattern: re.Pattern[str], name: str) -> bool:
    BUDGET.look()
    return pattern.search(name) is not None


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
            yield _to_error(say_missing(missing))


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
            if _search(pattern, name):
                yield from _descend(validator, member, subschema, name)


def _check_additional_properties(
    validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    patterns = [re.compile(source) for source in schema.get("patternProperties", ())]
    known = schema.get("properties", ())
    others = [name for name in instance if name not in known and not any(_search(each, name) for each in patterns)]
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


def _to_error(words: str) -> ValidationError:
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415 - loaded by now

    return ValidationError(words)


def say_missing(names: Collection[str]) -> str:
    """That *names* are required."""
    return f"{to_list(map(to_quoted, names), joined='and')} {'is' if len(names) == 1 else 'are'} required but missing"


def _say_extra(names: Collection[str], known: Collection[str]) -> str:
    allowed = f"; known are {to_list(map(to_quoted, known), joined='and')}" if known else ""
    return (
        f"{to_list(map(to_quoted, names), joined='and')} {'is' if len(names) == 1 else 'are'} not known here{allowed}"
    )


OWN: Mapping[str, Keyword] = {
    "type": _check_type,
    "multipleOf": _check_multiple,
    "uniqueItems": _check_unique,
    "required": _check_required,
    "properties": _check_properties,
    "patternProperties": _check_pattern_properties,
    "additionalProperties": _check_additional_properties,
    "items": _check_items,
}
