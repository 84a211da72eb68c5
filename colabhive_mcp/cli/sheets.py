"""`manifest show`: one tool as a person would want to read it, or all of them as a table."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from colabhive_mcp.cli.assembly import expecting_manifest, open_bridge, open_log
from colabhive_mcp.cli.options import SettingsHelp, with_settings
from colabhive_mcp.cli.terminal import clean, get_width, print_table
from colabhive_mcp.errors import ClientError

if TYPE_CHECKING:
    from colabhive_mcp.config import Settings
    from colabhive_mcp.manifest.inventory import Inventory
    from colabhive_mcp.manifest.model import Tool

READING_WIDTH = 100  # nobody reads longer lines well
UNSTATED = "-"
MAX_DEPTH = 4  # of properties within properties that are told
_LONGEST = 300  # characters of an example's output

_COSTS = {
    "free": "free",
    "low": "low: under $0.001 a call",
    "medium": "medium: under $0.01 a call",
    "high": "high: over $0.01 a call",
    "training_quota": "counts against the training quota",
}
_LATENCIES = {
    "instant": "instant: under 0.2 s",
    "fast": "fast: under 2 s",
    "slow": "slow: under 30 s",
    "batch": "batch: over 30 s",
    "minutes": "minutes",
    "long": "long",
}
_EFFECTS = {
    "network": "calls out beyond ColabHive",
    "storage": "writes to the object store",
    "pii": "may process personal data",
    "cost": "costs more than $0.01 a call",
    "mutating": "changes state elsewhere",
    "external": "depends on other services",
    "creates_job": "starts a job",
    "creates_model_version": "makes a model version",
}
_HINTS = {
    "readOnly": ("read-only", "changes state"),
    "idempotent": ("idempotent", "not idempotent"),
    "destructive": ("destructive", "not destructive"),
    "openWorld": ("reaches outside", "stays inside ColabHive"),
}


@click.command("show", cls=SettingsHelp, short_help="One tool to read, or all of them.")
@click.argument("slug", required=False)
@click.option("--json", "as_json", is_flag=True, help="The manifest itself, as JSON.")
@with_settings("gateway", "manifest", "filters", "listing", "logs")
def show_command(settings: Settings, *, slug: str | None, as_json: bool) -> None:
    """Show one tool as its manifest describes it; without SLUG, every tool that the manifest has.

    Filters hide nothing here: each tool is shown, and whether it is offered.
    """
    with open_log(settings, quiet=True) as record, open_bridge(settings, record) as bridge, expecting_manifest():
        inventory = bridge.offer.view(None)
    if slug is not None:
        tool = _find(inventory, slug)
        if as_json:
            click.echo(json.dumps(tool.load(), indent=2, ensure_ascii=False))
        else:
            _print_sheet(tool, inventory)
    elif as_json:
        tools = [tool.load() for tool in inventory.manifest.tools.in_order]
        click.echo(json.dumps({"etag": inventory.manifest.etag, "tools": tools}, indent=2, ensure_ascii=False))
    else:
        _print_index(inventory)


def _find(inventory: Inventory, name: str) -> Tool:
    slug = inventory.find_slug(name)
    if slug is None:
        close = [each for each in inventory.manifest.tools if name.lower() in each.lower()][:3]
        hint = f"; did you mean {' or '.join(close)}?" if close else "; colabhive-mcp manifest show lists them all."
        raise ClientError(f"The manifest has no tool {name!r}{hint}")
    return inventory.manifest.tools[slug]


def _print_index(inventory: Inventory) -> None:
    manifest = inventory.manifest
    click.echo(f"{len(manifest.tools)} tools, ETag {clean(manifest.etag or 'none')}")
    click.echo()
    rows = [
        (tool.slug, tool.load().get("version") or UNSTATED, tool.kind or UNSTATED, _say_state(tool, inventory))
        for tool in manifest.tools.in_order
    ]
    print_table(("slug", "version", "kind", "state"), rows)
    for entry in manifest.left_out:
        click.echo(f"{clean(entry.name)} cannot be used: {clean(entry.reason)}")


def _say_state(tool: Tool, inventory: Inventory) -> str:
    refusal = inventory.refused.get(tool.slug)
    old = "deprecated" + (f", use {tool.replaced_by}" if tool.replaced_by else "") if tool.deprecated else None
    return "; ".join(filter(None, ["offered" if refusal is None else f"not offered: {refusal}", old]))


def _print_sheet(tool: Tool, inventory: Inventory) -> None:
    manifest = tool.load()
    click.echo(click.style(clean(_to_words(manifest.get("displayName")) or tool.slug), bold=True))
    for text in (tool.description, manifest.get("longDescription")):
        if isinstance(text, str) and text.strip():
            click.echo()
            _print_paragraphs(text)
    click.echo()
    for label, words in _list_facts(tool, manifest, inventory):
        click.echo(f"{clean(label):<13} {clean(words)}")
    _print_schema("Input", manifest.get("inputSchema"))
    _print_schema("Output", manifest.get("outputSchema"))
    _print_examples(tool, manifest.get("examples"))


def _print_paragraphs(text: str) -> None:
    width = min(get_width(), READING_WIDTH)
    for paragraph in text.split("\n"):
        click.echo(textwrap.fill(clean(paragraph), width))


def _list_facts(tool: Tool, manifest: Mapping[str, Any], inventory: Inventory) -> Iterator[tuple[str, str]]:
    """Each line of what is known of a tool beside its words and schemas."""
    effects, tags = tool.side_effects, manifest.get("tags")
    yield "Slug", tool.slug
    yield "Listed", _say_listing(tool, inventory)
    yield "Version", f"{manifest.get('version') or UNSTATED}, {tool.stability or 'no stability stated'}"
    yield "Kind", " / ".join(filter(None, [tool.kind or UNSTATED, _to_words(manifest.get("category"))]))
    if isinstance(tags, list) and tags:
        yield "Tags", ", ".join(map(str, tags))
    yield "Price", _COSTS.get(tool.cost or "", tool.cost or "not stated")
    yield "Speed", _LATENCIES.get(tool.latency or "", tool.latency or "not stated")
    yield "Side-effects", "not stated" if effects is None else _say_effects(effects)
    yield "Hints", _say_hints(manifest.get("annotations"))
    yield from _list_lineage(manifest.get("lineage"))
    if tool.deprecated:
        yield "Deprecated", _say_deprecation(manifest["deprecation"])
    links = manifest.get("links")
    for name, url in links.items() if isinstance(links, dict) else ():
        yield str(name).capitalize(), str(url)


def _to_words(value: Any) -> str | None:
    """A text as it is; what else a manifest has in its place, as JSON, so that nobody takes it for a text."""
    return value if isinstance(value, str | None) else json.dumps(value)


def _say_listing(tool: Tool, inventory: Inventory) -> str:
    refusal = inventory.refused.get(tool.slug)
    return f"not at all: {refusal}" if refusal is not None else f"as {inventory.find_name(tool.slug)}"


def _say_effects(effects: tuple[str, ...]) -> str:
    return "; ".join(f"{effect} ({_EFFECTS[effect]})" if effect in _EFFECTS else effect for effect in effects) or "none"


def _say_hints(annotations: Any) -> str:
    stated = annotations if isinstance(annotations, dict) else {}
    said = [words[0 if stated[name] else 1] for name, words in _HINTS.items() if isinstance(stated.get(name), bool)]
    return ", ".join(said) or "not stated"


def _list_lineage(lineage: Any) -> Iterator[tuple[str, str]]:
    if isinstance(lineage, dict) and lineage:
        told = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in lineage.items()}
        yield "Trained", "; ".join(f"{key} {value}" for key, value in told.items() if value is not None)


def _say_deprecation(deprecation: Mapping[str, Any]) -> str:
    when, instead = deprecation.get("deprecatedAt"), deprecation.get("replacedBy")
    return (
        "; ".join(filter(None, [f"since {when}" if when else "", f"use {instead} instead" if instead else ""])) or "yes"
    )


def _print_schema(title: str, schema: Any) -> None:
    """The properties of a schema as a table; where it has none, its words."""
    from colabhive_mcp.manifest.client_form import (  # noqa: PLC0415 - only here
        ClientForm,
        to_input_form,
        to_output_form,
    )
    from colabhive_mcp.manifest.schemas import UnusableSchema  # noqa: PLC0415 - likewise

    click.echo()
    click.echo(click.style(title, bold=True))
    try:
        form = to_input_form(schema) if title == "Input" else ClientForm(to_output_form(schema) or {})
    except UnusableSchema as error:
        click.echo(f"The schema cannot be used: {clean(error)}")
        return
    rows = list(_list_properties(form.schema, "", MAX_DEPTH))
    if rows:
        print_table(("name", "type", "needed", "what it is"), rows)
    else:
        click.echo("nothing" if title == "Input" else "not described" if schema is None else _say_type(form.schema))
    for note in form.notes:
        click.echo(clean(note))


def _list_properties(schema: Any, path: str, depth: int) -> Iterator[tuple[str, str, str, str]]:
    """A row for each property, those of objects within behind it."""
    if not isinstance(schema, dict) or depth == 0:
        return
    required = schema.get("required", ())
    for name, stated in schema.get("properties", {}).items():
        place, part = f"{path}{name}", stated if isinstance(stated, dict) else {}
        yield place, _say_type(part), "yes" if name in required else "", _say_property(part)
        items = part.get("items")
        yield from _list_properties(part, f"{place}.", depth - 1)
        yield from _list_properties(items, f"{place}[].", depth - 1)


def _say_type(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    branches = schema.get("anyOf") or schema.get("oneOf")
    if "type" not in schema and isinstance(branches, list):
        return " or ".join(dict.fromkeys(_say_type(each) for each in branches if isinstance(each, dict)))
    items = schema.get("items")
    if schema.get("type") == "array" and isinstance(items, dict) and items:
        return f"array of {_say_type(items)}"
    types = schema.get("type", "anything")
    return " or ".join(map(str, types)) if isinstance(types, list) else str(types)


def _say_property(schema: Mapping[str, Any]) -> str:
    """What a property is: its description, its bounds, its default."""
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = {(True, True): f"{low} to {high}", (True, False): f"at least {low}", (False, True): f"at most {high}"}
    default = f"default {json.dumps(schema['default'], ensure_ascii=False)}" if "default" in schema else None
    facts = [fact for fact in (bounds.get((low is not None, high is not None)), default) if fact]
    words = str(schema.get("description") or schema.get("title") or "")
    return "; ".join([words.removesuffix(".") if facts else words, *facts] if words else facts)


def _print_examples(tool: Tool, examples: Any) -> None:
    """Each example as the command that tries it, and what comes out."""
    for example in examples if isinstance(examples, list) else ():
        if not isinstance(example, dict):
            continue
        title = ": ".join(str(example[key]) for key in ("name", "description") if example.get(key))
        click.echo()
        click.echo(click.style(f"Example{f': {clean(title)}' if title else ''}", bold=True))
        arguments = shlex.quote(_to_printable_json(example.get("input", {})))
        click.echo(f"colabhive-mcp call {shlex.quote(tool.slug)} --json {arguments}")
        if "output" in example:
            output = clean(json.dumps(example["output"], ensure_ascii=False))
            click.echo(output if len(output) <= _LONGEST else f"{output[:_LONGEST]}…")


def _to_printable_json(value: Any) -> str:
    """*value* as JSON on one line; what a terminal might obey is escaped, and no space is lost."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
