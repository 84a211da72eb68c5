"""The table of known clients: who is recognised by which name, and that every row can be chosen."""

from __future__ import annotations

from typing import Any

import pytest

from colabhive_mcp import config
from colabhive_mcp.calls.directory import DEFINITIONS
from colabhive_mcp.manifest.client_form import to_input_form
from colabhive_mcp.manifest.names import MAX_LENGTH
from colabhive_mcp.manifest.profiles import DEFAULT, PROFILES, Profile, find_profile

NAMES = {
    "claude-code": "claude-code",
    "Claude-Code": "claude-code",
    "claude-ai": "claude-desktop",
    "claude-ai (via mcp-remote 0.1.37)": "claude-desktop",
    "cursor-vscode": "cursor",
    "Cursor": "cursor",
    "Visual Studio Code": "vs-code",
    "Visual Studio Code - Insiders": "vs-code",
    "Visual-Studio-Code": "vs-code",
    "codex-mcp-client": "codex",
    "gemini-cli-mcp-client": "gemini-cli",
    "gemini-cli-mcp-client-colabhive": "gemini-cli",
    "windsurf-client": "windsurf",
    "Windsurf": "windsurf",
    "openai-mcp": "chatgpt",
    "@n8n/n8n-nodes-langchain.mcpClientTool": "n8n",
    "tests": "default",
    "my-claude-code": "default",
    "": "default",
    None: "default",
    "*": "default",
    "[": "default",
}


@pytest.mark.parametrize("name", NAMES)
def test_clients_are_known_by_their_names(name: str | None) -> None:
    """A client is known by what it calls itself, in either case; one that is not known gets what all take."""
    assert find_profile(name) is PROFILES[NAMES[name]]


def test_every_profile_can_be_set() -> None:
    """The setting names the profiles of the table in its order, and ``auto``."""
    assert ("auto", *PROFILES) == config.CLIENT_PROFILES


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_only_narrows(name: str) -> None:
    """No profile asks for longer names or larger results than all clients take, nor for no tools."""
    profile = PROFILES[name]
    assert 16 <= profile.name_length <= MAX_LENGTH
    assert profile.max_tools is None or profile.max_tools > len(DEFINITIONS)
    assert profile.result_bytes is None or 1024 <= profile.result_bytes <= config.MIB


def test_the_default_is_what_all_take() -> None:
    """Who is not known is spared nothing and denied nothing."""
    assert Profile("default", "any client") == DEFAULT


DROPPED: dict[str, Any] = {
    **dict.fromkeys(("additionalProperties", "uniqueItems", "deprecated"), False),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minContains", "maxContains"), 2),
    **{name: {"type": "string"} for name in ("unevaluatedProperties", "propertyNames", "contains", "if", "not")},
    **{name: {"a": {"type": "string"}} for name in ("patternProperties", "dependentSchemas")},
    "prefixItems": [{"type": "string"}],
    "examples": [1],
    "dependentRequired": {"a": ["b"]},
    "contentEncoding": "base64",
    "contentMediaType": "text/plain",
}


@pytest.mark.parametrize("keyword", sorted(PROFILES["gemini-cli"].dropped))
def test_dropped_keywords_are_not_shown(keyword: str) -> None:
    """What a profile drops is shown neither at the root nor within, and what stands beside it is."""
    part = {keyword: DROPPED[keyword], "description": "d"}
    schema = {**part, "type": "object", "properties": {"p": {"type": "array", "items": part}}}
    shown = to_input_form(schema, dropped=frozenset(PROFILES["gemini-cli"].dropped)).schema
    assert shown == {
        "description": "d",
        "type": "object",
        "properties": {"p": {"type": "array", "items": {"description": "d"}}},
    }
