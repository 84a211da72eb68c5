"""What `validate` finds: every rule by a wrong copy of a good manifest, and nothing that any JSON could upset."""

from __future__ import annotations

import json
from time import thread_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabhive_mcp.gateway.endpoints import PROTECTED_HEADERS, find_endpoint_fault
from colabhive_mcp.manifest.authoring import AUTHORING
from colabhive_mcp.manifest.contract import (
    RULES,
    Finding,
    check_envelope,
    find_breakage,
    find_repeats,
    lint,
    say_invalid,
    validate,
)
from colabhive_mcp.manifest.findings import LIMIT, to_pointer
from colabhive_mcp.manifest.inventory import Form, build_inventory
from colabhive_mcp.manifest.model import build_manifest
from colabhive_mcp.manifest.pins import build_pin
from colabhive_mcp.protocol.revisions import REVISIONS

from .generated import VALUES, schemas
from .samples import ABSENT, GOOD, OPERATION, SEED, change

ENVELOPE: dict[str, Any] = {
    "protocolVersion": "2026-01-01",
    "server": {"name": "colabhive", "version": "1", "vendor": "ColabHive"},
    "tools": [SEED],
    "generatedAt": "2026-05-22T15:00:00Z",
    "etag": 'W/"sha256:abc"',
}


def nest(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"type": "object", "properties": {"a": value}}
    return value


EXPENSIVE = {"type": "array", "items": {"anyOf": [{"contains": {"minimum": place}} for place in range(400)]}}

# rule: manifest, the place that is changed, what is put there, where the finding is, whether the server goes without it
TOKENS = "/inputSchema/properties/max_tokens"
ROLE = "/inputSchema/properties/messages/items"
CASES: list[tuple[str, Any, str, Any, str, bool]] = [
    ("not-json", SEED, "/x", float("nan"), "/x", True),
    ("not-json", SEED, "/tags", ["a", 10**5000], "/tags/1", True),
    ("too-deep", SEED, "/lineage", {"columns": nest(2_000)}, "/lineage", True),
    ("too-deep", SEED, "/x", nest(100), "/x", True),
    ("missing-field", SEED, "/name", ABSENT, "", True),
    *(
        ("missing-field", SEED, f"/{name}", ABSENT, "", False)
        for name in ("displayName", "version", "stability", "kind")
    ),
    *(("missing-field", SEED, f"/{name}", ABSENT, "", False) for name in ("description", "inputSchema", "sideEffects")),
    *(("missing-field", SEED, f"/{name}", ABSENT, "", False) for name in ("costHint", "latencyClass", "annotations")),
    ("missing-field", SEED, "/annotations/readOnly", ABSENT, "/annotations", False),
    ("missing-field", SEED, "/examples/0/input", ABSENT, "/examples/0", False),
    ("missing-field", GOOD, "/deprecation/replacedBy", ABSENT, "/deprecation", False),
    ("missing-field", OPERATION, "/endpoint/path", ABSENT, "/endpoint", False),
    ("missing-field", OPERATION, "/endpoint/args/note/in", ABSENT, "/endpoint/args/note", False),
    ("wrong-type", SEED, "/name", 5, "/name", True),
    ("wrong-type", SEED, "/displayName", None, "/displayName", False),
    ("wrong-type", SEED, "/tags", "chat", "/tags", False),
    ("wrong-type", SEED, "/tags/1", 5, "/tags/1", False),
    ("wrong-type", SEED, "/annotations/openWorld", "no", "/annotations/openWorld", False),
    ("wrong-type", SEED, "/inputSchema", None, "/inputSchema", False),
    ("wrong-type", SEED, "/examples/0/input", [], "/examples/0/input", False),
    ("wrong-type", SEED, "/links/source", 5, "/links/source", False),
    ("wrong-type", SEED, "/lineage", [], "/lineage", False),
    ("unknown-value", SEED, "/stability", "alpha", "/stability", False),
    ("unknown-value", SEED, "/kind", "LLM", "/kind", False),
    ("unknown-value", SEED, "/category", "text", "/category", False),
    ("unknown-value", SEED, "/costHint", "training_quota", "/costHint", False),
    ("unknown-value", SEED, "/latencyClass", "minutes", "/latencyClass", False),
    ("unknown-value", SEED, "/sideEffects", ["creates_job"], "/sideEffects/0", False),
    ("unknown-value", OPERATION, "/sideEffects/0", "nothing", "/sideEffects/0", False),
    ("unknown-value", OPERATION, "/latencyClass", "hours", "/latencyClass", False),
    ("unknown-value", OPERATION, "/endpoint/method", "get", "/endpoint/method", False),
    ("unknown-value", OPERATION, "/endpoint/encoding", "xml", "/endpoint/encoding", False),
    ("unknown-value", OPERATION, "/endpoint/args/note/in", "cookie", "/endpoint/args/note/in", False),
    ("too-long", SEED, "/description", "x" * 201, "/description", False),
    ("too-long", SEED, "/name", "x" * 201, "/name", True),
    ("empty-text", SEED, "/description", "", "/description", False),
    ("empty-text", SEED, "/name", "", "/name", True),
    ("wrong-form", SEED, "/name", "a b", "/name", False),
    ("wrong-form", SEED, "/name", "a\n", "/name", True),
    ("wrong-form", SEED, "/name", "../a", "/name", False),
    *(("wrong-form", SEED, "/version", version, "/version", False) for version in ("1", "1.0", "v1.0.0", "1.0.0-01")),
    ("wrong-form", GOOD, "/deprecation/deprecatedAt", "yesterday", "/deprecation/deprecatedAt", False),
    ("repeated-item", SEED, "/tags", ["a", "a"], "/tags", False),
    ("missing-effect", OPERATION, "/sideEffects/0", "pii", "/sideEffects", False),
    ("missing-effect", OPERATION, "/sideEffects/1", ABSENT, "/sideEffects", False),
    ("extra-field", GOOD, "/deprecation/reason", "old", "/deprecation", False),
    ("unsafe-endpoint", OPERATION, "/endpoint/path", "/a/../{merge_id}", "/endpoint/path", False),
    ("unsafe-endpoint", OPERATION, "/endpoint/args/note/name", "X-API-KEY", "/endpoint/args/note/name", False),
    ("unsafe-endpoint", OPERATION, "/endpoint/args/Host", {"in": "header"}, "/endpoint/args/Host/in", False),
    ("misplaced-argument", OPERATION, "/endpoint/args/note/in", "file", "/endpoint/args/note/in", False),
    (
        *("misplaced-argument", change(OPERATION, "/endpoint/encoding", "none"), "/endpoint/args/note/in", "body"),
        *("/endpoint/args/note/in", False),
    ),
    ("unusable-endpoint", OPERATION, "/endpoint/path", "/a?b={merge_id}", "/endpoint", True),
    (
        "unresolved-ref",
        SEED,
        "/inputSchema/properties/x",
        {"$ref": "#/$defs/X"},
        "/inputSchema/properties/x/$ref",
        True,
    ),
    (
        "unresolved-ref",
        SEED,
        "/outputSchema/properties/x",
        {"$ref": "x.json"},
        "/outputSchema/properties/x/$ref",
        False,
    ),
    ("unusable-schema", SEED, "/inputSchema/properties/x", {"type": "int"}, "/inputSchema/properties/x/type", True),
    ("unusable-schema", SEED, "/outputSchema/properties/x", {"type": "int"}, "/outputSchema/properties/x/type", False),
    ("unusable-schema", SEED, "/inputSchema/$schema", "https://example.com/d", "/inputSchema", True),
    ("unusable-schema", SEED, "/inputSchema", {"type": "string"}, "/inputSchema", True),
    ("unusable-schema", SEED, "/inputSchema", False, "/inputSchema", True),
    ("unusable-schema", SEED, "/inputSchema", "string", "/inputSchema", True),
    ("unusable-schema", SEED, "/inputSchema", {"$ref": "#"}, "/inputSchema", True),
    ("unusable-header", SEED, f"{TOKENS}/x-mcp-header", "a b", f"{TOKENS}/x-mcp-header", False),
    ("unusable-header", SEED, f"{ROLE}/x-mcp-header", "Role", f"{ROLE}/x-mcp-header", False),
    ("example-input", SEED, "/examples/0/input/temperature", 3, "/examples/0/input/temperature", False),
    ("example-input", SEED, "/examples/0/input/messages/0/role", "king", "/examples/0/input/messages/0/role", False),
    ("example-output", SEED, "/examples/0/output/choices", ABSENT, "/examples/0/output", False),
    ("unknown-field", SEED, "/output_schema", {}, "/output_schema", False),
    ("unknown-field", SEED, "/annotations/read-only", True, "/annotations/read-only", False),
    ("unknown-field", SEED, "/examples/0/a~1b", 1, "/examples/0/a~1b", False),
    ("unknown-field", OPERATION, "/endpoint/args/note/nam", "X-N", "/endpoint/args/note/nam", False),
]
CODES_ELSEWHERE = {"not-an-object", "repeated-name", "not-valid", "too-expensive"}


def find(code: str, findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.code == code]


def ask(manifest: Any) -> list[Finding]:
    return validate(manifest, check_endpoint=find_endpoint_fault)


@pytest.mark.parametrize("manifest", [SEED, GOOD, OPERATION], ids=lambda manifest: manifest["name"])
def test_good_manifests(manifest: Any) -> None:
    """The documentation's example is valid as it stands, and so is what has every optional field."""
    assert ask(manifest) == []
    assert find_breakage(manifest) is None


@pytest.mark.parametrize(("code", "manifest", "place", "value", "pointer", "breaks"), CASES)
def test_wrong_copies(code: str, manifest: Any, place: str, value: Any, pointer: str, breaks: bool) -> None:
    """Each rule is broken by a change of one place, and told at that place with words on how to mend it."""
    wrong = change(manifest, place, value)
    findings = ask(wrong)
    told = [finding for finding in find(code, findings) if finding.pointer == pointer]
    assert told, findings
    assert told[0].breaks is breaks
    assert told[0].severity == RULES[code].severity
    assert told[0].message
    assert told[0].mend.endswith(".")
    assert any(finding.breaks for finding in findings) is is_left_out(wrong)


def test_every_rule_has_a_case() -> None:
    """No rule is in the table that nothing breaks, and no case speaks of an unknown one."""
    linted = {habit.rule.code for habit in AUTHORING}
    assert {case[0] for case in CASES} | CODES_ELSEWHERE | linted == set(RULES)


@pytest.mark.parametrize("value", [None, True, 5, "x", [], [SEED]])
def test_what_is_no_object(value: Any) -> None:
    """What is no object at all has one finding, which says so."""
    [finding] = validate(value)
    assert (finding.code, finding.pointer, finding.breaks) == ("not-an-object", "", True)
    assert lint(value) == []


def test_each_missing_field_is_told_of_with_what_it_is() -> None:
    """An author who starts from nothing learns of every required field, with its meaning."""
    findings = find("missing-field", validate({}))
    assert len(findings) == 11
    assert "instant (under 200 ms)" in next(each.mend for each in findings if "latencyClass" in each.message)


def test_an_unknown_field_names_the_one_that_is_meant() -> None:
    """A misspelt field is recognised."""
    [finding] = validate(change(SEED, "/output_schema", {}))
    assert finding.severity == "note"
    assert "outputSchema" in finding.mend


def test_every_fault_of_a_schema_is_told_at_once() -> None:
    """Faults that do not hide each other are told together."""
    properties = {"a": {"type": "int"}, "b": {"$ref": "#/x"}, "c": {"minimum": "1"}}
    findings = validate(change(SEED, "/inputSchema/properties", properties))
    pointers = {finding.pointer for finding in findings if finding.breaks}
    assert pointers == {f"/inputSchema/properties/{step}" for step in ("a/type", "b/$ref", "c/minimum")}


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        ({"properties": {"a": {"type": "str"}}}, "/properties/a/type", "Write one of array, boolean"),
        ({"properties": {"a": {"required": True}}}, "/properties/a/required", "list of names beside properties"),
        ({"properties": {"a": {}, "b/c": "string"}}, "/properties/b~1c", "what follows a name is an object"),
        ({"properties": [{"name": "a"}]}, "/properties", "Name each one"),
        ({"properties": {"a": {"enum": "a|b"}}}, "/properties/a/enum", "as a list"),
        ({"properties": {"a": {"items": [{}]}}}, "/properties/a/items", "prefixItems"),
        ({"properties": {"a": {"exclusiveMinimum": True}}}, "/properties/a/exclusiveMinimum", "the bound itself"),
        ({"properties": {"a": {"minLength": "1"}}}, "/properties/a/minLength", "as JSON Schema 2020-12 has it"),
        ({"additionalProperties": "no"}, "/additionalProperties", "Write false, true"),
        ('{"type": "object"}', "", "Write an object, not a text"),
    ],
)
def test_slips_in_a_schema(schema: Any, pointer: str, words: str) -> None:
    """A slip is told at its place, with words that an author can mend it by without the specification."""
    [finding] = find("unusable-schema", validate(change(SEED, "/inputSchema", schema)))
    assert finding.pointer == f"/inputSchema{pointer}"
    assert words in finding.mend


def test_a_fault_behind_a_reference_is_told_where_it_can_be_seen() -> None:
    """A pointer leads to a place that there is, also where the way to the fault goes over a reference."""
    schema = {"properties": {"a": {"$ref": "#/x-library/b"}}, "x-library": {"b": {"type": "int"}}}
    [finding] = find("unusable-schema", validate(change(SEED, "/inputSchema", schema)))
    assert finding.pointer == "/inputSchema/properties/a/$ref"


def test_one_fault_is_told_once() -> None:
    """What two rules of the schema refuse for one reason is one finding."""
    endpoint = {"method": "POST", "path": "/merges", "encoding": "none", "args": {"note": {"in": "file"}}}
    [finding] = validate(change(OPERATION, "/endpoint", endpoint))
    assert (finding.code, finding.pointer) == ("misplaced-argument", "/endpoint/args/note/in")


def test_an_example_that_takes_long_stops_the_check() -> None:
    """Where examples take more than a moment to check, it is told from which on they were not."""
    schema = {"type": "object", "properties": {"a": EXPENSIVE}}
    example = {"name": "a", "input": {"a": [list(range(300)) for _ in range(300)]}}
    manifest = {**GOOD, "inputSchema": schema, "examples": [example] * 20}
    started = thread_time()
    [finding] = find("too-expensive", validate(manifest))
    assert (finding.pointer.startswith("/examples/"), finding.severity) == (True, "warning")
    assert thread_time() - started < 15


def test_repeated_names() -> None:
    """Of two tools with one name the second is told of, with the place of the first; what has no name repeats none."""
    entries = [
        ("/tools/0", SEED),
        ("/tools/1", GOOD),
        ("/tools/2", SEED),
        ("/tools/3", 5),
        ("/tools/4", {}),
        ("/tools/5", {}),
    ]
    [(pointer, finding)] = find_repeats(entries).items()
    assert (pointer, finding.code, finding.pointer, finding.breaks) == ("/tools/2", "repeated-name", "/name", True)
    assert "/tools/0" in finding.message


@pytest.mark.parametrize(
    ("place", "value", "code", "pointer"),
    [
        ("/etag", ABSENT, "missing-field", ""),
        ("/server/vendor", ABSENT, "missing-field", "/server"),
        ("/tools", {}, "wrong-type", "/tools"),
        ("/generatedAt", "now", "wrong-form", "/generatedAt"),
        ("/hasMore", "no", "wrong-type", "/hasMore"),
        ("/nextCursor", 5, "wrong-type", "/nextCursor"),
        ("/next", 5, "unknown-field", "/next"),
    ],
)
def test_discovery_response(place: str, value: Any, code: str, pointer: str) -> None:
    """The response around the tools is held to the contract too; its tools are not judged with it."""
    assert check_envelope({**ENVELOPE, "hasMore": False, "nextCursor": None, "tools": [5]}) == []
    [finding] = check_envelope(change(ENVELOPE, place, value))
    assert (finding.code, finding.pointer) == (code, pointer)


def test_a_pin_of_several_pages_is_a_response() -> None:
    """What `manifest pin` writes has no finding of its own."""
    pin = json.loads(build_pin({**ENVELOPE, "tools": []}, etag=ENVELOPE["etag"], pages=3))
    assert pin["pages"] == 3
    assert check_envelope(pin) == []


def test_lint_says_where_validation_comes_first() -> None:
    """Errors are counted in one finding, which is there only where there are any."""
    assert say_invalid(validate(change(SEED, "/extra", 1))) == []
    [finding] = say_invalid(validate({}))
    assert finding.code == "not-valid"
    assert "11 errors" in finding.message
    unresolved = change(SEED, "/inputSchema/properties/messages", {"$ref": "#/nowhere"})
    assert say_invalid(validate(unresolved)) == []
    [finding] = say_invalid(validate(change(unresolved, "/kind", "LLM")))
    assert "2 errors" in finding.message
    assert finding.pointer == "/kind"


# Endpoints

SEGMENTS = st.sampled_from(
    ["a", "b.c", "..", ".", "{merge_id}", "{x:path}", "%2e", "%2E.", "%2F", "%41", "%", "a:b", "{", "é"]
)
PATHS = st.lists(SEGMENTS, max_size=4).map("/".join) | st.lists(SEGMENTS, max_size=3).map(
    lambda each: "/" + "/".join(each)
)
ODD_PATHS = [
    "http://host/a",
    "//host/a",
    "/a?b=c",
    "/a#b",
    "/a b",
    "/a\\..\\b",
    "/a\r\nb",
    "/a%0ab",
    "/a%2f..%2fb",
    "",
    "/",
    5,
]


@pytest.mark.parametrize(
    "path", ["a", "/a/b", "/a/{b}/c", "/a/{b:path}", "a-b/c.d/e~f", "/%41", "/a:b", "/a/", "/..a/b..", "/…"]
)
def test_paths_that_are_taken(path: str) -> None:
    """A path below the prefix is taken, with placeholders."""
    assert not [
        each for each in validate(change(OPERATION, "/endpoint/path", path)) if each.pointer == "/endpoint/path"
    ]


@pytest.mark.parametrize("path", ODD_PATHS)
def test_paths_that_are_refused(path: Any) -> None:
    """A path that leads out of the prefix, or that no request can have, is refused."""
    assert [each for each in validate(change(OPERATION, "/endpoint/path", path)) if each.pointer == "/endpoint/path"]


@given(PATHS)
@settings(max_examples=200, deadline=None)
def test_what_the_contract_takes_can_be_called(path: str) -> None:
    """No endpoint is valid that the gateway's client refuses for its path."""
    manifest = change(OPERATION, "/endpoint", {"method": "GET", "path": path})
    valid = not [each for each in validate(manifest) if each.pointer == "/endpoint/path"]
    assert not valid or find_endpoint_fault(manifest["endpoint"]) is None


@pytest.mark.parametrize("header", sorted(PROTECTED_HEADERS))
def test_protected_headers(header: str) -> None:
    """Every protected header is refused in any case, by its wire name and as the argument's own name."""
    for args in ({"a": {"in": "header", "name": header.title()}}, {header.upper(): {"in": "header"}}):
        assert find("unsafe-endpoint", validate(change(OPERATION, "/endpoint/args", args)))
    renamed = {header: {"in": "header", "name": "X-Fine"}}
    assert not find("unsafe-endpoint", validate(change(OPERATION, "/endpoint/args", renamed)))


# Whatever JSON there is

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("name", "version", "kind", "inputSchema", "outputSchema", "examples", "sideEffects", "annotations", "endpoint")
KEYS += ("description", "deprecation", "lineage", "stability", "tags", "links", "costHint")
PLACES = [f"/{key}" for key in KEYS]
PLACES += [
    "/inputSchema/properties/text",
    "/inputSchema/type",
    "/inputSchema/$ref",
    "/inputSchema/required",
    "/inputSchema/anyOf",
]
PLACES += [
    "/endpoint/path",
    "/endpoint/args",
    "/endpoint/args/note",
    "/endpoint/args/note/name",
    "/annotations/readOnly",
]
PLACES += [
    "/examples/0",
    "/examples/0/input",
    "/examples/0/name",
    "/outputSchema/properties/words",
    "/deprecation/replacedBy",
]
DAMAGES = st.lists(
    st.tuples(
        st.sampled_from(PLACES),
        JSON | VALUES | schemas() | st.just(ABSENT) | st.sampled_from(["operation", " ", "a\t"]),
    ),
    min_size=1,
    max_size=4,
)


def damage(damages: list[tuple[str, Any]]) -> Any:
    manifest = {**GOOD, **{key: OPERATION[key] for key in ("endpoint", "kind")}}
    for place, value in damages:
        try:
            manifest = change(manifest, place, value)
        except (KeyError, IndexError, TypeError, ValueError):  # an earlier damage took the place away
            continue
    return manifest


def is_left_out(manifest: Any) -> bool:
    """Whether the server goes without the tool, found by offering it."""
    listed = build_inventory(
        build_manifest({"tools": [manifest]}, etag=None), (), Form(), check_endpoint=find_endpoint_fault
    )
    return listed.read_page(REVISIONS["2025-11-25"], None)[0] == ()


@given(DAMAGES)
@settings(max_examples=150, deadline=None)
def test_what_breaks_is_what_the_server_leaves_out(damages: list[tuple[str, Any]]) -> None:
    """`validate`, `find_breakage` and the running server agree on which tools cannot be offered."""
    manifest = damage(damages)
    left_out = is_left_out(manifest)
    assert (find_breakage(manifest, check_endpoint=find_endpoint_fault) is not None) is left_out
    assert any(finding.breaks for finding in ask(manifest)) is left_out
    lint(manifest)


@given(JSON)
@settings(max_examples=100, deadline=None)
def test_no_value_is_too_odd(value: Any) -> None:
    """Any JSON value has findings, and each points to a place that there is."""
    for finding in [*ask(value), *lint(value), *ask({"tools": value, **GOOD, "x": value}), *check_envelope(value)]:
        assert finding.code in RULES


@pytest.mark.parametrize(
    "manifest",
    [
        nest(2_000),
        {**SEED, "inputSchema": nest(2_000)},
        {**SEED, "outputSchema": nest(2_000)},
        {**SEED, "examples": [{"name": "a", "input": nest(2_000), "output": nest(2_000)}]},
        {**SEED, "tags": [nest(2_000)] * 2},
        {**SEED, "annotations": nest(2_000)},
        {**SEED, **{f"x{place}": {} for place in range(100_000)}},
        {**SEED, "version": "1.0.0-" + "1" * 1_000_000 + "!"},
        {**SEED, "description": "a" * 5_000_000, "name": "a" * 5_000_000},
        {**SEED, "tags": ["a" * 1_000] * 10_000},
        {**SEED, "inputSchema": {"type": "object", "properties": {f"p{place}": {} for place in range(19_000)}}},
        {**SEED, "examples": [SEED["examples"][0]] * 10_000},
        {**OPERATION, "endpoint": {"method": "GET", "path": "/" + "{a" * 400}},
        {**OPERATION, "endpoint": {"method": "GET", "path": "/" + "a/../" * 100_000}},
        json.loads('{"a":' * 900 + "1" + "}" * 900),
    ],
    ids=range(15),
)
def test_nothing_takes_long(manifest: Any) -> None:
    """A hostile manifest is judged within seconds of the processor, with a bounded number of findings."""
    started = thread_time()
    findings = [*ask(manifest), *lint(manifest)]
    assert thread_time() - started < 15
    assert len(findings) < 5 * LIMIT


@pytest.mark.parametrize(("steps", "pointer"), [((), ""), (("a/b", 0, "~", ""), "/a~1b/0/~0/")])
def test_pointers(steps: Any, pointer: str) -> None:
    """A pointer is written as RFC 6901 wants it."""
    assert to_pointer(steps) == pointer
