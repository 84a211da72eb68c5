"""The gateway's own reading of a schema."""

from typing import Any

import pytest

from colabhive_mcp.localgateway.checks import check_input


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "string"}, "x", True),
        ({"type": "string"}, 5, False),
        ({"type": "number"}, 5, True),
        ({"type": "number"}, True, False),
        ({"type": "integer"}, 3.0, True),
        ({"type": "integer"}, 3.5, False),
        ({"type": "boolean"}, 1, False),
        ({"type": "array"}, {}, False),
        ({"type": "object"}, {}, True),
        ({"type": "null"}, None, True),
        ({"type": ["string", "null"]}, None, True),
        ({"type": ["string", "null"]}, 5, False),
        ({"type": "int"}, "anything", True),
        ({"type": 5}, "anything", True),
        ({"enum": ["a", "b"]}, "c", False),
        ({"minimum": 2}, 1, False),
        ({"maximum": 2}, 2, True),
        ({"minimum": "x"}, 1, True),
        ({"minLength": 2}, "é", False),
        ({"maxItems": 1}, [1, 2], False),
        ({"type": "array", "items": {"type": "number"}}, [1, "2"], False),
        ({"type": "array", "items": [{"type": "number"}]}, ["2"], True),
        (True, 5, True),
        (None, 5, True),
    ],
)
def test_one_argument(schema: Any, value: Any, fits: bool) -> None:
    """A known keyword is enforced; an unknown or malformed one asks for nothing."""
    assert (check_input({"properties": {"x": schema}}, {"x": value}, "body") == []) is fits


@pytest.mark.parametrize(
    "schema", [None, True, 5, {}, {"properties": None}, {"required": "x"}, {"required": [5]}, {"properties": [1]}]
)
def test_schema_that_is_none(schema: Any) -> None:
    """What is no usable schema asks for nothing."""
    assert check_input(schema, {"x": 1}) == []


def test_every_fault_has_its_path() -> None:
    """Each fault is one entry with its path, its kind and words."""
    schema = {
        "properties": {"a": {"type": "array", "items": {"type": "string"}}, "b": {"type": "string"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    faults = check_input(schema, {"a": ["x", 1, 2], "c": 0}, "body", "input")
    assert [(fault["loc"], fault["type"]) for fault in faults] == [
        (["body", "input", "b"], "missing"),
        (["body", "input", "c"], "extra_forbidden"),
        (["body", "input", "a", 1], "type_error"),
        (["body", "input", "a", 2], "type_error"),
    ]
    assert all(fault["msg"] for fault in faults)
