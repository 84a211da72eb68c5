"""The fields of a manifest, and of a discovery response, held against the canonical schema, and told in its words.

What a schema or an example in a field says is not looked at. Knows nothing of the rules of good authorship.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from colabhive_mcp.manifest.canonical import load_canonical
from colabhive_mcp.manifest.findings import LIMIT, Finding, build_finding, to_pointer
from colabhive_mcp.manifest.model import UnusableTool, build_tool
from colabhive_mcp.manifest.rules import CHECKS
from colabhive_mcp.manifest.schemas import Checker, Complaint, build_checker
from colabhive_mcp.manifest.wording import to_quoted, to_words

PAGES = "pages"  # what only a file made by `manifest pin` has beside the fields of a discovery response
_CODES = {
    "required": "missing-field",
    "type": "wrong-type",
    "enum": "unknown-value",
    "maxLength": "too-long",
    "minLength": "empty-text",
    "pattern": "wrong-form",
    "uniqueItems": "repeated-item",
    "contains": "missing-effect",
    "additionalProperties": "extra-field",
}


def check_fields(manifest: Mapping[str, Any], *, skipped: Collection[str] = ()) -> Iterator[Finding]:
    """What is wrong with the fields of *manifest*, but for the *skipped* ones. A name may break the tool."""
    refused = _is_refused(manifest.get("name"))
    for complaint in _load_fields().complaints(manifest, limit=LIMIT):
        if not complaint.steps or complaint.steps[0] not in skipped:
            yield from _tell(complaint, load_canonical(), refused=refused)


def find_unknown(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    """The fields of *manifest* that the contract does not have, in every part that it describes."""
    yield from _find_unknown(manifest, load_canonical(), ())


def check_envelope(document: Any) -> list[Finding]:
    """What is wrong with a discovery response beside its tools, which `validate` checks one by one."""
    if isinstance(document, dict) and isinstance(document.get("tools"), list):
        document = {**document, "tools": []}
    if isinstance(document, dict):
        document = {name: each for name, each in document.items() if name != PAGES}
    schema = load_canonical()["$defs"]["DiscoveryResponse"]
    found = [
        each for complaint in _load_envelope().complaints(document, limit=LIMIT) for each in _tell(complaint, schema)
    ]
    return [*found, *islice(_find_unknown(document, schema, ()), LIMIT)]


@cache
def _load_fields() -> Checker:
    return build_checker(load_canonical(), trusted=True)


@cache
def _load_envelope() -> Checker:
    parts = load_canonical()["$defs"]
    response = parts["DiscoveryResponse"]
    envelope = {**response["properties"], "tools": {"type": "array"}}
    return build_checker({**response, "properties": envelope}, trusted=True)


def _is_refused(name: Any) -> bool:
    try:
        build_tool({"name": name})
    except UnusableTool:
        return True
    return False


def _tell(complaint: Complaint, schema: Mapping[str, Any], *, refused: bool = False) -> Iterator[Finding]:
    """The findings of one complaint: one for each field that is missing, else one. A *refused* name breaks the tool."""
    steps, place = complaint.steps, complaint.finding.path or "the manifest"
    if complaint.keyword == "required":
        for name in complaint.rule:
            if name not in complaint.instance:
                words, mend = (
                    f"the field {to_quoted(name)} is missing",
                    f"Add {name}: {_find_words(schema, (*steps, name))}",
                )
                breaks = refused and (*steps, name) == ("name",)
                yield build_finding(CHECKS["missing-field"], to_pointer(steps), words, mend, breaks=breaks)
        return
    code, words = _judge(complaint)
    mend = _MENDS.get(code) or f"Wanted: {_find_words(schema, steps)}"
    breaks = refused and steps == ("name",)
    yield build_finding(CHECKS[code], to_pointer(steps), f"{place} {words}", mend, breaks=breaks)


def _judge(complaint: Complaint) -> tuple[str, str]:
    """The code of a complaint, and what is wrong in words that follow the name of its place."""
    code = _CODES.get(complaint.keyword, "too-expensive")
    instance, inside = complaint.instance, complaint.steps[:1] == ("endpoint",)
    if inside and complaint.keyword == "enum" and complaint.steps[-1] == "in" and instance in _PLACES:
        return _MISPLACED.get(instance, _MISPLACED["body"])
    if complaint.keyword == "pattern":
        return ("unsafe-endpoint" if inside else code), f"has not the form that it must have: {to_words(instance)}"
    if code == "missing-effect":
        return code, f"lacks {to_quoted(complaint.rule.get('const'))}, which every operation has"
    if code == "too-long":
        return code, f"has {len(instance):,} characters, and may have {complaint.rule:,}"
    return code, complaint.finding.message


_PLACES = ("path", "query", "body", "header", "file")
_MISPLACED = {
    "header": ("unsafe-endpoint", "would set a protected header"),
    "file": ("misplaced-argument", "is a file, which only the encoding multipart carries"),
    "body": ("misplaced-argument", "goes to the body, which the encoding none has not"),
}
_MENDS = {
    "extra-field": "Remove what is not known here: this object has exactly its own fields.",
    "missing-effect": "Add it: operations create a job and, at its end, a version of a model.",
    "repeated-item": "Write each item once.",
    "too-expensive": "Make the value smaller, or its schema simpler.",
    "misplaced-argument": "Change the argument's place, or the endpoint's encoding.",
}


def _find_words(schema: Mapping[str, Any], steps: Sequence[str | int]) -> str:
    """What the canonical schema says of the place *steps*, or of the nearest place around it that it describes."""
    parts: list[Any] = [schema]
    for step in steps:
        around = _resolve(parts[-1])
        parts.append(
            around.get("properties", {}).get(step) or around.get("items") or around.get("additionalProperties")
        )
    words: str = next(filter(None, map(_describe, reversed(parts))))
    return words[0].lower() + words[1:]


def _describe(schema: Any) -> str | None:
    own = schema.get("description") if isinstance(schema, dict) else None
    return own or _resolve(schema).get("description")


def _resolve(schema: Any) -> Mapping[str, Any]:
    """A part of the canonical schema behind its reference."""
    if not isinstance(schema, dict):
        return {}
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    found: Mapping[str, Any] = load_canonical()["$defs"].get(name, schema)
    return found


def _find_unknown(value: Any, schema: Any, steps: tuple[str | int, ...]) -> Iterator[Finding]:
    schema = _resolve(schema)
    if isinstance(value, list):
        for place, item in enumerate(value) if "items" in schema else ():
            yield from _find_unknown(item, schema["items"], (*steps, place))
    elif isinstance(value, dict) and "properties" in schema:
        for name, member in value.items():
            if name in schema["properties"]:
                yield from _find_unknown(member, schema["properties"][name], (*steps, name))
            elif "additionalProperties" not in schema:
                yield _tell_unknown(name, schema["properties"], steps)
    elif isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        for name, member in value.items():
            yield from _find_unknown(member, schema["additionalProperties"], (*steps, name))


def _tell_unknown(name: str, known: Iterable[str], steps: tuple[str | int, ...]) -> Finding:
    near = difflib.get_close_matches(_simplify(name[:40]), {_simplify(each): each for each in known}, n=1, cutoff=0.8)
    meant = next((each for each in known if near and _simplify(each) == near[0]), None)
    mend = f"Rename it, if {meant} is meant." if meant else "Nothing, if it is meant for others; else remove it."
    words = f"{to_quoted(name)} is no field of the contract, and is ignored"
    return build_finding(CHECKS["unknown-field"], to_pointer((*steps, name)), words, mend)


def _simplify(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
