"""Bytes → values: one encoding, one mapping of what JSON cannot carry, and text where an operation answers none."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.errors import BadAnswer
from colabhive_mcp.gateway.answers import (
    Answer,
    decode_text,
    parse_deep_json,
    parse_json,
    to_loose_value,
    to_object,
    to_value,
)


def build_answer(body: bytes, *, status: int = 200, content_type: str = "application/json") -> Answer:
    """An answer with *body*."""
    return Answer(status, {"Content-Type": content_type}, body, "gateway.example")


def read(body: bytes, *, content_type: str = "application/json", notes: list[str] | None = None) -> Any:
    """The JSON value of *body*."""
    note = (notes if notes is not None else []).append
    return to_value(build_answer(body, content_type=content_type), note=note, redact=str)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"NaN", "NaN"),
        (b"[Infinity, -Infinity]", ["Infinity", "-Infinity"]),
        (b"1e999", "1e999"),
        (b"-1E+400", "-1E+400"),
        (b"1e0000999", "1e0000999"),
        (b"1e308", 1e308),
        (b"1e-999", 0.0),
        (b"9" * 309 + b".0", "9" * 309 + ".0"),
        (b"9223372036854775809", 2**63 + 1),
        (b"-18446744073709551617", -(2**64) - 1),
        (b"1" * 1000, int("1" * 1000)),
        (b"1" * 5000, "1" * 5000),
        (b"0.1", 0.1),
        (b'{"a": [1.5, {"b": 2e3}], "e999": "1e999"}', {"a": [1.5, {"b": 2000.0}], "e999": "1e999"}),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_numbers_are_kept_or_become_their_text(body: bytes, value: Any) -> None:
    """Integers are exact; what no JSON number or no double can hold becomes a string, and the rest stays as it is."""
    assert read(body) == value
    assert type(read(body)) is type(value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=20))
def test_every_value_can_be_written_for_a_strict_parser(value: Any) -> None:
    """Whatever the gateway wrote, the value that comes of it is plain JSON."""
    body = f"[{json.dumps(value)}, 1e999, NaN]".encode()
    json.dumps(read(body), allow_nan=False)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_numbers_that_fit_are_never_changed(value: float) -> None:
    """Numbers that are too large are text, and no other is."""
    assert read(json.dumps([value]).encode()) == [value]


@pytest.mark.parametrize(
    ("body", "content_type", "value", "damaged"),
    [
        ('"ä한"'.encode(), "application/json", "ä한", False),
        ('"ä한"'.encode(), "application/json; charset=iso-8859-1", "ä한", False),
        ('"ä한"'.encode(), "text/plain", "ä한", False),
        ('"ä한"'.encode(), "text/plain; charset=euc-kr", "ä한", False),
        (b"\xef\xbb\xbf" + '"ä"'.encode(), "application/json", "ä", False),
        (b'"a\xffb"', "application/json", "a\ufffdb", True),
        (b'"a\xe4b"', "application/json; charset=iso-8859-1", "a\ufffdb", True),
        ('"\ufffd"'.encode(), "application/json", "\ufffd", False),
        (b'"\\ud83d"', "application/json", "\ud83d", False),
        (b'{"a": 1}', "text/html", {"a": 1}, False),
    ],
)
def test_bytes_are_utf8_whatever_a_header_says(body: bytes, content_type: str, value: Any, damaged: bool) -> None:
    """No header changes the encoding; a byte order mark is dropped; what is no UTF-8 is replaced and noted."""
    notes: list[str] = []
    assert read(body, content_type=content_type, notes=notes) == value
    assert bool(notes) is damaged
    assert decode_text(body).damaged is damaged


def test_no_guessing_library_is_needed() -> None:
    """Decoding works where every library that guesses encodings is missing."""
    program = (
        "import sys, warnings; warnings.simplefilter('ignore');"
        "sys.modules['chardet'] = sys.modules['charset_normalizer'] = None;"
        "from colabhive_mcp.gateway.client import GatewayClient;"
        "from colabhive_mcp.gateway.answers import Answer, to_value;"
        "print(to_value(Answer(200, {}, b'\"\\xc3\\xa4\"', 'h'), note=print, redact=str))"
    )
    done = subprocess.run([sys.executable, "-X", "utf8", "-c", program], capture_output=True, check=False, timeout=60)
    assert (done.stdout.decode().strip(), done.stderr) == ("ä", b"")


PAGE = b"<!-- x -->\n<!DOCTYPE html>\n<html><head><title>Log\n in &amp; &lt;b&gt;out</title></head><p>secret</p></html>"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "an empty body"),
        (b" \r\n", "an empty body"),
        (PAGE, "a web page titled “Log in & out”"),
        (b"<html><body>no title</body></html>", "a web page instead"),
        (b'{"a": [1, 2', "no JSON, or was cut off"),
        (b'{"a": 1} trailing', "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"\x1f\x8b\x00", "no JSON"),
    ],
    ids=lambda value: str(value)[:16],
)
def test_what_is_no_json_is_said_in_one_sentence(body: bytes, words: str) -> None:
    """Status, what came instead, and where to look: never markup, never a parser's words."""
    with pytest.raises(BadAnswer) as caught:
        read(body, content_type="text/html")
    text = str(caught.value)
    assert words in text
    assert text.startswith("gateway.example answered HTTP 200 with ")
    assert "`api_url`" in text
    assert not {"<", ">", "Expecting", "secret"} & {
        text[at : at + size] for at in range(len(text)) for size in (1, 6, 9)
    }
    assert len(text) <= 500


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"null", b"1"])
def test_an_object_is_an_object(body: bytes) -> None:
    """Where the contract says object, no other JSON value is taken."""
    with pytest.raises(BadAnswer, match="where an object is due"):
        to_object(build_answer(body), note=print, redact=str)


@pytest.mark.parametrize(
    ("body", "content_type", "value"),
    [
        (b"", "application/json", {"status": "ok"}),
        (b"\n", "text/plain", {"status": "ok"}),
        (b"\xef\xbb\xbf", "text/plain", {"status": "ok"}),
        (b"[1]", "application/json", [1]),
        (b"7", "text/plain", 7),
        (b"all fine", "text/plain", "all fine"),
        (b"a < b", "text/plain", "a < b"),
        (b"<svg></svg>", "image/svg+xml", "<svg></svg>"),
        ("ä".encode(), "text/plain; charset=latin-1", "ä"),
    ],
)
def test_an_operation_may_answer_text(body: bytes, content_type: str, value: Any) -> None:
    """JSON is its value, empty is ok, anything else is text."""
    assert to_loose_value(build_answer(body, content_type=content_type), note=print, redact=str) == value


@pytest.mark.parametrize(
    ("body", "content_type"), [(PAGE, "text/html"), (PAGE, "text/plain"), (b'{"a', "application/problem+json")]
)
def test_a_page_or_broken_json_is_no_text(body: bytes, content_type: str) -> None:
    """A login page, or JSON cut off, is never given out as an operation's result."""
    with pytest.raises(BadAnswer):
        to_loose_value(build_answer(body, content_type=content_type), note=print, redact=str)


def test_a_title_is_redacted() -> None:
    """What is quoted of a good status goes through the redaction as errors do."""
    with pytest.raises(BadAnswer, match="titled “Log in & XXX”"):
        to_value(build_answer(PAGE), note=print, redact=lambda text: text.replace("out", "XXX"))


def test_parse_json_raises_value_errors_only() -> None:
    """The one thing that callers catch is ValueError, for syntax and for depth."""
    for text in ("{", "[" * 100_000, "", f"[{'1' * 5000}, {'[' * 100_000}", "[1e999"):
        with pytest.raises(ValueError, match=r"\w"):
            parse_json(text)


@pytest.mark.parametrize("depth", [401, 500, 2000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]"), ('{"]}\\"[{":[', "]}")])
def test_what_is_nested_too_deeply_costs_itself(depth: int, opening: str, closing: str) -> None:
    """Of a document that no decoder reads whole, all is there but what lies below the depth that one reads."""
    text = f'{{"before":[1,"]}}\\"{{"],"deep":{opening * depth}1{closing * depth},"after":{{"b":[2]}}}}'
    value = parse_deep_json(text)
    assert (value["before"], value["after"]) == ([1, ']}"{'], {"b": [2]})
    if depth >= 2000:
        assert "nested deeper than 400 levels" in json.dumps(value["deep"])


@pytest.mark.parametrize("depth", [0, 1, 399])
def test_what_is_not_too_deep_is_whole(depth: int) -> None:
    """Nothing is cut where the decoder reads all of it."""
    assert json.dumps(parse_deep_json("[" * depth + "5" + "]" * depth)) == "[" * depth + "5" + "]" * depth


@pytest.mark.parametrize(
    "text",
    ["[" * 5000, "[" * 5000 + "]" * 4999, "[" * 5000 + "]" * 5001, '["' + "[" * 5000, "[" * 5000 + "}" * 5000 + ","],
    ids=["open", "one-open", "one-more", "in-text", "trailing"],
)
def test_deep_text_that_is_no_json_is_refused(text: str) -> None:
    """What was cut off on its way is no document, however deep it is."""
    with pytest.raises(ValueError, match=r"\w"):
        parse_deep_json(text)
