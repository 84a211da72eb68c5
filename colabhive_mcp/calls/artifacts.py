"""Results that are too large for a message, kept as files in ``artifact_dir``."""

from __future__ import annotations

import os
import uuid
from base64 import b64decode
from pathlib import Path

from colabhive_mcp.errors import ToolError


def save_artifact(directory: str, data: str, mime_type: str) -> str:
    """Write base64 *data* into a file of its own; answers the file's URI. Raises ToolError where that cannot be."""
    suffix = "".join(letter for letter in mime_type.rpartition("/")[2] if letter.isalnum())[:8]
    path = Path(directory).expanduser().absolute() / f"{uuid.uuid4()}.{suffix or 'bin'}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b64decode(data))
    except OSError as error:
        raise ToolError(f"The result could not be kept in artifact_dir ({error.strerror}): {directory}") from error
    return path.as_uri()
