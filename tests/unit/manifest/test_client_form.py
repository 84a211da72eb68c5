"""The forms of schemas that clients take: what is rewritten, what is told in words, and what is never lost."""

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from colabhive_mcp.manifest.client_form import is_object_schema, to_exact_input, to_input_form, to_output_form
from colabhive_mcp.manifest.document import load_document
from colabhive_mcp.manifest.nesting import MAX_LEVELS, find_deep
from colabhive_mcp.manifest.profiles import PROFILES
from colabhive_mcp.manifest.schemas import UnusableSchema, build_checker
from tests.unit.manifest.generated import DRAFT7, DRAFT2020, VALUES, schemas

DRAFT4 = "http://json-schema.org/draft-04/schema#"
EMPTY = {"type": "object", "properties": {}}
ROOT_COMPOSITION = {"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$ref"}


def show(schema: Any) -> dict[str, Any]:
    """The advertised form of a property with this schema, which every call has to give."""
    form = to_input_form({"type": "object", "properties": {"p": schema}, "required": ["p"]}).schema
    shown: dict[str, Any] = form["properties"]["p"]
    return shown


@pytest.mark.parametrize("schema", [None, True, {}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_no_arguments(schema: Any) -> None:
    """A tool without arguments, however it says so, is advertised with an empty object of properties."""
    assert to_input_form(schema).schema == EMPTY
    assert to_exact_input(schema) == EMPTY


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (True, {}),
        (False, {"not": {}}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": True}, {"type": "array", "items": {}}),
        ({"type": ["string"]}, {"type": "string"}),
        (
            {"type": ["string", "integer"], "minLength": 1, "minimum": 2, "description": "d", "enum": ["a", 3]},
            {
                "anyOf": [{"type": "string", "minLength": 1}, {"type": "integer", "minimum": 2}],
                "description": "d",
                "enum": ["a", 3],
            },
        ),
        ({"type": ["array", "null"]}, {"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "format": "x-anything"}, {"type": "string"}),
        ({"type": "string", "pattern": "^a$"}, {"type": "string", "pattern": "^a$"}),
        ({"type": "string", "pattern": r"(?P<x>a)"}, {"type": "string"}),
        (
            {"type": "string", "$comment": "c", "$id": "x", "$anchor": "y", "x-mcp-header": "no name"},
            {"type": "string"},
        ),
        ({"default": {"$ref": "x"}, "const": {"$id": 5}}, {"default": {"$ref": "x"}, "const": {"$id": 5}}),
        ({"properties": {"$id": {"type": "string"}}}, {"properties": {"$id": {"type": "string"}}}),
        ({"prefixItems": [True], "items": False}, {"prefixItems": [{}], "items": {}}),
        (
            {"patternProperties": {"^a": {}, r"\A": {}}, "additionalProperties": False},
            {"patternProperties": {"^a": {}}},
        ),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        ({"not": {"pattern": r"\A"}}, {}),
        ({"oneOf": [{"pattern": r"\A"}, {"type": "null"}]}, {"anyOf": [{}, {"type": "null"}]}),
        ({"if": {"format": "x"}, "then": False}, {"if": {}, "then": {"not": {}}}),
        ({"if": {"pattern": r"\A"}, "then": False}, {}),
    ],
)
def test_property(schema: Any, told: dict[str, Any]) -> None:
    """Below the root each keyword that some client refuses is rewritten, and every other one stays."""
    assert show(schema) == told


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": ["string", "null"], "default": None}, {"type": "string"}),
        ({"type": ["string", "null"], "enum": ["a", None]}, {"type": "string", "enum": ["a"]}),
        ({"type": ["null"]}, {"type": "null"}),
        ({"type": ["string", "integer", "null"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (
            {"type": "array", "items": {"type": ["string", "null"]}},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        ),
    ],
)
def test_optional_property(schema: Any, told: dict[str, Any]) -> None:
    """An optional property is not told to be nullable, since to leave it out says the same; what lies deeper is."""
    assert to_input_form({"properties": {"p": schema}}).schema["properties"]["p"] == told


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (
            {"items": [{"type": "string"}], "additionalItems": False, "type": "array"},
            {"type": "array", "prefixItems": [{"type": "string"}], "items": {}},
        ),
        (
            {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
        ),
        (
            {"$ref": "#/definitions/a", "minimum": 5, "description": "mine"},
            {"type": "integer", "description": "mine"},
        ),
        ({"unevaluatedProperties": False, "prefixItems": [{}]}, {}),
    ],
)
def test_older_dialect(schema: Any, told: dict[str, Any]) -> None:
    """What an older dialect says is said in the one that clients assume."""
    document = {"$schema": DRAFT7, "properties": {"p": schema}, "definitions": {"a": {"type": "integer"}}}
    assert to_input_form(document).schema == {"type": "object", "properties": {"p": told}}


def test_draft4_limits() -> None:
    """The flags of draft-04 that exclude a limit become limits."""
    schema = {"minimum": 1, "exclusiveMinimum": True, "maximum": 2, "exclusiveMaximum": False}
    form = to_input_form({"$schema": DRAFT4, "properties": {"p": schema}}).schema
    assert form["properties"]["p"] == {"exclusiveMinimum": 1, "maximum": 2}


A = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
B = {"type": "object", "properties": {"b": {"type": "integer"}, "c": {"type": "null"}}, "required": ["b", "c"]}


@pytest.mark.parametrize(
    ("schema", "properties", "required", "notes"),
    [
        ({"oneOf": [A, B]}, ["a", "b", "c"], None, ("Exactly one of these: needs `a`; or needs `b` and `c`.",)),
        ({"anyOf": [A, B]}, ["a", "b", "c"], None, ("At least one of these: needs `a`; or needs `b` and `c`.",)),
        ({"allOf": [A, B]}, ["a", "b", "c"], ["a", "b", "c"], ()),
        (
            {"properties": {"z": {}, "a": {}}, "required": ["z"], "anyOf": [A, {"required": ["z", "a"]}]},
            ["z", "a"],
            ["z", "a"],
            ("At least one of these: needs `a`.",),
        ),
        ({"anyOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": A}}, ["a"], ["a"], ("At least one of these: needs `a`.",)),
        ({"$ref": "#/$defs/A", "$defs": {"A": A}}, ["a"], ["a"], ()),
        ({"$ref": "#/$defs/A", "properties": {"b": {}}, "$defs": {"A": A}}, ["b", "a"], ["a"], ()),
        (
            {"properties": {"a": {}}, "if": {"required": ["a"]}, "then": B},
            ["a", "b", "c"],
            None,
            ("More rules hold than the schema shows; a call that breaks one is answered with the reason.",),
        ),
        (
            {**A, "not": {"required": ["b"]}},
            ["a"],
            ["a"],
            ("More rules hold than the schema shows; a call that breaks one is answered with the reason.",),
        ),
    ],
)
def test_root(schema: Any, properties: list[str], required: list[str] | None, notes: tuple[str, ...]) -> None:
    """The root is a plain object with all properties; what alternatives ask for is told in words."""
    form = to_input_form(schema)
    assert list(form.schema["properties"]) == properties
    assert form.schema.get("required") == required
    assert form.notes == notes
    assert not ROOT_COMPOSITION & form.schema.keys()


def test_discriminated_root() -> None:
    """Alternatives that a constant tells apart become a choice of its values, and stay closed when all are."""
    one = {"properties": {"kind": {"const": "one"}, "n": {}}, "required": ["kind"], "additionalProperties": False}
    two = {"properties": {"kind": {"const": "two"}}, "required": ["kind"], "additionalProperties": False}
    form = to_input_form({"oneOf": [one, two]})
    assert form.schema == {
        "type": "object",
        "properties": {"kind": {"enum": ["one", "two"]}, "n": {}},
        "required": ["kind"],
        "additionalProperties": False,
    }
    assert form.notes == ('Exactly one of these: `kind` is "one"; or `kind` is "two".',)


def test_many_alternatives() -> None:
    """Of many alternatives the first are told, and how many more there are."""
    branches = [{"properties": {f"p{n}": {}}, "required": [f"p{n}"]} for n in range(20)]
    [note] = to_input_form({"anyOf": branches}).notes
    assert note.endswith("or one of 12 more.")


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"type": "string"},
        {"type": ["string", "null"]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}},
        {"allOf": [{"type": "integer"}]},
        {"type": "int"},
        {"$ref": "http://example.com/x"},
        [],
    ],
)
def test_no_input(schema: Any) -> None:
    """A schema that arguments, which are an object, could never fit is no input schema in any form."""
    for render in (to_input_form, to_exact_input):
        with pytest.raises(UnusableSchema):
            render(schema)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"required": ["a"]}, {"required": ["a"], "type": "object", "properties": {}}),
        ({"type": ["object", "null"], "anyOf": [A]}, {"type": "object", "anyOf": [A], "properties": {}}),
        ({"$schema": DRAFT7, **A}, {"$schema": DRAFT7, **A}),
    ],
)
def test_exact(schema: Any, told: dict[str, Any]) -> None:
    """The exact form is the manifest's own schema with no more added than its type and its properties."""
    assert to_exact_input(schema) == told


# References

CHAT = {"type": "object", "description": "theirs", "properties": {"role": {"type": "string"}}}
TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}


def test_inlined() -> None:
    """References are replaced by what they mean, nested ones too; the description beside a reference wins."""
    schema = {
        "properties": {"m": {"$ref": "#/$defs/Chat", "description": "mine"}, "n": {"$ref": "#/$defs/Other"}},
        "$defs": {"Chat": CHAT, "Other": {"type": "array", "items": {"$ref": "#/$defs/Chat"}}},
    }
    form = to_input_form(schema).schema
    assert form["properties"]["m"] == {**CHAT, "description": "mine"}
    assert form["properties"]["n"] == {"type": "array", "items": CHAT}
    assert "$defs" not in form


def test_rules_beside_a_reference() -> None:
    """Rules beside a reference hold with what it means: merged where they can be, else side by side."""
    schema = {
        "properties": {
            "merged": {"$ref": "#/$defs/N", "maximum": 9, "required": ["b"]},
            "beside": {"$ref": "#/$defs/N", "minimum": 5, "description": "mine"},
        },
        "required": ["merged", "beside"],
        "$defs": {"N": {"type": "integer", "minimum": 1, "required": ["a"], "description": "theirs"}},
    }
    told = to_input_form(schema).schema["properties"]
    own = schema["$defs"]["N"]
    assert told["merged"] == {**own, "maximum": 9, "required": ["a", "b"]}
    assert told["beside"] == {"description": "mine", "allOf": [own, {"minimum": 5}]}


@pytest.mark.parametrize("render", [lambda schema: to_input_form(schema).schema, to_output_form])
def test_recursive(render: Any) -> None:
    """Recursive references stay, with only the definitions that they need; the others are inlined all the same."""
    form = render({
        "type": "object",
        "properties": {"tree": {"$ref": "#/definitions/Tree"}, "m": {"$ref": "#/$defs/Chat"}},
        "definitions": {"Tree": {"properties": {"kids": {"$ref": "#/definitions/Tree"}}}},
        "$defs": {"Chat": CHAT, "Unused": CHAT},
    })  # fmt: skip
    assert form["properties"] == {"tree": {"$ref": "#/$defs/Tree"}, "m": CHAT}
    assert form["$defs"] == {"Tree": {"properties": {"kids": {"$ref": "#/$defs/Tree"}}}}


def test_recursive_root() -> None:
    """A root that refers to itself, or to a recursive definition, is a plain object too."""
    own = to_input_form({"type": "object", "properties": {"next": {"$ref": "#"}}}).schema
    assert own == {"type": "object", "properties": {"next": {"$ref": "#"}}}
    form = to_input_form({"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}}).schema
    assert form == {**TREE, "$defs": {"Tree": TREE}}


def test_same_last_word() -> None:
    """Definitions of the same name in different places get names of their own."""
    loops = {place: {"Node": {"properties": {"x": {"$ref": f"#/{place}/Node"}}}} for place in ("$defs", "definitions")}
    refs = {place: {"$ref": f"#/{place}/Node"} for place in loops}
    form = to_input_form({"properties": refs, **loops}).schema
    assert len(form["$defs"]) == 2
    assert form["properties"]["$defs"] != form["properties"]["definitions"]
    load_document(form)


def grow(depth: int, width: int, *, end: Any) -> dict[str, Any]:
    """A schema whose references, inlined, give *width* ** *depth* copies of *end*."""
    steps = {
        f"d{n}": {"type": "object", "properties": {f"p{m}": {"$ref": f"#/$defs/d{n + 1}"} for m in range(width)}}
        for n in range(depth)
    }
    return {"type": "object", "properties": {"r": {"$ref": "#/$defs/d0"}}, "$defs": {**steps, f"d{depth}": end}}


def fork(depth: int) -> dict[str, Any]:
    """A root whose alternatives, followed one by one, are 2 ** *depth*."""
    steps = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"anyOf": [{"$ref": "#/$defs/d0"}] * 2, "$defs": {**steps, f"d{depth}": A}}


def ring(length: int) -> dict[str, Any]:
    """A schema with one circle of many definitions, each of them used by the root."""
    steps = {f"d{n}": {"properties": {"x": {"$ref": f"#/$defs/d{(n + 1) % length}"}}} for n in range(length)}
    return {"properties": {f"p{n}": {"$ref": f"#/$defs/d{n}"} for n in range(length)}, "$defs": steps}


@pytest.mark.parametrize(
    "schema",
    [
        grow(40, 2, end={"type": "string"}),
        grow(99, 1, end={"type": "string"}),
        grow(99, 2, end={"type": "string"}),
        grow(1, 200, end={"description": "x" * 1_000}),
        grow(3, 3, end={"description": "x" * 1_000}),
        fork(40),
        ring(2_000),
    ],
)
def test_size(schema: dict[str, Any]) -> None:
    """Inlining never makes a schema larger than four times and 16 KiB; what would is told by references."""
    for form in (to_input_form(schema).schema, to_output_form(schema)):
        assert len(json.dumps(form)) <= 4 * len(json.dumps(schema)) + 16 * 1024
        load_document(form)


@pytest.mark.parametrize("depth", [1, 20, 60, 98])
@pytest.mark.parametrize("more", [{}, {"type": ["object", "null"]}, {"allOf": [{"minProperties": 1}]}])
def test_depth(depth: int, more: dict[str, Any]) -> None:
    """Inlining never makes a schema deeper than what every client reads; what would is told by references."""
    schema = grow(depth, 1, end={"type": "string"})
    for step in schema["$defs"].values():
        step.update(more)
    for form in (to_input_form(schema).schema, to_output_form(schema)):
        assert find_deep(form, MAX_LEVELS) is None
        assert ("$ref" in json.dumps(form)) is (depth > 20)


def test_large_schema() -> None:
    """Ten thousand properties and ninety levels are no trouble."""
    wide = to_input_form({"properties": {f"p{n}": {"type": "string"} for n in range(10_000)}}).schema
    assert len(wide["properties"]) == 10_000
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(90):
        deep = {"type": "object", "properties": {"a": deep}}
    assert to_input_form(deep).schema == deep
    assert to_output_form(deep) == deep


# Output


@pytest.mark.parametrize("schema", [None, False, 5, [], {"type": "int"}, {"$ref": "http://example.com/x"}])
def test_no_output(schema: Any) -> None:
    """Where there is no schema of the output, or none that could be used, none is shown."""
    assert to_output_form(schema) is None
    assert not is_object_schema(schema)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({}, {}),
        (True, {}),
        ({"type": ["array", "null"]}, {"type": ["array", "null"]}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"anyOf": [A, {"type": "null"}]}, {"anyOf": [A, {"type": "null"}]}),
        ({"anyOf": [A, B]}, {"anyOf": [A, B], "type": "object"}),
        ({"$ref": "#/$defs/A", "$defs": {"A": A}}, A),
        ({"properties": {"at": {"type": "string", "format": "date-time"}}}, {"properties": {"at": {"type": "string"}}}),
        ({"type": "string", "nullable": True}, {"type": "string"}),
        ({"pattern": "^a+$"}, {"pattern": "^a+$"}),
        ({"pattern": "(a+)+$"}, {}),
        ({"pattern": r"\p{L}"}, {}),
        ({"contains": {}, "minContains": 0}, {}),
        ({"contains": {"pattern": r"\A"}, "maxContains": 1}, {"contains": {}}),
        ({"unevaluatedItems": False}, {}),
        ({"$schema": DRAFT4, "minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
    ],
)
def test_output(schema: Any, told: dict[str, Any]) -> None:
    """An output schema keeps its types and its root; what a client could refuse a good result by is left out."""
    assert to_output_form(schema) == told


@pytest.mark.parametrize(
    ("schema", "only_objects"),
    [
        ({"type": "object"}, True),
        ({"type": ["object"]}, True),
        ({"type": ["object", "null"]}, False),
        ({}, False),
        (True, False),
        ({"properties": {"a": {}}}, False),
        ({"$ref": "#/$defs/A", "$defs": {"A": A}}, True),
        ({"allOf": [{}, A]}, True),
        ({"oneOf": [A, B]}, True),
        ({"anyOf": [A, {}]}, False),
        ({"enum": [{}, {"a": 1}]}, True),
        ({"const": []}, False),
        ({"type": "int"}, False),
    ],
)
def test_object_schema(schema: Any, only_objects: bool) -> None:
    """An object schema is one whose root lets nothing but objects pass."""
    assert is_object_schema(schema) is only_objects


# Whatever the schema


def without_nulls(value: Any) -> Any:
    """A call as it is meant: a null argument is one that was left out."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def draw_usable(data: st.DataObject, uri: str) -> dict[str, Any]:
    schema = data.draw(schemas(uri))
    try:
        load_document(schema)
    except UnusableSchema as refusal:
        assume("lead back to themselves" not in str(refusal))
        raise
    return schema


@pytest.mark.parametrize("uri", [DRAFT2020, DRAFT7])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_output_is_only_loosened(uri: str, data: st.DataObject) -> None:
    """What fits an output schema fits the form that clients are shown, for us and for a client's plain validator."""
    from jsonschema import Draft202012Validator

    schema = draw_usable(data, uri)
    before = copy.deepcopy(schema)
    form = to_output_form(schema)
    assert schema == before
    Draft202012Validator.check_schema(form)
    original, shown = build_checker(schema), Draft202012Validator(form)
    for value in data.draw(st.lists(VALUES, min_size=1, max_size=5)):
        assert shown.is_valid(value) or not original.accepts(value)


@pytest.mark.parametrize("uri", [DRAFT2020, DRAFT7])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_input_loses_no_call(uri: str, data: st.DataObject) -> None:
    """Arguments that fit an input schema, nulls left out, fit the advertised one, below the root at least."""
    from jsonschema import Draft202012Validator

    inner = draw_usable(data, uri)
    schema = {"$schema": uri, "properties": {"p": inner}, "required": ["p"], "$defs": inner.pop("$defs")}
    inner.pop("$schema")
    form = to_input_form(schema).schema
    Draft202012Validator.check_schema(form)
    original, shown = build_checker(schema), Draft202012Validator(form)
    for value in data.draw(st.lists(VALUES, min_size=1, max_size=5)):
        call = {"p": without_nulls(value)}
        assert shown.is_valid(call) or not original.accepts(call)


@pytest.mark.parametrize("uri", [DRAFT2020, DRAFT7])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_input_is_portable(uri: str, data: st.DataObject) -> None:
    """Any input schema that a call can fit has a form of one type for each schema and a plain root."""
    schema = draw_usable(data, uri)
    try:
        form = to_input_form(schema).schema
    except UnusableSchema:
        return
    assert form["type"] == "object"
    assert not ROOT_COMPOSITION & form.keys()
    assert_portable(form)


def assert_portable(schema: Any) -> None:
    assert isinstance(schema, dict), schema
    assert isinstance(schema.get("type", ""), str)
    assert schema.get("type") != "array" or "items" in schema
    assert not {"$schema", "$id", "$comment", "definitions"} & schema.keys()
    for keyword in ("properties", "patternProperties", "$defs", "dependentSchemas"):
        for each in schema.get(keyword, {}).values():
            assert_portable(each)
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for each in schema.get(keyword, ()):
            assert_portable(each)
    for keyword in {"items", "not", "contains", "propertyNames"} & schema.keys():
        assert_portable(schema[keyword])


GEMINI = frozenset(PROFILES["gemini-cli"].dropped)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=st.sampled_from([DRAFT7, DRAFT2020]).flatmap(schemas))
def test_what_a_client_cannot_be_told_is_nowhere(schema: dict[str, Any]) -> None:
    """A keyword that a client's models refuse stands in no schema of its form, whatever it was written from."""
    try:
        form = to_input_form(schema, dropped=GEMINI).schema
    except UnusableSchema:
        return
    document = load_document(form)
    pending = [document.root]
    while pending:
        each = pending.pop()
        assert type(each) is not dict or GEMINI.isdisjoint(each)
        pending += document.parts(each)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"$schema": DRAFT7, "type": "array", "items": [{"type": "string"}]}, {"type": "array", "items": {}}),
        ({"$schema": DRAFT7, "dependencies": {"a": ["b"], "c": {"type": "object"}}}, {}),
        (False, {}),
    ],
)
def test_what_is_written_in_place_of_another_is_dropped_as_well(schema: Any, told: dict[str, Any]) -> None:
    """Keywords that a rewriting brings in are subject to the same rule as the author's own."""
    uri = {"$schema": schema.pop("$schema")} if isinstance(schema, dict) else {}
    whole = {**uri, "type": "object", "properties": {"p": schema}, "required": ["p"]}
    assert to_input_form(whole, dropped=GEMINI).schema["properties"]["p"] == told
