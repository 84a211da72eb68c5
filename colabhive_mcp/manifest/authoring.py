"""The authoring rules: what makes a valid manifest one that agents choose well by and that every client takes.

One table, `AUTHORING`, has each rule with what looks for it; the rules that are about contradictions and operations are
here, the others in `curation` and `reception`. Pure, and bounded in time and number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from colabhive_mcp.manifest import curation, patterns, reception, styles
from colabhive_mcp.manifest.drafts import Draft, Find, Habit, Hit, Steps, build_draft, clip, to_object, to_text
from colabhive_mcp.manifest.findings import ERROR, LIMIT, NOTE, WARNING, Finding, Rule, build_finding, to_pointer
from colabhive_mcp.manifest.wording import to_list, to_quoted


def lint(manifest: Any) -> list[Finding]:
    """Where *manifest* breaks the authoring rules, at most `LIMIT` findings a rule. What is no object breaks none.

    A rule looks only at what is of the right type; what isn't is told of by the contract.
    """
    if not isinstance(manifest, dict):
        return []
    draft = build_draft(manifest)
    return [
        build_finding(rule, to_pointer(hit.steps), hit.message, hit.mend)
        for rule, find in AUTHORING
        for hit in islice(find(draft), LIMIT)
    ]


# What contradicts itself

_WRITES = frozenset({"mutating", "storage", "creates_job", "creates_model_version"})
_OUTSIDE = frozenset({"network", "external"})
_MODELS = frozenset({"llm", "specialist", "generative", "model", "trained_model"})
_QUICK = frozenset({"instant", "fast", "slow"})


def _when(steps: Steps, clashes: Callable[[Draft], bool], message: str, mend: str) -> Find:
    """A rule that is broken where *clashes* holds; told at *steps*, or at the root where they lead nowhere."""

    def find(draft: Draft) -> Iterator[Hit]:
        if clashes(draft):
            yield Hit(clip(draft.fields, steps), message, mend)

    return find


def _is_operation(draft: Draft) -> bool:
    return draft.text("kind") == "operation"


def _replaces_itself(draft: Draft) -> bool:
    deprecation = to_object(draft.fields.get("deprecation"))
    return draft.text("name") != "" and deprecation.get("replacedBy") == draft.text("name")


# Operations

_HOLE = re.compile(r"\{([^{}:/]+)(?::path)?\}")


def _find_stray_arguments(draft: Draft) -> Iterator[Hit]:
    """Arguments of an endpoint that nobody gives or that have no place in its path, and places that nothing fills.

    Not where inputSchema is composed of parts, which may have the inputs that its root has not.
    """
    endpoint = to_object(draft.fields.get("endpoint"))
    if not draft.parts or not reception.COMPOSING.isdisjoint(draft.parts[0].schema):
        return
    holes = dict.fromkeys(_HOLE.findall(to_text(endpoint.get("path"))))
    places = {name: to_object(each) for name, each in to_object(endpoint.get("args")).items()}
    in_path = {name: to_text(place.get("name")) or name for name, place in places.items() if place.get("in") == "path"}
    filled = {*in_path.values(), *(draft.properties.keys() - places.keys())}
    for name in places:
        if name not in draft.properties:
            words = f"the endpoint sends the argument {to_quoted(name)}, which inputSchema does not have"
            yield Hit(("endpoint", "args", name), words, "Add it under properties, or remove it here.")
    for name, hole in in_path.items():
        if hole not in holes:
            words = f"the argument {to_quoted(name)} goes to the path, which has no place for it"
            yield Hit(("endpoint", "args", name), words, "Put its name in braces into the path.")
    for hole in holes:
        if hole not in filled:
            words = f"nothing fills {to_quoted(hole)} in the endpoint's path"
            yield Hit(("endpoint", "path"), words, "Add an input of that name, or correct the path.")


AUTHORING: tuple[Habit, ...] = (
    # Will an agent know whether to use it?
    Habit(
        Rule("vague-description", WARNING, "The description is more than a name or a placeholder."), curation.find_vague
    ),
    Habit(Rule("description-when", NOTE, "The description says when to use the tool."), curation.find_no_when),
    Habit(
        Rule("description-with-what", NOTE, "The description names what the tool works on."), curation.find_no_subject
    ),
    # What does an agent pass, and what does it get?
    Habit(
        Rule("undescribed-input", WARNING, "Every input has a description, inner ones too."), curation.find_undescribed
    ),
    Habit(Rule("no-output-schema", WARNING, "There is an outputSchema."), curation.find_no_output),
    Habit(Rule("few-examples", ERROR, "A stable tool has two examples."), curation.find_few_examples),
    Habit(Rule("no-examples", WARNING, "Every tool has examples."), curation.find_no_examples),
    Habit(Rule("no-edge-case", WARNING, "One example of a stable tool is an edge case."), curation.find_no_edge),
    Habit(Rule("thin-example", NOTE, "Each example has a description and an output."), curation.find_thin_examples),
    Habit(
        Rule("unresolved-ref", ERROR, "Every $ref leads to a schema within the same schema."),
        reception.find_unresolved_refs,
    ),
    # Is it safe? What contradicts itself is a lie in one place.
    Habit(
        Rule("read-only-writes", ERROR, "A tool that is readOnly writes nothing."),
        _when(
            ("annotations", "readOnly"),
            lambda draft: draft.flag("readOnly") is True and not _WRITES.isdisjoint(draft.effects),
            "readOnly is true, and sideEffects say that the tool writes",
            "Set readOnly to false, or take mutating, storage, creates_job and creates_model_version away.",
        ),
    ),
    Habit(
        Rule("read-only-destroys", ERROR, "A tool that is readOnly is not destructive."),
        _when(
            ("annotations", "destructive"),
            lambda draft: draft.flag("readOnly") is True and draft.flag("destructive") is True,
            "destructive is true, and so is readOnly",
            "Set readOnly to false, or destructive to false.",
        ),
    ),
    Habit(
        Rule("read-only-operation", ERROR, "An operation, which creates a job, is not readOnly."),
        _when(
            ("annotations", "readOnly"),
            lambda draft: draft.flag("readOnly") is True and _is_operation(draft),
            "readOnly is true, and an operation creates a job",
            "Set readOnly to false.",
        ),
    ),
    Habit(
        Rule("closed-world-calls", ERROR, "A tool with network or external is openWorld."),
        _when(
            ("annotations", "openWorld"),
            lambda draft: draft.flag("openWorld") is False and not _OUTSIDE.isdisjoint(draft.effects),
            "openWorld is false, and sideEffects say that the tool reaches outside",
            "Set openWorld to true, or take network and external away.",
        ),
    ),
    Habit(
        Rule("open-world-unsaid", WARNING, "A tool that is openWorld has network or external."),
        _when(
            ("sideEffects",),
            lambda draft: draft.flag("openWorld") is True and _OUTSIDE.isdisjoint(draft.effects),
            "openWorld is true, and sideEffects name neither network nor external",
            "Add network or external, or set openWorld to false.",
        ),
    ),
    Habit(
        Rule("writes-unsaid", WARNING, "A tool that is not readOnly says what it writes."),
        _when(
            ("sideEffects",),
            lambda draft: draft.flag("readOnly") is False and (_WRITES | _OUTSIDE).isdisjoint(draft.effects),
            "readOnly is false, and sideEffects name nothing that the tool changes",
            "Add mutating or storage, or set readOnly to true.",
        ),
    ),
    Habit(
        Rule("destroys-unsaid", WARNING, "A tool that is destructive has mutating or storage."),
        _when(
            ("sideEffects",),
            lambda draft: draft.flag("destructive") is True and {"mutating", "storage"}.isdisjoint(draft.effects),
            "destructive is true, and sideEffects name neither mutating nor storage",
            "Add mutating or storage, or set destructive to false.",
        ),
    ),
    Habit(
        Rule("model-mutates", WARNING, "A model only answers: it changes and destroys nothing."),
        _when(
            ("kind",),
            lambda draft: (
                draft.text("kind") in _MODELS and ("mutating" in draft.effects or draft.flag("destructive") is True)
            ),
            "the kind is that of a model, which only answers, and the tool changes something",
            "Make it kind tool, or take mutating and destructive away.",
        ),
    ),
    # What does it cost, and how long does it take?
    Habit(
        Rule("cost-unsaid", WARNING, "costHint high goes with the side-effect cost, and no other does."),
        _when(
            ("costHint",),
            lambda draft: (
                draft.text("costHint") in ("free", "low", "medium", "high")
                and (draft.text("costHint") == "high") is not ("cost" in draft.effects)
            ),
            "costHint and the side-effect cost, which means over $0.01 a call, contradict each other",
            "Write both costHint high and the side-effect cost, or neither.",
        ),
    ),
    Habit(
        Rule("operation-hints", WARNING, "An operation paid by training quota takes minutes or long, and the reverse."),
        _when(
            ("latencyClass",),
            lambda draft: (
                _is_operation(draft)
                and (
                    (draft.text("costHint") == "training_quota" and draft.text("latencyClass") in _QUICK)
                    or (draft.text("costHint") in ("free", "low") and draft.text("latencyClass") in ("minutes", "long"))
                )
            ),
            "latencyClass and costHint contradict each other for an operation",
            "A job on training quota takes minutes or long; one that takes as long is not free or low in cost.",
        ),
    ),
    # Does everything belong together?
    Habit(
        Rule("endpoint-ignored", WARNING, "Only an operation has an endpoint."),
        _when(
            ("endpoint",),
            lambda draft: (
                isinstance(draft.fields.get("endpoint"), dict) and draft.text("kind") not in ("", "operation")
            ),
            "only kind operation has an endpoint, and this one is ignored",
            "Make it kind operation, or remove endpoint.",
        ),
    ),
    Habit(
        Rule("endpoint-argument", ERROR, "An endpoint's arguments, its path and inputSchema agree."),
        _find_stray_arguments,
    ),
    Habit(
        Rule("lineage-ignored", WARNING, "Only a trained model has a lineage."),
        _when(
            ("lineage",),
            lambda draft: (
                isinstance(draft.fields.get("lineage"), dict) and draft.text("kind") not in ("", "trained_model")
            ),
            "only kind trained_model has a lineage",
            "Make it kind trained_model, or set lineage to null.",
        ),
    ),
    Habit(
        Rule("replaces-itself", ERROR, "A deprecated tool is replaced by another."),
        _when(
            ("deprecation", "replacedBy"),
            _replaces_itself,
            "the tool is said to be replaced by itself",
            "Name the tool to use instead, or set replacedBy to null.",
        ),
    ),
    # Will every client take it? The server rewrites what they would not; calls are checked against the original.
    Habit(Rule("renamed", NOTE, "The name is one that every client takes."), reception.find_renamed),
    Habit(
        Rule("composed-root", WARNING, "inputSchema's root has no allOf, anyOf or oneOf."), reception.find_composed_root
    ),
    Habit(Rule("untyped-root", NOTE, "inputSchema's root has a type and properties."), reception.find_untyped_root),
    Habit(
        Rule("unknown-keyword", WARNING, "Every word in inputSchema that is meant as a keyword is one."),
        reception.find_misspelt,
    ),
    Habit(
        Rule("undeclared-required", WARNING, "Every input that is required is a property."), reception.find_undeclared
    ),
    Habit(Rule("old-dialect", NOTE, "inputSchema is written in JSON Schema 2020-12."), reception.find_old_dialect),
    Habit(
        Rule("type-list", NOTE, "A value has one type."),
        reception.each(
            reception.judge_types, "Leave an optional input out of required instead of allowing null; else use anyOf."
        ),
    ),
    Habit(Rule("untyped-items", WARNING, "An array has items."), reception.each(reception.judge_items, 'Add "items".')),
    Habit(
        Rule("unknown-format", NOTE, "A format is one that every model knows."),
        reception.each(
            reception.judge_format, f"Use one of {to_list(sorted(styles.KNOWN_FORMATS))}, or say it in the description."
        ),
    ),
    Habit(
        Rule("many-values", WARNING, "An enum is short enough for every model."),
        reception.each(reception.judge_enum, "Take a text instead, and say in the description what it may be."),
    ),
    Habit(
        Rule("foreign-pattern", WARNING, "A pattern is one that every client can compile."),
        reception.find_patterns(
            patterns.is_portable,
            "some clients cannot compile the pattern {}; it is not shown to them",
            "Write it in ECMAScript's syntax with the u flag: no needless escapes, no Python or PCRE groups.",
        ),
    ),
    Habit(
        Rule("costly-pattern", WARNING, "A pattern takes no more than a moment on any text."),
        reception.find_patterns(
            reception.is_bounded,
            "the pattern {} can take for ever on a long text, and is not tried on one",
            "Do not repeat what itself repeats, as in (a+)+; limit the text by maxLength.",
        ),
    ),
    Habit(Rule("deep-schema", WARNING, "inputSchema is flat enough for every model."), reception.find_deep),
    Habit(Rule("recursive-schema", NOTE, "inputSchema does not refer to itself."), reception.find_self_reference),
)
"""Every authoring rule. Notes and most warnings of the last group need no mending: the server shows another form."""
