"""Two versions of a schema → what changed for those who send values to it, or get values by it.

For an *input*, a change is breaking where a value that was accepted is refused now; for an *output*, where a value can
come that was not promised before. What cannot be decided is called undecided, never safe. Knows no tools or versions.

A property that the older version of an input did not describe, and did not refuse either, was nobody's to use: to
describe it is to add an optional field. A strict comparison counts the values that were accepted so as well.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from colabhive_mcp.manifest.dialects import ANNOTATIONS, DEFAULT, UnusableSchema
from colabhive_mcp.manifest.document import Document, load_document
from colabhive_mcp.manifest.findings import to_pointer
from colabhive_mcp.manifest.inclusion import CERTAIN, DOUBTFUL, OPEN, UNENFORCED, Gap, find_gaps
from colabhive_mcp.manifest.rewriting import Form, Json, Style, Unbounded, render
from colabhive_mcp.manifest.styles import EXACT, drop
from colabhive_mcp.manifest.wording import to_count

BREAKING = "breaking"
UNDECIDED = "undecided"
ADDITIVE = "additive"
TEXT = "text"
LEVELS = (BREAKING, UNDECIDED, ADDITIVE, TEXT)
"""From the worst down."""

MAX_CHANGES = 100  # of one schema that are told

_TOLD_APART = ANNOTATIONS.difference(UNENFORCED)


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that changed: its place as a JSON pointer, references followed; what it was; and what that means."""

    pointer: str
    words: str
    level: str

    def __post_init__(self) -> None:
        assert self.level in LEVELS
        assert self.pointer == "" or self.pointer.startswith("/")


def compare_inputs(old: Any, new: Any, *, strict: bool = False) -> list[Change]:
    """What changed for those who send values, the worst first; empty where nothing did.

    *strict* counts it as breaking where a property is described that the older version left open.
    """
    return _compare(old, new, _STRICT_INPUT if strict else _INPUT)


def compare_outputs(old: Any, new: Any) -> list[Change]:
    """What changed for those who get values, the worst first; empty where nothing did."""
    return _compare(old, new, _OUTPUT)


def sort_changes(changes: Iterable[Change]) -> list[Change]:
    """The worst first, each only once."""
    return sorted(dict.fromkeys(changes), key=lambda change: LEVELS.index(change.level))


def is_equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: the order of members does not count, and true is not 1."""
    try:
        return to_key(one) == to_key(other)
    except RecursionError:
        return False


Levels = Mapping[tuple[bool, str], str]
"""What a gap means: by whether it is values of the older version that may not fit the newer, and by its grade."""

_INPUT: Levels = {
    (True, CERTAIN): BREAKING,
    (True, DOUBTFUL): UNDECIDED,
    (True, OPEN): ADDITIVE,
    (False, CERTAIN): ADDITIVE,
    (False, DOUBTFUL): ADDITIVE,
    (False, OPEN): UNDECIDED,  # what callers send is still accepted, and may be ignored
}
_STRICT_INPUT: Levels = {**_INPUT, (True, OPEN): BREAKING}
_OUTPUT: Levels = {
    (True, CERTAIN): ADDITIVE,
    (True, DOUBTFUL): ADDITIVE,
    (True, OPEN): ADDITIVE,
    (False, CERTAIN): BREAKING,
    (False, DOUBTFUL): UNDECIDED,
    (False, OPEN): BREAKING,  # what callers read is no longer promised
}


def _compare(old: Any, new: Any, levels: Levels) -> list[Change]:
    if is_equal(old, new):
        return []
    documents = []
    for which, schema in (("older", old), ("newer", new)):
        try:
            documents.append(load_document(schema))
        except UnusableSchema as error:
            return [Change("", f"the {which} version cannot be compared: {error}", UNDECIDED)]
    try:
        changes = [*_compare_rules(_render(documents, _RULES), levels), *_compare_words(_render(documents, _ALL))]
    except (UnusableSchema, Unbounded, RecursionError):
        changes = [Change("", "it is too large or too deep to compare", UNDECIDED)]
    return _limit(sort_changes(changes)) or [Change("", "it is written in another way, and means the same", TEXT)]


def _limit(changes: list[Change]) -> list[Change]:
    if len(changes) <= MAX_CHANGES:
        return changes
    rest = changes[MAX_CHANGES:]
    return [*changes[:MAX_CHANGES], Change("", f"{to_count(len(rest), 'more change', 'more changes')}", rest[0].level)]


def _render(documents: Iterable[Document], style: Style) -> list[Document]:
    """Each in the dialect of 2020-12, with references only where they lead in a circle or would make it grow."""
    return [load_document(render(document, style, _build_rewriting(document))) for document in documents]


def _build_rewriting(document: Document) -> Callable[[Form], Json]:
    return lambda form: form.rewrite(document.root)


def _compare_rules(documents: Iterable[Document], levels: Levels) -> Iterator[Change]:
    """The changes in what is accepted; one that shows in both directions is told once, as the worse."""
    old, new = documents
    told: dict[tuple[Hashable, str], Change] = {}
    for forward, gaps in ((True, find_gaps(old, new, forward=True)), (False, find_gaps(new, old, forward=False))):
        for gap in gaps:
            change = _to_change(gap, forward, levels)
            before = told.setdefault((gap.place, gap.words), change)
            if LEVELS.index(change.level) < LEVELS.index(before.level):
                told[gap.place, gap.words] = change
    yield from told.values()


def _to_change(gap: Gap, forward: bool, levels: Levels) -> Change:
    level = ADDITIVE if gap.harmless and forward else levels[forward, gap.grade]
    ignored = "; what is sent for it may be ignored" if (gap.grade, level) == (OPEN, UNDECIDED) else ""
    return Change(to_pointer(gap.place), gap.words + ignored, level)


def _compare_words(documents: Iterable[Document]) -> Iterator[Change]:
    """The changes in what is said of values, wherever both versions have a schema at the same place."""
    old, new = documents
    pending: list[tuple[Any, Any, tuple[str | int, ...]]] = [(old.root, new.root, ())]
    while pending:
        before, after, place = pending.pop()
        if type(before) is dict and type(after) is dict:
            for keyword in before | after:
                if keyword in _TOLD_APART or keyword not in DEFAULT.shapes:
                    yield from _compare_word(before, after, place, keyword)
            mine, other = _find_parts(before), _find_parts(after)
            pending += [(mine[step], other[step], (*place, *step)) for step in mine.keys() & other.keys()]


def _compare_word(before: Json, after: Json, place: tuple[str | int, ...], keyword: str) -> Iterator[Change]:
    if keyword not in before or keyword not in after:
        words = "was added" if keyword in after else "was removed"
    elif to_key(before[keyword]) != to_key(after[keyword]):
        words = "was changed"
    else:
        return
    level = ADDITIVE if keyword == "default" else TEXT  # a call that leaves it out does something else now
    yield Change(to_pointer((*place, keyword)), f"{keyword} {words}", level)


def _find_parts(schema: Json) -> dict[tuple[str | int, ...], Any]:
    """The subschemas of a schema by their place in it."""
    found: dict[tuple[str | int, ...], Any] = {}
    for keyword, value in schema.items():
        shape = DEFAULT.shapes.get(keyword)
        for part, child in shape.parts(value) if shape and shape.parts and keyword not in UNENFORCED else ():
            found[(keyword,) if part is None else (keyword, part)] = child
    return found


def to_key(value: Any) -> Hashable:
    """A key that is equal for equal JSON values, whatever the order of their members.

    Raises RecursionError for what is nested very deep.
    """
    if type(value) is dict:
        return ("object", frozenset((name, to_key(each)) for name, each in value.items()))
    if type(value) is list:
        return ("array", *map(to_key, value))
    return (type(value) is bool, value)


def _leave(form: Form, written: Json) -> None:
    """Nothing is left to do for a schema as a whole."""


_ALL = Style(EXACT, _leave)
_RULES = Style({**EXACT, **dict.fromkeys(_TOLD_APART, drop)}, _leave)
