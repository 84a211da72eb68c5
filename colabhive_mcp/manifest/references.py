"""Which references of a document lead in a circle, and what each of them is called once it stands in ``$defs``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from colabhive_mcp.manifest.dialects import REFERENCES
from colabhive_mcp.manifest.document import Document

_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def find_recursive(document: Document) -> set[int]:
    """The identities of the targets that a reference within them leads back to, or that lie between two such.

    Targets that refer to none of the others are taken away until there are no more, then those that none refers to.
    """
    ahead = {id(target): _find_referred(document, target) for target in document.targets.values()}
    circular = _peel(ahead)
    behind: dict[int, set[int]] = {place: set() for place in circular}
    for place in circular:
        for other in ahead[place] & circular:
            behind[other].add(place)
    return _peel(behind)


def _peel(edges: Mapping[int, set[int]]) -> set[int]:
    """The places that are left when those without an edge to what is left are taken away, again and again."""
    left = {place: len(others) for place, others in edges.items()}
    before: dict[int, list[int]] = {place: [] for place in edges}
    for place, others in edges.items():
        for other in others:
            before[other].append(place)
    bare = [place for place, count in left.items() if count == 0]
    while bare:
        place = bare.pop()
        del left[place]
        for other in before[place]:
            left[other] -= 1
            if left[other] == 0:
                bare.append(other)
    return set(left)


def _find_referred(document: Document, target: Any) -> set[int]:
    """The identities of the targets that references anywhere within *target* lead to."""
    referred = set()
    pending = [target]
    while pending:
        schema = pending.pop()
        if type(schema) is dict:
            rules = dict(document.rules(schema))
            referred |= {id(document.target(schema, keyword)) for keyword in REFERENCES & rules.keys()}
            pending.extend(document.parts(schema))
    return referred


def build_names(document: Document) -> dict[int, str]:
    """A distinct name for each target, by its identity: the last word of the reference that leads to it."""
    names: dict[int, str] = {}
    count: Counter[str] = Counter()
    for place, reference in document.labels.items():
        word = name = _NO_NAME.sub("_", re.split(r"[/#]", reference)[-1]) or "schema"
        while count[name]:
            count[word] += 1
            name = f"{word}_{count[word]}"
        count[name] += 1
        names[place] = name
    return names
