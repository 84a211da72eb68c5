"""What `lint` finds: every authoring rule by a change of a good manifest, and no false alarm about good ones."""

from __future__ import annotations

from typing import Any

import pytest

from colabhive_mcp.localgateway.catalogue import ENDPOINTS
from colabhive_mcp.manifest.authoring import AUTHORING
from colabhive_mcp.manifest.contract import RULES, Finding, lint
from colabhive_mcp.manifest.drafts import build_draft, clip
from colabhive_mcp.manifest.findings import LIMIT
from colabhive_mcp.manifest.reception import MAX_ENUM, MAX_LEVELS

from .samples import ABSENT, GOOD, OPERATION, SEED, change

DRAFT7 = "http://json-schema.org/draft-07/schema#"
INPUT = "/inputSchema/properties/text"
PLAIN = {"name": "A phrase", "description": "The plain case", "input": {"text": "a"}, "output": {"words": 1}}


def nest(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "description": "Words."}
    for _ in range(levels):
        schema = {"type": "array", "items": schema, "description": "More."}
    return schema


def flag(name: str, value: bool) -> tuple[str, bool]:
    return f"/annotations/{name}", value


NOT_READ_ONLY = change(GOOD, *flag("readOnly", False))

# rule: manifest, the place that is changed, what is put there, where the finding is
CASES: list[tuple[str, Any, str, Any, str]] = [
    ("vague-description", GOOD, "/description", "TODO: say what this does when it is used.", "/description"),
    ("vague-description", GOOD, "/description", "Count words", "/description"),
    ("vague-description", GOOD, "/description", "The word counter.", "/description"),
    ("description-when", GOOD, "/description", "A counter of words in any text whatsoever.", "/description"),
    ("description-with-what", GOOD, "/description", "Tells how many there are, for statistics.", "/description"),
    ("undescribed-input", GOOD, f"{INPUT}/description", ABSENT, INPUT),
    ("undescribed-input", GOOD, f"{INPUT}/description", " ", INPUT),
    (
        *("undescribed-input", GOOD, "/inputSchema/properties/options/properties/most", {"type": "integer"}),
        "/inputSchema/properties/options/properties/most",
    ),
    (
        *(
            "undescribed-input",
            GOOD,
            INPUT,
            {"type": "array", "items": {"properties": {"a": {}}}, "description": "Texts."},
        ),
        f"{INPUT}/items/properties/a",
    ),
    ("no-output-schema", GOOD, "/outputSchema", ABSENT, ""),
    ("few-examples", GOOD, "/examples/1", ABSENT, "/examples"),
    ("few-examples", GOOD, "/examples", ABSENT, ""),
    ("no-examples", change(GOOD, "/stability", "beta"), "/examples", [], "/examples"),
    ("no-edge-case", GOOD, "/examples", [PLAIN, change(PLAIN, "/input/text", "b")], "/examples"),
    ("thin-example", GOOD, "/examples/1/description", ABSENT, "/examples/1"),
    ("thin-example", GOOD, "/examples/1/output", ABSENT, "/examples/1"),
    ("unresolved-ref", GOOD, INPUT, {"$ref": "#/nowhere"}, f"{INPUT}/$ref"),
    ("unresolved-ref", GOOD, "/outputSchema", {"$ref": "other.json"}, "/outputSchema/$ref"),
    *(
        ("read-only-writes", GOOD, "/sideEffects", [effect], "/annotations/readOnly")
        for effect in ("mutating", "storage", "creates_job")
    ),
    ("read-only-destroys", GOOD, *flag("destructive", True), "/annotations/destructive"),
    ("read-only-operation", OPERATION, *flag("readOnly", True), "/annotations/readOnly"),
    *(
        ("closed-world-calls", GOOD, "/sideEffects", [effect], "/annotations/openWorld")
        for effect in ("network", "external")
    ),
    ("open-world-unsaid", GOOD, *flag("openWorld", True), "/sideEffects"),
    ("writes-unsaid", GOOD, *flag("readOnly", False), "/sideEffects"),
    ("destroys-unsaid", NOT_READ_ONLY, *flag("destructive", True), "/sideEffects"),
    ("model-mutates", change(NOT_READ_ONLY, "/sideEffects", ["mutating"]), "/kind", "llm", "/kind"),
    ("model-mutates", change(NOT_READ_ONLY, "/kind", "specialist"), *flag("destructive", True), "/kind"),
    ("cost-unsaid", GOOD, "/costHint", "high", "/costHint"),
    ("cost-unsaid", GOOD, "/sideEffects", ["cost"], "/costHint"),
    ("operation-hints", OPERATION, "/latencyClass", "instant", "/latencyClass"),
    ("operation-hints", OPERATION, "/costHint", "free", "/latencyClass"),
    ("endpoint-ignored", OPERATION, "/kind", "tool", "/endpoint"),
    ("endpoint-argument", OPERATION, "/endpoint/args/other", {"in": "query"}, "/endpoint/args/other"),
    ("endpoint-argument", OPERATION, "/endpoint/args/note/in", "path", "/endpoint/args/note"),
    ("endpoint-argument", OPERATION, "/endpoint/path", "/merges/{merge_id}/{other}", "/endpoint/path"),
    ("lineage-ignored", GOOD, "/lineage", {}, "/lineage"),
    ("replaces-itself", GOOD, "/deprecation/replacedBy", "count-words", "/deprecation/replacedBy"),
    ("renamed", GOOD, "/name", "count.words", "/name"),
    ("renamed", GOOD, "/name", "a" * 65, "/name"),
    *(
        ("composed-root", GOOD, f"/inputSchema/{word}", [{}], f"/inputSchema/{word}")
        for word in ("allOf", "anyOf", "oneOf")
    ),
    ("untyped-root", GOOD, "/inputSchema/type", ABSENT, "/inputSchema"),
    ("untyped-root", GOOD, "/inputSchema", {"type": "object"}, "/inputSchema"),
    *(
        ("unknown-keyword", GOOD, f"{INPUT}/{word}", value, f"{INPUT}/{word}")
        for word, value in (("maxlength", 5), ("nullable", True), ("max", 5), ("speed", {"type": "string"}))
    ),
    ("unknown-keyword", GOOD, "/inputSchema/requried", ["text"], "/inputSchema/requried"),
    ("undeclared-required", GOOD, "/inputSchema/required", ["text", "texts"], "/inputSchema/required/1"),
    ("old-dialect", GOOD, "/inputSchema/$schema", DRAFT7, "/inputSchema/$schema"),
    ("type-list", GOOD, f"{INPUT}/type", ["string", "null"], f"{INPUT}/type"),
    ("untyped-items", GOOD, f"{INPUT}/type", "array", INPUT),
    ("unknown-format", GOOD, f"{INPUT}/format", "markdown", f"{INPUT}/format"),
    ("many-values", GOOD, f"{INPUT}/enum", [str(place) for place in range(MAX_ENUM + 1)], f"{INPUT}/enum"),
    ("foreign-pattern", GOOD, f"{INPUT}/pattern", r"\-", f"{INPUT}/pattern"),
    ("foreign-pattern", GOOD, "/inputSchema/patternProperties", {"(?i)x": {}}, "/inputSchema/patternProperties/(?i)x"),
    ("costly-pattern", GOOD, f"{INPUT}/pattern", "^(a+)+$", f"{INPUT}/pattern"),
    ("deep-schema", GOOD, INPUT, nest(MAX_LEVELS), INPUT + "/items" * (MAX_LEVELS - 1)),
    ("recursive-schema", GOOD, INPUT, {"$ref": "#", "description": "Again."}, "/inputSchema"),
]


def find(code: str, findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.code == code]


@pytest.mark.parametrize("manifest", [GOOD, OPERATION], ids=lambda manifest: manifest["name"])
def test_good_manifests(manifest: Any) -> None:
    """A manifest that follows the guidelines has no finding at all."""
    assert lint(manifest) == []


@pytest.mark.parametrize("entry", ENDPOINTS, ids=lambda entry: entry["name"])
def test_the_demo_catalogue(entry: dict[str, Any]) -> None:
    """The local gateway's own tools are what an author may copy: only their names are noted."""
    assert {finding.code for finding in lint(entry)} <= {"renamed"}


def test_the_documentation_s_example() -> None:
    """The example of the documentation falls short of its own guidelines in exactly these points."""
    codes = [finding.code for finding in lint(SEED)]
    assert sorted(set(codes)) == ["description-with-what", "few-examples", "renamed", "undescribed-input"]
    assert codes.count("undescribed-input") == 3


@pytest.mark.parametrize(("code", "manifest", "place", "value", "pointer"), CASES)
def test_changed_for_the_worse(code: str, manifest: Any, place: str, value: Any, pointer: str) -> None:
    """Each rule is broken by a change of one place, and told once, at its place, with words on how to mend it."""
    changed = change(manifest, place, value)
    assert find(code, lint(manifest)) == []
    [finding] = find(code, lint(changed))
    assert (finding.pointer, finding.severity, finding.breaks) == (pointer, RULES[code].severity, False)
    assert finding.message
    assert finding.mend.endswith(".")


def test_every_rule_has_a_case() -> None:
    """No rule is in the table that nothing breaks, and each code is there once."""
    codes = [habit.rule.code for habit in AUTHORING]
    assert {case[0] for case in CASES} == set(codes)
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    "example",
    [
        {"name": "A long text", "input": {"text": "b"}},
        {"name": "B", "description": "No words at all", "input": {"text": "b"}},
        {"name": "B", "input": {"text": ""}},
        {"name": "B", "input": {"text": "b", "options": {}}},
        {"name": "B", "input": {"text": "1234"}},
    ],
)
def test_edge_cases(example: Any) -> None:
    """An edge case is one that says so, that fills in what is optional, or that has a value at its limit."""
    manifest = change(change(GOOD, f"{INPUT}/maxLength", 4), "/examples", [PLAIN, example])
    assert find("no-edge-case", lint(manifest)) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/ChatMessage"},
        {"$ref": "#/$defs/Own"},
        {"const": "text"},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "A text."},
        {"not": {"properties": {"a": {}}}, "description": "A text."},
        {"type": "object", "properties": {"items": {"items": {}, "description": "A list."}}, "description": "A text."},
    ],
)
def test_what_is_described_elsewhere(schema: Any) -> None:
    """An input needs no words where what it refers to has them, where it is a constant, or where it is none."""
    manifest = change(change(GOOD, INPUT, schema), "/inputSchema/$defs", {"Own": {"description": "Mine."}})
    assert find("undescribed-input", lint(manifest)) == []


@pytest.mark.parametrize(
    ("word", "value"), [("x-order", {"type": "a"}), ("note", "For people."), ("$recursiveRef", "#"), ("unit", {"a": 1})]
)
def test_words_for_others(word: str, value: Any) -> None:
    """A word that is no keyword is left alone where it may be meant for others."""
    assert find("unknown-keyword", lint(change(GOOD, f"{INPUT}/{word}", value))) == []


def test_a_misspelt_keyword_names_the_one_that_is_meant() -> None:
    """The author of a misspelt keyword need look nothing up."""
    [finding] = find("unknown-keyword", lint(change(GOOD, f"{INPUT}/max_length", 5)))
    assert finding.mend == "Rename it, if maxLength is meant."


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {}, "required": ["a"], "anyOf": [{"properties": {"a": {}}}]},
        {"properties": {"a": {}}, "allOf": [{"properties": {"b": {}}, "required": ["a", "b"]}]},
        {"required": ["a"]},
    ],
)
def test_what_another_part_may_declare_is_not_missing(schema: Any) -> None:
    """A required name is nobody's fault where another part of the schema may have the property."""
    assert find("undeclared-required", lint(change(GOOD, "/inputSchema", schema))) == []


def test_inputs_that_come_from_parts() -> None:
    """An endpoint's argument is not missed where a part of inputSchema may have it."""
    stray = change(OPERATION, "/endpoint/args/other", {"in": "query"})
    parts = {"allOf": [{"properties": {"other": {"type": "string", "description": "Another."}}}]}
    assert find("endpoint-argument", lint({**stray, "inputSchema": {**stray["inputSchema"], **parts}})) == []


@pytest.mark.parametrize("field", ["annotations", "sideEffects", "examples", "inputSchema", "endpoint", "name", "kind"])
@pytest.mark.parametrize("value", [None, 5, "x", [5], {"args": 5, "path": ["{a}"]}, [[]], {"a": {"b": []}}])
def test_wrong_types_are_the_contract_s(field: str, value: Any) -> None:
    """A field of the wrong type, or with wrong types in it, upsets no rule."""
    assert {finding.code for finding in lint(change(OPERATION, f"/{field}", value))} <= RULES.keys()


def test_the_number_of_findings_is_bounded() -> None:
    """A rule that is broken everywhere is told of only so often."""
    properties = {f"p{place}": {"type": "string"} for place in range(3 * LIMIT)}
    assert len(find("undescribed-input", lint(change(GOOD, "/inputSchema/properties", properties)))) == LIMIT


def test_shared_definitions_are_nobody_s_fault() -> None:
    """What the contract itself defines is not held against an author."""
    pointers = {finding.pointer for finding in lint(SEED)}
    assert not [pointer for pointer in pointers if "$defs" in pointer]
    assert all("$defs" not in part.steps for part in build_draft(SEED).parts)


@pytest.mark.parametrize(("steps", "kept"), [((), 0), (("a", 0, "b"), 3), (("a", 1), 1), (("b",), 0), (("a", "0"), 1)])
def test_places_are_clipped_to_what_is_there(steps: tuple[Any, ...], kept: int) -> None:
    """A place is cut where the document ends."""
    assert clip({"a": [{"b": 1}]}, steps) == steps[:kept]
