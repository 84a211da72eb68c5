"""Whether a content block that the gateway made itself may go to a client as it is.

That is a matter of what each type needs, and of what the members beside it may be.

Knows no result and no revision: what is in order here is in order in all of them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from colabhive_mcp.protocol.messages import dump_json

MAX_URI = 4096  # a longer one is no place but the data itself
MAX_BESIDE = 8192  # bytes of what a block has beside its payload, which no limit cuts

_HOLDERS = ("resource", "annotations")
_PAYLOADS = ("text", "data", "blob")


def is_known(block: Any) -> bool:
    """Whether *block* says that it is a content block, of a type that MCP has."""
    return isinstance(block, dict) and isinstance(block.get("type"), str) and block["type"] in _NEEDS


def drop_nulls(block: Mapping[str, Any]) -> dict[str, Any]:
    """*block* without the members that say nothing: no revision lets an optional member be null."""
    members = {key: value for key, value in block.items() if value is not None}
    inner = {key: drop_nulls(members[key]) for key in _HOLDERS if isinstance(members.get(key), dict)}
    return {**members, **inner}


def is_in_order(block: Mapping[str, Any]) -> bool:
    """Whether every revision takes *block*: it has what its type needs, and all else is as MCP says and bounded."""
    parts = [block, *(block[key] for key in _HOLDERS if isinstance(block.get(key), dict))]
    beside = [{key: part[key] for key in part if key not in (*_HOLDERS, find_payload(part))} for part in parts]
    return (
        _NEEDS[block["type"]](block)
        and all(check(part[key]) for part in parts for key, check in _OPTIONAL.items() if key in part)
        and len(dump_json(beside)) <= MAX_BESIDE
    )


def find_payload(part: Mapping[str, Any]) -> str | None:
    """The member of a block, or of its resource, that may be large: its text or its base64. A link has none."""
    return next((key for key in _PAYLOADS if key in part), None)


def is_base64(value: Any) -> bool:
    """Whether *value* is base64 of at least one byte, without blanks."""
    try:
        return isinstance(value, str) and bool(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return False


def is_uri(value: Any) -> bool:
    """Whether *value* names a place, and doesn't hold the data itself."""
    if not isinstance(value, str) or len(value) > MAX_URI or not value.isprintable() or " " in value:
        return False
    try:
        return urlsplit(value).scheme not in {"", "data"}
    except ValueError:
        return False


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether *value* is a number of JSON, whose booleans are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_media(block: Mapping[str, Any]) -> bool:
    return is_base64(block.get("data")) and _is_text(block.get("mimeType"))


def _is_link(block: Mapping[str, Any]) -> bool:
    return is_uri(block.get("uri")) and _is_text(block.get("name")) and find_payload(block) is None


def _is_embedded(block: Mapping[str, Any]) -> bool:
    resource = block.get("resource")
    if not isinstance(resource, dict) or not is_uri(resource.get("uri")):
        return False
    return _is_text(resource.get("text")) or is_base64(resource.get("blob"))


def _are_roles(value: Any) -> bool:
    return isinstance(value, list) and all(role in ("user", "assistant") for role in value)


def _are_icons(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_icon, value))


def _is_icon(value: Any) -> bool:
    """Of an icon's members only those that every revision with icons has."""
    if not isinstance(value, dict) or not is_uri(value.get("src")):
        return False
    return value.keys() <= {"src", "mimeType"} and all(map(_is_text, value.values()))


_NEEDS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "text": lambda block: _is_text(block.get("text")),
    "image": _is_media,
    "audio": _is_media,
    "resource_link": _is_link,
    "resource": _is_embedded,
}
_OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "_meta": _is_object,
    "annotations": _is_object,
    "audience": _are_roles,
    "priority": lambda value: is_number(value) and 0 <= value <= 1,
    "lastModified": _is_text,
    "mimeType": _is_text,
    "title": _is_text,
    "description": _is_text,
    "size": lambda value: is_number(value) and isinstance(value, int),
    "icons": _are_icons,
}
