"""What a client can be built from, and what is refused before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from colabhive_mcp.errors import ConfigError
from tests.unit.gateway.conftest import KEY, build_options

SECRET = "hive_" + "s3cretS3cret"


@pytest.mark.parametrize(
    "api_url",
    [
        "http://127.0.0.1",
        "http://127.0.0.1:8080/",
        "https://api.colabhive.com",
        "https://[::1]:8443/base/path",
        "HTTPS://Gateway.Example/Base",
    ],
)
def test_addresses_that_work(api_url: str) -> None:
    """An address of http or https, with a port and a path if need be."""
    assert build_options(api_url).api_url == api_url


@pytest.mark.parametrize(
    "api_url",
    [
        "",
        "gateway.example",
        "//gateway.example",
        "ftp://gateway.example",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://gateway.example:0",
        "https://gateway.example:99999",
        "https://gateway.example:port",
        "https://[::1",
        f"https://{SECRET}@gateway.example",
        f"https://user:{SECRET}@gateway.example",
        f"https://gateway.example/?key={SECRET}",
        f"https://gateway.example/#{SECRET}",
        f"https://gateway.example/{SECRET} x",
        f"https://gateway.example/{SECRET}\r\nX: y",
        f"https://gateway.example\\{SECRET}",
    ],
)
def test_addresses_that_do_not(api_url: str) -> None:
    """Anything else names the setting, and is not shown, since it may hold a secret."""
    with pytest.raises(ConfigError, match="`api_url`") as caught:
        build_options(api_url)
    assert SECRET[:6] not in str(caught.value)
    assert "gateway.example" not in str(caught.value)


@pytest.mark.parametrize("setting", ["api_key", "account_id"])
@pytest.mark.parametrize(
    "text", ["", " ", "{}\n", "{}\r\nX-Evil: 1", " {}", "{} {}", "{}\x00", "{}\x7f", "{}한", "{}\ud83d"]
)
def test_keys_that_no_header_can_carry(setting: str, text: str) -> None:
    """A key or account that would break its header is refused by name, and not shown."""
    with pytest.raises(ConfigError, match=f"`{setting}`") as caught:
        build_options("http://127.0.0.1", **{setting: text.replace("{}", SECRET)})
    assert SECRET[5:11] not in repr(caught.value)


def test_the_key_is_in_no_repr() -> None:
    """Options can be printed."""
    assert KEY not in repr(build_options("http://127.0.0.1"))


@pytest.mark.parametrize(
    "options",
    [{"connect_timeout": 0}, {"read_timeout": -1.0}, {"max_response_bytes": 0}, {"ca_bundle": "/x", "verify": False}],
)
def test_limits_and_contradictions(options: dict[str, Any]) -> None:
    """Limits are more than nothing, and options do not contradict each other."""
    with pytest.raises(ConfigError):
        build_options("http://127.0.0.1", **options)
