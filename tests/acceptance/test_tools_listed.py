"""What clients are shown of a manifest: names, schemas in the form that all of them take, hints, pages, filters."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from colabhive_mcp.localgateway.manifests import RawJson
from tests.conftest import Connect
from tests.harness import spec
from tests.harness.client import StdioClient
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.sessions import Sessions

Schema = dict[str, Any]

OWN_TOOL = "get_invocation_result"
FORMATS = {"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uuid"}
COMPOSING = {"$ref", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const"}
FLAGS = ("additionalProperties", "unevaluatedProperties")
ONE = ("items", "not", "if", "then", "else", "contains", "propertyNames", "contentSchema", *FLAGS)
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs")


def obj(*required: str, **properties: Any) -> Schema:
    """An object schema."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def nest(levels: int) -> RawJson:
    """A schema of that many levels, each of which is two of JSON's."""
    return RawJson('{"type":"object","properties":{"a":' * levels + '{"type":"string"}' + "}}" * levels)


TEXT, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}
POINT = obj("x", "y", x=NUMBER, y=NUMBER)
TREE = obj("value", value=TEXT, children={"type": "array", "items": {"$ref": "#/$defs/Tree"}})
URL, PATHS = obj("url", url=TEXT), obj("path", "root", path=TEXT, root=TEXT)
FAST, SLOW = obj("mode", mode={"const": "fast"}), obj("mode", "wait", mode={"const": "slow"}, wait=NUMBER)
DRAFT_07 = "http://json-schema.org/draft-07/schema#"
DRAFT_04 = "http://json-schema.org/draft-04/schema#"
DOUBLING = {
    f"d{level}": obj(left={"$ref": f"#/$defs/d{level + 1}"}, right={"$ref": f"#/$defs/d{level + 1}"})
    for level in range(24)
}

# slug -> (the manifest's input schema, what clients are shown instead)
INPUTS: dict[str, tuple[Any, Schema]] = {
    # References
    "ref-nested": (
        {**obj(a={"$ref": "#/$defs/A"}), "$defs": {"A": obj(p={"$ref": "#/$defs/Point"}), "Point": POINT}},
        obj(a=obj(p=POINT)),
    ),
    "ref-shared": (
        {
            **obj(a={"$ref": "#/$defs/Point"}, b={"type": "array", "items": {"$ref": "#/$defs/Point"}}),
            "$defs": {"Point": POINT, "Unused": {"type": "string", "format": "secret"}},
        },
        obj(a=POINT, b={"type": "array", "items": POINT}),
    ),
    "ref-beside": (
        {
            **obj(a={"$ref": "#/$defs/Point", "description": "Where to."}),
            "$defs": {"Point": {**POINT, "description": "Any point.", "title": "Point"}},
        },
        obj(a={**POINT, "description": "Where to.", "title": "Point"}),
    ),
    "ref-recursive": (
        {**obj(t={"$ref": "#/$defs/Tree"}, p={"$ref": "#/$defs/Point"}), "$defs": {"Tree": TREE, "Point": POINT}},
        {**obj(t={"$ref": "#/$defs/Tree"}, p=POINT), "$defs": {"Tree": TREE}},
    ),
    "ref-mutual": (
        {
            **obj(a={"$ref": "#/$defs/A"}),
            "$defs": {
                "A": obj(b={"$ref": "#/$defs/B"}),
                "B": obj(a={"$ref": "#/$defs/A"}, p={"$ref": "#/$defs/Point"}),
                "Point": POINT,
            },
        },
        {
            **obj(a={"$ref": "#/$defs/A"}),
            "$defs": {"A": obj(b={"$ref": "#/$defs/B"}), "B": obj(a={"$ref": "#/$defs/A"}, p=POINT)},
        },
    ),
    "ref-to-root": (
        obj(name=TEXT, parts={"type": "array", "items": {"$ref": "#"}}),
        obj(name=TEXT, parts={"type": "array", "items": {"$ref": "#"}}),
    ),
    "ref-at-root": ({"$ref": "#/$defs/Point", "$defs": {"Point": POINT}}, POINT),
    "ref-anchor": ({**obj(a={"$ref": "#here"}), "$defs": {"P": {"$anchor": "here", **POINT}}}, obj(a=POINT)),
    "ref-into-properties": (obj(a=POINT, b={"$ref": "#/properties/a/properties/x"}), obj(a=POINT, b=NUMBER)),
    "ref-escaped": ({**obj(a={"$ref": "#/$defs/a~1b%20c"}), "$defs": {"a/b c": POINT}}, obj(a=POINT)),
    "ref-draft-07": (
        {"$schema": DRAFT_07, **obj(a={"$ref": "#/definitions/Point"}), "definitions": {"Point": POINT}},
        obj(a=POINT),
    ),
    "ref-recursive-draft-07": (
        {
            "$schema": DRAFT_07,
            **obj(t={"$ref": "#/definitions/T"}),
            "definitions": {"T": obj(t={"$ref": "#/definitions/T"})},
        },
        {**obj(t={"$ref": "#/$defs/T"}), "$defs": {"T": obj(t={"$ref": "#/$defs/T"})}},
    ),
    "ref-doubling": (
        {**obj(a={"$ref": "#/$defs/d0"}), "$defs": {**DOUBLING, "d24": TEXT}},
        {**obj(a={"$ref": "#/$defs/d0"}), "$defs": {**DOUBLING, "d24": TEXT}},
    ),
    # The root
    "root-one-of": (
        {**obj("n", n=WHOLE), "oneOf": [{key: URL[key] for key in ("properties", "required")}, PATHS]},
        obj("n", n=WHOLE, url=TEXT, path=TEXT, root=TEXT),
    ),
    "root-any-of": ({"anyOf": [URL, PATHS]}, obj(url=TEXT, path=TEXT, root=TEXT)),
    "root-all-of": (
        {"allOf": [URL, {"$ref": "#/$defs/Point"}], "$defs": {"Point": POINT}},
        obj("url", "x", "y", url=TEXT, x=NUMBER, y=NUMBER),
    ),
    "root-all-of-one-of": (
        {**obj(n=WHOLE), "allOf": [{"oneOf": [URL, PATHS]}]},
        obj(n=WHOLE, url=TEXT, path=TEXT, root=TEXT),
    ),
    "root-one-of-refs": (
        {"oneOf": [{"$ref": "#/$defs/Fast"}, {"$ref": "#/$defs/Slow"}], "$defs": {"Fast": FAST, "Slow": SLOW}},
        obj("mode", mode={"enum": ["fast", "slow"]}, wait=NUMBER),
    ),
    "root-any-of-required": (
        {**obj(a=TEXT, b=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        obj(a=TEXT, b=TEXT),
    ),
    "root-if": (
        {**obj(mode=TEXT), "if": {"required": ["mode"]}, "then": obj("why", why=TEXT)},
        obj(mode=TEXT, why=TEXT),
    ),
    "root-not": ({**obj(a=TEXT, b=TEXT), "not": {"required": ["a", "b"]}}, obj(a=TEXT, b=TEXT)),
    "root-nullable": ({**obj(a=TEXT), "type": ["object", "null"]}, obj(a=TEXT)),
    # What some models refuse within
    "type-nullable": (obj(a={"type": ["array", "null"]}), obj(a={"type": "array", "items": {}})),
    "type-nullable-default": (
        obj(a={"type": ["string", "null"], "enum": ["x", None], "default": None}),
        obj(a={"type": "string", "enum": ["x"]}),
    ),
    "type-nullable-deep": (
        obj(a={"type": "array", "items": obj(b={"type": ["integer", "null"]})}),
        obj(a={"type": "array", "items": obj(b=WHOLE)}),
    ),
    "type-nullable-required": (
        obj("a", a={"type": ["string", "null"], "minLength": 1}),
        obj("a", a={"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]}),
    ),
    "type-two": (
        obj(a={"type": ["string", "integer"], "minLength": 1, "minimum": 2, "description": "Either."}),
        obj(
            a={
                "anyOf": [{"type": "string", "minLength": 1}, {"type": "integer", "minimum": 2}],
                "description": "Either.",
            }
        ),
    ),
    "type-two-array": (
        obj(a={"type": ["string", "array"]}),
        obj(a={"anyOf": [TEXT, {"type": "array", "items": {}}]}),
    ),
    "type-one-in-list": (obj(a={"type": ["string"]}), obj(a=TEXT)),
    "boolean-true": (obj(a=True, b={"type": "array", "items": True}), obj(a={}, b={"type": "array", "items": {}})),
    "boolean-false": (obj(a=False, b=TEXT), obj(a={"not": {}}, b=TEXT)),
    "boolean-in-alternatives": (obj(a={"anyOf": [True, TEXT]}), obj(a={"anyOf": [{}, TEXT]})),
    "array-bare": (
        obj(a={"type": "array"}, b={"type": "array", "items": {"type": "array"}}),
        obj(a={"type": "array", "items": {}}, b={"type": "array", "items": {"type": "array", "items": {}}}),
    ),
    "array-tuple": (
        obj(a={"type": "array", "prefixItems": [TEXT, {"type": "array"}]}),
        obj(a={"type": "array", "prefixItems": [TEXT, {"type": "array", "items": {}}], "items": {}}),
    ),
    "format-unusual": (
        obj(
            a={"type": "string", "format": "date-time"},
            b={"type": "number", "format": "float"},
            c={"type": "string", "format": "binary"},
            d={"type": "string", "format": "regex"},
        ),
        obj(a={"type": "string", "format": "date-time"}, b=NUMBER, c=TEXT, d=TEXT),
    ),
    "names-of-keywords": (
        obj(type=TEXT, format=WHOLE, items={"type": "array"}, **{"$ref": NUMBER, "properties": POINT}),
        obj(type=TEXT, format=WHOLE, items={"type": "array", "items": {}}, **{"$ref": NUMBER, "properties": POINT}),
    ),
    "values-like-schemas": (
        obj(
            a={"type": "object", "default": {"type": ["a", "b"], "$ref": "#/nowhere"}, "properties": {}},
            b={"enum": [{"$ref": "x"}, True, [1]]},
        ),
        obj(
            a={"type": "object", "default": {"type": ["a", "b"], "$ref": "#/nowhere"}, "properties": {}},
            b={"enum": [{"$ref": "x"}, True, [1]]},
        ),
    ),
    "author-words": (
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "https://schemas.test/a",
            "$comment": "x",
            **obj(a={"type": "string", "$comment": "y", "description": "A."}),
        },
        obj(a={"type": "string", "description": "A."}),
    ),
    "dialect-draft-04": (
        {"$schema": DRAFT_04, **obj(a={"type": "number", "minimum": 0, "exclusiveMinimum": True})},
        obj(a={"type": "number", "exclusiveMinimum": 0}),
    ),
    "dialect-draft-07-tuple": (
        {"$schema": DRAFT_07, **obj(a={"type": "array", "items": [TEXT, WHOLE]})},
        obj(a={"type": "array", "prefixItems": [TEXT, WHOLE], "items": {}}),
    ),
    "pattern-of-python": (obj(a={"type": "string", "pattern": r"\A(?P<year>\d{4})\Z"}), obj(a=TEXT)),
    "pattern-of-ecmascript": (obj(a={"type": "string", "pattern": r"^(?<year>\d{4})-\p{L}+$"}), obj(a=TEXT)),
    "pattern-of-both": (obj(a={"type": "string", "pattern": r"^\d{4}-[a-z]+$"}),) * 2,
    # No arguments
    "nothing-null": (None, obj()),
    "nothing-empty": ({}, obj()),
    "nothing-true": (RawJson("true"), obj()),
    "nothing-typed": ({"type": "object"}, obj()),
    "nothing-untyped": ({"properties": {}}, obj()),
    "nothing-closed": (
        {"type": "object", "additionalProperties": False},
        {**obj(), "additionalProperties": False},
    ),
    "free-form": ({"type": "object", "additionalProperties": WHOLE}, {**obj(), "additionalProperties": WHOLE}),
}
# slug -> what the description says of its alternatives
TOLD = {
    "root-one-of": "Exactly one of these: needs `url`; or needs `path` and `root`.",
    "root-any-of": "At least one of these: needs `url`; or needs `path` and `root`.",
    "root-all-of-one-of": "Exactly one of these: needs `url`; or needs `path` and `root`.",
    "root-one-of-refs": 'Exactly one of these: `mode` is "fast"; or `mode` is "slow" and needs `wait`.',
    "root-any-of-required": "At least one of these: needs `a`; or needs `b`.",
    "root-if": "More rules hold than the schema shows; a call that breaks one is answered with the reason.",
    "root-not": "More rules hold than the schema shows; a call that breaks one is answered with the reason.",
}
# slug -> an input schema with which no call can be checked, and a word of the reason
UNUSABLE: dict[str, tuple[Any, str]] = {
    "bad-ref-http": (obj(a={"$ref": "http://127.0.0.1:{port}/schema.json"}), "not local"),
    "bad-ref-https": (obj(a={"$ref": "https://127.0.0.1:{port}/schema.json#/a"}), "not local"),
    "bad-ref-private": (obj(a={"$ref": "http://169.254.169.254/latest/meta-data"}), "not local"),
    "bad-ref-file": (obj(a={"$ref": "file:///etc/passwd"}), "not local"),
    "bad-ref-relative": (obj(a={"$ref": "other.json#/a"}), "not local"),
    "bad-ref-by-id": ({"$id": "http://127.0.0.1:{port}/base/", **obj(a={"$ref": "other.json"})}, "not local"),
    "bad-ref-dynamic": (obj(a={"$dynamicRef": "http://127.0.0.1:{port}/schema.json#a"}), "not local"),
    "bad-ref-nowhere": (obj(a={"$ref": "#/$defs/none"}), "nowhere"),
    "bad-ref-itself": ({**obj(a={"$ref": "#/$defs/l"}), "$defs": {"l": {"$ref": "#/$defs/l"}}}, "back to themselves"),
    "bad-ref-loop": (
        {
            **obj(a={"$ref": "#/$defs/l"}),
            "$defs": {"l": {"allOf": [{"$ref": "#/$defs/m"}]}, "m": {"anyOf": [TEXT, {"$ref": "#/$defs/l"}]}},
        },
        "back to themselves",
    ),
    "bad-type": (obj(a={"type": "int"}), "int"),
    "bad-type-deep": (obj(a={"type": "array", "items": obj(b={"type": "str"})}), "/properties/a/items/properties/b"),
    "bad-properties": ({"type": "object", "properties": []}, "properties"),
    "bad-required": ({"type": "object", "required": "a"}, "required"),
    "bad-minimum": (obj(a={"type": "number", "minimum": "0"}), "minimum"),
    "bad-root-array": ({"type": "array"}, "array"),
    "bad-root-text": (RawJson('"object"'), "schema"),
    "bad-root-list": (RawJson("[]"), "schema"),
    "bad-root-number": (RawJson("7"), "schema"),
    "bad-root-false": (RawJson("false"), "false"),
    "bad-dialect": ({"$schema": "https://schemas.test/own", **obj(a=TEXT)}, "dialect"),
    "bad-dialect-old": ({"$schema": "http://json-schema.org/draft-03/schema#", **obj(a=TEXT)}, "dialect"),
    "bad-dialect-type": ({"$schema": 7, **obj(a=TEXT)}, "dialect"),
    "bad-deep-101": (nest(101), "deeper"),
    "bad-deep-2000": (nest(2000), "deeper"),
    "bad-deep-lists": (RawJson('{"type":"object","default":' + "[" * 3000 + "]" * 3000 + "}"), "deeper"),
}
# slug -> (the manifest's output schema, what is listed in revisions of objects, and in those of any value)
OUTPUTS: dict[str, tuple[Any, Schema | None, Schema | None]] = {
    "out-object": (POINT, POINT, POINT),
    "out-refs": ({**obj(p={"$ref": "#/$defs/P"}), "$defs": {"P": POINT}}, obj(p=POINT), obj(p=POINT)),
    "out-recursive": (
        {**obj(t={"$ref": "#/$defs/Tree"}), "$defs": {"Tree": TREE}},
        {**obj(t={"$ref": "#/$defs/Tree"}), "$defs": {"Tree": TREE}},
        {**obj(t={"$ref": "#/$defs/Tree"}), "$defs": {"Tree": TREE}},
    ),
    "out-ref-at-root": ({"$ref": "#/$defs/P", "$defs": {"P": POINT}}, POINT, POINT),
    "out-array": ({"type": "array", "items": WHOLE}, None, {"type": "array", "items": WHOLE}),
    "out-text": (TEXT, None, TEXT),
    "out-nullable": ({"type": ["object", "null"]}, None, {"type": ["object", "null"]}),
    "out-untyped": ({"properties": {"a": TEXT}}, None, {"properties": {"a": TEXT}}),
    "out-image": (obj(image_b64=TEXT, mime_type=TEXT), None, None),
    "out-images": (obj(images={"type": "array", "items": TEXT}), None, None),
    "out-image-ref": ({"$ref": "#/$defs/I", "$defs": {"I": obj(image_b64=TEXT)}}, None, None),
    "out-image-or-link": ({"type": "object", "anyOf": [obj(image_b64=TEXT), obj(image_url=TEXT)]}, None, None),
    "out-image-part": ({"allOf": [obj(image_b64=TEXT), obj(seed=WHOLE)]}, None, None),
    "out-audio": (obj(audio_b64=TEXT, seconds=NUMBER), None, None),
    "out-null": (None, None, None),
    "out-bad-ref": (obj(a={"$ref": "https://schemas.test/x"}), None, None),
    "out-bad-type": (obj(a={"type": "int"}), None, None),
    "out-bad-dialect": ({"$schema": "https://schemas.test/own", "type": "object"}, None, None),
    "out-format": (obj(a={"type": "string", "format": "date-time"}), obj(a=TEXT), obj(a=TEXT)),
    "out-pattern": (obj(a={"type": "string", "pattern": r"(?P<x>a)"}), obj(a=TEXT), obj(a=TEXT)),
}
ANNOTATED: dict[str, tuple[Any, dict[str, bool]]] = {
    "hints-read": (
        {"readOnly": True, "idempotent": True, "destructive": False, "openWorld": False},
        {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False, "openWorldHint": False},
    ),
    "hints-write": (
        {"readOnly": False, "idempotent": False, "destructive": True, "openWorld": True},
        {"readOnlyHint": False, "idempotentHint": False, "destructiveHint": True, "openWorldHint": True},
    ),
    "hints-some": ({"readOnly": False, "destructive": False}, {"readOnlyHint": False, "destructiveHint": False}),
    "hints-odd": (
        {"readOnly": "yes", "destructive": 1, "idempotent": None, "openWorld": True, "readOnlyHint": True, "x": True},
        {"openWorldHint": True},
    ),
    "hints-list": (["readOnly"], {}),
    "hints-null": (None, {}),
}
LONG = "a-very-long-name-" * 6  # 102 characters
# slugs whose names clients would refuse, or which would be the same
NAMED = {
    "qwen-2.5-7b": "qwen-2_5-7b",
    "org/model:v1": "org_model_v1",
    "dots.a": None,
    "dots/a": None,
    "dots_a": "dots_a",
    "has space": "has_space",
    "modèle": "mod_le",
    "漢字": None,
    "🎉🎉": None,
    "x" * 64: "x" * 64,
    "x" * 65: None,
    LONG + "1": None,
    LONG + "2": None,
    OWN_TOOL: None,
    "UPPER.Case": "UPPER_Case",
    "-dash.": "-dash_",
}


@pytest.fixture(scope="module")
def trap() -> Iterator[socket.socket]:
    """A port on which nobody may ever knock."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def to_manifests(port: int) -> Iterator[dict[str, Any]]:
    """Every tool of the tables above."""
    for slug, (schema, _) in INPUTS.items():
        yield manifest(slug, inputSchema=schema)
    for slug, (schema, _) in UNUSABLE.items():
        text = schema if isinstance(schema, RawJson) else json.dumps(schema).replace("{port}", str(port))
        yield manifest(slug, inputSchema=RawJson(text))
    for slug, (output, _, _) in OUTPUTS.items():
        yield manifest(slug, outputSchema=output)
    for slug, (hints, _) in ANNOTATED.items():
        yield manifest(slug, annotations=hints)
    yield from (manifest(slug) for slug in NAMED)
    yield {key: value for key, value in manifest("nothing-missing").items() if key != "inputSchema"}
    yield manifest("bad-output", outputSchema=RawJson('"x"'))


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory, trap: socket.socket) -> Iterator[GatewayProcess]:
    """A gateway with every strange tool of this module beside its own."""
    with GatewayProcess(tmp_path_factory.mktemp("zoo")) as gateway:
        gateway.register(*to_manifests(trap.getsockname()[1]))
        yield gateway


@pytest.fixture(scope="module")
def sessions(zoo: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Sessions over the zoo."""
    with Sessions(zoo, tmp_path_factory.mktemp("sessions")) as sessions:
        yield sessions


Listed = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def listed(sessions: Sessions) -> Listed:
    """What each session was shown, by name; asked for once."""
    known: dict[Any, dict[str, dict[str, Any]]] = {}

    def list_once(revision: str = "2025-11-25", **settings: Any) -> dict[str, dict[str, Any]]:
        key = (revision, *sorted(settings.items()))
        if key not in known:
            known[key] = sessions(revision, **settings).tools()
        return known[key]

    return list_once


def to_nodes(schema: Any, *, flag: bool = False) -> Iterator[Schema]:
    """Every subschema of a listed schema, which is an object but for the flags that every client knows."""
    if flag and isinstance(schema, bool):
        return
    assert isinstance(schema, dict), f"{schema!r} is no object"
    yield schema
    for keyword in ONE:
        if keyword in schema:
            yield from to_nodes(schema[keyword], flag=keyword in FLAGS)
    for keyword in LISTS:
        for each in schema.get(keyword, ()):
            yield from to_nodes(each)
    for keyword in MAPS:
        for each in schema.get(keyword, {}).values():
            yield from to_nodes(each)


def find(schema: Schema, reference: str) -> Any:
    """What a reference within a schema leads to."""
    assert reference.startswith("#"), f"{reference} is not local"
    node: Any = schema
    for token in reference[1:].split("/")[1:]:
        node = node[token.replace("~1", "/").replace("~0", "~")]
    return node


# The form that every client takes


@pytest.mark.parametrize("slug", INPUTS)
def test_an_input_is_shown_in_the_form_that_all_take(slug: str, listed: Listed) -> None:
    """References are inlined unless recursive, the root is a plain object, each node has one type and arrays items."""
    assert listed()[slug]["inputSchema"] == INPUTS[slug][1]


def test_no_listed_input_has_what_some_client_refuses(listed: Listed) -> None:
    """Whatever the manifest has, none of the constructs is listed for which a client drops a tool, or all of them."""
    tools = listed()
    assert len(tools) > len(INPUTS)
    for name, tool in tools.items():
        schema = tool["inputSchema"]
        assert schema["type"] == "object", name
        assert isinstance(schema["properties"], dict), name
        assert COMPOSING.isdisjoint(schema), name
        Draft202012Validator.check_schema(schema)
        for node in to_nodes(schema):
            assert isinstance(node.get("type", ""), str), (name, node)
            assert node.get("type") != "array" or "items" in node, (name, node)
            assert node.get("format", "uri") in FORMATS, (name, node)
            assert {"$schema", "$id", "id", "$anchor", "$comment", "definitions"}.isdisjoint(node), (name, node)
            if "$ref" in node:
                assert isinstance(find(schema, node["$ref"]), dict), (name, node)


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_inputs_are_the_same_in_every_revision(revision: str, listed: Listed) -> None:
    """No revision is shown other input schemas, or other tools, than another."""
    inputs = {name: tool["inputSchema"] for name, tool in listed().items()}
    assert {name: tool["inputSchema"] for name, tool in listed(revision).items()} == inputs


@pytest.mark.parametrize("slug", [slug for slug in INPUTS if slug.startswith("ref-")])
def test_inlining_is_bounded(slug: str, listed: Listed) -> None:
    """A listed schema is no larger than four times the manifest's and 16 KiB."""
    shown = len(json.dumps(listed()[slug]["inputSchema"]))
    assert shown <= 4 * len(json.dumps(INPUTS[slug][0])) + 16 * 1024


@pytest.mark.parametrize("slug", TOLD)
def test_alternatives_are_told_in_words(slug: str, listed: Listed) -> None:
    """What the plain root no longer says stands in the description."""
    assert TOLD[slug] in listed()[slug]["description"].splitlines()


@pytest.mark.parametrize("slug", [slug for slug in INPUTS if slug not in TOLD])
def test_nothing_is_told_where_nothing_is_lost(slug: str, listed: Listed) -> None:
    """A description has no more lines than the manifest's own and that of the hints."""
    assert len(listed()[slug]["description"].splitlines()) == 2


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf", "allOf"])
def test_a_root_that_is_rewritten_is_one_warning(keyword: str, sessions: Sessions, listed: Listed) -> None:
    """The log names the tool once, however often and in however many shapes it is listed."""
    client = sessions()
    listed()
    client.ask("tools/list")
    slugs = [slug for slug, (schema, _) in INPUTS.items() if isinstance(schema, dict) and keyword in schema]
    events = client.events("manifest.tool_rewritten")
    for slug in slugs:
        reasons = [event["reason"] for event in events if event["tool"] == slug]
        assert len(reasons) == 1, slug
        assert keyword in reasons[0]
    assert {event["tool"] for event in events} <= INPUTS.keys()
    assert all(event["level"] == "WARNING" for event in events)


def test_a_tool_without_a_schema_takes_no_arguments(listed: Listed) -> None:
    """A missing input schema is shown as an object without properties, never null."""
    assert listed()["nothing-missing"]["inputSchema"] == obj()


# The manifest's own form


@pytest.mark.parametrize("slug", [slug for slug, (schema, _) in INPUTS.items() if isinstance(schema, dict)])
def test_exact_schemas_are_the_manifests_own(slug: str, listed: Listed) -> None:
    """With schemas = exact nothing is rewritten; only what MCP itself demands of the root is added."""
    own = {"properties": {}, **INPUTS[slug][0], "type": "object"}
    spelled = {True: {}, False: {"not": {}}}
    properties = {name: spelled[each] if each in (True, False) else each for name, each in own["properties"].items()}
    assert listed(schemas="exact")[slug]["inputSchema"] == {**own, "properties": properties}


@pytest.mark.parametrize("slug", [slug for slug, row in OUTPUTS.items() if row[2] is not None])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_exact_output_schemas_are_the_manifests_own(slug: str, revision: str, listed: Listed) -> None:
    """Output schemas too, in the same revisions as the form that all clients take."""
    own, shown = OUTPUTS[slug][0], OUTPUTS[slug][2 if revision == spec.MODERN else 1]
    root = {"type": "object"} if shown and shown.get("type") == "object" else {}
    assert listed(revision, schemas="exact")[slug].get("outputSchema") == (None if shown is None else {**own, **root})


@pytest.mark.parametrize("slug", ["nothing-null", "nothing-true", "nothing-missing"])
def test_exact_schemas_are_objects_all_the_same(slug: str, listed: Listed) -> None:
    """No schema at all is an object without properties in the exact form too."""
    assert listed(schemas="exact")[slug]["inputSchema"] == obj()


def test_exact_schemas_have_no_notes(sessions: Sessions, listed: Listed) -> None:
    """What the schema says is not told again, and nothing was rewritten that a warning could name."""
    tools = listed(schemas="exact")
    assert all(len(tools[slug]["description"].splitlines()) == 2 for slug in TOLD)
    assert sessions(schemas="exact").events("manifest.tool_rewritten") == []


@pytest.mark.parametrize("settings", [{}, {"schemas": "exact"}], ids=["compatible", "exact"])
def test_the_same_tools_are_listed_in_either_form(settings: dict[str, Any], listed: Listed) -> None:
    """What is usable does not depend on the form in which it is shown."""
    names = set(listed(**settings))
    assert INPUTS.keys() | OUTPUTS.keys() | ANNOTATED.keys() | {OWN_TOOL, "echo", "chat"} <= names
    assert names.isdisjoint(UNUSABLE)


# One bad tool


@pytest.mark.parametrize("slug", UNUSABLE)
def test_an_unusable_schema_costs_one_tool(slug: str, zoo: GatewayProcess, sessions: Sessions, listed: Listed) -> None:
    """The tool is left out with one warning that names it and says why, and a call of it sends nothing."""
    client = sessions()
    assert slug not in listed()
    error = client.ask("tools/call", {"name": slug, "arguments": {"a": "x"}})["error"]
    assert error["code"] == -32602
    assert UNUSABLE[slug][1] in error["message"]
    assert zoo.seen(slug) == []
    events = [event for event in client.events("manifest.tool_left_out") if event["tool"] == slug]
    assert [UNUSABLE[slug][1] in event["reason"] for event in events] == [True]


def test_no_reference_is_ever_fetched(trap: socket.socket, sessions: Sessions, listed: Listed) -> None:
    """Neither listing nor calling asks the network for a schema."""
    listed()
    sessions().call("ref-nested", {"a": {}})
    with pytest.raises(BlockingIOError):
        trap.accept()


def test_broken_entries_cost_only_themselves(gateway: GatewayProcess, connect: Connect) -> None:
    """An entry that is no tool at all, or a second one of a name, is left out with its name or place."""
    entries: list[Any] = [
        None,
        7,
        "echo",
        [],
        {},
        {"name": None},
        {"name": ""},
        {"name": "  "},
        {"name": 5},
        {"name": "line\nbreak"},
        {"name": "long" * 100},
        manifest("first"),
        manifest("first", description="Another."),
        {"name": "bare"},
        manifest(
            "odd",
            description=5,
            displayName=["x"],
            tags="x",
            sideEffects="network",
            costHint=1,
            stability=None,
            examples={"a": 1},
            deprecation="soon",
            lineage=3,
            links=[1],
        ),
    ]
    gateway.fault(method="GET", path="*/mcp/manifest", body={"tools": entries})
    client = connect(gateway)
    tools = client.tools()
    assert list(tools) == ["bare", "first", "odd", OWN_TOOL]
    assert tools["bare"] == {"name": "bare", "inputSchema": obj(), "_meta": {"com.colabhive/manifest": {}}}
    assert tools["first"]["description"].startswith("What first does.")
    assert "title" not in tools["odd"]
    left_out = [event["tool"] for event in client.events("manifest.tool_left_out")]
    assert left_out == [*(f"tools[{place}]" for place in range(9)), "line\nbreak", ("long" * 100)[:200], "first"]


# Output schemas


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize("slug", OUTPUTS)
def test_an_output_schema_is_shown_where_it_is_kept(slug: str, revision: str, listed: Listed) -> None:
    """It is listed only in revisions whose results can hold what it promises, and never for what becomes a block."""
    _, objects, anything = OUTPUTS[slug]
    wanted = anything if revision == spec.MODERN else objects if revision >= "2025-06-18" else None
    assert listed(revision)[slug].get("outputSchema") == wanted


def test_every_output_schema_can_be_compiled(listed: Listed) -> None:
    """One that a client could not compile would cost it the whole list."""
    for name, tool in listed(spec.MODERN).items():
        schema = tool.get("outputSchema", {})
        Draft202012Validator.check_schema(schema)
        for node in to_nodes(schema):
            assert "$ref" not in node or isinstance(find(schema, node["$ref"]), dict), name
            assert {"$schema", "$id", "format", "nullable"}.isdisjoint(node), (name, node)


# Hints and words


@pytest.mark.parametrize("slug", ANNOTATED)
def test_hints_are_what_the_manifest_says(slug: str, listed: Listed) -> None:
    """Booleans only, under MCP's names; what the manifest does not say, or says in another type, is missing."""
    assert listed()[slug].get("annotations", {}) == ANNOTATED[slug][1]


def test_the_oldest_revision_has_no_annotations(listed: Listed) -> None:
    """Neither hints nor titles nor _meta where the revision does not know them."""
    for tool in listed("2024-11-05").values():
        assert tool.keys() == {"name", "description", "inputSchema"}


@pytest.mark.parametrize("revision", spec.REVISIONS[1:])
def test_the_display_name_is_the_title(revision: str, listed: Listed) -> None:
    """It stands where the revision has it: in the tool, or before 2025-06-18 among the annotations."""
    tool = listed(revision)["hints-read"]
    if revision == "2025-03-26":
        assert tool["annotations"]["title"] == "Hints-Read"
        assert tool.keys() == {"name", "description", "inputSchema", "annotations"}
    else:
        assert tool["title"] == "Hints-Read"
        assert "title" not in tool["annotations"]


def test_the_catalogue_says_what_its_tools_do(listed: Listed) -> None:
    """A tool that writes says so to the client and to the model; one that reads asks for no confirmation."""
    tools = listed()
    notes, merge, echo = tools["notes-append"], tools["training_merge"], tools["echo"]
    assert (echo["annotations"]["readOnlyHint"], echo["annotations"]["destructiveHint"]) == (True, False)
    assert notes["annotations"]["readOnlyHint"] is False
    assert "destructiveHint" in notes["annotations"]
    assert notes["description"].splitlines()[-1].startswith("Side-effects: storage, mutating; cost: ")
    assert merge["description"].splitlines()[-1] == (
        "Side-effects: creates_job, creates_model_version; cost: training_quota; latency: minutes."
    )
    assert echo["description"].splitlines()[-1] == "Side-effects: none; cost: free; latency: instant (under 0.2 s)."


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """The tools of a gateway whose manifests say all that a manifest can."""
    small = [{"name": "one", "description": "d", "input": {"text": "x"}, "output": "y"}]
    large = [{"name": "one", "description": "d", "input": {"text": "x" * 2000}, "output": "y"}]
    with GatewayProcess(tmp_path_factory.mktemp("told")) as gateway:
        gateway.register(
            manifest(
                "whole",
                category="nlp",
                tags=["a", "b"],
                links={"documentation": "https://docs.test/"},
                longDescription="Long " * 500,
                examples=small,
                costHint="low",
                latencyClass="batch",
                sideEffects=["network", "pii"],
                training_job={"id": "job-1", "base_model": "bert"},
            ),
            manifest("large-examples", examples=large),
            manifest("old", deprecated_at="2026-03-01T00:00:00Z", replaced_by="whole"),
            manifest("replaced", replaced_by="whole"),
            manifest("dated", deprecated_at="2026-03-01T00:00:00Z"),
            manifest(
                "silent",
                description=None,
                displayName=None,
                sideEffects=None,
                costHint=None,
                latencyClass=None,
                annotations=None,
                version=None,
                stability=None,
            ),
        )
        with Sessions(gateway, tmp_path_factory.mktemp("told-session")) as sessions:
            yield sessions().tools()


def test_what_mcp_has_no_field_for_is_in_meta(told: dict[str, dict[str, Any]]) -> None:
    """Kind, tags, hints, lineage and links are there under one key, in the manifest's own words; examples come last."""
    meta = told["whole"]["_meta"]
    assert meta.keys() == {"com.colabhive/manifest"}
    own = meta["com.colabhive/manifest"]
    assert list(own) == [
        "kind",
        "category",
        "tags",
        "stability",
        "version",
        "costHint",
        "latencyClass",
        "sideEffects",
        "lineage",
        "links",
        "examples",
    ]
    assert own["kind"] == "trained_model"
    assert own["tags"] == ["a", "b"]
    assert own["lineage"]["jobId"] == "job-1"
    assert own["links"] == {"documentation": "https://docs.test/"}
    assert own["examples"][0]["output"] == "y"


def test_large_examples_are_not_listed(told: dict[str, dict[str, Any]]) -> None:
    """Examples and long descriptions cost every client context on every list, so large ones are left out."""
    assert "examples" not in told["large-examples"]["_meta"]["com.colabhive/manifest"]
    assert len(json.dumps(told["large-examples"])) < 1500
    assert len(json.dumps(told["whole"])) < 2500


@pytest.mark.parametrize(
    ("slug", "line"),
    [
        ("old", "Deprecated since 2026-03-01; use whole instead."),
        ("replaced", "Deprecated; use whole instead."),
        ("dated", "Deprecated since 2026-03-01."),
    ],
)
def test_deprecation_is_said_with_the_replacement(slug: str, line: str, told: dict[str, dict[str, Any]]) -> None:
    """The description says since when and what to use, and _meta has it as the gateway gave it."""
    assert told[slug]["description"].splitlines()[1] == line
    assert "deprecation" in told[slug]["_meta"]["com.colabhive/manifest"]


def test_nothing_about_a_tool_is_invented(told: dict[str, dict[str, Any]]) -> None:
    """What is missing in the manifest is missing in the tool."""
    assert told["silent"].keys() == {"name", "inputSchema", "_meta"}
    assert told["silent"]["_meta"]["com.colabhive/manifest"].keys() == {"kind"}


# Names


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_every_name_is_one_that_all_clients_take(revision: str, sessions: Sessions, listed: Listed) -> None:
    """1 to 64 ASCII letters, digits, underscores and dashes, each name once."""
    response = sessions(revision).ask("tools/list")
    names = [tool["name"] for tool in response["result"]["tools"]]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)


def to_name(slug: str, tools: dict[str, dict[str, Any]]) -> str:
    """The name under which the tool of a slug is listed."""
    names = [name for name, tool in tools.items() if tool["description"].startswith(f"What {slug} does.")]
    assert len(names) == 1
    return names[0]


@pytest.mark.parametrize("slug", NAMED)
def test_a_slug_keeps_as_much_of_its_name_as_can_be(slug: str, listed: Listed) -> None:
    """A portable slug is its own name, another has underscores, and one that would clash or is too long a digest."""
    name, wanted = to_name(slug, listed()), NAMED[slug]
    if wanted is not None:
        assert name == wanted
    else:
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", slug)
        assert re.fullmatch(re.escape(stem[:57]) + r"_[0-9a-f]{6}", name)


@pytest.mark.parametrize("slug", [slug for slug in NAMED if slug != OWN_TOOL])
def test_both_names_can_be_called(slug: str, zoo: GatewayProcess, sessions: Sessions, listed: Listed) -> None:
    """The advertised name and the exact slug mean the same tool, and the gateway is asked for the slug."""
    zoo.clear()
    for name in (to_name(slug, listed()), slug):
        assert sessions().call(name, {"text": slug})["content"] == [{"type": "text", "text": slug}]
    assert [request["body"]["input"] for request in zoo.seen(":invoke")] == [{"text": slug}] * 2
    assert {request["path"] for request in zoo.seen(":invoke")} == {f"/api/builder/v1/actions/{slug}:invoke"}


def test_a_slug_like_the_bridges_own_tool_is_another_tool(
    zoo: GatewayProcess, sessions: Sessions, listed: Listed
) -> None:
    """Both are listed, and each is called by its own name."""
    zoo.clear()
    name = to_name(OWN_TOOL, listed())
    assert name.startswith(OWN_TOOL + "_")
    assert sessions().call(name, {"text": "x"})["content"][0]["text"] == "x"
    assert sessions().call(OWN_TOOL, {"text": "x"})["isError"] is True
    assert len(zoo.seen(":invoke")) == 1


def test_exact_names_are_the_slugs(listed: Listed) -> None:
    """With tool_names = exact every tool is listed under its slug, but for the one that the bridge itself has."""
    names = set(listed(tool_names="exact"))
    assert set(NAMED) <= names
    assert "training.merge" in names
    assert len(names) == len(listed())


@pytest.mark.parametrize("name", ["training.merge", "training_merge"])
def test_exact_names_take_no_other_name(name: str, sessions: Sessions) -> None:
    """A name that was never shown is unknown; the shown one is called."""
    response = sessions(tool_names="exact").ask("tools/call", {"name": name, "arguments": {}})
    assert ("result" in response) is (name == "training.merge")


def test_names_do_not_depend_on_the_order(zoo: GatewayProcess, gateway: GatewayProcess, connect: Connect) -> None:
    """The same tools in another order are the same list."""
    lists = []
    for slugs in (list(NAMED), list(NAMED)[::-1]):
        gateway.fault(method="GET", path="*/mcp/manifest", body={"tools": [manifest(slug) for slug in slugs]})
        lists.append(connect(gateway).ask("tools/list")["result"])
    assert lists[0] == lists[1]


# Many tools

MANY = [f"img{number:03}" for number in range(100)] + [f"img_beta{number:03}" for number in range(100)]
MANY += [f"text{number:03}" for number in range(100)]


def serve_many(gateway: GatewayProcess, slugs: list[str], times: int = 1) -> None:
    """Let the gateway's manifest be of these slugs, in no good order."""
    tools = [manifest(slug) for slug in sorted(slugs, key=lambda slug: slug[::-1])]
    gateway.fault(method="GET", path="*/mcp/manifest", body={"tools": tools}, times=times)


def test_filters_choose_exactly(gateway: GatewayProcess, connect: Connect) -> None:
    """Of 300 tools those are listed that one glob allows and none denies, in the order of their slugs."""
    serve_many(gateway, MANY)
    client = connect(gateway, allow_tools="img*", deny_tools="img_beta*,img05?")
    wanted = [slug for slug in MANY if slug[:3] == "img" and slug[:8] != "img_beta" and slug[:5] != "img05"]
    assert list(client.tools()) == [*wanted, OWN_TOOL]
    for slug in ("img_beta001", "img055", "text001"):
        error = client.ask("tools/call", {"name": slug, "arguments": {"text": "x"}})["error"]
        assert error["code"] == -32602
        assert "allow_tools" in error["message"] or "deny_tools" in error["message"]
    assert gateway.seen(":invoke") == []
    assert len(client.events("mcp.warning")) == 1  # still more than the smallest limit of a client


def test_many_tools_are_one_hint(gateway: GatewayProcess, connect: Connect) -> None:
    """Without a filter the log says once how many there are, however often they are listed."""
    serve_many(gateway, MANY)
    client = connect(gateway)
    assert list(client.tools()) == [*MANY, OWN_TOOL]
    client.tools()
    hints = [event["message"] for event in client.events("mcp.warning")]
    assert len(hints) == 1
    assert hints[0].startswith("301 tools")
    assert "allow_tools" in hints[0]


def test_few_tools_are_no_hint(gateway: GatewayProcess, connect: Connect) -> None:
    """No client has too many at 40, the bridge's own among them."""
    serve_many(gateway, MANY[:39])
    client = connect(gateway)
    assert len(client.tools()) == 40
    assert client.events("mcp.warning") == []


@pytest.mark.parametrize(
    ("settings", "slugs"),
    [
        ({"allow_kinds": "tool"}, ["a-tool"]),
        ({"allow_kinds": "llm,generative"}, ["an-llm", "a-painter"]),
        ({"deny_side_effects": "network"}, ["an-llm", "a-tool"]),
        ({"deny_side_effects": "network,pii"}, ["a-tool"]),
        ({"stability": "experimental"}, ["an-llm", "a-painter", "a-tool", "a-draft"]),
        ({"stability": "stable"}, ["a-tool"]),
        ({}, ["an-llm", "a-painter", "a-tool"]),
        ({"allow_kinds": "llm", "deny_tools": "an-*"}, []),
    ],
    ids=json.dumps,
)
def test_filters_go_by_what_the_manifest_says(
    settings: dict[str, str], slugs: list[str], gateway: GatewayProcess, connect: Connect
) -> None:
    """Kinds, side-effects and stability choose as the settings say; experimental tools are hidden unless asked for."""
    tools = [
        manifest("an-llm", kind="llm", stability="beta", sideEffects=["pii"]),
        manifest("a-painter", kind="generative", stability="beta", sideEffects=["network", "cost"]),
        manifest("a-tool", kind="tool"),
        manifest("a-draft", kind="tool", stability="experimental", sideEffects=["network"]),
    ]
    gateway.fault(method="GET", path="*/mcp/manifest", body={"tools": tools})
    client = connect(gateway, **settings)
    assert client.tools().keys() == {*slugs, OWN_TOOL}
    for tool in tools:
        if tool["name"] not in slugs:
            assert client.ask("tools/call", {"name": tool["name"]})["error"]["code"] == -32602
    assert gateway.seen(":invoke") == []


# Pages


def read_pages(client: StdioClient) -> list[list[str]]:
    """The names on each page, from the first cursor to the last."""
    pages: list[list[str]] = []
    params: dict[str, Any] | None = None
    while params is None or "cursor" in params:
        result = client.ask("tools/list", params)["result"]
        pages.append([tool["name"] for tool in result["tools"]])
        assert len(pages) < 100
        if "nextCursor" not in result:
            return pages
        params = {"cursor": result["nextCursor"]}
    raise AssertionError("unreachable")


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_one_page_by_default(revision: str, gateway: GatewayProcess, connect: Connect) -> None:
    """150 tools are one page, and the key nextCursor is absent: many clients read no second one."""
    serve_many(gateway, MANY[:150])
    result = connect(gateway, revision=revision).ask("tools/list")["result"]
    assert len(result["tools"]) == 151
    assert "nextCursor" not in result


@pytest.mark.parametrize(("size", "sizes"), [(50, [50, 50, 50, 1]), (151, [151]), (150, [150, 1]), (1, [1] * 4)])
def test_pages_advance_and_end(size: int, sizes: list[int], gateway: GatewayProcess, connect: Connect) -> None:
    """With a page size every tool stands on exactly one page, in order, and the last has no cursor."""
    slugs = MANY[: sum(sizes) - 1]
    serve_many(gateway, slugs)
    pages = read_pages(connect(gateway, page_size=size))
    assert [len(page) for page in pages] == sizes
    assert [name for page in pages for name in page] == [*slugs, OWN_TOOL]


@pytest.mark.parametrize("cursor", ["junk", "", "MQ==", "漢", "x" * 10_000, 7, None, {}, []])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_cursor_that_was_never_given_is_refused(cursor: Any, revision: str, sessions: Sessions) -> None:
    """Anything but a cursor of this very list is invalid params, whatever the size of a page; null is none."""
    for client in (sessions(revision), sessions(revision, page_size=50)):
        response = client.ask("tools/list", {"cursor": cursor})
        assert response.get("error", {}).get("code") == (None if cursor is None else -32602)


def test_a_cursor_of_another_list_is_refused(own_gateway: GatewayProcess, connect: Connect) -> None:
    """A cursor that a list gave before it changed is none of the changed one."""
    own_gateway.register(*map(manifest, MANY[:20]))
    client = connect(own_gateway, page_size=10, manifest_ttl=0.2, allow_tools="img*")
    cursor = client.ask("tools/list")["result"]["nextCursor"]
    assert "result" in client.ask("tools/list", {"cursor": cursor})
    own_gateway.register(manifest(MANY[20]))
    while client.receive().get("method") != "notifications/tools/list_changed":
        pass
    assert client.ask("tools/list", {"cursor": cursor})["error"]["code"] == -32602
    assert [len(page) for page in read_pages(client)] == [10, 10, 2]
