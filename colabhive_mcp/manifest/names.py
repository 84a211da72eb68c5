"""Names that every client accepts, made from slugs: distinct, and the same whatever the order of the slugs.

Knows nothing of tools. The way back is the mapping itself.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable

MAX_LENGTH = 64
_DIGITS = 6
_PORTABLE = re.compile(r"[A-Za-z0-9_-]+")
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


def is_portable(name: str, *, length: int = MAX_LENGTH) -> bool:
    """Whether every client accepts *name*: 1 to *length* ASCII letters, digits, ``_`` and ``-``."""
    return len(name) <= length and _PORTABLE.fullmatch(name) is not None


def build_names(slugs: Iterable[str], *, reserved: Collection[str] = (), length: int = MAX_LENGTH) -> dict[str, str]:
    """The advertised name of each slug, of at most *length* characters.

    A portable slug keeps its name. Others get ``_`` for each foreign character; where that is too long, reserved or
    the name of another, it is cut and ends in six hexadecimal digits of the slug's own SHA-256.
    """
    distinct = list(dict.fromkeys(slugs))
    names = {slug: slug for slug in distinct if is_portable(slug, length=length) and slug not in reserved}
    taken = {*names, *reserved}
    plain = {slug: _FOREIGN.sub("_", slug) for slug in distinct if slug not in names}
    _settle(names, {slug: name for slug, name in plain.items() if is_portable(name, length=length)}, taken)
    for attempt in itertools.count():
        left = [slug for slug in distinct if slug not in names]
        if not left:
            return {slug: names[slug] for slug in distinct}
        _settle(names, {slug: _to_hashed(slug, attempt, length) for slug in left}, taken)
    raise AssertionError("unreachable")


def _settle(names: dict[str, str], wanted: dict[str, str], taken: set[str]) -> None:
    """Give each slug the name that it wants, but for those who want the same or one that is taken."""
    count = Counter(wanted.values())
    given = {slug: name for slug, name in wanted.items() if count[name] == 1 and name not in taken}
    names.update(given)
    taken.update(given.values())


def _to_hashed(slug: str, attempt: int, length: int) -> str:
    """A name with a part of the slug's digest; each further *attempt*, which chance or malice may need, has another."""
    salt = f"\n{attempt}" if attempt else ""
    digest = hashlib.sha256(f"{slug}{salt}".encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    stem = _FOREIGN.sub("_", slug)[: length - 1 - _DIGITS] or "tool"
    return f"{stem}_{digest}"
