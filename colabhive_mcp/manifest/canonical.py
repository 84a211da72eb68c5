"""The canonical schema of manifests, as it is published, and the definitions in it that tools share.

The file is read when somebody first needs it. Knows nothing of findings.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

SCHEMA_FILE = os.path.join(os.path.dirname(__file__), "mcp-manifest.schema.json")
SHARED = frozenset({"ChatMessage", "Choice", "Usage"})
"""The names under ``$defs`` that a tool's schema may refer to without defining them."""


@cache
def load_canonical() -> Mapping[str, Any]:
    """The whole schema of one manifest; its ``$defs`` have the other parts of the contract. Not to be changed."""
    with open(SCHEMA_FILE, encoding="utf-8") as stream:
        schema: dict[str, Any] = json.load(stream)
    return schema


def find_shared(name: str) -> Any:
    """The shared definition *name*."""
    return load_canonical()["$defs"][name]
