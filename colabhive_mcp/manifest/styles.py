"""How schemas are rewritten, as tables: each keyword that does not stay as it is, what becomes of it, and why.

All write older dialects as 2020-12. One changes nothing else: for the library that checks values. Two are for
clients: what goes in may be told in fewer words, as long as every valid call that a model would make is still
allowed; what comes out may only be loosened, since clients check results against it. What refuses a value by what it
accepts is told whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from colabhive_mcp.manifest.headers import MIRROR
from colabhive_mcp.manifest.patterns import build_pattern, is_portable
from colabhive_mcp.manifest.rewriting import Form, Json, Rewrite, Style

Schema = Mapping[str, Any]


def drop(form: Form, value: Any, schema: Schema) -> Json:
    """For what is no rule about values."""
    return {}


def _forgo(form: Form, value: Any, schema: Schema) -> Json:
    """For a rule that is not told."""
    form.loosened += 1
    return {}


def rewrite_one(keyword: str) -> Rewrite:
    return lambda form, value, schema: {keyword: form.rewrite(value)}


def rewrite_flag(keyword: str) -> Rewrite:
    """A keyword whose ``true`` and ``false`` every client knows, and some expect."""
    return lambda form, value, schema: {keyword: value if type(value) is bool else form.rewrite(value)}


def _rewrite_list(keyword: str) -> Rewrite:
    return lambda form, value, schema: {keyword: [form.rewrite(each) for each in value]}


def rewrite_map(keyword: str) -> Rewrite:
    return lambda form, value, schema: {keyword: {name: form.rewrite(each) for name, each in value.items()}}


def _rewrite_items(form: Form, items: Any, schema: Schema) -> Json:
    if type(items) is not list:
        return {"items": form.rewrite(items)}
    others = {"items": form.rewrite(schema["additionalItems"])} if "additionalItems" in schema else {}
    return {"prefixItems": [form.rewrite(each) for each in items], **others}


def _rewrite_limit(keyword: str, exclusive: str) -> Rewrite:
    """A limit with draft-04's flag beside it; without one it stays."""
    return lambda form, value, schema: {exclusive if schema.get(exclusive) is True else keyword: value}


def _rewrite_exclusive(keyword: str) -> Rewrite:
    return lambda form, value, schema: {} if type(value) is bool else {keyword: value}


def _rewrite_dependencies(form: Form, needs: Any, schema: Schema) -> Json:
    lists = {name: each for name, each in needs.items() if type(each) is list}
    schemas = {name: form.rewrite(each) for name, each in needs.items() if type(each) is not list}
    return {**({"dependentRequired": lists} if lists else {}), **({"dependentSchemas": schemas} if schemas else {})}


# Means the same to the letter, in the dialect of 2020-12.
EXACT: Mapping[str, Rewrite] = {
    # Names within a document of its own: elsewhere they would clash, or make a reader look for a dialect or an address.
    **dict.fromkeys(("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"), drop),
    # Written again as far as references need them.
    **dict.fromkeys(("$defs", "definitions"), drop),
    # Subschemas.
    **{keyword: rewrite_one(keyword) for keyword in ("not", "if", "then", "else", "contains", "propertyNames")},
    "contentSchema": rewrite_one("contentSchema"),
    **{keyword: _rewrite_list(keyword) for keyword in ("allOf", "anyOf", "oneOf", "prefixItems")},
    **{keyword: rewrite_map(keyword) for keyword in ("properties", "patternProperties", "dependentSchemas")},
    **{keyword: rewrite_flag(keyword) for keyword in ("additionalProperties", "unevaluatedProperties")},
    "unevaluatedItems": rewrite_flag("unevaluatedItems"),
    # Older dialects.
    "items": _rewrite_items,
    "additionalItems": drop,
    "dependencies": _rewrite_dependencies,
    "minimum": _rewrite_limit("minimum", "exclusiveMinimum"),
    "maximum": _rewrite_limit("maximum", "exclusiveMaximum"),
    "exclusiveMinimum": _rewrite_exclusive("exclusiveMinimum"),
    "exclusiveMaximum": _rewrite_exclusive("exclusiveMaximum"),
}

# Both directions


def _rewrite_not(form: Form, unwanted: Any, schema: Schema) -> Json:
    """Where less is told of what is unwanted, more would be refused."""
    before = form.loosened
    written = form.rewrite(unwanted)
    return {"not": written} if form.loosened == before else {}


def _rewrite_one_of(form: Form, schemas: Any, schema: Schema) -> Json:
    """Where less is told of the alternatives, two of them may fit."""
    before = form.loosened
    written = [form.rewrite(each) for each in schemas]
    if form.loosened == before:
        return {"oneOf": written}
    return {} if "anyOf" in schema else {"anyOf": written}


def _rewrite_if(form: Form, condition: Any, schema: Schema) -> Json:
    """Where less is told of the condition, it would hold too often."""
    before = form.loosened
    written = {"if": form.rewrite(condition)}
    if form.loosened > before:
        return {}
    return written | {keyword: form.rewrite(schema[keyword]) for keyword in ("then", "else") if keyword in schema}


def _rewrite_contains(form: Form, wanted: Any, schema: Schema) -> Json:
    """Where less is told of what is wanted, too many items may fit."""
    if schema.get("minContains") == 0:  # a client of draft-07 does not know it, and would want one
        return _forgo(form, wanted, schema)
    before = form.loosened
    written = {"contains": form.rewrite(wanted), **_take(schema, ("minContains", "maxContains"))}
    if form.loosened > before:
        written.pop("maxContains", None)
    return written


def _rewrite_rest(form: Form, items: Any, schema: Schema) -> Json:
    written = _rewrite_items(form, items, schema)
    if ("prefixItems" in schema or "prefixItems" in written) and "items" in written:
        form.loosened += 1
        del written["items"]
    return written


def _rewrite_pattern(form: Form, source: Any, schema: Schema) -> Json:
    return {"pattern": source} if is_portable(source) else _forgo(form, source, schema)


def _rewrite_pattern_properties(form: Form, patterns: Any, schema: Schema) -> Json:
    kept = {source: form.rewrite(each) for source, each in patterns.items() if is_portable(source)}
    if len(kept) < len(patterns):
        form.loosened += 1
    return {"patternProperties": kept} if kept else {}


def _rewrite_other_properties(keyword: str) -> Rewrite:
    """Without a pattern that is not told, the names that it lets in would be refused."""
    rewrite = rewrite_flag(keyword)

    def rewrite_known(form: Form, value: Any, schema: Schema) -> Mapping[str, Any]:
        known = all(map(is_portable, schema.get("patternProperties", ())))
        return (rewrite if known else _forgo)(form, value, schema)

    return rewrite_known


_TOLD: Mapping[str, Rewrite] = {
    **EXACT,
    # For authors, not for models.
    "$comment": drop,
    # Subschemas that refuse a value by what they accept: to tell less of them would be to refuse more.
    "not": _rewrite_not,
    "oneOf": _rewrite_one_of,
    "if": _rewrite_if,
    **dict.fromkeys(("then", "else"), drop),
    "contains": _rewrite_contains,
    **dict.fromkeys(("minContains", "maxContains"), drop),
    # Few clients know it, and it would see less of what is rewritten beside it.
    "unevaluatedItems": _forgo,
    # A client of draft-07 knows no prefixItems, and would hold the first items to the rule of the others.
    "items": _rewrite_rest,
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
    required = frozenset(schema.get("required", ()))
    return {
        "properties": {
            name: form.rewrite(each) if name in required else _rewrite_optional(form, each)
            for name, each in properties.items()
        }
    }


def _rewrite_optional(form: Form, schema: Any) -> Json:
    """A property that may be left out; where it may also be null, only the former is told, since it says the same."""
    types = schema.get("type") if type(schema) is dict else None
    if type(types) is not list or "null" not in types or len(types) == 1:
        return form.rewrite(schema)
    form.without_null.add(id(schema))
    written = form.rewrite(schema)
    form.without_null.discard(id(schema))
    return written


def _rewrite_type(form: Form, types: Any, schema: Schema) -> Json:
    if id(schema) not in form.without_null:
        return {"type": types}
    form.loosened += 1  # a null is refused, and elsewhere that may let another value in
    return {"type": [name for name in types if name != "null"]}


def _rewrite_enum(form: Form, values: Any, schema: Schema) -> Json:
    told = [value for value in values if value is not None] if id(schema) in form.without_null else values
    return {"enum": told or values}


def _rewrite_default(form: Form, value: Any, schema: Schema) -> Json:
    return {} if value is None and id(schema) in form.without_null else {"default": value}


def _rewrite_format(form: Form, name: Any, schema: Schema) -> Json:
    return {"format": name} if name in KNOWN_FORMATS else {}


def _finish_input(form: Form, written: Json) -> None:
    types = written.get("type")
    if type(types) is list:
        _split_types(form, written, types)
    _complete_array(form, written)


def _split_types(form: Form, written: Json, types: list[str]) -> None:
    """One type in each schema: of several, each becomes an alternative with the keywords that speak of it."""
    del written["type"]
    if len(types) == 1:
        written["type"] = types[0]
    elif "anyOf" in written:  # the alternatives that it has say enough
        form.loosened += 1
    else:
        branches = [{"type": name, **_take(written, _OF_TYPES.get(name, ()))} for name in types]
        for keyword in {keyword for name in types for keyword in _OF_TYPES.get(name, ())}:
            written.pop(keyword, None)
        for branch in branches:
            _complete_array(form, branch)
        written["anyOf"] = branches


def _take(written: Schema, keywords: tuple[str, ...]) -> Json:
    return {keyword: written[keyword] for keyword in keywords if keyword in written}


def _complete_array(form: Form, written: Json) -> None:
    if written.get("type") == "array" or "prefixItems" in written:
        written.setdefault("items", {})


INPUT = Style(
    {
        **_TOLD,
        # Some clients take only one type in each schema; null is the usual second one, and often says only "or absent".
        "properties": _rewrite_properties,
        "type": _rewrite_type,
        "enum": _rewrite_enum,
        "default": _rewrite_default,
        # Some models refuse a format that they do not know.
        "format": _rewrite_format,
        # It asks the client to repeat an argument in an HTTP header; see `build_input_style`.
        MIRROR: drop,
    },
    _finish_input,
)


_MIRRORED = {keyword: rewrite for keyword, rewrite in INPUT.table.items() if keyword != MIRROR}


@lru_cache(maxsize=32)
def build_input_style(dropped: frozenset[str], *, mirrored: bool = False) -> Style:
    """The style of inputs for a client that cannot be told the keywords *dropped* as well.

    Where they are *mirrored*, arguments say that they are to be repeated in HTTP headers.
    """
    return replace(INPUT, table=_MIRRORED if mirrored else INPUT.table, dropped=dropped)


# Output


def _rewrite_checked_pattern(form: Form, source: Any, schema: Schema) -> Json:
    enforced = is_portable(source) and build_pattern(source).cost.base <= 1
    return {"pattern": source} if enforced else _forgo(form, source, schema)


OUTPUT = Style(
    {
        **_TOLD,
        # Clients that check formats would refuse a result that fits the manifest, for which a format is an annotation.
        "format": drop,
        # OpenAPI's word, not JSON Schema's; some clients obey it, and refuse to compile it without a type.
        "nullable": drop,
        # What is not enforced here must not be promised there.
        "pattern": _rewrite_checked_pattern,
    },
    _complete_array,
)
