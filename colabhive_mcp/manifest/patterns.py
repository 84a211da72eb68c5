r"""The regular expressions of JSON Schema, which are ECMAScript's, run by Python's engine within a bound.

What differs between the two and is easy is translated (``\/``, ``\d``, ``(?<name>…)``, ``\u{…}``, ``[^]``, ``$``,
``[\w-.]``). What cannot be translated is not enforced, and the reason is told. Python's engine backtracks and cannot
be stopped, so each pattern has an upper estimate of its steps, and a string for which they could be too many is not
tried.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

_UNICODE = r"\\u\{[0-9A-Fa-f]+\}|\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}"
_ESCAPE = rf"{_UNICODE}|\\x[0-9A-Fa-f]{{2}}|\\c[A-Za-z]|\\[pP]\{{[^}}]*\}}|\\k<[^>]*>|\\[1-9][0-9]*|\\[\s\S]"
_TOKEN = re.compile(
    rf"(?P<escape>{_ESCAPE})"
    r"|(?P<set>\[(?:\\[\s\S]|[^\]\\])*\])"
    r"|(?P<open>\((?:\?(?:<[=!]|[=!:>#]|P?<[^>]*>|P=[^)]*|[A-Za-z-]*:?))?)"
    r"|(?P<close>\))"
    r"|(?P<bar>\|)"
    r"|(?P<repeat>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})[?+]?)"
    r"|(?P<edge>[\^$])"
    r"|(?P<char>[\s\S])"
)
_IN_SET = re.compile(rf"{_ESCAPE}|[\s\S]")
_COUNTS = re.compile(r"\{([0-9]+)(,?)([0-9]*)\}")
_CODE_POINT = re.compile(r"\\[ux]\{?([0-9A-Fa-f]+)\}?(?:\\u([0-9A-Fa-f]{4}))?")

# ECMA-262 CharacterClassEscape s: WhiteSpace and LineTerminator, most of which Python's ASCII mode leaves out.
_SPACES = r"\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_SPACE_ESCAPES = {r"\s": f"[{_SPACES}]", r"\S": f"[^{_SPACES}]"}
_CHARS = {".": r"[^\n\r\u2028\u2029]", "{": r"\{"}
_CLASSES = frozenset({r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"})

# What ECMA-262 lets follow a backslash under the u flag: SyntaxCharacter and /, the known letters, or a longer form.
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_IN_SET_SYNTAX = _SYNTAX | {"-"}
_LETTERS = frozenset("dDwWsSbBfnrtv0123456789")
_TWO_PART = frozenset("uxckpP")
_PYTHON_GROUP = re.compile(r"\(\?(?!<|[=!:])")
_CLASS_IN_RANGE = re.compile(r"\\[dDwWsS]-[^\]]|[^\[]-\\[dDwWsS]")

MAX_SOURCE = 4_000  # characters of a pattern; nobody could read a longer one, and to compile it takes a while
_LONGEST = 1 << 24  # no string that comes here is longer
_LARGE_REPEAT = 100
_UNROLLED_REPEAT = 10


class Untranslatable(ValueError):
    """Python has no equal of this pattern; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a match takes at most, in steps: ``ways * length**degree * base**length``; above 1, *base* runs away."""

    ways: float = 1
    degree: int = 0
    base: float = 1

    def __mul__(self, other: Cost) -> Cost:
        return Cost(self.ways * other.ways, self.degree + other.degree, max(self.base, other.base))

    def price(self, length: int) -> float:
        """The steps for a string of *length* characters; infinite where there is no telling."""
        try:
            return float(self.ways) * float(length) ** self.degree * float(self.base) ** length
        except OverflowError:
            return math.inf


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that Python can run; *source* is as the schema has it."""

    source: str
    regex: re.Pattern[str]
    cost: Cost

    def to_text(self, *, steps: float, untried: bool) -> str:
        """Python's text of the pattern, which answers *untried* for a string that may take more *steps* to search."""
        text = self.regex.pattern
        longest = bisect.bisect_right(range(_LONGEST), steps, key=self.cost.price) - 1
        if longest + 1 == _LONGEST:
            return f"(?a){text}"
        over = rf"[\s\S]{{{longest + 1}}}"
        return rf"(?a)\A(?:{over}|[\s\S]*?(?:{text}))" if untried else rf"(?a)\A(?!{over})[\s\S]*?(?:{text})"


@lru_cache(maxsize=1024)
def build_pattern(source: str) -> Pattern:
    """The pattern *source* in Python's terms.

    Raises:
        Untranslatable: nothing in Python means the same, or it is no pattern at all.
    """
    if len(source) > MAX_SOURCE:
        raise Untranslatable(f"it is longer than {MAX_SOURCE:,} characters")
    reader = _Reader(source)
    text = reader.read()
    try:
        return Pattern(source, re.compile(text, re.ASCII), reader.to_cost())
    except (re.error, OverflowError, RecursionError) as error:
        raise Untranslatable(str(error)) from error


class _Reader:
    """One pass over a pattern that writes Python's text and adds up the cost."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.text: list[str] = []
        self.frames = [_Frame("")]

    def read(self) -> str:
        for token in _TOKEN.finditer(self.source):
            _READ[token.lastgroup or "char"](self, token[0])
        return "".join(self.text)

    def to_cost(self) -> Cost:
        """The cost of the whole pattern; one that may start anywhere is tried from every character."""
        whole = self.frames[0]
        anchored = self.source.startswith("^") and not whole.branches
        return whole.to_cost() * (Cost() if anchored else Cost(degree=1))

    def read_escape(self, text: str) -> None:
        written, exact = _translate_escape(text)
        cost = Cost(degree=1) if text[1] in "123456789k" else _FREE
        self._add(_SPACE_ESCAPES.get(written, written), exact=exact, cost=cost)

    def read_set(self, text: str) -> None:
        self._add(_translate_set(text), exact=False)

    def read_char(self, text: str) -> None:
        if text == "[":  # to go on would be to look for its end again from each of thousands
            raise Untranslatable("a set is not closed")
        self._add(_CHARS.get(text, text), exact=text != ".")

    def read_edge(self, text: str) -> None:
        self.text.append(r"\Z" if text == "$" else text)

    def read_open(self, text: str) -> None:
        self.text.append(text.replace("(?<", "(?P<") if text[:3] == "(?<" and text[3:4] not in "=!" else text)
        self.frames.append(_Frame(text))

    def read_bar(self, text: str) -> None:
        self.text.append(text)
        self.frames[-1].end_branch()

    def read_close(self, text: str) -> None:
        self.text.append(text)
        if len(self.frames) > 1:  # else it closes nothing, which Python's compiler will say
            group = self.frames.pop()
            self.frames[-1].add_group(group)

    def read_repeat(self, text: str) -> None:
        self.text.append(text)
        self.frames[-1].repeat(*_to_counts(text))

    def _add(self, text: str, *, exact: bool, cost: Cost | None = None) -> None:
        self.text.append(text)
        self.frames[-1].add(text, exact=exact, cost=cost or _FREE)


_FREE = Cost()

_READ: Mapping[str, Callable[[_Reader, str], None]] = {
    "escape": _Reader.read_escape,
    "set": _Reader.read_set,
    "open": _Reader.read_open,
    "close": _Reader.read_close,
    "bar": _Reader.read_bar,
    "repeat": _Reader.read_repeat,
    "edge": _Reader.read_edge,
    "char": _Reader.read_char,
}


@dataclass(slots=True)
class _Frame:
    """One open group: the costs of its alternatives, and the characters and sets that it is made of.

    An atom is ``(its text, whether it is one character that has to stand there)``; *starts* has, for each
    alternative, the character that it has to begin with, else None.
    """

    opened: str
    costs: list[Cost] = field(default_factory=list)
    branches: list[Cost] = field(default_factory=list)
    atoms: list[tuple[str, bool]] = field(default_factory=list)
    starts: list[str | None] = field(default_factory=list)
    delimited: bool = False

    def add(self, text: str, *, exact: bool, cost: Cost) -> None:
        if not self.costs:
            self.starts.append(text if exact else None)
        self.costs.append(cost)
        self.atoms.append((text, exact))
        self.delimited = False

    def add_group(self, group: _Frame) -> None:
        if not self.costs:
            self.starts.append(None)
        self.delimited = group.is_delimited()
        self.costs.append(group.to_cost())
        room = _LARGE_REPEAT + 1 - len(self.atoms)  # beyond that nobody looks at them
        self.atoms.extend((text, False) for text, _ in group.atoms[: max(room, 0)])

    def end_branch(self) -> None:
        if not self.costs:
            self.starts.append(None)
        self.branches.append(math.prod(self.costs, start=_FREE))
        self.costs.clear()

    def repeat(self, low: int, high: int | None) -> None:
        if self.costs:
            self.costs[-1] = _to_repeated(self.costs[-1], low, high, delimited=self.delimited)
            if self.atoms:
                self.atoms[-1] = (self.atoms[-1][0], False)
            if len(self.costs) == 1:
                self.starts[-1] = None

    def to_cost(self) -> Cost:
        """All alternatives together; where each begins with a character of its own, no more than one can be tried."""
        every = [*self.branches, math.prod(self.costs, start=_FREE)]
        exclusive = None not in self.starts and len(set(self.starts)) == len(every)
        ways = [cost.ways for cost in every]
        return Cost(
            max(ways) if exclusive else sum(ways), max(cost.degree for cost in every), max(cost.base for cost in every)
        )

    def is_delimited(self) -> bool:
        """Whether its repeats can be told apart: it begins or ends with a character that is nowhere else in it."""
        if self.branches or not self.atoms or len(self.atoms) > _LARGE_REPEAT:
            return False
        return _is_unique(self.atoms[0], self.atoms[1:]) or _is_unique(self.atoms[-1], self.atoms[:-1])


def _is_unique(edge: tuple[str, bool], others: list[tuple[str, bool]]) -> bool:
    text, exact = edge
    try:
        return exact and not any(re.fullmatch(other, text.removeprefix("\\"), re.ASCII) for other, _ in others)
    except re.error:  # a reference to a group, which cannot stand alone
        return False


def _to_repeated(cost: Cost, low: int, high: int | None, *, delimited: bool) -> Cost:
    """The cost of *cost* repeated: choices multiply, unless every repeat can only be read in one way."""
    if high is not None and high <= 1:
        return Cost(cost.ways + high - low, cost.degree, cost.base)
    if cost == _FREE or delimited:
        if high is not None and high <= _LARGE_REPEAT:
            return Cost(cost.ways * (high - low + 1), cost.degree, cost.base)
        return Cost(cost.ways, cost.degree + 1, cost.base)
    if high is not None and high <= _UNROLLED_REPEAT:
        return Cost(cost.ways**high, cost.degree * high, cost.base)
    return Cost(cost.ways, cost.degree, cost.base + cost.ways + cost.degree)


def _to_counts(text: str) -> tuple[int, int | None]:
    if counts := _COUNTS.match(text):
        low = int(counts[1][:9])
        return low, int(counts[3][:9]) if counts[3] else None if counts[2] else low
    return {"*": (0, None), "+": (1, None), "?": (0, 1)}[text[0]]


def _translate_escape(text: str) -> tuple[str, bool]:
    """Python's text for an escape, and whether it means one character."""
    kind = text[1]
    if kind in "pP":
        raise Untranslatable(f"{text} has no equal in Python")
    if kind in "ux" and (code := _CODE_POINT.fullmatch(text)):
        return re.escape(_to_char(code[1], code[2])), True
    if kind == "c" and len(text) > 2:
        return re.escape(chr(ord(text[2]) % 32)), True
    if kind == "k" and len(text) > 3:
        return f"(?P={text[3:-1]})", False
    if kind == "0":
        return r"\x00", True
    return (text, False) if kind.isalnum() else (re.escape(kind), True)


def _to_char(code: str, low: str | None) -> str:
    """The character of a code point, or of a surrogate pair."""
    number = int(code[:9], 16)
    if low is not None:
        number = 0x10000 + ((number - 0xD800) << 10) + (int(low, 16) - 0xDC00)
    if number > 0x10FFFF:
        raise Untranslatable(f"{code} is no code point")
    return chr(number)


def _translate_set(text: str) -> str:
    r"""Python's text for ``[…]``. A hyphen beside a class (``[\w-.]``) means itself, as in ECMAScript without ``u``."""
    negated = text[1] == "^"
    body = text[2 if negated else 1 : -1]
    if not body:
        return r"[\s\S]" if negated else "(?!)"
    if "--" in body:
        raise Untranslatable("a set with -- reads differently in Python")
    parts = [part[0] for part in _IN_SET.finditer(body)]
    written = [_translate_in_set(part, beside=parts[max(place - 1, 0) : place + 2]) for place, part in enumerate(parts)]
    return f"[{'^' * negated}{''.join(written)}]"


def _translate_in_set(part: str, *, beside: list[str]) -> str:
    if part == r"\s":
        return _SPACES
    if part[0] == "\\":
        return _translate_escape(part)[0]
    hyphen_alone = part == "-" and not _CLASSES.isdisjoint(beside)
    return f"\\{part}" if hyphen_alone or part in "[&|~" else part


@lru_cache(maxsize=1024)
def is_portable(source: str) -> bool:
    """Whether every client can compile *source*, and we can.

    Clients compile it as ECMAScript with the ``u`` flag, where an escape without need, a lone bracket and Python's
    own groups are errors; one such pattern costs them the whole list of tools.
    """
    if len(source) > MAX_SOURCE or not all(
        _is_portable_token(token[0], token.lastgroup) for token in _TOKEN.finditer(source)
    ):
        return False
    try:
        build_pattern(source)
    except Untranslatable:
        return False
    return True


def _is_portable_token(text: str, kind: str | None) -> bool:
    match kind:
        case "escape":
            return _is_portable_escape(text, _SYNTAX)
        case "set":
            escapes = (part[0] for part in _IN_SET.finditer(text[1:-1]) if part[0][0] == "\\")
            return not _CLASS_IN_RANGE.search(text) and all(
                _is_portable_escape(part, _IN_SET_SYNTAX) for part in escapes
            )
        case "open":
            return _PYTHON_GROUP.match(text) is None
        case "repeat":
            return not text[1:].endswith("+")
        case "char":
            return text not in "{}[]"
    return True


def _is_portable_escape(text: str, syntax: frozenset[str]) -> bool:
    return len(text) > 2 if text[1] in _TWO_PART else text[1] in syntax or text[1] in _LETTERS
