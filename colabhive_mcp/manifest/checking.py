"""One check of one value: the tests of a compiled schema, what they find, and the work that they may take.

A test reports what it has against a value; who runs it decides whether a report is recorded or ends the run. The work
is counted, so a schema that multiplies ends in an answer and not in a wait. Knows no keyword and no document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from colabhive_mcp.manifest.patterns import Pattern
from colabhive_mcp.manifest.wording import Trail, to_path, to_words


class Refused(Exception):
    """The value does not fit; raised only in a run that does not ask why."""


class Enough(Exception):
    """As many findings as were asked for."""


class Exhausted(Exception):
    """The check takes more work than it may."""


class Run:
    """What was found, and what is left of the work.

    *fuel* is paid for applying a schema to a value, *patience* for the steps of regular expressions. A run without
    fuel ends; one without patience leaves the patterns untried that it can no longer afford.
    """

    __slots__ = ("explaining", "found", "fuel", "limit", "patience")

    def __init__(self, *, fuel: int, patience: float, limit: int | None) -> None:
        self.fuel = fuel
        self.patience = patience
        self.limit = limit or 0
        self.found: list[tuple[Trail, str]] | None = None if limit is None else []
        self.explaining = False

    def spend(self, work: int) -> None:
        """Pay for *work*; raises Exhausted where it is more than is left."""
        self.fuel -= work
        if self.fuel < 0:
            raise Exhausted

    def report(self, place: Trail, words: str) -> None:
        """A finding: *words* say what was expected at *place*."""
        if self.found is None:
            raise Refused
        if (place, words) not in self.found:
            self.found.append((place, words))
        if len(self.found) >= self.limit:
            raise Enough

    def report_value(self, place: Trail, words: str, value: Any) -> None:
        """A finding that shows the *value* which stands at *place*."""
        if self.found is None:
            raise Refused
        self.report(place, f"{words}, is {to_words(value)}")

    def accepts(self, node: Node, value: Any) -> bool:
        """Whether *node* has nothing against *value*; nothing is recorded."""
        found, self.found = self.found, None
        try:
            node.apply(value, None, self)
        except Refused:
            return False
        finally:
            self.found = found
        return True

    def explain(self, node: Node, value: Any) -> str:
        """The first thing that *node* has against *value*, its place before it where that lies deeper."""
        kept = self.found, self.limit, self.explaining
        self.found, self.limit, self.explaining = [], 1, True
        try:
            node.apply(value, None, self)
        except Enough:
            place, words = self.found[0]
            return f"{to_path(place)}: {words}" if place else words
        finally:
            self.found, self.limit, self.explaining = kept
        return "fits"

    def matches(self, pattern: Pattern, text: str, *, untried: bool) -> bool:
        """Whether *pattern* is found in *text*; *untried* where finding out costs more than is left."""
        price = pattern.price(text)
        if price > self.patience:
            return untried
        self.patience -= price
        return pattern.matches(text)


Test = Callable[[Any, Trail, Run], None]


class Node:
    """A compiled schema. *tests* are filled in after its birth, for schemas refer to each other; *weight* is its
    price.
    """

    __slots__ = ("tests", "weight")

    def __init__(self, *tests: Test) -> None:
        self.tests: tuple[Test, ...] = tests
        self.weight = 1

    def apply(self, value: Any, place: Trail, run: Run) -> None:
        """Put every test to *value*, which stands at *place*."""
        run.fuel -= self.weight  # as `Run.spend`, without a call for every value
        if run.fuel < 0:
            raise Exhausted
        for test in self.tests:
            test(value, place, run)


def _refuse(value: Any, place: Trail, run: Run) -> None:
    run.report(place, "is not allowed here")


def count_values(value: Any) -> int:
    """How many values there are in *value*, itself included."""
    count = 0
    level = [value]
    while level:
        count += len(level)
        level = [each for holder in level for each in _to_members(holder)]
    return count


def _to_members(value: Any) -> Iterable[Any]:
    if type(value) is dict:
        return value.values()
    return value if type(value) is list else ()


Finder = Callable[[Any, Run], Iterable[Any]]
"""What finds the names or places in a value that a schema has looked at."""

Schema = Mapping[str, Any]


class Compiler(Protocol):
    """What turns the parts of a keyword into tests; *finders* remembers those made, by the identity of the schema."""

    finders: dict[int, Finder]

    def node(self, schema: Any) -> Node:
        """The compiled form of a subschema."""

    def pattern(self, source: str) -> Pattern | None:
        """A regular expression, None where it cannot be enforced."""

    def rules(self, schema: Schema) -> Schema:
        """The keywords of *schema* that count, each reference replaced by the schema that it means."""


Builder = Callable[[Any, Schema, Compiler], Test | None]

ANYTHING = Node()
NOTHING = Node(_refuse)
