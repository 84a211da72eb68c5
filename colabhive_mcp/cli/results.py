"""The result of a call for people and scripts: text, JSON, and files for what is neither.

Knows MCP's content blocks. No name that a gateway gives becomes the name of a file.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import itertools
import json
import os
from collections.abc import Mapping
from typing import Any

from colabhive_mcp.cli.terminal import to_size
from colabhive_mcp.errors import ConfigError

Block = Mapping[str, Any]

SUFFIXES = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/flac": "flac",
    "audio/mp4": "m4a",
    "video/mp4": "mp4",
    "application/pdf": "pdf",
}
_LONGEST_STEM = 60


class Files:
    """Writes data into *folder* under names made of *slug* and a number; an existing file stays as it is."""

    def __init__(self, folder: str, slug: str) -> None:
        stem = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in slug)
        self._folder = folder
        self._stem = stem.strip("-")[:_LONGEST_STEM] or "result"
        self._numbers = itertools.count(1)

    def save(self, data: bytes, mime_type: str) -> str:
        """Write *data*; answers the path. Raises ConfigError where the folder cannot be written."""
        suffix = SUFFIXES.get(mime_type.partition(";")[0].strip().lower(), "bin")
        try:
            os.makedirs(self._folder, exist_ok=True)
            path, descriptor = self._open_new(suffix)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
        except OSError as error:
            raise ConfigError(f"--save: {self._folder} cannot be written: {error.strerror}.") from error
        return path

    def _open_new(self, suffix: str) -> tuple[str, int]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        while True:
            path = os.path.join(self._folder, f"{self._stem}-{next(self._numbers)}.{suffix}")
            with contextlib.suppress(FileExistsError):
                return path, os.open(path, flags, 0o666)


def to_text(body: Mapping[str, Any], files: Files | None) -> str:
    """The content blocks of a result as lines for people; data goes to *files*, or is only named where that is None."""
    return "\n".join(_say_block(block, files) for block in body.get("content", []))


def to_json(body: Mapping[str, Any], files: Files | None) -> str:
    """The whole result as JSON; with *files* the path of each file stands in place of its data."""
    content = [_move_data(block, files) if files else block for block in body.get("content", [])]
    return json.dumps({**body, "content": content}, indent=2, ensure_ascii=False)


def _say_block(block: Block, files: Files | None) -> str:
    """One block as text."""
    if block.get("type") == "text":
        return str(block.get("text", ""))
    if block.get("type") == "resource_link":
        return f"{block.get('uri')}{_say_type(block)}"
    resource = block.get("resource")
    if isinstance(resource, dict) and "text" in resource:
        return str(resource["text"])
    data = _find_data(block)
    if data is None:
        return json.dumps(block, ensure_ascii=False)
    what = f"{_get_type(block)}, {to_size(len(data))}"
    return (
        f"[{what}; --save DIR writes it to a file]"
        if files is None
        else f"{files.save(data, _get_type(block))} ({what})"
    )


def _move_data(block: Block, files: Files) -> Block:
    data = _find_data(block)
    if data is None:
        return block
    rest = {key: value for key, value in block.items() if key not in ("data", "resource")}
    return {**rest, "mimeType": _get_type(block), "file": files.save(data, _get_type(block))}


def _find_data(block: Block) -> bytes | None:
    """The bytes of an image, a sound or an embedded resource; None where it holds none."""
    resource = block.get("resource")
    encoded = resource.get("blob") if isinstance(resource, dict) else block.get("data")
    if not isinstance(encoded, str):
        return None
    try:
        return base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        return None


def _get_type(block: Block) -> str:
    resource = block.get("resource")
    mime_type = (resource if isinstance(resource, dict) else block).get("mimeType")
    return mime_type if isinstance(mime_type, str) else "application/octet-stream"


def _say_type(block: Block) -> str:
    mime_type = block.get("mimeType")
    return f" ({mime_type})" if isinstance(mime_type, str) else ""
