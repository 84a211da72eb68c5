"""Manifests as MCP resources: the index, and each tool's own, whole. So nobody pays for them in every list.

Pure: it renders what one client may see, and completes the slugs of it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from colabhive_mcp.manifest.inventory import Inventory
from colabhive_mcp.manifest.model import Tool
from colabhive_mcp.protocol.messages import dump_json
from colabhive_mcp.protocol.revisions import Revision

INDEX_URI = "colabhive://manifest"
TEMPLATE = INDEX_URI + "/{slug}"
ARGUMENT = "slug"

RESOURCES = (
    {
        "uri": INDEX_URI,
        "name": "manifest",
        "title": "Index of the tools",
        "description": "Every tool with its name, kind and description, and the address of its whole manifest.",
        "mimeType": "application/json",
    },
)
TEMPLATES = (
    {
        "uriTemplate": TEMPLATE,
        "name": "tool-manifest",
        "title": "Manifest of one tool",
        "description": (
            "All that is known of one tool: the long description, the schemas as its author wrote them, examples, "
            "side-effects, price, speed, lineage, deprecation. Its slug is its name on the list, or in the index."
        ),
        "mimeType": "application/json",
    },
)


def to_uri(slug: str) -> str:
    """The address of a tool's manifest."""
    return f"{INDEX_URI}/{quote(slug, safe='')}"


def parse_uri(uri: str) -> str | None:
    """The slug, or name, in the address of a tool's manifest; None where it is not such an address."""
    base, _, slug = uri.rpartition("/")
    return unquote(slug) if base == INDEX_URI and slug else None


def render_index(inventory: Inventory, revision: Revision) -> str:
    """The index of what is offered, as JSON: deprecated tools last, as on the list."""
    tools = [_to_entry(tool, inventory.find_name(tool.slug)) for tool in _in_order(inventory, revision)]
    return dump_json({"etag": inventory.manifest.etag, "tools": tools}).decode()


def render_tool(tool: Tool) -> str:
    """The whole manifest of *tool*, as JSON."""
    return tool.source.decode()


def complete_slug(inventory: Inventory, value: str, revision: Revision) -> list[str]:
    """The slugs that begin with *value*, then those that hold it somewhere; upper and lower case are the same."""
    wanted = value.lower()
    slugs = [tool.slug for tool in _in_order(inventory, revision)]
    within = [slug for slug in slugs if wanted in slug.lower()]
    return sorted(within, key=lambda slug: not slug.lower().startswith(wanted))


def _in_order(inventory: Inventory, revision: Revision) -> list[Tool]:
    """As they are listed, without those that no client can be shown."""
    unusable = {entry.name for entry in inventory.encode(revision).left_out}
    shown = (tool for tool in inventory.offered.in_order if tool.slug not in unusable)
    return sorted(shown, key=lambda tool: tool.deprecated)


def _to_entry(tool: Tool, name: str) -> dict[str, Any]:
    told = {"kind": tool.kind, "description": tool.description, "replacedBy": tool.replaced_by}
    entry = {"name": name, "slug": tool.slug, "uri": to_uri(tool.slug)}
    return {**entry, **{key: value for key, value in told.items() if value is not None}}
