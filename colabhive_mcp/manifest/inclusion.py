"""Whether every value that fits one schema fits another, and where that cannot be shown.

What is shown is certain. A gap is *certain* where, as far as rules that stand alone go, some value falls into it;
*doubtful* where nobody here can tell; and *open* where only a property is concerned that the one schema describes and
the other merely leaves open. Bounded in steps and depth. Knows nothing of which schema is older, but for the words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time
from typing import Any, NamedTuple

from colabhive_mcp.manifest.document import Document, load_document
from colabhive_mcp.manifest.facts import (
    EVERY,
    NOTHING,
    NUMBERS,
    Facts,
    Library,
    Schema,
    find_bound,
    find_item,
    find_least,
    find_most,
    find_names,
    find_property,
    find_required,
    is_match,
    is_multiple,
    to_schema,
)
from colabhive_mcp.manifest.patterns import Untranslatable, build_pattern
from colabhive_mcp.manifest.schemas import Checker, build_checker
from colabhive_mcp.manifest.wording import to_list, to_quoted, to_words

CERTAIN = "certain"
DOUBTFUL = "doubtful"
OPEN = "open"

MAX_STEPS = 50_000
MAX_DEPTH = 80
MAX_VALUES = 1_000  # of a list that are tried one by one
MAX_SECONDS = 3.0  # of the processor, after which no more values are tried

_OBJECT, _ARRAY, _STRING = frozenset({"object"}), frozenset({"array"}), frozenset({"string"})
_ENTANGLED = frozenset(
    {"anyOf", "oneOf", "not", "if", "enum", "const", "dependentSchemas", "dependentRequired", "propertyNames"}
    | {"contains", "unevaluatedProperties", "unevaluatedItems", "multipleOf"}
)
"""Keywords beside which a rule may be kept by values that it would refuse alone."""
_EMPTY_PATTERNS = frozenset({"", "^", "$", ".*", "^.*"})
UNENFORCED = ("format", "contentEncoding", "contentMediaType", "contentSchema")


class TooLarge(Exception):
    """The comparison takes more steps than it may."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A place, in the schema that is compared with, where a value may not fit; *harmless* where in fact all fit."""

    place: tuple[str | int, ...]
    words: str
    grade: str
    harmless: bool = False

    def __post_init__(self) -> None:
        assert self.grade in (CERTAIN, DOUBTFUL, OPEN)


class Scope(NamedTuple):
    """One comparison: values of *facts*, of the *types* left, against *schema*, which is at *place*.

    *sure* says that each of these values can occur in a value of the whole.
    """

    facts: Facts
    types: frozenset[str]
    schema: Schema
    place: tuple[str | int, ...]
    sure: bool


class Steps:
    """How much work is left: steps, and seconds for what takes longer than one."""

    def __init__(self) -> None:
        self._left = MAX_STEPS
        self._end = thread_time() + MAX_SECONDS

    def __call__(self) -> None:
        """Take one step. Raises TooLarge where none is left."""
        self._left -= 1
        if self._left < 0:
            raise TooLarge

    def look(self) -> None:
        """Take a step that may be long. Raises TooLarge where the time is over."""
        self()
        if thread_time() > self._end:
            raise TooLarge


def find_gaps(one: Document, other: Document, *, forward: bool) -> list[Gap]:
    """Where values of *one* may not fit *other*, both as forms in the dialect of 2020-12; empty where all fit.

    *forward* says that *one* is the older: the words are about what became of it.
    """
    steps = Steps()
    inclusion: Inclusion | None = None
    try:
        inclusion = Inclusion(Library(one, other, spend=steps), steps, forward=forward)
        inclusion.compare(inclusion.library.gather(one.root), other.root, (), sure=True)
    except TooLarge:
        found = inclusion.found if inclusion else []
        return [*found, Gap((), "it is too large to compare in full", DOUBTFUL)]
    return inclusion.found


class Inclusion:
    """One comparison of two documents under way; *found* has the gaps so far."""

    def __init__(self, library: Library, steps: Steps, *, forward: bool) -> None:
        self.library = library
        self.found: list[Gap] = []
        self.forward = forward
        self._spend = steps
        self._pending: set[tuple[frozenset[int], int]] = set()

    def compare(self, facts: Facts, schema: Schema, place: tuple[str | int, ...], *, sure: bool) -> None:
        """Find where values of *facts* may not fit *schema*.

        A pair that is met again while it is compared is taken to fit: each round takes a step into a finite value, so
        that a value which did not fit would have a smaller one within it that doesn't.
        """
        self._spend()
        pair = (frozenset(map(id, facts.parts)), id(schema))
        if self.library.key(schema) in facts.keys or pair in self._pending:
            return
        if len(self._pending) >= MAX_DEPTH:
            self._tell(place, "it is nested too deep to compare", DOUBTFUL)
            return
        self._pending.add(pair)
        types = self.library.types(facts)
        if types:
            self._apply(Scope(facts, types, schema, place, sure))
        self._pending.discard(pair)

    def _apply(self, scope: Scope) -> None:
        values = self.library.values(scope.facts, scope.types)
        tried = values is not None and self._try(values, scope)
        schema = scope.schema
        if "$ref" in schema:
            self.compare(scope.facts, self.library.targets[id(schema), "$ref"], scope.place, sure=scope.sure)
        for place, each in enumerate(schema.get("allOf", ())):
            self.compare(scope.facts, each, (*scope.place, "allOf", place), sure=scope.sure)
        for rule in _RULES:
            if scope.types & rule.types and not (tried and rule.tried) and not rule.keywords.isdisjoint(schema):
                rule.check(self, scope)

    def fits(self, facts: Facts, schema: Schema) -> bool:
        """Whether all values of *facts* are certain to fit *schema*."""
        kept, self.found = self.found, []
        try:
            self.compare(facts, schema, (), sure=False)
            return not self.found
        finally:
            self.found = kept

    def refuse(self, scope: Scope, step: str, words: str, *, sure: bool = True) -> None:
        """There is a gap under the keyword *step*; certain if *sure*, and nothing else in the schemas can close it."""
        certain = sure and scope.sure and is_simple(scope.facts)
        self._tell((*scope.place, step), words, CERTAIN if certain else DOUBTFUL)

    def refuse_changed(self, scope: Scope, keyword: str, mine: Any, wanted: Any, *, sure: bool = True) -> None:
        """There is a gap since *keyword* was *mine* and is *wanted*, or the other way round; None is its absence."""
        self.refuse(scope, keyword, say_changed(keyword, *self.ordered(mine, wanted)), sure=sure)

    def ordered(self, mine: Any, wanted: Any) -> tuple[Any, Any]:
        """What is of the older schema first."""
        return (mine, wanted) if self.forward else (wanted, mine)

    def choose(self, forward: str, backward: str) -> str:
        """The words for a gap, by which schema is the older."""
        return forward if self.forward else backward

    def _tell(self, place: tuple[str | int, ...], words: str, grade: str, *, harmless: bool = False) -> None:
        self.found.append(Gap(place, words, grade, harmless))

    # Values that are listed

    def _try(self, values: list[Any], scope: Scope) -> bool:
        """Try each value; whether that settles the matter."""
        if len(values) > MAX_VALUES or not all(map(self._is_checkable, (*scope.facts.parts, scope.schema))):
            return False
        here, there = _build({"allOf": list(scope.facts.parts)}), _build(scope.schema)
        refused = [value for value in values if self._is_lost(value, here, there)]
        if refused:
            listed = to_list(map(to_words, refused), joined="and")
            verb = "is" if len(refused) == 1 else "are"
            words = self.choose(f"{listed} {verb} no longer allowed", f"{listed} {verb} allowed now")
            self._tell((*scope.place, "enum"), words, CERTAIN if scope.sure else DOUBTFUL)
        return True

    def _is_lost(self, value: Any, here: Checker, there: Checker) -> bool:
        """Whether *value* fits *here*, or cannot be checked in time, and doesn't fit *there*."""
        self._spend.look()
        unfit = here.complaints(value, limit=1)
        return (not unfit or not unfit[0].keyword) and not there.accepts(value)

    def _is_checkable(self, schema: Schema) -> bool:
        """Whether values can be checked against *schema* alone, and none is let through untried."""
        self._spend.look()
        document = load_document(_isolate(schema))
        pending = [document.root]
        while pending:
            self._spend()
            part = pending.pop()
            if type(part) is dict:
                sources = [*part.get("patternProperties", ()), *([part["pattern"]] if "pattern" in part else [])]
                if "$ref" in part or not all(map(_is_enforced, sources)):
                    return False
                pending.extend(document.parts(part))
        return True

    # Rules

    def _check_type(self, scope: Scope) -> None:
        wanted = self.library.types(Facts(({"type": scope.schema["type"]},)))
        if not scope.types <= wanted:
            words = [say_types(types) for types in self.ordered(scope.types, wanted)]
            self.refuse(scope, "type", f"the type was {words[0]}, is {words[1]}")

    def _check_listed(self, scope: Scope) -> None:
        keyword = "enum" if "enum" in scope.schema else "const"
        words = self.choose("only listed values are allowed now", "values are allowed that are not listed")
        self.refuse(scope, keyword, words)

    def _check_bounds(self, scope: Scope) -> None:
        whole = scope.types & NUMBERS == {"integer"}
        for side in ("minimum", "maximum"):
            mine = find_bound(scope.facts, side, whole=whole)
            wanted = find_bound(Facts((scope.schema,)), side, whole=whole)
            if wanted is not None and (mine is None or not mine >= wanted):
                self.refuse_changed(scope, side, _say_bound(mine, side), _say_bound(wanted, side))

    def _check_multiple(self, scope: Scope) -> None:
        wanted = scope.schema["multipleOf"]
        units = scope.facts.each("multipleOf") + ([1] if scope.types & NUMBERS == {"integer"} else [])
        if not any(is_multiple(unit, wanted) for unit in units):
            mine = scope.facts.each("multipleOf")
            self.refuse_changed(scope, "multipleOf", mine[0] if mine else None, wanted, sure=len(mine) < 2)

    def _check_least(self, scope: Scope, keyword: str) -> None:
        mine, wanted = find_least(scope.facts, keyword), scope.schema[keyword]
        if mine < wanted:
            self.refuse_changed(scope, keyword, mine or None, wanted)

    def _check_most(self, scope: Scope, keyword: str) -> None:
        mine, wanted = find_most(scope.facts, keyword), scope.schema[keyword]
        if mine > wanted:
            self.refuse_changed(scope, keyword, None if mine == float("inf") else mine, wanted)

    def _check_pattern(self, scope: Scope) -> None:
        wanted, mine = scope.schema["pattern"], scope.facts.each("pattern")
        if wanted not in mine and wanted not in _EMPTY_PATTERNS:
            self.refuse_changed(scope, "pattern", mine[0] if mine else None, wanted, sure=not mine)

    def _check_unenforced(self, scope: Scope) -> None:
        """Not every checker holds values to these, and what they let in is not compared."""
        for keyword in UNENFORCED:
            if keyword in scope.schema and scope.schema[keyword] not in scope.facts.each(keyword):
                mine = scope.facts.each(keyword)
                self.refuse_changed(scope, keyword, mine[0] if mine else None, scope.schema[keyword], sure=False)

    def _check_unique(self, scope: Scope) -> None:
        known = any(scope.facts.each("uniqueItems")) or find_most(scope.facts, "maxItems") <= 1
        if scope.schema["uniqueItems"] and not known:
            self.refuse(scope, "uniqueItems", self.choose("items may not repeat now", "items may repeat now"))

    def _check_items(self, scope: Scope) -> None:
        facts, first = scope.facts, scope.schema.get("prefixItems", ())
        most = find_most(facts, "maxItems")
        last = max([len(first), *map(len, facts.each("prefixItems"))])
        for place in range(last + 1):
            step = ("prefixItems", place) if place < len(first) else ("items",)
            if place < most and (place < len(first) or "items" in scope.schema):
                wanted = first[place] if place < len(first) else scope.schema["items"]
                inner = self.library.gather(*find_item(facts, place))
                self.compare(inner, to_schema(wanted), (*scope.place, *step), sure=self._is_sure(scope))

    def _check_contains(self, scope: Scope) -> None:
        least, most = scope.schema.get("minContains", 1), scope.schema.get("maxContains")
        if (least == 0 and most is None) or any(self._contains(part, scope.schema) for part in scope.facts.parts):
            return
        empty = least > 0 and find_least(scope.facts, "minItems") == 0
        self.refuse(scope, "contains", "what an array has to contain was changed", sure=empty)

    def _contains(self, part: Schema, schema: Schema) -> bool:
        """Whether *part* asks for at least what *schema* asks arrays to contain."""
        if "contains" not in part or part.get("minContains", 1) < schema.get("minContains", 1):
            return False
        if self.library.key(part["contains"]) == self.library.key(schema["contains"]):
            return bool(part.get("maxContains", float("inf")) <= schema.get("maxContains", float("inf")))
        inner = self.library.gather(part["contains"])
        return "maxContains" not in schema and self.fits(inner, schema["contains"])

    def _check_required(self, scope: Scope) -> None:
        for name in [name for name in scope.schema["required"] if name not in find_required(scope.facts)]:
            quoted = to_quoted(name)
            words = self.choose(f"{quoted} is required now", f"{quoted} is no longer required")
            self.refuse(scope, "required", words)

    def _check_dependent_required(self, scope: Scope) -> None:
        for name, needs in scope.schema["dependentRequired"].items():
            known = {*find_required(scope.facts), name}
            known.update(*(each.get(name, ()) for each in scope.facts.each("dependentRequired")))
            if not known.issuperset(needs):
                self.refuse(scope, "dependentRequired", f"what has to be there beside {to_quoted(name)} was changed")

    def _check_dependent_schemas(self, scope: Scope) -> None:
        for name, wanted in scope.schema["dependentSchemas"].items():
            mine = [each[name] for each in scope.facts.each("dependentSchemas") if name in each]
            held = scope.facts.add(self.library.gather(*mine), Facts(({"required": [name]}, {"type": "object"})))
            if not self.fits(held, wanted):
                words = f"what holds where {to_quoted(name)} is there was changed"
                self.refuse(scope, "dependentSchemas", words, sure=False)

    def _check_properties(self, scope: Scope) -> None:
        for name, wanted in scope.schema["properties"].items():
            found, declared = find_property(scope.facts, name)
            inner, place = self.library.gather(*found), (*scope.place, "properties", name)
            if not declared and is_open(scope.facts) and is_simple(scope.facts):
                words = self.choose("a property was added", "a property was removed")
                self._tell(place, words, OPEN, harmless=self.fits(inner, wanted))
            else:
                self.compare(inner, wanted, place, sure=self._is_sure(scope))

    def _check_pattern_properties(self, scope: Scope) -> None:
        """The same pattern speaks of all the names that it does here; else each name that is known is looked at."""
        for source, wanted in scope.schema["patternProperties"].items():
            place = (*scope.place, "patternProperties", source)
            same = [each[source] for each in scope.facts.each("patternProperties") if source in each]
            if same:
                self.compare(self.library.gather(*same), wanted, place, sure=self._is_sure(scope))
            else:
                self._check_other_pattern(scope, source, wanted, place)

    def _check_other_pattern(self, scope: Scope, source: str, wanted: Schema, place: tuple[str | int, ...]) -> None:
        facts = scope.facts
        for name in find_names(facts, "properties"):
            if is_match(source, name) is not False:
                self.compare(self.library.gather(*find_property(facts, name)[0]), wanted, place, sure=False)
        rest = [to_schema(part["additionalProperties"]) for part in facts.parts if _rules_all_others(part)]
        if rest or find_names(facts, "patternProperties"):
            self.compare(self.library.gather(*rest), wanted, place, sure=False)
        elif not self.fits(Facts(), wanted):
            self._tell(place, self.choose("a pattern was added", "a pattern was removed"), OPEN)

    def _check_other_properties(self, scope: Scope) -> None:
        """Every property that the schema doesn't name: those named by the facts, and then all others."""
        facts, wanted = scope.facts, to_schema(scope.schema["additionalProperties"])
        for name in find_names(facts, "properties"):
            matched = self._is_named(scope.schema, name)
            if not matched:
                self._compare_other(scope, name, wanted, sure=matched is False)
        for source in find_names(facts, "patternProperties"):
            if source not in scope.schema.get("patternProperties", ()):
                inner = [each[source] for each in facts.each("patternProperties") if source in each]
                place = (*scope.place, "patternProperties", source)
                self.compare(self.library.gather(*inner), wanted, place, sure=False)
        self._compare_rest(scope, wanted)

    def _is_named(self, schema: Schema, name: str) -> bool | None:
        """Whether *schema* speaks of the property *name*; None where a pattern might."""
        if name in schema.get("properties", ()):
            return True
        matches = [is_match(source, name) for source in schema.get("patternProperties", ())]
        return True if True in matches else None if None in matches else False

    def _compare_other(self, scope: Scope, name: str, wanted: Schema, *, sure: bool) -> None:
        inner = self.library.gather(*find_property(scope.facts, name)[0])
        place = (*scope.place, "properties", name)
        if wanted is not NOTHING:
            self.compare(inner, wanted, place, sure=sure and self._is_sure(scope))
        elif self.library.types(inner):
            words = self.choose("the property was removed, and is refused now", "a property was added")
            self._tell(place, words, CERTAIN if sure and self._is_sure(scope) else DOUBTFUL)

    def _compare_rest(self, scope: Scope, wanted: Schema) -> None:
        rest = [to_schema(each) for each in scope.facts.each("additionalProperties")]
        inner = self.library.gather(*rest)
        place = (*scope.place, "additionalProperties")
        if wanted is not NOTHING:
            self.compare(inner, wanted, place, sure=self._is_sure(scope))
        elif self.library.types(inner):
            words = self.choose("other properties are refused now", "other properties are allowed now")
            self._tell(place, words, CERTAIN if self._is_sure(scope) else DOUBTFUL)

    def _check_names(self, scope: Scope) -> None:
        names = self.library.gather(*scope.facts.each("propertyNames")).add(Facts(({"type": "string"},)))
        self.compare(names, scope.schema["propertyNames"], (*scope.place, "propertyNames"), sure=False)

    def _check_any_of(self, scope: Scope) -> None:
        self._cover(scope, "anyOf")

    def _check_one_of(self, scope: Scope) -> None:
        wanted = sorted(map(self.library.key, scope.schema["oneOf"]))
        if all(sorted(map(self.library.key, each)) != wanted for each in scope.facts.each("oneOf")):
            self._cover(scope, "oneOf")

    def _cover(self, scope: Scope, keyword: str) -> None:
        """Each value needs an alternative, and for ``oneOf`` no second one: else, the values are taken apart."""
        self._spend()
        facts, branches = scope.facts, scope.schema[keyword]
        if not scope.types:
            return
        near = [place for place, each in enumerate(branches) if not self.library.is_apart(facts, each)]
        if (keyword == "anyOf" or len(near) == 1) and any(self.fits(facts, branches[place]) for place in near):
            return
        if split := self.library.split(facts, scope.types):
            for each, exact in split:
                part = scope._replace(facts=each, types=self.library.types(each), sure=scope.sure and exact)
                self._cover(part, keyword)
        elif len(near) == 1:
            place = (*scope.place, keyword, near[0])
            self.compare(facts, branches[near[0]], place, sure=scope.sure and is_simple(facts))
        else:
            self.refuse(scope, keyword, "the alternatives were changed", sure=not near)

    def _check_not(self, scope: Scope) -> None:
        unwanted = to_schema(scope.schema["not"])
        if self.library.is_apart(scope.facts, unwanted):
            return
        inner = self.library.gather(unwanted)
        if not any(self.fits(inner, each) for each in scope.facts.each("not")):
            words = "nothing is allowed" if not unwanted else "what is not allowed was changed"
            self.refuse(scope, "not", words, sure=not unwanted)

    def _check_condition(self, scope: Scope) -> None:
        then, other = (scope.schema.get(keyword, {}) for keyword in ("then", "else"))
        if not then and not other:
            return
        facts, condition = scope.facts, self.library.key(scope.schema["if"])
        same = [part for part in facts.parts if "if" in part and self.library.key(part["if"]) == condition]
        met = facts.add(self.library.gather(*(part["then"] for part in same if "then" in part)))
        unmet = facts.add(self.library.gather(*(part["else"] for part in same if "else" in part)))
        if (then and not self.fits(met, then)) or (other and not self.fits(unmet, other)):
            self.refuse(scope, "if", "what holds under a condition was changed", sure=False)

    def _check_unevaluated(self, scope: Scope) -> None:
        for keyword in ("unevaluatedProperties", "unevaluatedItems"):
            if keyword in scope.schema and to_schema(scope.schema[keyword]):
                self.refuse(scope, keyword, f"{keyword} cannot be compared", sure=False)

    def _is_sure(self, scope: Scope) -> bool:
        return scope.sure and is_simple(scope.facts)


def is_simple(facts: Facts) -> bool:
    """Whether no rule among *facts* depends on what the others say."""
    return all(map(_ENTANGLED.isdisjoint, facts.parts))


def is_open(facts: Facts) -> bool:
    """Whether *facts* leave properties open that they do not name."""
    return not any(to_schema(each) for each in facts.each("additionalProperties"))


def _rules_all_others(part: Schema) -> bool:
    return "additionalProperties" in part and not part.get("patternProperties")


def _is_enforced(source: str) -> bool:
    try:
        return build_pattern(source).cost.base <= 1
    except Untranslatable:
        return False


def _build(schema: Schema) -> Checker:
    return build_checker(_isolate(schema))


def _isolate(schema: Schema) -> Schema:
    """*schema* without the definitions beside it."""
    return {keyword: value for keyword, value in schema.items() if keyword != "$defs"}


def say_types(types: frozenset[str]) -> str:
    """Types as a phrase."""
    if types == EVERY:
        return "any"
    names = sorted(types - NUMBERS) + ["number" if "fraction" in types else "integer"] * bool(types & NUMBERS)
    return to_list(names) or "none"


def say_changed(keyword: str, old: Any, new: Any) -> str:
    """What became of the value of a keyword; None is its absence."""
    if old is None:
        return f"{keyword} {_say(new)} was added"
    return f"{keyword} {_say(old)} was removed" if new is None else f"{keyword} was {_say(old)}, is {_say(new)}"


def _say(value: Any) -> str:
    return str(value) if isinstance(value, _Words) else to_quoted(value)


def _say_bound(bound: tuple[float, bool] | None, side: str) -> Any:
    if bound is None:
        return None
    value = bound[0] if side == "minimum" else -bound[0]
    return _Words(f"{'above' if side == 'minimum' else 'below'} {to_words(value)}") if bound[1] else value


class _Words(str):
    """Words that need no quotes."""


class _Rule(NamedTuple):
    """What checks *keywords*, where one of *types* is left; *tried* where trying all listed values settles it too."""

    keywords: frozenset[str]
    types: frozenset[str]
    check: Callable[[Inclusion, Scope], None]
    tried: bool = True


def _rule(words: str, types: frozenset[str], check: Callable[[Inclusion, Scope], None], *, tried: bool = True) -> _Rule:
    return _Rule(frozenset(words.split()), types, check, tried)


def _counted(keyword: str, types: frozenset[str]) -> tuple[_Rule, _Rule]:
    least, most = f"min{keyword}", f"max{keyword}"
    return (
        _rule(least, types, lambda inclusion, scope: inclusion._check_least(scope, least)),
        _rule(most, types, lambda inclusion, scope: inclusion._check_most(scope, most)),
    )


_RULES: tuple[_Rule, ...] = (
    _rule("type", EVERY, Inclusion._check_type),
    _rule("enum const", EVERY, Inclusion._check_listed),
    _rule("minimum maximum exclusiveMinimum exclusiveMaximum", NUMBERS, Inclusion._check_bounds),
    _rule("multipleOf", NUMBERS, Inclusion._check_multiple),
    *_counted("Length", _STRING),
    _rule("pattern", _STRING, Inclusion._check_pattern),
    _rule(" ".join(UNENFORCED), EVERY, Inclusion._check_unenforced, tried=False),
    *_counted("Items", _ARRAY),
    _rule("uniqueItems", _ARRAY, Inclusion._check_unique),
    _rule("prefixItems items", _ARRAY, Inclusion._check_items),
    _rule("contains", _ARRAY, Inclusion._check_contains),
    *_counted("Properties", _OBJECT),
    _rule("required", _OBJECT, Inclusion._check_required),
    _rule("dependentRequired", _OBJECT, Inclusion._check_dependent_required),
    _rule("dependentSchemas", _OBJECT, Inclusion._check_dependent_schemas),
    _rule("properties", _OBJECT, Inclusion._check_properties),
    _rule("patternProperties", _OBJECT, Inclusion._check_pattern_properties),
    _rule("additionalProperties", _OBJECT, Inclusion._check_other_properties),
    _rule("propertyNames", _OBJECT, Inclusion._check_names),
    _rule("anyOf", EVERY, Inclusion._check_any_of),
    _rule("oneOf", EVERY, Inclusion._check_one_of),
    _rule("not", EVERY, Inclusion._check_not),
    _rule("if", EVERY, Inclusion._check_condition),
    _rule("unevaluatedProperties unevaluatedItems", _OBJECT | _ARRAY, Inclusion._check_unevaluated),
)
