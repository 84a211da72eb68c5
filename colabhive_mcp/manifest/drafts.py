"""A manifest as its authoring rules see it, and what a rule finds in it.

Each field is of its own type here, whatever the manifest holds, so that no rule has to ask. Knows no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from colabhive_mcp.manifest.dialects import UnusableSchema
from colabhive_mcp.manifest.document import Document, load_document
from colabhive_mcp.manifest.findings import Rule
from colabhive_mcp.manifest.wording import Trail

MAX_TEXT = 5_000  # characters of a text that are looked at

Steps = tuple[str | int, ...]


class Hit(NamedTuple):
    """Where a rule is broken, how, and what to do."""

    steps: Steps
    message: str
    mend: str


class Part(NamedTuple):
    """A subschema of inputSchema: its place in the manifest, and how many objects and arrays it lies in.

    *name* is that of the input that it describes, None where it describes no input of its own.
    """

    steps: Steps
    schema: Mapping[str, Any]
    level: int = 1
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A manifest by its fields: each of its own type, empty where it is of another or is not there.

    *properties* and *required* are those of inputSchema's root, *parts* all subschemas in it; they are empty, and
    *document* is None, where it cannot be used.
    """

    fields: Mapping[str, Any]
    effects: frozenset[str]
    flags: Mapping[str, bool]
    examples: Sequence[Mapping[str, Any]]
    properties: Mapping[str, Any]
    required: frozenset[str]
    parts: Sequence[Part]
    document: Document | None

    def text(self, field: str) -> str:
        """The beginning of a field that is a text."""
        return to_text(self.fields.get(field))

    def flag(self, name: str) -> bool | None:
        """An annotation; None where it isn't stated."""
        return self.flags.get(name)

    def find_place(self, field: str) -> Steps:
        """Where to tell of *field*: the root where it isn't there."""
        return (field,) if field in self.fields else ()


Find = Callable[[Draft], Iterable[Hit]]


class Habit(NamedTuple):
    """A rule, and what finds where a draft breaks it."""

    rule: Rule
    find: Find


def build_draft(manifest: Mapping[str, Any]) -> Draft:
    """*manifest* for its rules."""
    schema = manifest.get("inputSchema")
    document = _load(schema)
    stated: Mapping[str, Any] = schema if document is not None and isinstance(schema, dict) else {}
    return Draft(
        fields=manifest,
        effects=frozenset(each for each in _to_list(manifest.get("sideEffects")) if isinstance(each, str)),
        flags={name: each for name, each in to_object(manifest.get("annotations")).items() if isinstance(each, bool)},
        examples=[each for each in _to_list(manifest.get("examples")) if isinstance(each, dict)],
        properties=stated.get("properties", {}),
        required=frozenset(stated.get("required", ())),
        parts=list(_walk(document, stated)) if document is not None else [],
        document=document,
    )


def to_text(value: Any) -> str:
    """The beginning of a text; empty for what is none."""
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def to_object(value: Any) -> Mapping[str, Any]:
    """An object; empty for what is none."""
    return value if isinstance(value, dict) else {}


def _to_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _load(schema: Any) -> Document | None:
    try:
        return None if schema is None else load_document(schema)
    except UnusableSchema:
        return None


_LEVELS = frozenset({"properties", "patternProperties", "additionalProperties", "items", "prefixItems"})
_CONDITIONS = frozenset({"not", "if", "then", "else", "contains", "propertyNames", "dependentSchemas"})


def _walk(document: Document, schema: Mapping[str, Any]) -> Iterator[Part]:
    """Every subschema that is an object, as it is written: references not followed, nothing bundled in."""
    pending = [(Part(("inputSchema",), schema), False)]
    while pending:
        part, conditional = pending.pop()
        yield part
        for keyword, value in reversed(list(part.schema.items())):
            shape = document.dialect.shapes.get(keyword)
            if shape is not None and shape.parts is not None:
                inner = conditional or keyword in _CONDITIONS
                children = [
                    (_build_part(part, keyword, step, child, named=not inner), inner)
                    for step, child in shape.parts(value)
                    if type(child) is dict
                ]
                pending.extend(reversed(children))


def _build_part(around: Part, keyword: str, step: Any, schema: Mapping[str, Any], *, named: bool) -> Part:
    steps = (*around.steps, keyword) if step is None else (*around.steps, keyword, step)
    name = step if named and keyword == "properties" else None
    return Part(steps, schema, around.level + (keyword in _LEVELS), name)


def to_steps(schema: Any, trail: Trail) -> Steps:
    """*trail* in *schema*, as far as it is there: a trail goes on behind references, a pointer doesn't."""
    steps: list[Any] = []
    while trail is not None:
        trail, step = trail
        steps.append(step)
    return clip(schema, tuple(reversed(steps)))


def clip(value: Any, steps: Steps) -> Steps:
    """As many of *steps* as lead to a place in *value*."""
    for place, step in enumerate(steps):
        known = step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value))
        if not known:
            return steps[:place]
        value = value[step]
    return steps
