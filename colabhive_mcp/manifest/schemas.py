"""JSON Schema for tools: whether a schema can be used, and checkers of values with words that a model can act on.

Values are checked by ``jsonschema`` against the manifest's own schema, bounded in time. The library is loaded with the
first checker, not with this module: nobody waits for it before a tool is called. Nothing is ever fetched: the registry
is empty and retrieves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from colabhive_mcp.manifest.checked_form import to_checked_form
from colabhive_mcp.manifest.dialects import UnusableSchema
from colabhive_mcp.manifest.document import load_document
from colabhive_mcp.manifest.keywords import BUDGET, OWN, TooExpensive, limit_time, say_missing
from colabhive_mcp.manifest.wording import to_count, to_list, to_path, to_quoted, to_trail, to_words

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

SECONDS = 0.5  # for one check; a schema can be made to multiply, and no client waits for that
SECONDS_EACH = 5e-6  # more for each value in what is checked, so that a million numbers are no matter

__all__ = ["Checker", "Complaint", "Finding", "UnusableSchema", "build_checker"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a value: where (as in ``messages[0].role``, empty for the whole), and what was expected."""

    path: str
    message: str


class Complaint(NamedTuple):
    """A finding with what it was made of: the *keyword* whose *rule* the *instance* breaks, and the *steps* to that.

    The keyword is empty where a value could not be checked.
    """

    finding: Finding
    steps: tuple[str | int, ...] = ()
    keyword: str = ""
    rule: Any = None
    instance: Any = None


class Checker:
    """A compiled schema; threads may share it."""

    __slots__ = ("_validator",)

    def __init__(self, validator: Validator) -> None:
        self._validator = validator

    def findings(self, value: Any, *, limit: int = 5) -> list[Finding]:
        """At most *limit* things that are wrong with *value*; empty where it fits.

        A value that cannot be checked within the time or the stack has one finding that says so.
        """
        complaints = self.complaints(value, limit=limit)
        return [each.finding for each in complaints if each.keyword] or [each.finding for each in complaints]

    def complaints(self, value: Any, *, limit: int) -> list[Complaint]:
        """As `findings`, each with what it was made of; one more says so where the time was over with some found."""
        BUDGET.start(SECONDS + SECONDS_EACH * count_values(value))
        found: dict[Finding, Complaint] = {}
        try:
            for error in self._validator.iter_errors(value):
                complaint = _to_complaint(error)
                found.setdefault(complaint.finding, complaint)
                if len(found) == limit:
                    break
        except TooExpensive:
            return [*found.values(), Complaint(_TOO_EXPENSIVE)]
        except RecursionError:
            return [Complaint(_TOO_DEEP)]
        return list(found.values())

    def accepts(self, value: Any) -> bool:
        """Whether *value* fits."""
        return not self.findings(value, limit=1)


_TOO_EXPENSIVE = Finding("", "is too expensive to check against the schema; a smaller value may pass")
_TOO_DEEP = Finding("", "is nested too deeply to check")


def build_checker(schema: Any, *, trusted: bool = False) -> Checker:
    """The checker of *schema* in its own dialect; for one of our own, whose patterns are harmless, *trusted*.

    Raises UnusableSchema for what no value could be checked against.
    """
    return Checker(_load_validator()(to_checked_form(load_document(schema), trusted=trusted)))


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
    keywords = {name: limit_time(keyword) for name, keyword in {**draft.VALIDATORS, **OWN}.items()}
    bounded: Any = validators.extend(draft, keywords)  # type: ignore[no-untyped-call]
    return lambda schema: bounded(schema, registry=EMPTY_REGISTRY)


# Words


def _to_complaint(error: ValidationError) -> Complaint:
    finding = Finding(_to_path(error), _to_message(error))
    steps = tuple(error.absolute_path)
    return Complaint(finding, steps, str(error.validator), error.validator_value, error.instance)


def _to_path(error: ValidationError) -> str:
    return to_path(to_trail(error.absolute_path))


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


def _say_dependents(error: ValidationError) -> str:
    instance: Any = error.instance
    rule: Any = error.validator_value
    missing = {other: None for name, others in rule.items() if name in instance for other in others}
    return say_missing([name for name in missing if name not in instance])


def _say_pattern(error: ValidationError) -> str:
    """The pattern as the manifest has it."""
    schema: Any = error.schema
    return to_quoted(schema["$comment"])


def _say_alternatives(error: ValidationError) -> str:
    """None of several schemas fits: the first complaint of the one that came nearest."""
    branches: dict[Any, list[ValidationError]] = {}
    for complaint in error.context or ():
        branches.setdefault(complaint.relative_schema_path[0], []).append(complaint)
    if not branches:
        return f"fits more than one of the alternatives: {to_words(error.instance)}"
    nearest = min(branches.values(), key=_to_distance)[0]
    place = _to_path(nearest)
    return f"fits none of the alternatives; nearest: {f'{place} ' if place else ''}{_to_message(nearest)}"


def _to_distance(complaints: Collection[ValidationError]) -> tuple[bool, bool, int, int]:
    """How far a value is from an alternative.

    One of another type is farthest, then one with another value where kinds are told apart by it; then what is missing
    counts, then what is wrong.
    """
    return (
        any(each.validator == "type" and not each.relative_path for each in complaints),
        any(each.validator in ("const", "enum") for each in complaints),
        sum(each.validator == "required" for each in complaints),
        len(complaints),
    )


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
    "unevaluatedProperties": lambda error: "has properties that are not known here",
    "unevaluatedItems": lambda error: "has more items than are known here",
    "anyOf": _say_alternatives,
    "oneOf": _say_alternatives,
}
