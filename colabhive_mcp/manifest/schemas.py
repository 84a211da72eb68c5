"""JSON Schema for tools: whether a schema can be used, and a compiled checker of values that says what is wrong in
words.

Values are always checked against the manifest's own schema. Nothing is fetched, no schema takes more than a bounded
time, and a checker may be used by many threads. Why not the `jsonschema` package: it re-reads the schema for every
value, so a vector of 10,000 numbers takes it 60 ms, and it can be stopped neither in its alternatives nor in a
regular expression.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from colabhive_mcp.manifest.checking import (
    ANYTHING,
    NOTHING,
    Enough,
    Exhausted,
    Finder,
    Node,
    Refused,
    Run,
    Schema,
    Test,
    count_values,
)
from colabhive_mcp.manifest.client_form import (
    ClientForm,
    is_object_schema,
    to_exact_input,
    to_input_form,
    to_output_form,
)
from colabhive_mcp.manifest.dialects import REFERENCES, UnusableSchema
from colabhive_mcp.manifest.document import Document, load_document
from colabhive_mcp.manifest.keywords import BUILDERS
from colabhive_mcp.manifest.patterns import Pattern, Untranslatable, build_pattern
from colabhive_mcp.manifest.wording import to_path, to_quoted

FUEL = 400_000  # applications of a schema to a value: less than half a second
FUEL_EACH = 2  # as many more for each value in a large one, of a million numbers say
PATIENCE = 30_000_000  # steps of regular expressions: a few tenths of a second


def check_schema(schema: Any) -> None:
    """Refuse what no call could be checked against.

    ``$schema`` is honoured (2020-12 where there is none; 2019-09, draft-07, draft-06, draft-04). The time is linear
    in the size of the schema, whatever its form.

    Raises:
        UnusableSchema: a value has the wrong shape for its dialect, the dialect is unknown, a reference is not local
        or
            leads nowhere or back to itself, the nesting is over 100 levels, or there are over 20,000 subschemas.
    """
    load_document(schema)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a value: the *path* as a program would write it (``messages[0].role``, empty for the whole
    value), and as *message* what was expected there, with no more than 80 characters of the value.
    """

    path: str
    message: str


class Checker:
    """A compiled schema. Immutable, so threads may share it. *notes* say what of the schema is not enforced."""

    __slots__ = ("_compiler", "_root", "notes")

    def __init__(self, compiler: _Compiler, root: Node) -> None:
        self._compiler = compiler
        self._root = root
        self.notes = tuple(compiler.notes)

    def findings(self, value: Any, *, limit: int = 5) -> list[Finding]:
        """At most *limit* things that are wrong with *value*; empty where it fits.

        A value that cannot be checked within bounds has one finding that says so.
        """
        run = Run(fuel=FUEL, patience=PATIENCE, limit=limit)
        try:
            self._check(value, run)
        except Enough:
            pass
        except Exhausted:
            run.found = run.found or [(None, "is too expensive to check against the schema; a smaller value may pass")]
        except RecursionError:
            return [Finding("", "is nested too deeply to check")]
        return [Finding(to_path(place), words) for place, words in run.found or ()]

    def accepts(self, value: Any) -> bool:
        """Whether *value* fits; faster than `findings` where it does not."""
        try:
            self._check(value, Run(fuel=FUEL, patience=PATIENCE, limit=None))
        except (Refused, Exhausted, RecursionError):
            return False
        return True

    def _check(self, value: Any, run: Run) -> None:
        """Apply the root; once more where the fuel was short only because the value is large."""
        try:
            self._root.apply(value, None, run)
        except Exhausted:
            size = count_values(value)
            if size < FUEL // FUEL_EACH:
                raise
            run.fuel = FUEL + FUEL_EACH * size
            self._root.apply(value, None, run)

    def property_checker(self, name: str) -> Checker | None:
        """The checker of one member of an object by what the root says about *name*; None where it says nothing.

        What the root states itself (references and ``allOf`` followed) has to hold; where only alternatives speak of
        *name*, it is enough that one holds.
        """
        certain, possible = self._compiler.document.find_members(name)
        keyword, schemas = ("allOf", certain) if certain else ("anyOf", possible)
        test = BUILDERS[keyword](schemas, {}, self._compiler) if schemas else None
        return Checker(self._compiler, Node(test)) if test else None


def build_checker(schema: Any) -> Checker:
    """The checker of *schema*, compiled whole. Raises UnusableSchema as `check_schema`."""
    compiler = _Compiler(load_document(schema))
    root = compiler.node(schema)
    compiler.run()
    return Checker(compiler, root)


class _Compiler:
    """A document on its way to nodes, each schema once. Complete, and only read, when `run` has returned."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.nodes: dict[int, Node] = {}
        self.pending: list[tuple[dict[str, Any], Node]] = []
        self.finders: dict[int, Finder] = {}
        self.notes: dict[str, None] = {}

    def run(self) -> None:
        """Fill every node that was asked for; keeps its own stack, so the depth of the schema is no matter."""
        while self.pending:
            schema, node = self.pending.pop()
            rules = self.rules(schema)
            node.tests = tuple(self._build_tests(rules))
            node.weight = 1 + sum(len(value) for value in rules.values() if isinstance(value, list | dict)) // 16

    def node(self, schema: Any) -> Node:
        if type(schema) is bool:
            return ANYTHING if schema else NOTHING
        node = self.nodes.get(id(schema))
        if node is None:
            node = self.nodes[id(schema)] = Node()
            self.pending.append((schema, node))
        return node

    def rules(self, schema: Schema) -> Schema:
        return {
            keyword: self.document.target(schema, keyword) if keyword in REFERENCES else value
            for keyword, value in self.document.rules(schema)
        }

    def pattern(self, source: str) -> Pattern | None:
        try:
            return build_pattern(source)
        except Untranslatable as error:
            self.notes[f"the pattern {to_quoted(source)} is not enforced: {error}"] = None
            return None

    def _build_tests(self, rules: Schema) -> Iterator[Test]:
        for keyword, value in rules.items():
            builder = BUILDERS.get(keyword)
            test = builder(value, rules, self) if builder else None
            if test is not None:
                yield test


__all__ = [
    "Checker",
    "ClientForm",
    "Finding",
    "UnusableSchema",
    "build_checker",
    "check_schema",
    "is_object_schema",
    "to_exact_input",
    "to_input_form",
    "to_output_form",
]
