"""Arguments as clients bend them: what is repaired, what is never touched, and what is refused in which words."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabhive_mcp.calls.arguments import INJECTED, MAX_FINDINGS, repair_arguments
from colabhive_mcp.errors import ToolError
from colabhive_mcp.manifest.schemas import build_checker

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}
TAGS = {"type": "array", "items": {"type": "string"}}
NULLABLE = {"anyOf": [OBJECT, {"type": "null"}]}


def repair(arguments: dict[str, Any], schema: Any) -> dict[str, Any]:
    """The arguments as the gateway gets them; what was given is left as it was."""
    before = copy.deepcopy(arguments)
    repaired = repair_arguments(arguments, schema, build_checker(schema))
    assert arguments == before
    assert build_checker(schema).accepts(repaired)
    return repaired


def of(**properties: Any) -> dict[str, Any]:
    """A schema with these properties."""
    return {"type": "object", "properties": properties}


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON, 3 and 3.0 told apart."""
    return json.dumps(left) == json.dumps(right)


REPAIRED: list[tuple[Any, Any, Any]] = [  # the property's schema, the value that came, the value that goes
    (OBJECT, '{"a":1}', {"a": 1}),
    (OBJECT, ' {"a": 1} ', {"a": 1}),
    (OBJECT, "{}", {}),
    (OBJECT, {"a": "1"}, {"a": 1}),
    (OBJECT, '{"a":"1"}', {"a": 1}),
    (TAGS, '["x"]', ["x"]),
    (TAGS, "[]", []),
    ({"type": "array", "items": OBJECT}, ['{"a":1}', {"a": 2}], [{"a": 1}, {"a": 2}]),
    ({"type": "array"}, '[1,"2"]', [1, "2"]),
    ({"type": "integer"}, "5", 5),
    ({"type": "integer"}, "-5", -5),
    ({"type": "integer"}, "5.0", 5),
    ({"type": "integer"}, "123456789012345678901234567890", 123456789012345678901234567890),
    ({"type": "integer"}, 3.0, 3),
    ({"type": "integer"}, 1e3, 1000),
    ({"type": "integer"}, -0.0, 0),
    ({"type": ["integer", "null"]}, 3.0, 3),
    ({"type": ["integer", "null"]}, "3", 3),
    ({"type": ["integer", "null"]}, "null", None),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 3.0, 3),
    ({"type": "number"}, "0.5", 0.5),
    ({"type": "number"}, "1e2", 100.0),
    ({"type": "boolean"}, "true", True),
    ({"type": "boolean"}, "false", False),
    ({"enum": [1, 2]}, "2", 2),
    ({"const": True}, "true", True),
    (NULLABLE, '{"a":1}', {"a": 1}),
    (NULLABLE, {"a": "1"}, {"a": 1}),
    ({"oneOf": [OBJECT, TAGS]}, '["x"]', ["x"]),
    ({"oneOf": [OBJECT, TAGS]}, '{"a":"1"}', {"a": 1}),
    ({"allOf": [OBJECT]}, '{"a":"1"}', {"a": 1}),
    ({"$ref": "#/$defs/Thing"}, '{"a":"1"}', {"a": 1}),
    ({"$ref": "#/$defs/a~1b%25"}, "5", 5),
    ({"$ref": "#/$defs/List/anyOf/1"}, "5", 5),
    ({"anyOf": [{"$ref": "#/$defs/Thing"}, {"type": "null"}], "default": None}, '{"a":1}', {"a": 1}),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, ["1", "2"], ["1", 2]),
    ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["1", "2"], ["1", 2]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"k": "5"}, {"k": 5}),
]
DEFS = {"Thing": OBJECT, "a/b%": {"type": "integer"}, "List": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}

UNTOUCHED: list[tuple[Any, Any]] = [  # the property's schema, a value that stays as it came
    ({"type": "string"}, "5"),
    ({"type": "string"}, '{"a":1}'),
    ({"type": "string"}, "null"),
    ({"type": ["string", "integer"]}, "5"),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "5"),
    ({"enum": ["5", 5]}, "5"),
    ({}, "5"),
    (True, '{"a":1}'),
    ({"description": "anything"}, "[1]"),
    ({"type": "number"}, 3.0),
    ({"type": ["integer", "number"]}, 3.0),
    ({}, 3.0),
    ({"type": "integer"}, 3),
    ({"type": "boolean"}, True),
    ({"type": "null"}, None),
    ({"type": ["object", "null"]}, None),
    (TAGS, ["5", "[1]"]),
    ({"type": "array", "items": {"type": "number"}}, [1, 2.0]),
    ({"type": "array", "prefixItems": [{"type": "number"}], "items": {"type": "integer"}}, [1.0]),
    ({"type": "object", "patternProperties": {"^n": {"type": "number"}}, "additionalProperties": False}, {"n": 1.0}),
    (OBJECT, {"a": 1, "b": "2", "c": 3.0}),
]

REFUSED: list[tuple[Any, Any]] = [  # the property's schema, a value that no repair makes fit
    ({"type": "integer"}, True),
    ({"type": "integer"}, "true"),
    ({"type": "integer"}, 3.5),
    ({"type": "integer"}, "3.5"),
    ({"type": "integer"}, ""),
    ({"type": "integer"}, " "),
    ({"type": "integer"}, "five"),
    ({"type": "integer"}, '"5"'),
    ({"type": "integer", "maximum": 4}, "5"),
    ({"type": "integer"}, "9" * 5000),
    ({"type": "number"}, "NaN"),
    ({"type": "number"}, "Infinity"),
    ({"type": "number"}, "-Infinity"),
    ({"type": "number"}, "1e999"),
    ({"type": "boolean"}, 1),
    ({"type": "boolean"}, "True"),
    (OBJECT, '"{}"'),
    (OBJECT, "[1]"),
    (OBJECT, '{"a":'),
    (OBJECT, '{"a":"x"}'),
    (OBJECT, "[" * 100_000),
    (TAGS, "x,y"),
    (TAGS, [1]),
    ({"type": "array"}, "\ud83d"),
    ({"type": "string"}, 5),
    ({"type": "string"}, {"a": 1}),
]


@pytest.mark.parametrize(("schema", "value", "expected"), REPAIRED)
def test_what_is_repaired(schema: Any, value: Any, expected: Any) -> None:
    """JSON text where no text may be is decoded once, and an integral number where an integer is wanted is one."""
    repaired = repair({"v": value}, {**of(v=schema), "$defs": DEFS})
    assert same(repaired, {"v": expected})


@pytest.mark.parametrize(("schema", "value"), UNTOUCHED)
def test_what_is_never_touched(schema: Any, value: Any) -> None:
    """What the schema takes stays as it came, text that spells JSON included, and whatever else was repaired."""
    assert same(repair({"v": value}, of(v=schema)), {"v": value})
    beside = repair({"v": value, "n": "5"}, of(v=schema, n={"type": "integer"}))
    assert same(beside, {"v": value, "n": 5})


@pytest.mark.parametrize(("schema", "value"), REFUSED)
def test_what_is_refused(schema: Any, value: Any) -> None:
    """What no repair makes fit is refused in words that name the place."""
    with pytest.raises(ToolError) as refused:
        repair({"v": value}, of(v=schema))
    assert "\n- v" in refused.value.message
    assert "Nothing was sent." in refused.value.message


@pytest.mark.parametrize(
    ("arguments", "schema", "place"),
    [
        ({}, {**of(a={}), "required": ["a"]}, "- arguments"),
        ({"n": 5}, of(n={"type": "integer", "maximum": 4}), "- n: "),
        ({"o": {"l": [{}, {"x": 5}]}}, of(o=of(l={"type": "array", "items": of(x={"type": "string"})})), "o.l[1].x: "),
        ({"a b": 5}, of(**{"a b": {"type": "string"}}), '- ["a b"]: '),
        ({"s": "{}"}, of(s={"type": "object", "required": ["a"]}), "- s: "),
    ],
)
def test_refusals_name_the_path(arguments: dict[str, Any], schema: Any, place: str) -> None:
    """A refusal says where in the arguments the fault is, in the form in which a program would write it."""
    with pytest.raises(ToolError) as refused:
        repair(arguments, schema)
    assert place in refused.value.message


def test_at_most_five_findings() -> None:
    """However many faults there are, the words stay few and short."""
    schema = of(**{f"p{n}": {"type": "integer"} for n in range(50)})
    with pytest.raises(ToolError) as refused:
        repair({f"p{n}": "x" * 10_000 for n in range(50)}, schema)
    lines = refused.value.message.splitlines()
    assert len([line for line in lines if line.startswith("- ")]) == MAX_FINDINGS
    assert max(map(len, lines)) < 300


@pytest.mark.parametrize(
    ("schema", "arguments", "expected"),
    [
        (of(a={"type": "string"}), {"a": None}, {}),
        (of(a={"type": "string"}, b={}), {"a": None, "b": None}, {"b": None}),
        (of(a={"enum": ["x", "y"]}), {"a": None}, {}),
        (of(a={"const": "x"}), {"a": None}, {}),
        (of(a={"anyOf": [{"type": "string"}, {"type": "integer"}]}), {"a": None}, {}),
        (of(a={"type": ["string", "null"]}), {"a": None}, {"a": None}),
        (of(a={"enum": ["x", None]}), {"a": None}, {"a": None}),
        (of(a=NULLABLE), {"a": None}, {"a": None}),
        (of(o=OBJECT), {"o": {"a": None}}, {"o": {}}),
        (of(o=NULLABLE), {"o": {"a": None}}, {"o": {}}),
        (of(), {"a": None}, {"a": None}),
    ],
)
def test_nulls_that_mean_absent(schema: Any, arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    """An explicit null for what may be left out but not be null is left out; where null is a value it is kept."""
    assert repair(arguments, schema) == expected


@pytest.mark.parametrize(
    "schema", [{**of(a={"type": "string"}), "required": ["a"]}, {**of(a=OBJECT), "additionalProperties": False}]
)
def test_nulls_that_do_not(schema: Any) -> None:
    """A null for what has to be there, or for what may not be there, is a fault."""
    with pytest.raises(ToolError):
        repair({"a": None} if "required" in schema else {"b": None}, schema)


EXTRAS = {"sessionId": "s", "action": "sendMessage", "chatInput": "hi", "toolCallId": "t"}


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        (of(q={"type": "string"}), set()),
        ({**of(q={"type": "string"}), "additionalProperties": False}, set()),
        (of(q={"type": "string"}, action={"type": "string"}), {"action"}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {**of(q={}), "additionalProperties": False}}}, set()),
        ({"$ref": "#/$defs/A", "$defs": {"A": of(q={}, chatInput={})}}, {"chatInput"}),
        ({"allOf": [of(action={})], "properties": {"q": {}}}, {"action"}),
        ({"oneOf": [of(q={}, action={"const": "sendMessage"}), of(q={"type": "null"})]}, {"action"}),
        ({**of(q={}), "additionalProperties": {"type": "string"}}, set(EXTRAS)),
        ({**of(q={}), "patternProperties": {"^act": {}}}, set(EXTRAS)),
        ({"type": "object"}, set(EXTRAS)),
        ({"type": "object", "properties": {}}, set(EXTRAS)),
        ({}, set(EXTRAS)),
        (True, set(EXTRAS)),
    ],
)
def test_extras_of_known_clients(schema: Any, kept: set[str]) -> None:
    """What a client adds to every call is taken out, but not where the tool itself declares it or declares nothing."""
    assert set(EXTRAS) == set(INJECTED)
    assert repair({"q": "x", **EXTRAS}, schema) == {"q": "x", **{key: EXTRAS[key] for key in kept}}


@pytest.mark.parametrize("schema", [{}, True, {"type": "object"}, of()])
def test_tools_that_take_anything(schema: Any) -> None:
    """Without a word about its arguments a tool gets them as they came."""
    arguments = {"a": "5", "b": None, "c": [1.0, {"d": "{}"}]}
    assert same(repair(arguments, schema), arguments)


def test_schemas_that_multiply() -> None:
    """A schema whose parts refer to their parts over and over is looked through once."""
    parts = {f"L{n}": {"allOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 2} for n in range(30)}
    schema = {"$ref": "#/$defs/L0", "$defs": {**parts, "L30": of(q={})}}

    class Indulgent:
        """A checker that takes all, for the check itself may give up here."""

        def accepts(self, _: Any) -> bool:
            """Yes."""
            return True

    checker: Any = Indulgent()
    assert repair_arguments({"q": 1, **EXTRAS}, schema, checker) == {"q": 1}


def test_deep_arguments_are_refused() -> None:
    """Nesting beyond any use ends in an answer, not in an overflow."""
    deep: Any = {}
    for _ in range(900):
        deep = {"o": deep}
    node = {"type": "object", "properties": {"o": {"$ref": "#/$defs/Node"}}}
    schema = {**node, "$defs": {"Node": node}}
    with pytest.raises(ToolError, match="nested too deep"):
        repair_arguments(deep, schema, build_checker(schema))


def test_anchors_are_left_to_the_check() -> None:
    """A reference by anchor is not followed by the repair, and what stands there is checked all the same."""
    schema = {**of(v={"$ref": "#thing"}), "$defs": {"T": {"$anchor": "thing", "type": "integer"}}}
    assert repair({"v": 5}, schema) == {"v": 5}
    with pytest.raises(ToolError):
        repair({"v": "x"}, schema)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "5", "x", "[1]", "{}", "null", "true"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abn"), inner, max_size=3),
    max_leaves=6,
)
simple = st.sampled_from([{"type": name} for name in ("string", "integer", "number", "boolean", "object", "array")])
schemas = st.recursive(
    simple | st.just({}) | st.just({"type": ["integer", "null"]}),
    lambda inner: (
        st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abn"), inner, max_size=3)}
        )
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
    ),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None)
@given(schema=schemas, value=plain)
def test_repairs_are_right_or_refused(schema: Any, value: Any) -> None:
    """Whatever comes, it goes as something that the schema takes or not at all, and what fits is not changed."""
    whole = of(v=schema)
    checker = build_checker(whole)
    try:
        repaired = repair_arguments({"v": value}, whole, checker)
    except ToolError:
        assert not checker.accepts({"v": value})
        return
    assert checker.accepts(repaired)
    assert repaired == {"v": value} or not checker.accepts({"v": value})


@settings(max_examples=200, deadline=None)
@given(schema=schemas, value=plain)
def test_json_text_is_as_good_as_the_value(schema: Any, value: Any) -> None:
    """Where text cannot be meant, a value and its JSON text are the same argument."""
    checker = build_checker(schema)
    if not isinstance(value, dict | list) or not checker.accepts(value) or checker.accepts("text"):
        return
    if checker.accepts(json.dumps(value)) or "anyOf" in schema or schema == {}:
        return
    assert repair({"v": json.dumps(value)}, of(v=schema)) == {"v": value}
