"""The table of revisions, held against the published schemas, and negotiation."""

from typing import Any

import pytest

from colabhive_mcp.protocol.revisions import LATEST_LEGACY, OLDEST, REVISIONS, SUPPORTED, Revision, negotiate
from tests.harness import spec


def has(revision: str, definition: str, member: str | None = None) -> bool:
    """Whether the published schema of *revision* knows a definition, or a member of it."""
    schema = spec.load(revision)
    definitions: dict[str, Any] = schema.get("$defs") or schema["definitions"]
    found = definitions.get(definition)
    return found is not None and (member is None or member in str(found))


FEATURES: dict[
    str, list[tuple[str, str | None]]
] = {  # what a revision says it has -> where its schema shows it, in one of these places
    "modern": [("DiscoverResult", None)],
    "annotations": [("ToolAnnotations", None)],
    "audio": [("AudioContent", None)],
    "progress_message": [("ProgressNotification", "'message'"), ("ProgressNotificationParams", "'message'")],
    "titles": [("Tool", "'title'")],
    "tool_meta": [("Tool", "'_meta'")],
    "structured": [("CallToolResult", "'structuredContent'")],
    "resource_links": [("ResourceLink", None)],
    "completions": [("ServerCapabilities", "'completions'")],
    "websites": [("Implementation", "'websiteUrl'")],
}


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize("feature", FEATURES)
def test_features_are_those_of_the_schemas(revision: str, feature: str) -> None:
    """A revision has a feature exactly where its published schema has."""
    published = any(has(revision, definition, member) for definition, member in FEATURES[feature])
    assert getattr(REVISIONS[revision], feature) is published


@pytest.mark.parametrize(
    ("feature", "revisions"),
    [
        ("errors_without_id", ["2025-11-25", "2026-07-28"]),
        ("any_structured", ["2026-07-28"]),
        ("batches", ["2025-03-26"]),
    ],
)
def test_features_that_no_schema_shows(feature: str, revisions: list[str]) -> None:
    """What the text of the specification alone says of its revisions is in the table too."""
    assert [name for name in spec.REVISIONS if getattr(REVISIONS[name], feature)] == revisions


def test_supported_revisions() -> None:
    """All five revisions are supported, the newest first."""
    assert list(SUPPORTED) == list(reversed(spec.REVISIONS))
    assert (LATEST_LEGACY.name, OLDEST.name) == ("2025-11-25", "2024-11-05")


@pytest.mark.parametrize(
    ("requested", "agreed"),
    [
        *((name, name) for name in spec.LEGACY),
        (spec.MODERN, "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
        ("2025-11-25 ", "2025-11-25"),
    ],
)
def test_negotiation(requested: str, agreed: str) -> None:
    """A version with a handshake that we have is agreed to; any other gets the newest such, and is never echoed."""
    assert negotiate(requested).name == agreed


def test_shapes_tell_revisions_apart_where_lists_differ() -> None:
    """Two revisions share a list exactly where tool definitions look the same in both."""
    shapes = {name: REVISIONS[name].shape for name in SUPPORTED}
    assert shapes["2025-06-18"] == shapes["2025-11-25"]
    assert len(set(shapes.values())) == 4


def test_revisions_cannot_be_changed() -> None:
    """The table is frozen."""
    with pytest.raises(AttributeError):
        setattr(REVISIONS["2025-11-25"], "audio", False)  # noqa: B010 - the point is that it fails
    assert Revision("x").shape == (False,) * 5
