"""The contract of manifests: what `mcp-manifest.schema.json` and the schemas of a tool say, checked and told in words.

Pure, and never at a loss: any JSON value has findings, within a bound of time and number. What is a matter of good
authorship is judged in `authoring`. Knows nothing of files, gateways or clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from time import thread_time
from typing import Any

from colabhive_mcp.manifest.authoring import AUTHORING, lint
from colabhive_mcp.manifest.client_form import to_exact_input
from colabhive_mcp.manifest.dialects import TYPES, UnusableSchema
from colabhive_mcp.manifest.document import find_faults
from colabhive_mcp.manifest.drafts import Steps, to_steps
from colabhive_mcp.manifest.fields import check_envelope, check_fields, find_unknown
from colabhive_mcp.manifest.findings import ERROR, LIMIT, Finding, Rule, build_finding, to_pointer
from colabhive_mcp.manifest.headers import find_headers
from colabhive_mcp.manifest.inventory import say_left_out
from colabhive_mcp.manifest.model import UnusableTool, build_tool
from colabhive_mcp.manifest.nesting import MAX_LEVELS, find_deep, find_unwritable
from colabhive_mcp.manifest.reception import find_unresolved, is_unresolved
from colabhive_mcp.manifest.rules import CHECKS
from colabhive_mcp.manifest.schemas import Checker, build_checker
from colabhive_mcp.manifest.wording import list_steps, to_count, to_list, to_path, to_quoted, to_trail, to_words
from colabhive_mcp.protocol.messages import dump_json

__all__ = [
    "RULES",
    "Finding",
    "check_envelope",
    "find_breakage",
    "find_repeats",
    "lint",
    "say_invalid",
    "validate",
]

MAX_EXAMPLES = 100  # of one manifest that are checked
SECONDS = 1.0  # of the processor for the inputs, and for the outputs, of all examples
PER_EXAMPLE = 5  # findings, as for the arguments of a call

CheckEndpoint = Callable[[Any], str | None]

RULES: Mapping[str, Rule] = {**CHECKS, **{habit.rule.code: habit.rule for habit in AUTHORING}}
"""Every rule by its code: first those of `validate`, then those of `lint`."""

_SCHEMA_FIELDS = ("inputSchema", "outputSchema")


def validate(manifest: Any, *, check_endpoint: CheckEndpoint | None = None) -> list[Finding]:
    """What is wrong with *manifest* by the contract; empty where it fits.

    Checked are the fields, both schemas, and the examples against them; each has at most `LIMIT` findings. With
    *check_endpoint*, which says why no request can be made of an endpoint block, an operation's block is asked about.
    """
    if not isinstance(manifest, dict):
        words = f"a manifest is an object, and this is {to_words(manifest)}"
        return [build_finding(CHECKS["not-an-object"], "", words, "Write one JSON object for each tool.", breaks=True)]
    checks: tuple[Callable[[Any], Iterator[Finding]], ...] = (
        *(_check_json, _check_fields, _check_schemas, _check_headers, _check_examples, find_unknown),
        lambda checked: _check_endpoint(checked, check_endpoint),
    )
    return list(dict.fromkeys(finding for check in checks for finding in islice(check(manifest), LIMIT)))


def find_breakage(manifest: Any, *, check_endpoint: CheckEndpoint | None = None) -> str | None:
    """Why the server leaves this tool out; None where it offers it.

    It is given where `validate` has a finding that *breaks* the tool, and costs much less.
    """
    try:
        return say_left_out(build_tool(manifest), check_endpoint or _find_nothing)
    except UnusableTool as error:
        return str(error)


def _find_nothing(block: Any) -> None:
    """Of an endpoint that nobody asked about."""


def find_repeats(manifests: Iterable[tuple[str, Any]]) -> Mapping[str, Finding]:
    """The findings about names that are there twice in *manifests*, which are given with their pointers, by pointer."""
    first: dict[str, str] = {}
    repeats = {}
    for pointer, manifest in manifests:
        name = manifest.get("name") if isinstance(manifest, dict) else None
        if isinstance(name, str) and first.setdefault(name, pointer) != pointer:
            words = f"the name {to_quoted(name)} is that of {first[name] or 'the root'} too"
            mend = "Rename one of them: only the first is offered."
            repeats[pointer] = build_finding(CHECKS["repeated-name"], "/name", words, mend, breaks=True)
    return repeats


def say_invalid(findings: Sequence[Finding]) -> list[Finding]:
    """What an author who asks for the authoring rules is told of the errors that `validate` found, in one finding."""
    errors = [each for each in findings if each.severity == ERROR]
    first = next((each for each in errors if each.code not in _LINTED), None)
    if first is None:
        return []
    count = to_count(len(errors), "error", "errors")
    words = f"`manifest validate` finds {count}; the first: {first.message}"
    mend = "Mend what `manifest validate` says first: the authoring rules are judged only as far as the fields go."
    return [build_finding(CHECKS["not-valid"], first.pointer, words, mend)]


_LINTED = frozenset(habit.rule.code for habit in AUTHORING)


def _check_json(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether it can be written at all; what is too deep is told of by the field that it is in."""
    deep = find_deep(manifest, MAX_LEVELS)
    if deep is not None:
        words, mend = (
            f"it is nested deeper than {MAX_LEVELS} levels",
            "Describe the outer levels, and leave the rest out.",
        )
        yield build_finding(CHECKS["too-deep"], to_pointer(list_steps(deep)[:1]), words, mend, breaks=True)
        return
    try:
        dump_json(manifest)
    except ValueError:
        words = "it holds a number that JSON cannot, such as NaN"
        pointer = to_pointer(list_steps(find_unwritable(manifest)))
        yield build_finding(CHECKS["not-json"], pointer, words, "Write the number as a text.", breaks=True)


def _check_fields(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    """The fields, but for a schema that is told of as an unusable one."""
    stated = [field for field in _SCHEMA_FIELDS if manifest.get(field) is not None]
    yield from check_fields(manifest, skipped=[field for field in stated if find_faults(manifest[field])])


def _check_endpoint(manifest: Mapping[str, Any], check: CheckEndpoint | None) -> Iterator[Finding]:
    block = manifest.get("endpoint") if manifest.get("kind") == "operation" else None
    fault = check(block) if check is not None and block is not None else None
    if fault is not None:
        words, mend = f"the endpoint cannot be used: {fault}", "Mend the endpoint as it is said of its parts."
        yield build_finding(CHECKS["unusable-endpoint"], "/endpoint", words, mend, breaks=True)


# The schemas and the examples


def _check_schemas(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    for field in _SCHEMA_FIELDS:
        schema, breaks = manifest.get(field), field == "inputSchema"
        if schema is None:
            continue
        faults = find_faults(schema)
        for hit in islice(find_unresolved(field, schema, faults), LIMIT):
            yield build_finding(RULES["unresolved-ref"], to_pointer(hit.steps), hit.message, hit.mend, breaks=breaks)
        others = [each for each in faults if not is_unresolved(each)] if faults else _find_refusal(field, schema)
        for fault in others[:LIMIT]:
            pointer = to_pointer((field, *_find_place(schema, fault)))
            yield build_finding(CHECKS["unusable-schema"], pointer, f"{field}: {fault}", _mend(fault), breaks=breaks)


def _check_headers(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    mend = "Put it on a string, an integer or a boolean under properties, with a name of letters, digits and hyphens."
    for steps, words in find_headers(manifest.get("inputSchema")).faults:
        yield build_finding(CHECKS["unusable-header"], to_pointer(("inputSchema", *steps)), words, mend)


def _find_refusal(field: str, schema: Any) -> list[UnusableSchema]:
    """Why a valid input schema cannot be one of arguments."""
    try:
        if field == "inputSchema":
            to_exact_input(schema)
    except UnusableSchema as fault:
        return [fault]
    return []


def _find_place(schema: Any, fault: UnusableSchema) -> Steps:
    """Where *fault* is; in an object of schemas, the first member that is none."""
    steps = to_steps(schema, fault.place)
    if "is no object of schemas" not in str(fault):
        return steps
    for step in steps:
        schema = schema[step]
    odd = schema.items() if isinstance(schema, dict) else ()
    return (*steps, *islice((name for name, each in odd if not isinstance(each, dict | bool)), 1))


_MENDS = (  # words of the reason, and what to do then
    ("dialect", 'Leave $schema out, or write "$schema": "https://json-schema.org/draft/2020-12/schema".'),
    ("lead back to themselves", "Break the circle: let one of the schemas say something before it refers on."),
    ("nested deeper", "Describe the outer levels only, and leave the rest to the description."),
    ("subschemas", "Describe less of it, and leave the rest to the description."),
    ("arguments", 'Give the root "type": "object" and name each argument under properties.'),
)
_KEYWORD_MENDS: Mapping[Any, str] = {  # None where the whole is no schema
    None: 'Write an object, not a text: {"type": "object", "properties": {…}}.',
    "additionalProperties": "Write false, true, or the schema of what else there may be.",
    "type": f"Write one of {to_list(sorted(TYPES))}, or a list of these.",
    "required": 'Write a list of names beside properties, not within one of them: "required": ["name"].',
    "properties": 'Name each one: {"name": {"type": "string"}}; what follows a name is an object, or true or false.',
    "items": "Write one schema, which holds for all items; for one each, prefixItems has a list of schemas.",
    "enum": 'Write the values as a list: ["a", "b"].',
    "exclusiveMinimum": "Write it as 2020-12 has it: the bound itself, a number, in place of minimum.",
    "exclusiveMaximum": "Write it as 2020-12 has it: the bound itself, a number, in place of maximum.",
}


def _mend(fault: UnusableSchema) -> str:
    keyword = fault.place[1] if fault.place is not None else None
    by_words = next((mend for words, mend in _MENDS if words in str(fault)), None)
    return by_words or _KEYWORD_MENDS.get(keyword, "Write this keyword as JSON Schema 2020-12 has it.")


def _check_examples(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    examples = manifest.get("examples")
    if not isinstance(examples, list):
        return
    for field, member, code in (
        ("inputSchema", "input", "example-input"),
        ("outputSchema", "output", "example-output"),
    ):
        checker = _load_checker(manifest.get(field))
        if checker is not None:
            yield from _check_against(checker, examples, member, CHECKS[code])


def _load_checker(schema: Any) -> Checker | None:
    """The checker of a schema; None where there is none or it cannot be used."""
    try:
        return None if schema is None else build_checker(schema)
    except UnusableSchema:
        return None


def _check_against(checker: Checker, examples: Sequence[Any], member: str, rule: Rule) -> Iterator[Finding]:
    end = thread_time() + SECONDS
    for place, example in enumerate(examples[:MAX_EXAMPLES]):
        complaints = checker.complaints(example[member], limit=PER_EXAMPLE) if _has(example, member) else []
        for complaint in complaints:
            steps = ("examples", place, member, *complaint.steps)
            words = f"{to_path(to_trail(steps))} {complaint.finding.message}"
            mend = f"Correct the example, or {member}Schema where the example is right."
            if complaint.keyword:
                yield build_finding(rule, to_pointer(steps), words, mend)
        if thread_time() > end or any(not each.keyword for each in complaints):
            words = f"examples[{place}].{member} takes too long to check, and those after it are not checked"
            pointer = to_pointer(("examples", place, member))
            mend = "Make the values smaller, or their schema simpler."
            yield build_finding(CHECKS["too-expensive"], pointer, words, mend)
            return


def _has(example: Any, member: str) -> bool:
    return isinstance(example, dict) and member in example
