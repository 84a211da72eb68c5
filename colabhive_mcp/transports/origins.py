"""Which names this server answers to, and which web pages may ask: Host, Origin and CORS from one list each.

A page that makes a browser believe that its own name is this machine's cannot ask here (DNS rebinding). It knows
headers and settings, and nothing of MCP.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

ANY = "*"
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|\[::1\]")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
METHODS = "GET, POST, OPTIONS"
EXPOSED = "MCP-Protocol-Version, Retry-After, WWW-Authenticate"
WANTED = "authorization, content-type, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, x-api-key"
PREFLIGHT_SECONDS = "86400"
Headers = list[tuple[str, str]]


class Origins(NamedTuple):
    """*hosts* that it answers to beside the loopback's, *origins* of pages that may ask; ``*`` is any."""

    hosts: tuple[str, ...]
    origins: tuple[str, ...]

    def find_fault(self, headers: Mapping[str, str]) -> str | None:
        """Why a request may not be answered, with the setting that says so; None where it may."""
        host, origin = headers.get("host"), headers.get("origin")
        if host is not None and not self._is_host(host.strip().lower()):
            return f"Host {host[:80]!r} is not served here: name it in the setting allowed_hosts"
        if origin is not None and not self.allows(origin, host):
            return f"Origin {origin[:80]!r} may not ask here: name it in the setting cors_origins"
        return None

    def allows(self, origin: str, host: str | None) -> bool:
        """Whether a page of *origin* may ask; one that this machine itself serves under the same name may."""
        scheme, _, authority = origin.strip().lower().partition("://")
        if ANY in self.origins or f"{scheme}://{authority}" in self.origins:
            return True
        return host is not None and authority == host.strip().lower() and _is_loopback(authority)

    def build_cors(self, headers: Mapping[str, str]) -> Headers:
        """What each answer says to a browser; nothing is said of credentials, so none are ever sent."""
        origin = headers.get("origin")
        if origin is None or not self.allows(origin, headers.get("host")):
            return [("Vary", "Origin")]
        return [
            ("Vary", "Origin"),
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Expose-Headers", EXPOSED),
        ]

    def _is_host(self, host: str) -> bool:
        return ANY in self.hosts or host in self.hosts or _strip_port(host) in self.hosts or _is_loopback(host)


def build_preflight(headers: Mapping[str, str]) -> Headers:
    """The answer to a browser that asks what it may send: what it names, since a key is asked for in any case."""
    asked = [name.strip().lower() for name in headers.get("access-control-request-headers", "").split(",")]
    names = ", ".join(name for name in asked if _TOKEN.fullmatch(name))
    return [
        ("Access-Control-Allow-Methods", METHODS),
        ("Access-Control-Allow-Headers", names or WANTED),
        ("Access-Control-Max-Age", PREFLIGHT_SECONDS),
    ]


def is_loopback(address: str) -> bool:
    """Whether *address*, as the socket has it, is this machine's own."""
    return address == "::1" or _is_loopback(address.removeprefix("::ffff:"))


def _is_loopback(authority: str) -> bool:
    return _LOOPBACK.fullmatch(_strip_port(authority)) is not None


def _strip_port(authority: str) -> str:
    name, colon, port = authority.rpartition(":")
    return name if colon and port.isdecimal() else authority
