"""What a status outside 2xx means: the error to raise, with the gateway's own words in it.

Pure. The table of statuses follows the gateway's contract; the error's body may have any form that gateways, their
frameworks and proxies in between are known to use.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from colabhive_mcp.errors import BadAnswer, GatewayError, GatewayUnreachable, KeyRefused
from colabhive_mcp.gateway.answers import Answer, decode_text, parse_json
from colabhive_mcp.gateway.plaintext import Redact, cut, describe_page, flatten, is_page, quote
from colabhive_mcp.gateway.retries import parse_retry_after

PASSING = frozenset({429, 502, 503, 504})

_MAX_MESSAGE = 500  # characters
_MAX_QUOTE = 300  # characters of the gateway's own words, which leaves room for ours
_MAX_NAME = 100
_MAX_FINDINGS = 5
_MAX_DEPTH = 32
_WORD_KEYS = ("message", "msg", "detail", "error_description", "error", "errors", "title", "description", "reason")


class _Rule(NamedTuple):
    kind: type[GatewayError]
    head: str
    advice: str = ""


_LATER = "Try again later."
_ARGUMENTS = _Rule(GatewayError, "The gateway refuses the arguments (HTTP {status})")
_AWAY = _Rule(GatewayUnreachable, "The gateway cannot answer for the moment (HTTP {status})", _LATER)
_RULES = {
    304: _Rule(BadAnswer, "{host} answered HTTP {status} where nothing could be unchanged", "Try again."),
    400: _ARGUMENTS,
    401: _Rule(KeyRefused, "The gateway does not know the API key (HTTP {status})", "Check the setting `api_key`."),
    403: _Rule(
        KeyRefused,
        "The gateway does not let the API key do this (HTTP {status})",
        "Check the setting `api_key` and the rights of that key.",
    ),
    404: _Rule(GatewayError, "The gateway does not have {subject} (HTTP {status})"),
    407: _Rule(
        GatewayError,
        "The proxy before {host} wants credentials (HTTP {status})",
        "Check HTTP_PROXY and HTTPS_PROXY in the environment.",
    ),
    409: _Rule(GatewayError, "The request conflicts with what the gateway has (HTTP {status})"),
    413: _Rule(GatewayError, "The request of {sent} bytes is too large for the gateway (HTTP {status})"),
    422: _ARGUMENTS,
    429: _Rule(GatewayError, "The gateway takes no more requests for the moment (HTTP {status})", _LATER),
    502: _AWAY,
    503: _AWAY,
    504: _AWAY,
}
_BY_HUNDRED = {
    3: _Rule(
        BadAnswer,
        "{host} answered HTTP {status}, a redirect to {target}; none is followed, as the API key would travel along",
        "Check the setting `api_url`.",
    ),
    4: _Rule(GatewayError, "The gateway refuses the request (HTTP {status})"),
    5: _Rule(GatewayError, "The gateway failed (HTTP {status})"),
}
_STRANGE = _Rule(BadAnswer, "{host} answered with the unknown status HTTP {status}", "Check the setting `api_url`.")


def to_error(answer: Answer, *, redact: Redact, now: float) -> GatewayError:
    """The error that *answer* means: at most 500 characters of plain text, with any key taken out by *redact*.

    *now* is the time in seconds since 1970, for a ``Retry-After`` that is a date.
    """
    rule = _RULES.get(answer.status) or _BY_HUNDRED.get(answer.status // 100, _STRANGE)
    problem = parse_problem(answer, redact=redact)
    wait = _find_wait(answer, now=now)
    head = rule.head.format(
        status=answer.status,
        host=answer.host,
        sent=answer.sent,
        subject=cut(flatten(redact(answer.subject)), _MAX_NAME),
        target=redact(_describe_target(answer)),
    )
    advice = rule.advice if wait is None else f"Try again in {math.ceil(wait)} s."
    message = " ".join(filter(None, (f"{head}: {problem.words}" if problem.words else f"{head}.", advice)))
    return rule.kind(cut(message, _MAX_MESSAGE), status=answer.status, retry_after=wait, code=problem.code)


def _find_wait(answer: Answer, *, now: float) -> float | None:
    """Seconds that the gateway asks to wait. A refusal for good has none, since a repeat would be refused too."""
    if answer.status not in PASSING:
        return None
    return parse_retry_after(answer.headers.get("Retry-After"), date=answer.headers.get("Date"), now=now)


def _describe_target(answer: Answer) -> str:
    """The host that a redirect names, and nothing else of its URL."""
    try:
        target = urlsplit(answer.headers.get("Location", ""))
        name, port = target.hostname, target.port
    except ValueError:
        return "an unreadable address"
    if not name:
        return "another path of the same host"
    return cut(flatten(f"{name}:{port}" if port else name), _MAX_NAME)


class Problem(NamedTuple):
    """What an error's body says: *words* as sentences, empty where it says nothing, and the gateway's own *code*."""

    words: str
    code: str | None = None


def parse_problem(answer: Answer, *, redact: Redact) -> Problem:
    """The words of an error's body: text, an object, validation findings, any of them nested, or a proxy's web page."""
    if answer.status // 100 == 3:
        return Problem("")
    text = decode_text(answer.body).text
    if is_page(text):
        page = quote(describe_page(text), redact=redact, limit=_MAX_QUOTE)
        return Problem(f"{page} Check the setting `api_url`, and whether a proxy answered in the gateway's place.")
    try:
        words, code = _find_words(parse_json(text))
    except ValueError:
        words, code = text, None
    return Problem(quote(words, redact=redact, limit=_MAX_QUOTE), code and cut(flatten(redact(code)), _MAX_NAME))


def _find_words(value: Any) -> tuple[str, str | None]:
    """Go down an error object until words are found; the innermost code on the way counts."""
    code: str | None = None
    for _ in range(_MAX_DEPTH):
        if isinstance(value, list):
            return "; ".join(_list_findings(value)), code
        if not isinstance(value, dict):
            return ("" if value is None else str(value)), code
        found = value.get("code")
        code = str(found) if isinstance(found, str | int) else code
        inner = next((value[key] for key in _WORD_KEYS if value.get(key)), None)
        if inner is None:
            return (json.dumps(value, ensure_ascii=False) if value else ""), code
        value = inner
    return "", code


def _list_findings(items: list[Any]) -> list[str]:
    """The first few findings, and how many more there are."""
    findings = [_describe_finding(item) for item in items[:_MAX_FINDINGS]]
    more = len(items) - len(findings)
    return [*findings, f"and {more} more"] if more else findings


def _describe_finding(item: Any) -> str:
    """A validation finding as ``path: words``."""
    place = item.get("loc") if isinstance(item, dict) else None
    path = ".".join(map(str, place)) if isinstance(place, list) else ""
    words = json.dumps(item, ensure_ascii=False) if isinstance(item, list) else _find_words(item)[0]
    return f"{path}: {words}" if path else words
