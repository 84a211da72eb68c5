"""Ready configurations of known clients: one table, one row a client, each with the command by its whole path.

Desktop clients don't have the shell's PATH, so the command is the very interpreter that runs this. The key is never
written: each client takes it from its own environment, or the server from a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAME = "colabhive"
KEY_VARIABLE = "COLABHIVE_API_KEY"
KEY_FILE = {"COLABHIVE_API_KEY_FILE": "~/.config/colabhive-mcp/key"}

Command = Sequence[str]


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """One client: its *title*, the *file* that the configuration goes into, and how it is written for a command."""

    title: str
    file: str
    render: Callable[[Command, Mapping[str, str]], str]


def _to_json(value: Any) -> str:
    return json.dumps(value, indent=2)


def _entry(command: Command, environment: Mapping[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"command": command[0], "args": list(command[1:])}
    return {**entry, "env": dict(environment)} if environment else entry


def _servers(reference: str | None) -> Callable[[Command, Mapping[str, str]], str]:
    """The form that most clients share; *reference* is how the client names a variable of its own environment."""
    key = KEY_FILE if reference is None else {KEY_VARIABLE: reference}

    def render(command: Command, environment: Mapping[str, str]) -> str:
        return _to_json({"mcpServers": {NAME: _entry(command, {**key, **environment})}})

    return render


def _vs_code(command: Command, environment: Mapping[str, str]) -> str:
    """VS Code asks for the key once and keeps it in its own secret store."""
    key = {KEY_VARIABLE: "${input:colabhive-key}"}
    prompt = {"type": "promptString", "id": "colabhive-key", "description": "ColabHive API key", "password": True}
    server = {"type": "stdio", **_entry(command, {**key, **environment})}
    return _to_json({"inputs": [prompt], "servers": {NAME: server}})


def _codex(command: Command, environment: Mapping[str, str]) -> str:
    """TOML's basic strings are JSON's but for what never stands in a path."""
    lines = [
        f"[mcp_servers.{NAME}]",
        f"command = {json.dumps(command[0])}",
        f"args = {json.dumps(list(command[1:]))}",
        f"env_vars = {json.dumps([KEY_VARIABLE])}",
    ]
    if environment:
        lines += ["", f"[mcp_servers.{NAME}.env]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in environment.items()]
    return "\n".join(lines)


def _n8n(command: Command, environment: Mapping[str, str]) -> str:
    """A credential of the community node "MCP Client", as ``n8n import:credentials`` reads it."""
    variables = {**KEY_FILE, **environment}
    data = {
        "command": command[0],
        "args": " ".join(command[1:]),
        "environments": "\n".join(f"{name}={value}" for name, value in variables.items()),
    }
    return _to_json([{"id": NAME, "name": "ColabHive", "type": "mcpClientApi", "data": data}])


CLIENTS: dict[str, ClientConfig] = {
    "claude-desktop": ClientConfig("Claude Desktop", "claude_desktop_config.json", _servers(None)),
    "claude-code": ClientConfig("Claude Code", ".mcp.json", _servers(f"${{{KEY_VARIABLE}}}")),
    "cursor": ClientConfig("Cursor", ".cursor/mcp.json", _servers(f"${{env:{KEY_VARIABLE}}}")),
    "vs-code": ClientConfig("VS Code", ".vscode/mcp.json", _vs_code),
    "codex": ClientConfig("Codex", "~/.codex/config.toml", _codex),
    "gemini-cli": ClientConfig("Gemini CLI", "~/.gemini/settings.json", _servers(f"${KEY_VARIABLE}")),
    "n8n": ClientConfig("n8n", "credentials.json, for n8n import:credentials", _n8n),
}


def render_config(client: str, command: Command, environment: Mapping[str, str] | None = None) -> str:
    """The configuration of *client* for a server started by *command*, with further variables in its *environment*."""
    return CLIENTS[client].render(command, environment or {})
