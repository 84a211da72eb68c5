"""What known clients need beyond what all accept, as one table.

A profile changes how tools are shown and how much a result carries, never what a call means: arguments are held to the
manifest's own schema under each. ``default`` is the form that all clients accept.
"""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from colabhive_mcp.manifest.names import MAX_LENGTH

KIB = 1024


class Profile(NamedTuple):
    """One client: the globs of what it calls itself in ``clientInfo.name`` (in lower case), and what it needs.

    *name_length* is what it leaves of a name's length beside the prefix that it adds; *max_tools* how many tools it
    takes (None: any number); *result_bytes* what it hands to its model of one result (None: no less than others);
    *dropped* the keywords that its model's API refuses or ignores; *structured_once* says that its model sees both text
    and structured content, and would pay for the same twice.
    """

    name: str
    title: str
    calls_itself: tuple[str, ...] = ()
    name_length: int = MAX_LENGTH
    max_tools: int | None = None
    result_bytes: int | None = None
    dropped: Collection[str] = frozenset()
    structured_once: bool = False


# A model of Google's takes a part of OpenAPI's schemas: https://ai.google.dev/api/caching#Schema lists it.
_NOT_OF_GEMINI = frozenset(
    {"additionalProperties", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "patternProperties"}
    | {"unevaluatedProperties", "propertyNames", "contains", "minContains", "maxContains", "prefixItems", "examples"}
    | {"dependentRequired", "dependentSchemas", "if", "not", "contentEncoding", "contentMediaType", "deprecated"}
)

PROFILES = {
    profile.name: profile
    for profile in (
        Profile("default", "any client"),
        # Adds "mcp__colabhive__" to each name, which may then have 64 characters. Keeps a result of more than 50,000
        # characters, or 25,000 tokens, from its model, which gets the path of a file instead.
        Profile("claude-code", "Claude Code", ("claude-code*",), name_length=48, result_bytes=48 * KIB),
        # Refuses a result of more than 1,048,576 characters, in which a text may stand twice; names as above.
        Profile("claude-desktop", "Claude Desktop", ("claude-ai*", "claude desktop*"), 48, result_bytes=480 * KIB),
        # Leaves out what is over 40 tools (80 in later versions, which don't say that they are); the names of the
        # server and of the tool together have fewer than 60 characters.
        Profile("cursor", "Cursor", ("cursor*",), name_length=50, max_tools=40),
        # Refuses every prompt with more than 128 tools; adds "mcp_colabhive_" to each name.
        Profile("vs-code", "VS Code", ("visual studio code*", "visual-studio-code*", "vscode*"), 50, max_tools=128),
        # Adds "mcp__colabhive__" to each name, of which some APIs allow 64 characters.
        Profile("codex", "Codex", ("codex*",), name_length=48),
        # Replaces the middle of a name of more than 63 characters, its prefix included; its API takes 512 functions.
        Profile("gemini-cli", "Gemini CLI", ("gemini-cli*",), name_length=48, max_tools=512, dropped=_NOT_OF_GEMINI),
        # Takes at most 100 tools of all servers together; adds "mcp0_", with the server's place, to each name.
        Profile("windsurf", "Windsurf", ("windsurf*",), name_length=58, max_tools=100),
        # Its model is shown the structured content, and the text beside it not at all or a second time.
        Profile("chatgpt", "ChatGPT", ("openai-mcp*", "chatgpt*"), structured_once=True),
        # It hands all tools to the model that was chosen, and OpenAI's API takes 128.
        Profile("n8n", "n8n", ("*n8n*",), max_tools=128),
    )
}
DEFAULT = PROFILES["default"]


@lru_cache(maxsize=256)
def find_profile(client: str | None) -> Profile:
    """The profile of the client that calls itself *client*; the default where it is not known."""
    name = (client or "").lower()
    known = (each for each in PROFILES.values() if any(fnmatchcase(name, glob) for glob in each.calls_itself))
    return next(known, DEFAULT)
