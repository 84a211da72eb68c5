"""Pictures, sounds and links: data in base64 or a URL as a content block, with the type that the data tells."""

from __future__ import annotations

import base64
import re
from typing import Any

from colabhive_mcp.calls.checks import is_base64, is_uri

Block = dict[str, Any]
MEDIA = {"image_b64": "image", "audio_b64": "audio"}

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_BRANDS = {b"avif": "image/avif", b"avis": "image/avif", b"heic": "image/heic", b"mif1": "image/heif"}
_DATA_URI = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,", re.IGNORECASE)


def link_block(uri: str, mime_type: str | None, name: str) -> Block:
    """A link to what is kept elsewhere."""
    block = {"type": "resource_link", "uri": uri, "name": name}
    return {**block, "mimeType": mime_type} if mime_type else block


def to_media(data: Any, stated: str | None, kind: str) -> Block | None:
    """Base64 *data* as a block, of the type that was *stated* or else its ``data:`` prefix or its first bytes tell.

    None where it is no base64. *kind* is ``image`` or ``audio``.
    """
    if not isinstance(data, str):
        return None
    prefix = _DATA_URI.match(data[:200])
    plain = "".join(data[prefix.end() if prefix else 0 :].split())
    if not is_base64(plain):
        return None
    told = (stated, prefix and prefix["type"], _sniff(plain))
    fitting = (mime_type for mime_type in told if mime_type and mime_type.lower().startswith(kind + "/"))
    return {"type": kind, "data": plain, "mimeType": next(fitting, stated or f"{kind}/*")}


def _sniff(data: str) -> str | None:
    """The media type that the first bytes tell; the container of MP4 holds sounds here, since pictures name theirs."""
    head = base64.b64decode(data[:32])
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "audio/mp4")
    return next((mime_type for magic, mime_type in _MAGIC if head.startswith(magic)), None)


def to_link(url: Any, mime_type: str | None, kind: str) -> Block | None:
    """A link to *url*, or the picture or sound itself where the URL holds it."""
    if isinstance(url, str) and url[:5].lower() == "data:":
        return to_media(url, mime_type, kind) if kind in MEDIA.values() else None
    return link_block(url, mime_type, kind) if is_uri(url) else None
