"""The authoring rules that ask how clients and models take a manifest: its name and its inputSchema.

What the server shows in another form instead is a note or a warning; the words say so. Knows no client by name.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from colabhive_mcp.manifest.dialects import DEFAULT, REFERENCES, UnusableSchema
from colabhive_mcp.manifest.document import find_faults
from colabhive_mcp.manifest.drafts import Draft, Find, Hit, Part, to_steps
from colabhive_mcp.manifest.model import MAX_SLUG
from colabhive_mcp.manifest.names import build_names, is_portable
from colabhive_mcp.manifest.patterns import Untranslatable, build_pattern
from colabhive_mcp.manifest.references import find_recursive
from colabhive_mcp.manifest.styles import KNOWN_FORMATS
from colabhive_mcp.manifest.wording import to_list, to_quoted

MAX_LEVELS = 10  # of objects and arrays within each other: what model APIs with strict schemas take
MAX_ENUM = 250  # values of one enum: with more, strict model APIs limit their text too

Judged = tuple[str | None, str] | None
"""The keyword of a subschema that breaks a rule (None: all of it) and what is wrong, or nothing."""

# References


def is_unresolved(fault: UnusableSchema) -> bool:
    """Whether a schema cannot be used since a reference in it cannot be followed."""
    return fault.place is not None and fault.place[1] in REFERENCES


def find_unresolved(field: str, schema: Any, faults: Iterable[UnusableSchema]) -> Iterator[Hit]:
    """The references of a *schema* in *field* that cannot be followed."""
    for fault in filter(is_unresolved, faults):
        yield Hit(
            (field, *to_steps(schema, fault.place)),
            f"{field}: {fault}",
            "Put what is meant under $defs of this schema, and refer to #/$defs/NAME. Nothing is fetched; only "
            "ChatMessage, Choice and Usage need no definition.",
        )


def find_unresolved_refs(draft: Draft) -> Iterator[Hit]:
    """References of both schemas that cannot be followed."""
    for field in ("inputSchema", "outputSchema"):
        schema = draft.fields.get(field)
        yield from find_unresolved(field, schema, find_faults(schema) if schema is not None else ())


# How clients and models take it


def find_renamed(draft: Draft) -> Iterator[Hit]:
    """A name that is listed as another."""
    name = draft.text("name")
    if name.strip() and len(name) <= MAX_SLUG and not is_portable(name):
        words = f"some clients refuse the name {to_quoted(name)}; it is listed as {build_names([name])[name]}"
        yield Hit(("name",), words, "Nothing: both names can be called. Or use up to 64 letters, digits, '-' and '_'.")


def each(judge: Callable[[Mapping[str, Any]], Judged], mend: str) -> Find:
    """A rule of each subschema: *judge* gives the keyword that breaks it and what is wrong, or None."""

    def find(draft: Draft) -> Iterator[Hit]:
        for part in draft.parts:
            if (judged := judge(part.schema)) is not None:
                keyword, words = judged
                yield Hit(part.steps if keyword is None else (*part.steps, keyword), words, mend)

    return find


def find_composed_root(draft: Draft) -> Iterator[Hit]:
    """Alternatives at the root of inputSchema."""
    schema = draft.parts[0].schema if draft.parts else {}
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in schema:
            words = f"the root of inputSchema has {keyword}, which model APIs refuse; it is shown as plain properties"
            mend = "Write one object with properties, and what goes together with what into the descriptions."
            yield Hit(("inputSchema", keyword), words, mend)


def find_untyped_root(draft: Draft) -> Iterator[Hit]:
    """A root that is an object only for who knows that arguments are one."""
    schema = draft.parts[0].schema if draft.parts else None
    if schema is not None and ("type" not in schema or "properties" not in schema):
        missing = [keyword for keyword in ("type", "properties") if keyword not in schema]
        words = f"the root of inputSchema has no {to_list(missing, joined='and no')}, without which clients refuse it"
        yield Hit(("inputSchema",), words, 'Write "type": "object" and "properties" ({} where there are no arguments).')


def judge_types(schema: Mapping[str, Any]) -> Judged:
    """Several types in one schema."""
    types = schema.get("type")
    if not isinstance(types, list):
        return None
    return "type", f"some models take only one type, not {to_list(map(to_quoted, types), joined='and')}"


def judge_items(schema: Mapping[str, Any]) -> Judged:
    """An array of anything."""
    types = schema.get("type")
    is_array = "array" in types if isinstance(types, list) else types == "array"
    return (None, "an array does not say what its items are") if is_array and "items" not in schema else None


def judge_format(schema: Mapping[str, Any]) -> Judged:
    """A format that is not widely known."""
    name = schema.get("format")
    return (
        None
        if name is None or name in KNOWN_FORMATS
        else ("format", f"some models refuse the format {to_quoted(name)}")
    )


def judge_enum(schema: Mapping[str, Any]) -> Judged:
    """A long enum."""
    values = schema.get("enum", ())
    if len(values) <= MAX_ENUM:
        return None
    return "enum", f"the enum has {len(values):,} values; some models refuse more than {MAX_ENUM}"


def find_undeclared(draft: Draft) -> Iterator[Hit]:
    """Names that an object requires and has no property for; not where another part of it may have one."""
    for part in draft.parts:
        known = part.schema.get("properties")
        if known is None or not COMPOSING.isdisjoint(part.schema) or not _BRANCHES.isdisjoint(part.steps):
            continue
        for place, name in enumerate(part.schema.get("required", ())):
            if name not in known:
                words = f"{to_quoted(name)} is required and is no property, which some models refuse"
                yield Hit((*part.steps, "required", place), words, "Add it under properties, or remove it here.")


COMPOSING = frozenset({"allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if", "patternProperties"})
_BRANCHES = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})


def find_misspelt(draft: Draft) -> Iterator[Hit]:
    """Words in place of keywords that nothing obeys: those close to a keyword, and what looks like an input."""
    for part, word in islice(_find_strange(draft), MAX_STRANGE):
        mend = _mend_word(word, part.schema[word])
        if mend is not None:
            yield Hit((*part.steps, word), f"{to_quoted(word)} is no keyword of JSON Schema, and is ignored", mend)


def _find_strange(draft: Draft) -> Iterator[tuple[Part, str]]:
    """The words in place of keywords that the schema's dialect does not have."""
    if draft.document is None:
        return
    known = draft.document.dialect.shapes.keys() | draft.document.dialect.inert
    for part in draft.parts:
        yield from ((part, word) for word in part.schema if word not in known and not word.startswith("x-"))


def _mend_word(word: str, value: Any) -> str | None:
    """What to do about a word that is no keyword; None where it may well be meant for others."""
    if word in _FOREIGN:
        return _FOREIGN[word]
    near = difflib.get_close_matches(word[:MAX_WORD], _LIKELY, n=1, cutoff=0.8)
    if near:
        return f"Rename it, if {near[0]} is meant."
    is_input = isinstance(value, dict) and not {"type", "$ref"}.isdisjoint(value)
    return "Put it under properties, if it is an input; under $defs, if it is referred to." if is_input else None


MAX_STRANGE = 500  # words that are looked at, about 0.1 ms each
_LIKELY = sorted(each for each in DEFAULT.shapes if len(each) > 3)  # a shorter one is close to too much
MAX_WORD = 40  # as many characters of a word as are compared with keywords
_FOREIGN = {
    "nullable": "Leave the input out of required, and say in its description what it is when left out.",
    "min": "Write minimum, minLength or minItems.",
    "max": "Write maximum, maxLength or maxItems.",
    "optional": "Leave the input out of required, the list beside properties.",
}


def find_patterns(accepts: Callable[[str], bool], words: str, mend: str) -> Find:
    """A rule of each pattern, of a text or of names."""

    def find(draft: Draft) -> Iterator[Hit]:
        for part in draft.parts:
            sources = [("pattern", part.schema["pattern"])] if "pattern" in part.schema else []
            for place, source in [*sources, *((None, each) for each in part.schema.get("patternProperties", ()))]:
                if not accepts(source):
                    steps = (place,) if place is not None else ("patternProperties", source)
                    yield Hit((*part.steps, *steps), words.format(to_quoted(source)), mend)

    return find


def is_bounded(source: str) -> bool:
    """Whether a match of the pattern *source* cannot run away."""
    try:
        return build_pattern(source).cost.base <= 1
    except Untranslatable:
        return True  # told of already: it is not portable


def find_deep(draft: Draft) -> Iterator[Hit]:
    """The first place that is too deep."""
    deep = next((part for part in draft.parts if part.level > MAX_LEVELS), None)
    if deep is not None:
        words = f"inputSchema nests objects and arrays deeper than {MAX_LEVELS} levels, which some models refuse"
        yield Hit(deep.steps, words, "Make it flatter: take inner fields up, or pass the inner part as a text.")


def find_self_reference(draft: Draft) -> Iterator[Hit]:
    """References that lead in a circle."""
    if draft.document is not None and draft.document.targets and find_recursive(draft.document):
        words = "inputSchema refers to itself, which some clients cannot follow"
        yield Hit(("inputSchema",), words, "Describe a fixed number of levels, where that is enough.")


def find_old_dialect(draft: Draft) -> Iterator[Hit]:
    """A dialect before 2020-12."""
    if draft.document is not None and draft.document.dialect is not DEFAULT:
        words = f"inputSchema is written in {draft.document.dialect.name}; manifests are written in 2020-12"
        yield Hit(("inputSchema", "$schema"), words, "Write it as 2020-12, and leave $schema out.")
