"""A single value as text: the form in which everything but a JSON body carries it.

Pure. It must not know where a value goes.
"""

from __future__ import annotations

import json
from typing import Any

from colabhive_mcp.errors import ToolError


def to_text(value: Any) -> str:
    """A value as paths, queries, forms and headers carry it: text as it is, everything else as JSON.

    Halves of surrogate pairs, which no encoding has, become question marks. Raises ToolError.
    """
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ToolError("The arguments hold a value that JSON cannot carry.") from error
    return text.encode(errors="replace").decode()
