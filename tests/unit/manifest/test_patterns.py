"""The regular expressions of JSON Schema: what they mean in Python's terms, and what they may cost."""

import re
from time import thread_time

import pytest

from colabhive_mcp.manifest.patterns import MAX_SOURCE, Untranslatable, build_pattern, is_portable

NO_LIMIT = float("inf")


def matches(source: str, text: str, *, steps: float = NO_LIMIT, untried: bool = True) -> bool:
    return re.search(build_pattern(source).to_text(steps=steps, untried=untried), text) is not None


@pytest.mark.parametrize(
    ("source", "text", "found"),
    [
        (r"b", "abc", True),
        (r"^\d+$", "12", True),
        (r"^\d$", "٣", False),
        (r"^\w$", "é", False),
        (r"^a$", "a\n", False),
        (r"^.$", "\u2028", False),
        (r"^.$", "é", True),
        (r"^\s$", "\u00a0", True),
        (r"^[\s]$", "\ufeff", True),
        (r"^\S$", "\u2003", False),
        (r"^\/a\/$", "/a/", True),
        (r"^(?<y>\d)\k<y>$", "11", True),
        (r"^(?<y>\d)\k<y>$", "12", False),
        (r"^\u{1F600}$", "😀", True),
        (r"^\uD83D\uDE00$", "😀", True),
        (r"^\u0041\x42\cJ$", "AB\n", True),
        (r"^\0$", "\0", True),
        (r"^[^]$", "\n", True),
        (r"[]", "a", False),
        (r"^[\w-.]+$", "a-b.c", True),
        (r"^[[&&~~||]+$", "[&~|", True),
        (r"^a{,3}$", "a{,3}", True),
        (r"^(?=a)\w$", "a", True),
        (r"^(?<!a)b$", "b", True),
    ],
)
def test_meaning(source: str, text: str, found: bool) -> None:
    """A pattern means in Python what it means in ECMAScript."""
    assert matches(source, text) is found


@pytest.mark.parametrize(
    "source", ["(", "*a", r"\p{L}", r"[\p{L}]", "(?<=a+)b", "[a--b]", r"\u{110000}", "a{99999999999}"]
)
def test_untranslatable(source: str) -> None:
    """What Python has no equal of is said to be untranslatable."""
    with pytest.raises(Untranslatable):
        build_pattern(source)


@pytest.mark.parametrize(
    ("source", "portable"),
    [
        (r"^[a-z]+$", True),
        (r"^\/\.\-?$", False),
        (r"^[\-a]\/$", True),
        (r"(?P<x>a)", False),
        (r"(?<x>a)\k<x>", True),
        (r"(?:a|(?=b)|(?!c))", True),
        (r"(?i)a", False),
        (r"\A\d+\Z", False),
        (r"[\w-.]", False),
        (r"[\w.-]", True),
        (r"^{a}$", False),
        (r"^\{a\}$", True),
        (r"a]", False),
        (r"a*+", False),
        (r"\u0041\u{41}\x41\cA\0", True),
        (r"\u41", False),
        ("(", False),
    ],
)
def test_portable(source: str, portable: bool) -> None:
    """A portable pattern compiles under ECMAScript's u flag, and here."""
    assert is_portable(source) is portable


@pytest.mark.parametrize(
    "source",
    [
        r"(a+)+$",
        r"((a+)+)+$",
        r"(a|a)*$",
        r"(a*)*$",
        r"(a*b?)*$",
        r"(a?){40}a{40}$",
        r"\s*\s*\s*\s*x",
        r"(.*)*x",
        r"(\w+\s?)*$",
        r"(x+x+)+y",
        r"^(([a-z])+.)+[A-Z]([a-z])+$",
        r"(?:a+){20}$",
        r"(a{1,30}){1,30}$",
    ],
)
@pytest.mark.parametrize("text", ["a" * 5_000 + "!", " " * 5_000 + "!", "x" * 40 + "!"])
def test_bounded(source: str, text: str) -> None:
    """A text that a pattern could run away on is not tried, and one that is tried is done in no time."""
    started = thread_time()
    matches(source, text, steps=3_000_000)
    assert thread_time() - started < 10


@pytest.mark.parametrize("untried", [True, False])
def test_untried(untried: bool) -> None:
    """A text that is too long for its pattern gets the answer that was given for it; a short one gets the true one."""
    assert matches(r"(a+)+$", "a" * 500 + "!", steps=1_000_000, untried=untried) is untried
    assert matches(r"(a+)+$", "aa!", steps=1_000_000, untried=untried) is False
    assert matches(r"(a+)+$", "!aa", steps=1_000_000, untried=untried) is True


@pytest.mark.parametrize(
    ("source", "length"),
    [
        (r"^[a-z0-9]+$", 1_000_000),
        (r"^[A-Za-z0-9+/]*={0,2}$", 500_000),
        (r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==)?$", 500_000),
        (r"^[a-z0-9]+(-[a-z0-9]+)*$", 100),
        (r"^([^,]+,)*[^,]+$", 100),
        (r"^(?:foo|bar)+$", 100_000),
        (r"^[^@]+@[^@]+\.[a-z]+$", 100),
        (r"^\d{1,3}(\.\d{1,3}){3}$", 10_000),
        (r"\S", 100_000),
    ],
)
def test_ordinary_patterns_are_tried(source: str, length: int) -> None:
    """The patterns that schemas are full of are tried on texts of the length that they are made for."""
    assert build_pattern(source).cost.price(length) <= 3_000_000


@pytest.mark.parametrize(
    "source", ["[" * MAX_SOURCE, "(" * 2_000_000, "a" * (MAX_SOURCE + 1), "(" * 1_500 + "a" * 1_000 + ")" * 1_500]
)
def test_what_nobody_could_run_is_refused_at_once(source: str) -> None:
    """A pattern that is too long, never closed or nested beyond reason is given up, and holds nothing up."""
    started = thread_time()
    with pytest.raises(Untranslatable):
        build_pattern(source)
    assert not is_portable(source)
    assert thread_time() - started < 5
