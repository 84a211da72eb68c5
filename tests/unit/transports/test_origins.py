"""Host, Origin and CORS: who may ask under which name, and what a browser is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.transports.origins import ANY, Origins, build_preflight, is_loopback

APP = "https://app.example"
HERE = Origins(("mcp.example", "mcp.example:8443"), (APP, "http://localhost:3000"))
LOCAL = ["localhost", "localhost:8765", "LOCALHOST", "127.0.0.1", "127.0.0.1:1", "127.8.9.10:80", "[::1]", "[::1]:8765"]
FOREIGN = [
    *("evil.test", "mcp.example.evil.test", "evilmcp.example", "mcp.example@evil.test", "localhost.evil.test", ""),
    *(
        "127.0.0.1.evil.test",
        "127.0.0.1:80:80",
        "1.127.0.0.1",
        "1127.0.0.1",
        "localhost::1",
        "127.0.0",
        "128.0.0.1",
        "[::2]",
        "::1",
        "[::1].x",
        "0.0.0.0",
    ),
    *("localhost, evil.test", "localhost:port", "localhost:", "localhost/", "localho\u017ft", "127.0.0.\u0661.x", "*"),
]


@pytest.mark.parametrize("host", [*LOCAL, "mcp.example", "mcp.example:443", "MCP.Example", " mcp.example ", None])
def test_known_names_are_answered(host: str | None) -> None:
    """The loopback's names and those of the setting, in any case, on any port; programs may leave the header out."""
    assert HERE.find_fault({} if host is None else {"host": host}) is None


@pytest.mark.parametrize("host", FOREIGN)
def test_other_names_are_refused(host: str) -> None:
    """Any other name is one that a browser was made to believe is ours; the refusal names the setting."""
    fault = HERE.find_fault({"host": host})
    assert fault is not None
    assert "allowed_hosts" in fault


def test_a_name_may_be_listed_with_its_port() -> None:
    """Then it is that port alone."""
    origins = Origins(("a.example:1",), ())
    assert origins.find_fault({"host": "a.example:1"}) is None
    assert origins.find_fault({"host": "a.example:2"}) is not None
    assert origins.find_fault({"host": "a.example"}) is not None


def test_any_name_may_be_allowed() -> None:
    """Where something in front checks names, ``*`` lets all of them pass, and all origins likewise."""
    anybody = Origins((ANY,), (ANY,))
    assert anybody.find_fault({"host": "x", "origin": "null"}) is None


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        (APP, "mcp.example", True),
        (APP.upper(), None, True),
        ("http://localhost:3000", "localhost:1", True),
        ("http://localhost:8765", "localhost:8765", True),
        ("http://127.0.0.1:8765", "127.0.0.1:8765", True),
        ("http://[::1]:8765", "[::1]:8765", True),
        ("http://localhost:8766", "localhost:8765", False),
        ("http://127.0.0.1:8765", "localhost:8765", False),
        ("http://localhost:8765", None, False),
        ("http://mcp.example", "mcp.example", False),
        ("http://app.example", "mcp.example", False),
        (APP + ":444", "mcp.example", False),
        (APP + "/", "mcp.example", False),
        ("https://app.example.evil.test", "mcp.example", False),
        ("null", "localhost", False),
        ("", "localhost", False),
        ("localhost", "localhost", False),
        ("file://", "localhost", False),
    ],
)
def test_pages_may_ask_that_are_listed_or_our_own(origin: str, host: str | None, allowed: bool) -> None:
    """One list says which pages may ask; beside them a page that this machine serves under the very same address."""
    headers = {"origin": origin} | ({} if host is None else {"host": host})
    assert HERE.allows(origin, host) is allowed
    fault = HERE.find_fault(headers)
    assert (fault is None) is allowed
    assert fault is None or "cors_origins" in fault
    told = dict(HERE.build_cors(headers))
    assert told.get("Access-Control-Allow-Origin") == (origin if allowed else None)
    assert told["Vary"] == "Origin"
    assert "Access-Control-Allow-Credentials" not in told


@given(st.text(), st.text())
def test_a_page_that_is_not_listed_never_may(origin: str, host: str) -> None:
    """No text but a listed origin, or the very address of the loopback that was asked, lets a page ask."""
    if HERE.allows(origin, host):
        own = origin.strip().lower().partition("://")[2] == host.strip().lower()
        assert own or origin.strip().lower() in HERE.origins


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("Authorization, mcp-param-region", "authorization, mcp-param-region"),
        ('x-a, "b", c d, x-\u00e9, , x-f', "x-a, x-f"),
        ("x\r\ny: z", None),
        (None, None),
        ("", None),
    ],
)
def test_a_preflight_allows_what_is_asked_for(asked: str | None, told: str | None) -> None:
    """Names of headers are allowed as they are asked for, nothing else is repeated; else MCP's own are told."""
    answer = dict(build_preflight({} if asked is None else {"access-control-request-headers": asked}))
    allowed = answer["Access-Control-Allow-Headers"]
    assert allowed == told if told else {"authorization", "mcp-protocol-version"} <= set(allowed.split(", "))
    assert "POST" in answer["Access-Control-Allow-Methods"]


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("", False),
    ],
)
def test_the_loopback_is_known_by_its_address(address: str, here: bool) -> None:
    """As a socket has it, of either family."""
    assert is_loopback(address) is here
