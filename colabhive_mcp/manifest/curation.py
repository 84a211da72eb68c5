"""The authoring rules that ask what an agent learns from a manifest: its words, its examples, and its schemas' words.

Each is a heuristic that would rather be silent than wrong. Knows nothing of clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from colabhive_mcp.manifest.dialects import REFERENCES
from colabhive_mcp.manifest.drafts import Draft, Hit, to_object, to_text
from colabhive_mcp.manifest.wording import to_list, to_quoted

MAX_EXAMPLES = 100  # that are looked at

# Words

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_LEAST_WORDS = 5
_PLACEHOLDER = re.compile(r"\b(?:todo|tbd|fixme|lorem ipsum|placeholder|description here|my (?:tool|model))\b", re.I)
_WHEN = re.compile(
    r"\b(?:us(?:e|es|ed|ing|eful)|when(?:ever)?|for|to|if|where|good|best|ideal|helps?|supports?|lets?|allows?|before|after"
    r"|instead|so that|suit(?:s|ed|able)?|needed|in order|return(?:s|ed|ing)?|giv(?:es|en)|answers?|finds?)\b",
    re.I,
)
_EMPTY_WORDS = frozenset(
    {"a", "an", "the", "of", "and", "or", "is", "this", "that", "it", "in", "on", "by", "as", "with", "tool", "model"}
)


def _to_stems(text: str) -> set[str]:
    """The words of a text in lower case, without what makes them plural."""
    return {word.lower().rstrip("s") for word in _WORD.findall(text)} - _EMPTY_WORDS


def find_vague(draft: Draft) -> Iterator[Hit]:
    """A description that no agent could decide by."""
    description = draft.text("description")
    stems = _to_stems(description)
    named = _to_stems(f"{draft.text('displayName')} {_split(draft.text('name'))}")
    mend = "Say what it does, when to use it, and with what, in a sentence or two: an agent may read nothing else."
    if _PLACEHOLDER.search(description):
        yield Hit(("description",), "the description holds a placeholder", mend)
    elif description and not stems - named:
        yield Hit(("description",), "the description says no more than the name", mend)
    elif description and len(_WORD.findall(description)) < _LEAST_WORDS and description.isascii():
        yield Hit(("description",), f"the description has fewer than {_LEAST_WORDS} words", mend)


def find_no_when(draft: Draft) -> Iterator[Hit]:
    """A description without any word of purpose."""
    description = draft.text("description")
    if description and description.isascii() and not _WHEN.search(description):
        mend = 'Add when an agent should choose it, such as "Use it to …" or "Good for …".'
        yield Hit(("description",), "the description does not say when to use the tool", mend)


def find_no_subject(draft: Draft) -> Iterator[Hit]:
    """A description that shares no word with the inputs."""
    description = draft.text("description")
    told = {stem for name, each in draft.properties.items() for stem in _to_stems(f"{_split(name)} {_say(each)}")}
    if description and description.isascii() and told and not told & _to_stems(description):
        mend = "Say what the tool works on, in the words of its inputs."
        yield Hit(("description",), "the description names none of the inputs", mend)


def _split(name: str) -> str:
    """The words of a name that is written as one."""
    return re.sub(r"[-_.]", " ", to_text(name))


def _say(schema: Any) -> str:
    return to_text(to_object(schema).get("description"))


def find_undescribed(draft: Draft) -> Iterator[Hit]:
    """Inputs, at any depth, of which nothing is said."""
    for part in draft.parts:
        if part.name is not None and not _is_described(draft, part.schema):
            words = f"the input {to_quoted(part.name)} has no description"
            yield Hit(part.steps, words, "Add a description: what it means, its unit, and what it is when left out.")


def _is_described(draft: Draft, schema: Mapping[str, Any]) -> bool:
    """Whether an input has words of its own, or those of what it refers to; a constant tells itself."""
    targets = draft.document.targets if draft.document is not None else {}
    referred = [targets.get((id(schema), keyword)) for keyword in REFERENCES & schema.keys()]
    return "const" in schema or any(_say(each).strip() for each in (schema, *referred))


def find_no_output(draft: Draft) -> Iterator[Hit]:
    """A tool whose results are opaque."""
    if draft.fields.get("outputSchema") is None:
        mend = 'Add one, even if the output is just {"text": "..."}: without it agents take the result for opaque JSON.'
        yield Hit((), "there is no outputSchema", mend)


# Examples

_EDGE = re.compile(
    r"\b(?:edge|corner|boundar\w+|border|extreme|empty|nothing|no|none|null|zero|without|missing|only|single|one"
    r"|minim\w+|maxim\w+|limit\w*|long\w*|short\w*|large\w*|huge|tiny|many|all|every|both|optional|full\w*|weighted"
    r"|negative|invalid|unusual|rare|special|unicode|repeat\w*|again|same|duplicate\w*|list|batch|odd)\b",
    re.IGNORECASE,
)
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SIZES = ("minLength", "maxLength", "minItems", "maxItems")


def find_few_examples(draft: Draft) -> Iterator[Hit]:
    """A stable tool with fewer than two examples."""
    if draft.text("stability") == "stable" and len(draft.examples) < 2:
        count = len(draft.examples)
        mend = "Add examples until there are two: a plain case and an edge case. Or lower stability to beta."
        yield Hit(draft.find_place("examples"), f"a stable tool has two examples at least, this one has {count}", mend)


def find_no_examples(draft: Draft) -> Iterator[Hit]:
    """Any other tool without examples."""
    if draft.text("stability") != "stable" and not draft.examples:
        mend = "Add a plain case and an edge case: agents often skip a tool without examples."
        yield Hit(draft.find_place("examples"), "there are no examples", mend)


def find_no_edge(draft: Draft) -> Iterator[Hit]:
    """A stable tool whose examples are all plain cases."""
    stable = draft.text("stability") == "stable" and len(draft.examples) >= 2
    if stable and not any(_is_edge(draft, example) for example in draft.examples[:MAX_EXAMPLES]):
        mend = (
            "Add an example of an edge case: a long or empty input, a value at its limit, optional fields filled in; "
            "and say so in its name."
        )
        yield Hit(("examples",), "every example is a plain case", mend)


def _is_edge(draft: Draft, example: Mapping[str, Any]) -> bool:
    """Whether its words say so, or its input has what the first one's hasn't: an option, or a value at a bound."""
    words = f"{to_text(example.get('name'))} {to_text(example.get('description'))}"
    given, first = example.get("input"), draft.examples[0].get("input")
    if _EDGE.search(words) or not isinstance(given, dict) or not isinstance(first, dict):
        return _EDGE.search(words) is not None
    options = (given.keys() & draft.properties.keys()) - draft.required
    return bool(options - first.keys()) or any(
        value != first.get(name) and _is_bound(value, draft.properties.get(name)) for name, value in given.items()
    )


def _is_bound(value: Any, schema: Any) -> bool:
    rules = schema if isinstance(schema, dict) else {}
    if isinstance(value, str | list):
        return not value or len(value) in [rules[keyword] for keyword in _SIZES if keyword in rules]
    return value is None or value == {} or value in [rules[keyword] for keyword in _BOUNDS if keyword in rules]


def find_thin_examples(draft: Draft) -> Iterator[Hit]:
    """Examples that lack what agents learn from."""
    examples = draft.fields.get("examples")
    for place, example in enumerate(examples if isinstance(examples, list) else ()):
        missing = [name for name in ("description", "output") if isinstance(example, dict) and name not in example]
        if missing:
            words = f"examples[{place}] has no {to_list(missing, joined='and no')}"
            yield Hit(
                ("examples", place), words, "Add it: agents learn from examples what comes back, and when to call."
            )
