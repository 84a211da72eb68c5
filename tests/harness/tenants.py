"""Keys and accounts of a local gateway, and tools that one account alone sees."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from hashlib import sha256

from colabhive_mcp.localgateway.store import Store
from tests.harness.gateway import GatewayProcess


def add_keys(gateway: GatewayProcess, *keys: str, account: str = "local") -> None:
    """Let *keys* speak for *account*; one that was revoked is valid again."""
    with Store(gateway.database) as store:
        for key in keys:
            store.create_key(key, account=account)


def revoke_key(gateway: GatewayProcess, key: str) -> None:
    """Have *key* refused from the next request on."""
    with Store(gateway.database) as store:
        assert store.revoke_key(key)


def to_digits(key: str) -> str:
    """What stands for *key* in logs."""
    return sha256(key.encode()).hexdigest()[:16]


def make_key(word: str) -> str:
    """A key that nobody else has: *word* and letters that no hex digits are, so that a log holds none by chance."""
    return f"hive_{word.upper()}" + "".join(secrets.choice("ghijklmnopqrstuv") for _ in range(20))


def find_part(key: str, text: str) -> str | None:
    """Six characters in a row of the secret part of *key* that *text* holds; None where it holds none."""
    secret = key.removeprefix("hive_")
    parts = (secret[start : start + 6] for start in range(len(secret) - 5))
    return next((part for part in parts if part in text), None)


def find_told(keys: Iterable[str], log: str) -> list[str]:
    """The *keys* of letters and digits of which a *log*, however long, holds a part."""
    words = "\n".join(set(re.findall(r"[A-Za-z0-9]{6,}", log)))
    return [key for key in keys if find_part(key, words)]
