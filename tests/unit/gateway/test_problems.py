"""Statuses and error bodies → the error to raise, in plain words."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.errors import BadAnswer, GatewayError, GatewayUnreachable, KeyRefused
from colabhive_mcp.gateway.answers import Answer
from colabhive_mcp.gateway.problems import parse_problem, to_error

NOW = 1_767_225_600.0  # Thu, 01 Jan 2026 00:00:00 GMT


def build_error(body: Any, status: int = 400, **headers: str) -> GatewayError:
    """The error that an answer means; a *body* that is no bytes is JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return to_error(Answer(status, named, content, "gateway.example", "the tool 'x'", 1234), redact=str, now=NOW)


def nest(depth: int) -> Any:
    """An error within errors."""
    return {"error": nest(depth - 1)} if depth else {"code": "deep", "message": "at the bottom"}


@pytest.mark.parametrize(
    ("body", "words", "code"),
    [
        ({"detail": "no such field"}, "no such field.", None),
        ({"detail": {"code": "bad", "message": "really no"}}, "really no.", "bad"),
        ({"error": {"code": "bad", "message": "really no!"}}, "really no!", "bad"),
        ({"error": {"code": 17, "message": "x"}}, "x.", "17"),
        ({"error": "text"}, "text.", None),
        ({"error": True, "message": "words"}, "words.", None),
        ({"code": "outer", "detail": {"code": "inner", "message": "m"}}, "m.", "inner"),
        ({"code": "outer", "message": "m"}, "m.", "outer"),
        (
            {"detail": [{"loc": ["body", "input", "text"], "msg": "field required", "type": "missing"}]},
            "body.input.text: field required.",
            None,
        ),
        (
            {"detail": [{"loc": ["body", "items", 3], "msg": "too big"}, {"loc": [], "msg": "alone"}, "plain"]},
            "body.items.3: too big; alone; plain.",
            None,
        ),
        ({"detail": [{"loc": ["a"], "msg": str(turn)} for turn in range(8)]}, "a: 4; and 3 more.", None),
        ({"errors": [{"message": "first"}, {"message": "second"}]}, "first; second.", None),
        ({"error": "invalid_request", "error_description": "missing x"}, "missing x.", None),
        ({"type": "about:blank", "title": "Too bad", "status": 400}, "Too bad.", None),
        (nest(10), "at the bottom.", "deep"),
        ({"strange": {"a": 1}}, '{"strange": {"a": 1}}.', None),
        (["one", ["two"]], 'one; ["two"].', None),
        ("just text", "just text.", None),
        (b"plain text\nsecond line", "plain text second line.", None),
        (b"tab\tand\x00bell\x07", "tab and bell.", None),
        (b"a < b and b > c", "a < b and b > c.", None),
        (b"<Error><Code>Denied</Code><Message>No entry</Message></Error>", "Denied No entry.", None),
        ({"detail": "<html><head><title>Oops</title><style>p{}</style>"}, "a web page titled “Oops”.", None),
        ({"detail": "expected <string> here"}, "expected <string> here.", None),
        ("\ud83d half", "half.", None),
        (b'{"detail": "cut o', '{"detail": "cut o.', None),
        (b"\xff\xfe", "\ufffd\ufffd.", None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_every_form_of_error_body_is_understood(body: Any, words: str, code: str | None) -> None:
    """The gateway's own words come through from each form that errors have, on one line and without markup."""
    error = build_error(body)
    assert str(error).endswith(words)
    assert str(error).startswith("The gateway refuses the arguments (HTTP 400): ")
    assert error.code == code


@pytest.mark.parametrize("body", [b"", b" ", b"null", b"{}", b"[]", b'""', nest(500), {"detail": None}])
def test_a_body_without_words_leaves_ours(body: Any) -> None:
    """Where the gateway says nothing, or hides it too deep, the status speaks alone."""
    assert str(build_error(body)).startswith("The gateway refuses the arguments (HTTP 400)")
    assert len(str(build_error(body))) <= 500


@pytest.mark.parametrize(
    ("status", "kind", "part"),
    [
        (400, GatewayError, "refuses the arguments"),
        (401, KeyRefused, "`api_key`"),
        (403, KeyRefused, "`api_key`"),
        (404, GatewayError, "does not have the tool 'x'"),
        (407, GatewayError, "HTTPS_PROXY"),
        (409, GatewayError, "conflict"),
        (413, GatewayError, "1234 bytes"),
        (418, GatewayError, "418"),
        (422, GatewayError, "refuses the arguments"),
        (429, GatewayError, "Try again later."),
        (500, GatewayError, "failed"),
        (502, GatewayUnreachable, "Try again later."),
        (503, GatewayUnreachable, "Try again later."),
        (504, GatewayUnreachable, "Try again later."),
        (599, GatewayError, "failed"),
        (302, BadAnswer, "redirect"),
        (304, BadAnswer, "304"),
        (101, BadAnswer, "unknown status"),
        (999, BadAnswer, "unknown status"),
    ],
)
def test_the_status_says_whose_fault_it_is(status: int, kind: type[GatewayError], part: str) -> None:
    """Each status has its type and its advice, and the gateway's words beside them."""
    error = build_error({"detail": "the words"}, status)
    assert type(error) is kind
    assert error.status == status
    assert part in str(error)
    assert ("the words" in str(error)) == (status // 100 != 3)


@pytest.mark.parametrize(
    ("status", "header", "wait", "words"),
    [
        (429, "2", 2.0, "Try again in 2 s."),
        (503, "1.5", 1.5, "Try again in 2 s."),
        (429, "Thu, 01 Jan 2026 00:01:00 GMT", 60.0, "Try again in 60 s."),
        (429, "abc", None, "Try again later."),
        (500, "2", None, "failed (HTTP 500)."),
        (401, "2", None, "`api_key`."),
    ],
)
def test_retry_after_is_told(status: int, header: str, wait: float | None, words: str) -> None:
    """When to try again is said in words and kept as a number, where a repeat can help at all."""
    error = build_error(b"", status, Retry_After=header)
    assert error.retry_after == wait
    assert str(error).endswith(words)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 502, 503])
def test_a_proxys_page_is_one_plain_sentence(status: int) -> None:
    """A web page in the gateway's place is described by its title, with advice to look at address and proxies."""
    page = b"<?xml version='1.0'?>\n<!DOCTYPE html PUBLIC ''><HTML><TITLE>\n502 Bad <b>Gateway\n</TITLE><script>evil()"
    text = str(build_error(page, status))
    assert "a web page titled “502 Bad”" in text
    assert "`api_url`" in text
    assert "proxy" in text
    assert not {"<", ">"} & set(text)
    assert "evil" not in text


@given(st.binary(max_size=3000) | st.text(max_size=3000).map(lambda text: json.dumps({"detail": text}).encode()))
def test_no_body_breaks_the_message(body: bytes) -> None:
    """Whatever the body is, the message is one line of at most 500 characters that UTF-8 can carry."""
    text = str(build_error(body))
    assert 0 < len(text) <= 500
    assert text.encode()
    assert not {"Cc", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, text))


@pytest.mark.parametrize("length", [299, 300, 301, 600, 5000])
def test_long_words_are_cut_and_advice_is_kept(length: int) -> None:
    """A long error leaves room for what to do."""
    error = build_error({"detail": "x" * length, "code": "c" * length}, 401)
    quoted = "x" * length + "." if length <= 300 else "x" * 299 + "…"
    assert str(error).endswith(f": {quoted} Check the setting `api_key`.")
    assert len(error.code or "") == 100


def test_keys_are_taken_out_before_words_are_cut() -> None:
    """No half of a key stays at the edge of a cut."""
    body = json.dumps({"detail": "x" * 290 + "hive_secret0123", "code": "hive_secret0123"}).encode()
    redact = lambda text: text.replace("hive_secret0123", "[redacted]")  # noqa: E731 - a redaction in a line
    problem = parse_problem(Answer(400, {}, body, "h"), redact=redact)
    assert "hive" not in problem.words
    assert problem.code == "[redacted]"


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("https://evil.example/a?token=1", "to evil.example;"),
        ("https://u:p@evil.example:8443/", "to evil.example:8443;"),
        ("//evil.example", "to evil.example;"),
        ("/login?token=1", "another path of the same host"),
        ("", "another path of the same host"),
        ("http://[::1", "an unreadable address"),
        ("http://host:99999/", "an unreadable address"),
        ("http://" + "a" * 5000, "a…;"),
    ],
)
def test_a_redirect_is_named_by_its_host_alone(location: str, target: str) -> None:
    """Of where a redirect leads only the host is said: the rest may be a secret."""
    text = str(build_error(b"<html>moved", 307, Location=location))
    assert target in text
    assert "token" not in text
    assert "u:p" not in text
    assert len(text) <= 500
