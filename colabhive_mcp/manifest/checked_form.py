"""A schema as the library can check values by it, meaning the same as the original.

It has one dialect, no names or addresses, no annotations, and references only where they lead in a circle or would make
it grow: following one costs the library more than checking a value. Its patterns are in Python's terms and cannot run
away (the ``$comment`` beside has the original). What Python cannot match is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colabhive_mcp.manifest.dialects import ANNOTATIONS
from colabhive_mcp.manifest.document import Document
from colabhive_mcp.manifest.headers import MIRROR
from colabhive_mcp.manifest.patterns import Untranslatable, build_pattern
from colabhive_mcp.manifest.rewriting import Form, Json, Rewrite, Style, render
from colabhive_mcp.manifest.styles import EXACT, drop, rewrite_flag

STEPS = 3_000_000  # of the regular expression engine, for one text: some 30 ms
NAME_STEPS = 100_000  # for one name of a property, of which there may be many
LONGEST_TEXT = 1_000  # that a trusted pattern is tried on


def to_checked_form(document: Document, *, trusted: bool = False) -> Json:
    """The checked form of a document; ``true`` and ``false`` are written out as objects.

    The patterns of a *trusted* one are known not to run away, whatever the estimate says. They accept any text over
    `LONGEST_TEXT`: beside each there has to be a ``maxLength``.
    """
    return render(document, _TRUSTED if trusted else _CHECKED, lambda form: form.rewrite(document.root))


def _translate(source: str, *, steps: float, untried: bool) -> str | None:
    try:
        return build_pattern(source).to_text(steps=steps, untried=untried)
    except Untranslatable:
        return None


def _rewrite_pattern(form: Form, source: Any, schema: Mapping[str, Any]) -> Json:
    text = _translate(source, steps=STEPS, untried=True)
    return {} if text is None else {"pattern": text, "$comment": source}


def _rewrite_trusted_pattern(form: Form, source: Any, schema: Mapping[str, Any]) -> Json:
    text = build_pattern(source).regex.pattern
    return {"pattern": rf"(?a)\A(?:[\s\S]{{{LONGEST_TEXT + 1}}}|[\s\S]*?(?:{text}))", "$comment": source}


def _rewrite_pattern_properties(form: Form, patterns: Any, schema: Mapping[str, Any]) -> Json:
    texts = {source: _translate(source, steps=NAME_STEPS, untried=False) for source in patterns}
    return {"patternProperties": {text: form.rewrite(patterns[source]) for source, text in texts.items() if text}}


def _rewrite_other_properties(keyword: str) -> Rewrite:
    """Nobody can tell which names a pattern lets in that cannot be matched."""
    rewrite = rewrite_flag(keyword)

    def rewrite_known(form: Form, value: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        texts = (_translate(source, steps=NAME_STEPS, untried=False) for source in schema.get("patternProperties", ()))
        return drop(form, value, schema) if None in texts else rewrite(form, value, schema)

    return rewrite_known


def _leave(form: Form, written: Json) -> None:
    """Nothing is left to do for a schema as a whole."""


_CHECKED = Style(
    {
        **EXACT,
        **dict.fromkeys((*ANNOTATIONS, MIRROR), drop),
        "pattern": _rewrite_pattern,
        "patternProperties": _rewrite_pattern_properties,
        "additionalProperties": _rewrite_other_properties("additionalProperties"),
        "unevaluatedProperties": _rewrite_other_properties("unevaluatedProperties"),
    },
    _leave,
)
_TRUSTED = Style({**_CHECKED.table, "pattern": _rewrite_trusted_pattern}, _leave)
