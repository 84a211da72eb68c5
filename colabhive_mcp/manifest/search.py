"""Tools found by words and by what their manifests state: an index in memory, one a copy of the manifest.

Ranked by SQLite's FTS5, and bounded: where more tools match than can be ranked in a few milliseconds, only those are
that are likely to be the best. It knows what a tool states, and nothing of who asks or how the answer is shown.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
import weakref
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from colabhive_mcp.errors import ConfigError
from colabhive_mcp.manifest.model import Tool
from colabhive_mcp.manifest.queries import COSTS, LATENCIES, Found, Hit, Query

if TYPE_CHECKING:
    from sqlite3 import Connection

MAX_COUNTED = 100  # of more matches than can be ranked; that there are many is all that anybody needs to know
MAX_TEXT = 2000  # characters of a search that are read
MAX_WORDS = 8  # of a search that are looked for

_RANKED = 600  # matches of all words together, about 3 µs each; of more only the likely best are ranked
_READ = 400  # matches that are ranked at once then
_MAX_COMMON = 3  # words that are looked for, of those that more than _RANKED tools have
_MIN_BEGINNING = 3  # letters of a word that is looked for as the beginning of others
_MAX_BEGUN = 64  # words that begin so
_MAX_HAVING = 3000  # tools with each of them; a beginning of more tells nothing, and costs much
_MAX_PARTS = 2000  # of an input schema, and names and descriptions in it, that are read
_MAX_LENGTH = 20_000  # characters of a column that are read
_MAX_TAGS = 32  # of a tool that are read
_MAX_KEPT = 100  # masks of what is asked for

_TABLES = (
    "CREATE VIRTUAL TABLE found USING {engine}(name, tags, about, more, content='', "
    "tokenize='porter unicode61 remove_diacritics 2')",
    "CREATE VIRTUAL TABLE words USING fts5vocab(found, row)",
)
_INSERT = "INSERT INTO found(rowid, name, tags, about, more) VALUES (?, ?, ?, ?, ?)"
_LIST_WORDS = "SELECT term, doc FROM words ORDER BY term"
_MATCHES = "FROM found WHERE found MATCH ?"
_PASSES = " AND substr(?, rowid + 1, 1) = x'01'"  # of a mask
_COUNT = "SELECT count(*) FROM (SELECT 1 {source} LIMIT ?)"
_ARM = (  # its limit keeps SQLite from merging it into the whole, where nothing can be scored
    "SELECT * FROM (SELECT rowid AS number, bm25(found, 10, 6, 3, 1) AS score {source} LIMIT -1)"
)
_RANK = (
    "SELECT number, count(*) OVER () FROM ({arms}) GROUP BY number "
    "ORDER BY number >= ?, count(*) DESC, sum(score), number LIMIT ?"
)
_STEP = (
    "SELECT number FROM (SELECT rowid AS number, bm25(found, 10, 6, 3, 1) AS score {source} "
    "AND rowid BETWEEN ? AND ? LIMIT ?) ORDER BY score, number LIMIT ?"
)

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_IDEOGRAPH = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])")
_EMPTY_WORD = re.compile(  # says nothing of a tool
    "an?|and|any|are|as|at|be|by|can|do|does|for|from|have|how|i|in|into|is|it|me|my|need|of|on|or|please|some|that|the|"
    "this|to|tools?|use|using|want|what|which|with|you"
)
_NESTING = ("items", "allOf", "anyOf", "oneOf")

Facet = tuple[str, str]
"""What a limit asks for: the name of a field, and one of its values."""

Mask = bytes
"""What passes: a byte for each tool, 1 where it does, else 0."""


class Index:
    """The tools of one copy, for any number of threads; read at the first search.

    ``find(query)`` is a search; ``kinds`` are the kinds that there are.
    """

    def __init__(self, hits: Iterable[Hit]) -> None:
        self._hits = sorted(hits, key=lambda hit: (hit.tool.deprecated, hit.tool.slug))
        self._current = sum(not hit.tool.deprecated for hit in self._hits)
        self._facets: dict[Facet, array[int]] = {}
        self._having: dict[Facet, int] = {}
        self._words: list[tuple[str, int]] = []
        self._connection: Connection | None = None
        self._lock = Lock()
        self.kinds = tuple(sorted({hit.tool.kind for hit in self._hits if hit.tool.kind is not None}))

    def find(self, query: Query, *, limit: int = 10) -> Found:
        """The best *limit* hits, in the same order each time.

        Tools that match more words come first, then by `bm25`, then by slug; deprecated ones after all others.
        Without a word it is by slug alone. Where very many tools have a word, the order is only likely to be so.
        Raises ConfigError where SQLite has no FTS5.
        """
        words = parse_words(query.words)
        with self._lock:
            if self._connection is None:
                self._connection = self._build()
            search = _Search(self._connection, self._words, self._find_passing(query), self._current, limit)
            ranking = search.rank(words) if words else search.list_all()
        return Found(tuple(self._hits[number] for number in ranking.numbers), ranking.total, ranking.at_least)

    def _find_passing(self, query: Query) -> Mask:
        """The tools within the limits of *query*."""
        wanted = set(_to_wanted(query))
        unwanted = {("effect", effect.casefold()) for effect in query.without_side_effects}
        if not self._facets.keys() >= wanted:
            return bytes(len(self._hits))
        passing = int.from_bytes(b"\x01" * len(self._hits), "little")
        for facet in wanted:
            passing &= self._find_having(facet)
        for facet in unwanted & self._facets.keys():
            passing &= ~self._find_having(facet)
        return passing.to_bytes(len(self._hits), "little")

    def _find_having(self, facet: Facet) -> int:
        """The tools that state *facet*, which some do, as the number that a mask spells; kept for the first of them."""
        having = self._having.get(facet)
        if having is None:
            mask = bytearray(len(self._hits))
            for number in self._facets[facet]:
                mask[number] = 1
            having = int.from_bytes(mask, "little")
            if len(self._having) < _MAX_KEPT:
                self._having[facet] = having
        return having

    def _build(self) -> Connection:
        connection = _connect()
        weakref.finalize(self, connection.close)
        rows = []
        facets: defaultdict[Facet, array[int]] = defaultdict(lambda: array("I"))
        for number, hit in enumerate(self._hits):
            manifest = hit.tool.load()
            rows.append((number, *map(_spell, _to_texts(hit, manifest))))
            for facet in _to_facets(hit.tool, manifest):
                facets[facet].append(number)
        self._facets = dict(facets)
        connection.execute("BEGIN")
        connection.executemany(_INSERT, rows)
        connection.execute("INSERT INTO found(found) VALUES ('optimize')")
        connection.execute("COMMIT")
        self._words = connection.execute(_LIST_WORDS).fetchall()
        return connection


def build_index(tools: Iterable[Tool], names: Mapping[str, str]) -> Index:
    """An index of *tools*, each of which *names* has the client's name of, by slug."""
    return Index(Hit(names[tool.slug], tool) for tool in tools)


def parse_words(text: str | None) -> tuple[str, ...]:
    """The distinct words of *text* that are looked for, at most MAX_WORDS; each is only letters and digits.

    ``getWeather`` is three words: itself and its parts. Words that say nothing of a tool, such as "the", are left out
    where there are others.
    """
    words: dict[str, str] = {}
    for word in _WORD.findall((text or "")[:MAX_TEXT]):
        for part in (word, *_find_parts(word)):
            words.setdefault(part.casefold(), part)
    telling = [word for key, word in words.items() if not _EMPTY_WORD.fullmatch(key)]
    return tuple(telling or words.values())[:MAX_WORDS]


def _find_parts(word: str) -> list[str]:
    """The words that a name is made of by its capitals and digits; a single letter is none."""
    parts = _HUMP.split(word) if not word.islower() or not word.isalpha() else [word]
    return [part for part in parts if len(part) > 1] if len(parts) > 1 else []


def _connect(engine: str = "fts5") -> Connection:
    import sqlite3  # noqa: PLC0415 - only where there is a search

    # Threads take turns by the lock of the index.
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        for table in _TABLES:
            connection.execute(table.format(engine=engine))
    except sqlite3.OperationalError as error:
        connection.close()
        raise ConfigError(
            f"Tools cannot be searched, since this Python's SQLite {sqlite3.sqlite_version} lacks FTS5 ({error}): "
            "list them all with listing = all, or run on a Python whose SQLite has FTS5"
        ) from error
    return connection


# What is indexed


def _to_facets(tool: Tool, manifest: Mapping[str, Any]) -> Iterator[Facet]:
    """What *tool* states, as the filters ask for it; a label has the facets of all limits that let it pass."""
    yield from (("cost", limit) for limit in _limits(COSTS, tool.cost))
    yield from (("latency", limit) for limit in _limits(LATENCIES, tool.latency))
    yield from (("tag", tag.casefold()) for tag in _tags(manifest))
    if tool.kind is not None:
        yield ("kind", tool.kind.casefold())
    if tool.side_effects is not None:
        yield ("effects", "stated")
        yield from (("effect", effect.casefold()) for effect in tool.side_effects)


def _to_wanted(query: Query) -> Iterator[Facet]:
    """What a tool must state to be within the limits of *query*."""
    named = (("kind", query.kind), ("cost", query.max_cost), ("latency", query.max_latency))
    yield from ((name, value.casefold()) for name, value in named if value is not None)
    yield from (("tag", tag.casefold()) for tag in query.tags)
    if query.without_side_effects:
        yield ("effects", "stated")


def _limits(order: Sequence[str], label: str | None) -> Sequence[str]:
    return order[order.index(label) :] if label in order else ()


def _to_texts(hit: Hit, manifest: Mapping[str, Any]) -> Iterator[str]:
    """The columns of the index."""
    title, details, category = (_texts([manifest.get(key)]) for key in ("displayName", "longDescription", "category"))
    yield " ".join(map(_split, [*sorted({hit.tool.slug, hit.name}), *title]))
    yield " ".join(map(_split, [*_tags(manifest), *category, *_texts([hit.tool.kind])]))
    yield hit.tool.description or ""
    yield " ".join([*details, *itertools.islice(_to_parts(manifest.get("inputSchema")), _MAX_PARTS)])


def _to_parts(schema: Any) -> Iterator[str]:
    """The names and descriptions of an input's properties, at any depth, the outer ones first."""
    parts = [schema]
    for part in parts:  # which grows meanwhile
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            properties, description = part.get("properties"), part.get("description")
            if isinstance(description, str):
                yield description
            if isinstance(properties, dict):
                yield from map(_split, properties)
                parts += properties.values()
            parts += [part[keyword] for keyword in _NESTING if keyword in part]
        if len(parts) > _MAX_PARTS:
            return


def _tags(manifest: Mapping[str, Any]) -> list[str]:
    return _texts(manifest.get("tags"))[:_MAX_TAGS]


def _texts(values: Any) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _split(name: str) -> str:
    """A name, and the words that it is made of: ``getWeather get Weather``."""
    return " ".join([name, *_find_parts(name)])


def _spell(text: str) -> str:
    """*text* with each ideograph as a word of its own, since words of them are written without spaces."""
    text = text[:_MAX_LENGTH]
    return text if text.isascii() else _IDEOGRAPH.sub(r" \1 ", text.encode("utf-8", "replace").decode())


def _strip_accents(word: str) -> str:
    """*word* in lower case without diacritics, as the tokenizer writes it."""
    return "".join(each for each in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(each))


# One search


@dataclass(frozen=True, slots=True)
class _Search:
    """One search, under the lock. Tools are known by their numbers, of which the first *current* are not deprecated.

    *words* are all words of the tools in order, as the tokenizer writes them, each with the number of its tools.
    """

    connection: Connection
    words: Sequence[tuple[str, int]]
    passing: Mask
    current: int
    limit: int

    def list_all(self) -> _Ranking:
        """The first tools within the limits."""
        numbers = (number for number, passes in enumerate(self.passing) if passes)
        return _Ranking([*itertools.islice(numbers, self.limit)], self.passing.count(1))

    def rank(self, words: Sequence[str]) -> _Ranking:
        """The best of the tools within the limits that match any of *words*."""
        terms = _choose([term for term in map(self._to_term, words) if term is not None])
        few = self.passing.count(1)
        if sum(min(term.matches, few) for term in terms) <= _RANKED:
            return self._rank_all([term.text for term in terms])
        return self._rank_likely(terms)

    def _rank_all(self, terms: Sequence[str]) -> _Ranking:
        if not terms:
            return _Ranking([], 0)
        arms = " UNION ALL ".join([_ARM.format(source=self._source())] * len(terms))
        values = [value for term in terms for value in (term, *self._filters())]
        rows = self.connection.execute(_RANK.format(arms=arms), (*values, self.current, self.limit)).fetchall()
        return _Ranking([row[0] for row in rows], rows[0][1] if rows else 0)

    def _rank_likely(self, terms: Sequence[_Term]) -> _Ranking:
        """Step by step until there are enough, the current tools first."""
        best: dict[int, None] = {}
        spans = ((0, self.current - 1), (self.current, len(self.passing) - 1))
        query = _STEP.format(source=self._source())
        for span, step in itertools.product(spans, _to_steps(terms)):
            if len(best) < self.limit:
                values = (step, *self._filters(), *span, _READ, self.limit)
                best.update((row[0], None) for row in self.connection.execute(query, values))
        total = self._count(_join("OR", terms))
        return _Ranking([*best][: self.limit], total, total == MAX_COUNTED)

    def _to_term(self, word: str) -> _Term | None:
        """*word* for FTS5: itself, or as the beginning of others where no tool has it; None where none has that."""
        text = f'"{_spell(word).strip()}"'
        matches = self._count_all(text)
        if matches:
            return _Term(text, matches)
        return _Term(f"{text}*", self._count_all(f"{text}*")) if self._is_beginning(_strip_accents(word)) else None

    def _is_beginning(self, word: str) -> bool:
        """Whether words that not too many tools have begin with *word*."""
        first = bisect_left(self.words, (word,))
        after = bisect_left(self.words, (word + "\U0010ffff",), first)
        if len(word) < _MIN_BEGINNING or after - first > _MAX_BEGUN:
            return False
        return 0 < sum(count for _, count in self.words[first:after]) <= _MAX_HAVING

    def _count(self, expression: str) -> int:
        """How many tools within the limits match, counted up to MAX_COUNTED."""
        values = (expression, *self._filters(), MAX_COUNTED)
        return int(self.connection.execute(_COUNT.format(source=self._source()), values).fetchone()[0])

    def _count_all(self, term: str) -> int:
        """How many tools match, limits or no, counted up to just more than can be ranked."""
        query = _COUNT.format(source=_MATCHES)
        return int(self.connection.execute(query, (term, _RANKED + 1)).fetchone()[0])

    def _source(self) -> str:
        return f"{_MATCHES}{_PASSES}" if self._filters() else _MATCHES

    def _filters(self) -> list[Mask]:
        return [self.passing] if 0 in self.passing else []


class _Ranking(NamedTuple):
    """What `Found` holds, with numbers for hits."""

    numbers: list[int]
    total: int
    at_least: bool = False


class _Term(NamedTuple):
    """A word as FTS5 reads it, and how many tools match it; of more than _RANKED just one more is counted."""

    text: str
    matches: int


def _choose(terms: Sequence[_Term]) -> list[_Term]:
    """The terms to rank by, those that fewest tools match first; of those that many match only a few."""
    ordered = sorted(terms, key=lambda term: term.matches)
    return ordered[: sum(term.matches <= _RANKED for term in terms) + _MAX_COMMON]


def _to_steps(terms: Sequence[_Term]) -> list[str]:
    """Where the best of more matches than can be ranked are likely to be.

    Among tools that match every word, in their names at first; then among those that match words that few have, with
    the common ones at first; then among those that match any.
    """
    every, some = _join("AND", terms), _join("OR", terms)
    rare = _join("OR", [term for term in terms if term.matches <= _RANKED])
    common = _join("AND", [term for term in terms if term.matches > _RANKED])
    both = f"({rare}) AND {common}" if rare and common else ""
    steps = (f"name : ({every})", every, both, rare, f"name : ({some})", some)
    return [*dict.fromkeys(filter(None, steps))]


def _join(operator: str, terms: Sequence[_Term]) -> str:
    return f" {operator} ".join(term.text for term in terms)
