"""What is certain of every value that fits several schemas at once: its types, its bounds, what holds for its members.

All of it errs on one side: a fact left out makes a comparison say less, never something wrong. Reads forms that are
written in the dialect of 2020-12, of two documents at a time; knows nothing of what is compared with what.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from colabhive_mcp.manifest.dialects import TYPES
from colabhive_mcp.manifest.document import Document
from colabhive_mcp.manifest.patterns import Untranslatable, build_pattern

Schema = Mapping[str, Any]

ANYTHING: Schema = {}
NOTHING: Schema = {"not": {}}
NUMBERS = frozenset({"integer", "fraction"})
ATOMS: Mapping[str, frozenset[str]] = {
    **{name: frozenset({name}) for name in TYPES - {"number"}},
    "number": NUMBERS,
}
"""The types as sets that are either apart or within each other: a number is an integer or has a fraction."""
EVERY: frozenset[str] = frozenset().union(*ATOMS.values())

_SMALL: Mapping[str, tuple[Any, ...]] = {"null": (None,), "boolean": (False, True)}
_UNIONS = ("anyOf", "oneOf")
_PATTERN_STEPS = 100_000  # for one name


@dataclass(frozen=True, slots=True)
class Facts:
    """Schemas that all hold: *parts* with references and ``allOf`` followed, *keys* of each as a whole."""

    parts: tuple[Schema, ...] = ()
    keys: frozenset[int] = frozenset()

    def each(self, keyword: str) -> list[Any]:
        """What the parts say under *keyword*."""
        return [part[keyword] for part in self.parts if keyword in part]

    def add(self, *others: Facts) -> Facts:
        """These and *others* together."""
        parts = dict.fromkeys(map(id, self.parts))
        fresh = [part for other in others for part in other.parts if id(part) not in parts]
        return Facts((*self.parts, *fresh), self.keys.union(*(other.keys for other in others)))


def to_schema(flag: Any) -> Schema:
    """The schema that ``true`` and ``false`` stand for; any other as it is."""
    return (ANYTHING if flag else NOTHING) if type(flag) is bool else flag


class Library:
    """The schemas of two documents, *old* and *new*, with keys that are equal only where the meaning is.

    *spend* is called once for each step of work, and raises where there were too many.
    """

    def __init__(self, old: Document, new: Document, *, spend: Callable[[], None]) -> None:
        self.targets = {**old.targets, **new.targets}
        self._spend = spend
        self._words: dict[Hashable, int] = {}
        self._keys: dict[int, int] = {}
        self._owner: int | None = None
        same = self._number(old.root) == self._number(new.root) or self._share_definitions(old, new)
        self._keys.clear()
        for owner, document in enumerate((old, new)):
            self._owner = None if same else owner
            self._number(document.root)
        self._keys |= {id(each): self._number(each) for each in (ANYTHING, NOTHING, NOTHING["not"])}

    def _share_definitions(self, old: Document, new: Document) -> bool:
        rooted = any(target is document.root for document in (old, new) for target in document.targets.values())
        mine, other = (self._number(document.root.get("$defs", {})) for document in (old, new))
        return mine == other and not rooted

    def key(self, schema: Any) -> int:
        """A number that is the same for schemas that are written alike and mean the same."""
        return self._keys[id(schema)]

    def to_value_key(self, value: Any) -> int:
        """A number that is the same for equal JSON values."""
        return self._number(value, kept=False)

    def _number(self, value: Any, *, kept: bool = True) -> int:
        if type(value) is dict:
            members = [(name, self._number(each, kept=kept)) for name, each in value.items()]
            word: Hashable = ("object", frozenset(members), self._owner if kept and "$ref" in value else None)
        elif type(value) is list:
            word = ("array", *(self._number(each, kept=kept) for each in value))
        else:
            word = (type(value) is bool, value)
        number = self._words.setdefault(word, len(self._words))
        if kept and type(value) is dict:
            self._keys[id(value)] = number
        return number

    def gather(self, *schemas: Any) -> Facts:
        """The facts that *schemas* state together."""
        parts: dict[int, Schema] = {}
        keys = set()
        pending = [to_schema(each) for each in schemas]
        while pending:
            self._spend()
            schema = pending.pop()
            if id(schema) not in parts:
                parts[id(schema)] = schema
                keys.add(self.key(schema))
                pending.extend(schema.get("allOf", ()))
                if "$ref" in schema:
                    pending.append(to_schema(self.targets[id(schema), "$ref"]))
        return Facts(tuple(parts.values()), frozenset(keys))

    # Types and values

    def types(self, facts: Facts) -> frozenset[str]:
        """The types that a value may have; there is no value where there are none."""
        found = EVERY
        for part in facts.parts:
            self._spend()
            found &= self._types_of(part)
        return found

    def _types_of(self, part: Schema) -> frozenset[str]:
        found = EVERY
        if "type" in part:
            found = _to_atoms(part["type"])
        if "enum" in part or "const" in part:
            found &= {_type_of(value) for value in _listed(part)}
        if "not" in part:
            found -= _types_refused(to_schema(part["not"]))
        for keyword in _UNIONS:
            if keyword in part:
                found &= frozenset().union(*(self.types(self.gather(each)) for each in part[keyword]))
        return found

    def values(self, facts: Facts, types: frozenset[str]) -> list[Any] | None:
        """All values that there can be, where they are listed; some of them may not fit. None where they are not."""
        lists = [_listed(part) for part in facts.parts if "enum" in part or "const" in part]
        if lists:
            return min(lists, key=len)
        return [value for name in types for value in _SMALL[name]] if types <= _SMALL.keys() else None

    def split(self, facts: Facts, types: frozenset[str]) -> list[tuple[Facts, bool]]:
        """Facts that together cover *facts*, each with whether all its values are among theirs; empty for no split."""
        for place, part in enumerate(facts.parts):
            for keyword in _UNIONS:
                if keyword in part:
                    dropped = {keyword, "unevaluatedProperties", "unevaluatedItems"}  # these ask about the union too
                    rest = {name: value for name, value in part.items() if name not in dropped}
                    parts = (*facts.parts[:place], rest, *facts.parts[place + 1 :])
                    left = Facts(parts, facts.keys)
                    return [(left.add(self.gather(each)), keyword == "anyOf") for each in part[keyword]]
        names = sorted(types - NUMBERS) + ["number" if "fraction" in types else "integer"] * bool(types & NUMBERS)
        return [(facts.add(Facts(({"type": name},))), True) for name in names] if len(names) > 1 else []

    def is_apart(self, facts: Facts, schema: Any) -> bool:
        """Whether it is certain that no value of *facts* fits *schema*."""
        other = self.gather(schema)
        types = self.types(facts)
        if not types & self.types(other):
            return True
        return types == {"object"} and any(self._is_told_apart(facts, other, name) for name in find_required(facts))

    def _is_told_apart(self, facts: Facts, other: Facts, name: str) -> bool:
        """Whether the values of a property that is always there are never the same."""
        mine, theirs = (self._values_of(each, name) for each in (facts, other))
        return mine is not None and theirs is not None and mine.isdisjoint(theirs)

    def _values_of(self, facts: Facts, name: str) -> set[int] | None:
        inner = self.gather(*find_property(facts, name)[0])
        values = self.values(inner, self.types(inner))
        return None if values is None else {self.to_value_key(value) for value in values}


def _listed(part: Schema) -> list[Any]:
    values: list[Any] = [part["const"]] if "const" in part else part["enum"]
    return values


def _type_of(value: Any) -> str:
    if type(value) is float:
        return "integer" if value.is_integer() else "fraction"
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}
    return names.get(type(value), "null")


def _types_refused(schema: Schema) -> frozenset[str]:
    """The types of which *schema* lets every value in."""
    if not schema:
        return EVERY
    return _to_atoms(schema["type"]) if schema.keys() == {"type"} else frozenset()


def _to_atoms(types: Any) -> frozenset[str]:
    return frozenset().union(*(ATOMS[name] for name in (types if type(types) is list else [types])))


# Numbers and counts


def find_bound(facts: Facts, side: str, *, whole: bool) -> tuple[float, bool] | None:
    """The tightest ``minimum`` or ``maximum``, as *side* says, and whether it is excluded itself.

    A maximum is negated, so that more is always tighter. For *whole* numbers it is one that they can reach.
    """
    sign = 1 if side == "minimum" else -1
    bounds = [(sign * value, False) for value in facts.each(side)]
    bounds += [(sign * value, True) for value in facts.each(f"exclusive{side.capitalize()}")]
    return max((_to_reached(*bound) if whole else bound for bound in bounds), default=None)


def _to_reached(value: float, excluded: bool) -> tuple[float, bool]:
    if type(value) is float and not math.isfinite(value):
        return value, excluded
    return (math.floor(value) + 1 if excluded else math.ceil(value)), False


def find_least(facts: Facts, keyword: str) -> int:
    """The tightest of ``minLength``, ``minItems``, ``minProperties``; 0 where there is none."""
    least = max(facts.each(keyword), default=0)
    return max(least, len(find_required(facts))) if keyword == "minProperties" else least


def find_most(facts: Facts, keyword: str) -> float:
    """The tightest of ``maxLength``, ``maxItems``, ``maxProperties``; infinite where there is none."""
    most = facts.each(keyword)
    if keyword == "maxItems":
        ends = [part for part in facts.parts if to_schema(part.get("items", ANYTHING)) == NOTHING]
        most += [len(part.get("prefixItems", ())) for part in ends]
    return min(most, default=math.inf)


def is_multiple(number: float, unit: float) -> bool:
    """Whether *number* is a multiple of *unit*, both as they are written in decimal."""
    try:
        return (_to_fraction(number) / _to_fraction(unit)).denominator == 1
    except (ValueError, OverflowError, ZeroDivisionError):
        return False


def _to_fraction(number: float) -> Fraction:
    return Fraction(number) if type(number) is int else Fraction(repr(number))


# Members


def find_required(facts: Facts) -> dict[str, None]:
    """The properties that are always there, in order."""
    return dict.fromkeys(name for names in facts.each("required") for name in names)


def find_property(facts: Facts, name: str) -> tuple[list[Schema], bool]:
    """The schemas that hold for the property *name*, and whether any of them speaks of it by name or pattern."""
    found: list[Schema] = []
    declared = False
    for part in facts.parts:
        matches = {source: is_match(source, name) for source in part.get("patternProperties", ())}
        here = [part["patternProperties"][source] for source, match in matches.items() if match]
        if name in part.get("properties", ()):
            here.append(part["properties"][name])
        declared = declared or bool(here)
        if not here and None not in matches.values() and "additionalProperties" in part:
            here.append(to_schema(part["additionalProperties"]))
        found += here
    return found, declared


def find_item(facts: Facts, place: int) -> list[Schema]:
    """The schemas that hold for the item at *place*."""
    found = []
    for part in facts.parts:
        first = part.get("prefixItems", ())
        if place < len(first):
            found.append(first[place])
        elif "items" in part:
            found.append(part["items"])
    return found


def is_match(source: str, name: str) -> bool | None:
    """Whether the pattern *source* is found in *name*; None where that cannot be told in time."""
    try:
        pattern = build_pattern(source)
    except Untranslatable:
        return None
    return pattern.regex.search(name) is not None if pattern.cost.price(len(name)) <= _PATTERN_STEPS else None


def find_names(facts: Facts, keyword: str) -> dict[str, None]:
    """The names, or patterns, under *keyword* in any part, in order."""
    return dict.fromkeys(name for each in facts.each(keyword) for name in each)
