"""What clients refuse, as two tables: each keyword that is rewritten in a client's form, how, and why.

What goes in may be told in fewer words, as long as every valid call that a model would make is still allowed. What
comes out may only be loosened, since clients check results against it. Both write older dialects as 2020-12, which
clients assume.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colabhive_mcp.manifest.patterns import build_pattern, is_portable
from colabhive_mcp.manifest.rewriting import Form, Json, Rewrite, Style

Schema = Mapping[str, Any]


def _drop(form: Form, value: Any, schema: Schema) -> Json:
    return {}


def _rewrite_one(keyword: str) -> Rewrite:
    return lambda form, value, schema: {keyword: form.rewrite(value)}


def _rewrite_flag(keyword: str) -> Rewrite:
    """A keyword whose ``true`` and ``false`` every client knows, and some expect."""
    return lambda form, value, schema: {keyword: value if type(value) is bool else form.rewrite(value)}


def _rewrite_list(keyword: str) -> Rewrite:
    return lambda form, value, schema: {keyword: [form.rewrite(each) for each in value]}


def _rewrite_map(keyword: str) -> Rewrite:
    return lambda form, value, schema: {keyword: {name: form.rewrite(each) for name, each in value.items()}}


def _rewrite_items(form: Form, items: Any, schema: Schema) -> Json:
    if type(items) is list:
        return {"prefixItems": [form.rewrite(each) for each in items]}
    return {} if "prefixItems" in schema else {"items": form.rewrite(items)}


def _rewrite_limit(keyword: str, exclusive: str) -> Rewrite:
    """A limit with draft-04's flag beside it; without one it stays."""
    return lambda form, value, schema: {exclusive if schema.get(exclusive) is True else keyword: value}


def _rewrite_exclusive(keyword: str) -> Rewrite:
    return lambda form, value, schema: {} if type(value) is bool else {keyword: value}


def _rewrite_dependencies(form: Form, needs: Any, schema: Schema) -> Json:
    lists = {name: each for name, each in needs.items() if type(each) is list}
    schemas = {name: form.rewrite(each) for name, each in needs.items() if type(each) is not list}
    return {**({"dependentRequired": lists} if lists else {}), **({"dependentSchemas": schemas} if schemas else {})}


def _rewrite_pattern(form: Form, source: Any, schema: Schema) -> Json:
    return {"pattern": source} if is_portable(source) else {}


def _rewrite_pattern_properties(form: Form, patterns: Any, schema: Schema) -> Json:
    kept = {source: form.rewrite(each) for source, each in patterns.items() if is_portable(source)}
    return {"patternProperties": kept} if kept else {}


def _rewrite_other_properties(keyword: str) -> Rewrite:
    """Without a pattern that is not told, the names that it lets in would be refused."""
    rewrite = _rewrite_flag(keyword)

    def rewrite_known(form: Form, value: Any, schema: Schema) -> Mapping[str, Any]:
        return rewrite(form, value, schema) if all(map(is_portable, schema.get("patternProperties", ()))) else {}

    return rewrite_known


_BOTH: Mapping[str, Rewrite] = {
    # Names within a document of its own: here they would clash, or make a client look for a dialect or an address.
    **dict.fromkeys(("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"), _drop),
    # Written again as far as references need them.
    **dict.fromkeys(("$defs", "definitions"), _drop),
    # For authors, not for models.
    "$comment": _drop,
    # Subschemas.
    **{keyword: _rewrite_one(keyword) for keyword in ("not", "if", "then", "else", "contains", "propertyNames")},
    "contentSchema": _rewrite_one("contentSchema"),
    **{keyword: _rewrite_list(keyword) for keyword in ("allOf", "anyOf", "oneOf", "prefixItems")},
    **{keyword: _rewrite_map(keyword) for keyword in ("properties", "dependentSchemas")},
    "unevaluatedItems": _rewrite_flag("unevaluatedItems"),
    # A client of draft-07 knows no prefixItems, and would hold the first items to the rule of the others.
    "items": _rewrite_items,
    # Older dialects.
    "additionalItems": _drop,
    "dependencies": _rewrite_dependencies,
    "minimum": _rewrite_limit("minimum", "exclusiveMinimum"),
    "maximum": _rewrite_limit("maximum", "exclusiveMaximum"),
    "exclusiveMinimum": _rewrite_exclusive("exclusiveMinimum"),
    "exclusiveMaximum": _rewrite_exclusive("exclusiveMaximum"),
    # One pattern that a client cannot compile costs it the whole list.
    "pattern": _rewrite_pattern,
    "patternProperties": _rewrite_pattern_properties,
    "additionalProperties": _rewrite_other_properties("additionalProperties"),
    "unevaluatedProperties": _rewrite_other_properties("unevaluatedProperties"),
}

# Input

KNOWN_FORMATS = frozenset(
    {"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uuid"}
)

_OF_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_OF_TYPES: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"),
    "number": _OF_NUMBERS,
    "integer": _OF_NUMBERS,
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
    "object": (
        *("properties", "patternProperties", "additionalProperties", "propertyNames"),
        *("required", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas"),
    ),
}


def _rewrite_properties(form: Form, properties: Any, schema: Schema) -> Json:
    required = schema.get("required", ())
    return {
        "properties": {
            name: form.rewrite(each if name in required else without_null(each)) for name, each in properties.items()
        }
    }


def without_null(schema: Any) -> Any:
    """The schema of an optional property without ``null`` in its list of types: to leave the property out says the
    same.
    """
    types = schema.get("type") if type(schema) is dict else None
    if type(types) is not list or "null" not in types or len(types) == 1:
        return schema
    told = {**schema, "type": [each for each in types if each != "null"]}
    if any(each is not None for each in told.get("enum", ())):
        told["enum"] = [each for each in told["enum"] if each is not None]
    if told.get("default", ...) is None:
        del told["default"]
    return told


def _rewrite_format(form: Form, name: Any, schema: Schema) -> Json:
    return {"format": name} if name in KNOWN_FORMATS else {}


def _finish_input(written: Json) -> None:
    types = written.get("type")
    if type(types) is list:
        _split_types(written, types)
    _complete_array(written)


def _split_types(written: Json, types: list[str]) -> None:
    """One type in each schema: of several, each becomes an alternative with the keywords that speak of it."""
    del written["type"]
    if len(types) == 1:
        written["type"] = types[0]
    elif "anyOf" not in written:  # else the alternatives that it has say enough
        branches = [{"type": name, **_take(written, _OF_TYPES.get(name, ()))} for name in types]
        for keyword in {keyword for name in types for keyword in _OF_TYPES.get(name, ())}:
            written.pop(keyword, None)
        for branch in branches:
            _complete_array(branch)
        written["anyOf"] = branches


def _take(written: Json, keywords: tuple[str, ...]) -> Json:
    return {keyword: written[keyword] for keyword in keywords if keyword in written}


def _complete_array(written: Json) -> None:
    if written.get("type") == "array" or "prefixItems" in written:
        written.setdefault("items", {})


INPUT = Style(
    {
        **_BOTH,
        # To be told null where it may as well be absent confuses models, and some clients refuse a list of types.
        "properties": _rewrite_properties,
        # Some models refuse a format that they do not know.
        "format": _rewrite_format,
        # It asks the client to repeat an argument as an HTTP header, which nobody here reads.
        "x-mcp-header": _drop,
    },
    _finish_input,
)

# Output


def _rewrite_checked_pattern(form: Form, source: Any, schema: Schema) -> Json:
    return {"pattern": source} if is_portable(source) and build_pattern(source).cost.base <= 1 else {}


def _rewrite_contains(form: Form, wanted: Any, schema: Schema) -> Json:
    return {} if schema.get("minContains") == 0 else {"contains": form.rewrite(wanted)}


OUTPUT = Style(
    {
        **_BOTH,
        # Clients that check formats would refuse a result that fits the manifest, for which a format is an annotation.
        "format": _drop,
        # OpenAPI's word, not JSON Schema's; some clients obey it, and refuse to compile it without a type.
        "nullable": _drop,
        # What is not enforced here must not be promised there.
        "pattern": _rewrite_checked_pattern,
        # A client of draft-07 knows no minContains, and would want one.
        "contains": _rewrite_contains,
    },
    _complete_array,
)
