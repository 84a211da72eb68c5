"""What a gateway client is built from, checked before anything is sent. It must not know who gives the values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from colabhive_mcp.errors import ConfigError

PREFIX = "/api/builder/v1"

_UNFIT_FOR_HEADER = re.compile(r"[\x00-\x20\x7f]|[^\x00-\xff]")


@dataclass(frozen=True, slots=True)
class Options:
    """How to reach one gateway with one key. Times are seconds.

    Raises ConfigError that names the setting and shows neither the key nor an address that may hold one.
    """

    api_url: str
    api_key: str = field(repr=False)
    version: str
    account_id: str | None = None
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    max_response_bytes: int = 64 * 1024 * 1024
    ca_bundle: str | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        _check_url(self.api_url)
        _check_header("api_key", self.api_key)
        if self.account_id is not None:
            _check_header("account_id", self.account_id)
        if min(self.connect_timeout, self.read_timeout, self.max_response_bytes) <= 0:
            raise ConfigError("The time-outs and the size limit of the gateway client must be more than 0.")
        if self.ca_bundle is not None and not self.verify:
            raise ConfigError("The setting `ca_bundle` says whom to trust, yet certificates are not to be checked.")


def _check_url(api_url: str) -> None:
    try:
        url = urlsplit(api_url)
        usable = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError("The setting `api_url` is no address of the form https://host[:port][/path].")
    if "@" in url.netloc or "?" in api_url or "#" in api_url or re.search(r"[\x00-\x20\x7f\\]", api_url):
        raise ConfigError("The setting `api_url` may hold no user name, password, query, fragment or space.")


def _check_header(setting: str, value: str) -> None:
    if not value or _UNFIT_FOR_HEADER.search(value):
        raise ConfigError(
            f"The setting `{setting}` is empty, or holds a space, a line break or a character that no header can carry."
        )
