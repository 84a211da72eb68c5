"""Text of strangers made fit for a message: one line, no markup, no key, not too long.

Pure, and it knows nothing of HTTP: a page is told by its tags.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

Redact = Callable[[str], str]

_MAX_TITLE = 100
_LOOK_INTO = 65536  # characters of a page in which its title is sought
_PAGE = re.compile(r"<(!doctype\s+html|html|head|body|title)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_MARKUP = re.compile(r"</[a-z][^<>]*>|<[!?][^<>]*>|<br\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>|[<>]")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\xa0\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")


def is_page(text: str) -> bool:
    """True for what begins as a web page does, after comments and declarations."""
    start = _MARKUP.sub("", text[:4096]) if text.lstrip()[:4] in {"<!--", "<?xm"} else text[:256]
    return _PAGE.match(start.lstrip()) is not None


def describe_page(text: str) -> str:
    """A web page in words: that it is one, and its title."""
    title = _TITLE.search(text[:_LOOK_INTO])
    words = cut(strip(html.unescape(title[1])), _MAX_TITLE) if title else ""
    return f"a web page titled “{words}”" if words else "a web page"


def flatten(text: str) -> str:
    """*text* on one line, without characters of control or direction and halves of surrogate pairs."""
    return _UNPRINTABLE.sub(" ", text).strip()


def strip(text: str) -> str:
    """*text* on one line and without any tag."""
    return flatten(_TAG.sub(" ", text))


def cut(text: str, limit: int) -> str:
    """At most *limit* characters of *text*, with an ellipsis where something is missing."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def quote(words: str, *, redact: Redact, limit: int) -> str:
    """*words* as a sentence for a message; a page is only described, and markup is taken out."""
    words = redact(words)
    if _PAGE.search(words[:_LOOK_INTO]):
        plain = describe_page(words)
    else:
        plain = strip(words) if _MARKUP.search(words) else flatten(words)
    short = cut(plain, limit)
    return short if not short or short[-1] in ".!?…" else f"{short}."
