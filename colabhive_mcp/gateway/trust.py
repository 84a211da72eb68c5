"""Whom a connection believes: a bundle of certificates as a TLS context. It must not know what is then said."""

from __future__ import annotations

import ssl
from functools import lru_cache
from pathlib import Path

from colabhive_mcp.errors import ConfigError


def check_bundle(path: str) -> None:
    """Raise ConfigError, with *path*, where there is neither a file nor a folder of certificates."""
    if not Path(path).exists():
        raise ConfigError(
            f"The CA bundle {path} does not exist: check `ca_bundle`, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE."
        )


def build_context(path: str) -> ssl.SSLContext:
    """A context that believes the certificates in *path*, a file or a folder, and no others. Raises ConfigError.

    It is shared by all clients while the bundle stays as it is, since reading one costs more than a handshake.
    """
    check_bundle(path)
    found = Path(path).stat()
    return _load_context(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=8)
def _load_context(path: str, mtime_ns: int, size: int) -> ssl.SSLContext:
    """The context for the bundle as it was then."""
    try:
        if Path(path).is_dir():
            return ssl.create_default_context(capath=path)
        return ssl.create_default_context(cafile=path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"The CA bundle {path} holds no certificates that can be read.") from error
