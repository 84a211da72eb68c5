"""Which arguments a tool has its clients repeat in HTTP headers, by ``x-mcp-header`` in its input schema.

The rules are those of 2026-07-28, under "Custom Headers from Tool Parameters"; a client drops a tool that breaks one.
Pure: it reads a schema as a client does, references not followed, and must not know how schemas are rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from colabhive_mcp.manifest.dialects import DIALECTS, Shape
from colabhive_mcp.manifest.wording import to_pointer, to_quoted, to_trail

MIRROR = "x-mcp-header"
PREFIX = "Mcp-Param-"
KINDS = frozenset({"string", "integer", "boolean"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
# Of a keyword that dialects differ in, the older form, which takes more.
_SHAPES: Mapping[str, Shape] = {
    keyword: shape for dialect in DIALECTS.values() for keyword, shape in dialect.shapes.items() if shape.parts
}


class HeaderParameter(NamedTuple):
    """An argument that is repeated: the whole name of its *header*, the *path* to it by names, and its type."""

    header: str
    path: tuple[str, ...]
    kind: str


class HeaderFault(NamedTuple):
    """An annotation that breaks a rule: where it stands in the schema, and how."""

    steps: tuple[str | int, ...]
    words: str


class Headers(NamedTuple):
    """The arguments of a schema that are repeated, none where there are *faults*."""

    parameters: tuple[HeaderParameter, ...]
    faults: tuple[HeaderFault, ...]


_NONE = Headers((), ())


class _Place(NamedTuple):
    """A subschema; *path* has the names to it, and is None where anything but ``properties`` leads there."""

    steps: tuple[str | int, ...]
    path: tuple[str, ...] | None
    schema: Any


def find_headers(schema: Any) -> Headers:
    """What the annotations of *schema*, which may be any value, ask for, and which of them break a rule."""
    if not _has_word(schema):
        return _NONE
    annotated = [place for place in _find_places(schema) if MIRROR in place.schema]
    faults = tuple(_find_faults(annotated))
    parameters = [] if faults else annotated
    return Headers(
        tuple(HeaderParameter(PREFIX + each[MIRROR], path or (), each["type"]) for _, path, each in parameters), faults
    )


def find_header_parameters(schema: Any) -> tuple[HeaderParameter, ...]:
    """The arguments of *schema* that are repeated; none where any annotation in it breaks a rule."""
    return find_headers(schema).parameters


def find_header_fault(schema: Any) -> str | None:
    """The first annotation of *schema* that breaks a rule, in words with its place; None where there is none."""
    faults = find_headers(schema).faults
    return say_fault(faults[0]) if faults else None


def say_fault(fault: HeaderFault) -> str:
    """*fault* in words, with its place."""
    return f"{fault.words} (at {to_pointer(to_trail(fault.steps))})"


def _has_word(schema: Any) -> bool:
    """Whether the keyword stands anywhere, be it in mere data: few schemas have it, and lists are made of hundreds."""
    pending = [schema]
    for value in pending:
        if type(value) is dict:
            if MIRROR in value:
                return True
            pending += value.values()
        elif type(value) is list:
            pending += value
    return False


def _find_places(schema: Any) -> Iterator[_Place]:
    """Every subschema that is an object. What is no keyword of any dialect holds none."""
    pending = [_Place((), (), schema)]
    for place in pending:
        if type(place.schema) is not dict:
            continue
        yield place
        for keyword, value in place.schema.items():
            shape = _SHAPES.get(keyword)
            if shape is not None and shape.fits(value):
                pending += _find_parts(place, keyword, shape, value)


def _find_parts(place: _Place, keyword: str, shape: Shape, value: Any) -> Iterator[_Place]:
    around = place.path if keyword == "properties" else None
    for part, child in shape.parts(value) if shape.parts else ():
        steps = (*place.steps, keyword) if part is None else (*place.steps, keyword, part)
        yield _Place(steps, None if around is None else (*around, part), child)


def _find_faults(annotated: Iterable[_Place]) -> Iterator[HeaderFault]:
    known: set[str] = set()
    for steps, path, schema in annotated:
        name = schema[MIRROR]
        words = _find_misplacement(path, schema) or _find_misnomer(name, known)
        if words is None:
            known.add(name.lower())
        else:
            yield HeaderFault((*steps, MIRROR), words)


def _find_misplacement(path: tuple[str, ...] | None, schema: Mapping[str, Any]) -> str | None:
    if not path:
        return f"{MIRROR} stands at a place that properties alone do not lead to"
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        return f"{MIRROR} stands on what is not of the one type string, integer or boolean"
    return None


def _find_misnomer(name: Any, known: set[str]) -> str | None:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        return f"{MIRROR} {to_quoted(name)} is no name that a header can have"
    if "_" in name:  # it is a token, but CGI's names cannot tell it from a hyphen, so servers drop it
        return f"{MIRROR} {to_quoted(name)} has an underscore, with which no header arrives"
    return f"{MIRROR} {to_quoted(name)} is the name of another header too" if name.lower() in known else None
