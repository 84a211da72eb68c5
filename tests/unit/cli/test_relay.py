"""``serve`` before it serves: by which settings it does not start, and what it warns of."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from colabhive_mcp.cli.relay import FIXED, IDLE_SECONDS, NOT_FOR_MANY
from colabhive_mcp.config import SETTINGS
from tests.unit.cli.conftest import Run

KEY = "hive_" + "neverShownAnywhere"


@pytest.fixture
def taken() -> Iterator[str]:
    """A port that somebody has: a relay that gets as far as listening ends there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield str(server.getsockname()[1])


@pytest.mark.parametrize("name", NOT_FOR_MANY)
def test_what_is_for_one_key_is_not_served(name: str, run: Run, tmp_path: Path) -> None:
    """A setting that would mix keys up is refused with its source and the reason, before a port is opened."""
    value = '"an-etag"' if name == "manifest_pin" else str(tmp_path)
    flag = f"--{name.replace('_', '-')}"
    for ran in (run("serve", "--port", "0", **{name.upper(): value}), run("serve", "--port", "0", flag, value)):
        assert (ran.code, ran.out) == (78, "")
        assert f"{name} (" in ran.err
        assert "not for serve" in ran.err
        assert NOT_FOR_MANY[name] in ran.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0", "0.0", "0:0:0:0:0:0:0:0"])
def test_every_address_needs_names(host: str, run: Run) -> None:
    """Who listens on every address has to name those by which clients come; with a name it goes on to the port."""
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        arguments = ("serve", "--host", host, "--port", str(server.getsockname()[1]))
        refused = run(*arguments)
        named = run(*arguments, "--allowed-hosts", "relay.example")
    assert (refused.code, refused.out, named.code) == (78, "", 78)
    assert "allowed_hosts" in refused.err
    assert "cannot listen" in named.err


def test_a_port_that_is_taken(run: Run, taken: str) -> None:
    """The port is named, in one sentence."""
    ran = run("serve", "--port", taken)
    assert (ran.code, ran.out) == (78, "")
    assert f"port {taken}" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("how", ["variable", "file"])
def test_a_key_of_its_own_draws_a_warning(how: str, run: Run, taken: str, tmp_path: Path) -> None:
    """A key that is set for serve is used for nothing, which is said without it; no key is no matter."""
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o600)
    given = {"API_KEY": KEY} if how == "variable" else {"API_KEY_FILE": str(tmp_path / "key")}
    ran = run("serve", "--port", taken, **given)
    assert "api_key" in ran.err
    assert "not used by serve" in ran.err
    assert KEY not in ran.err
    assert "api_key" not in run("serve", "--port", taken).err


@pytest.mark.parametrize("proxy", ["*", "nonsense", "10.0.0.0/8", "localhost", "127.0.0.1, 127.0.0.2"])
def test_a_proxy_is_one_address(proxy: str, run: Run) -> None:
    """What is believed of who asks must come from one address; anything else is refused with its source."""
    ran = run("serve", "--port", "0", TRUSTED_PROXY=proxy)
    assert (ran.code, ran.out) == (78, "")
    assert "trusted_proxy (environment COLABHIVE_TRUSTED_PROXY)" in ran.err
    assert "no IP address" in ran.err


@pytest.mark.parametrize("url", ["ftp://gateway.example", "http://", f"https://user:{KEY}@gateway.example"])
def test_a_gateway_that_is_none(url: str, run: Run) -> None:
    """An address that cannot be asked is refused at the start, and not repeated where it holds a key."""
    ran = run("serve", "--port", "0", API_URL=url)
    assert (ran.code, ran.out) == (78, "")
    assert "API_URL" in ran.err
    assert KEY not in ran.err


def test_an_idle_connection_is_kept_longer_than_by_a_proxy() -> None:
    """nginx keeps connections to a relay for a minute: one that the relay closed first would cost a request (R72)."""
    assert IDLE_SECONDS > 60


def test_fixed_settings_are_settings() -> None:
    """What a reload cannot change is named as settings are."""
    assert set(FIXED) | set(NOT_FOR_MANY) <= {row.name for row in SETTINGS}
