"""What the value of a file argument means: content, or the path of a file.

Pure: a path is handed to a callable that reads it. What is sent is never guessed. A value is one of

    data:text/csv;name=table.csv;base64,MTsy   content, as RFC 2397 writes it, with the file's name
    {"data": "MTsy", "name", "mime_type"}      content in base64
    file:table.csv, file:///home/me/table.csv  a path, as RFC 8089 writes it, or one relative to the allowed folder
    {"path": "table.csv", "name", "mime_type"} a path
    words, a table, anything with blanks       content as it stands
    another object, a number, true, false      content as JSON

Text that may be a path, or that is long and looks like base64, is refused with words that say how to send it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from colabhive_mcp.gateway.values import to_text

MAX_UPLOAD = 64 * 1024 * 1024  # bytes of all files of one call, as much as a message and an answer may have
OCTETS = "application/octet-stream"
FORMS = (
    "send the content as a data: URL (data:text/csv;name=table.csv;base64,...), "
    "or a path as a file: URL (file:table.csv), which needs the setting `upload_dir`"
)
_MEMBERS = frozenset({"path", "data", "name", "mime_type"})
_DATA_URL = re.compile(r"data:((?!\s)[^,\r\n]*),(.*)", re.DOTALL | re.IGNORECASE)
_FILE_URL = re.compile(r"file:(?://([^/\s]*)(?=/|$))?(.*)", re.IGNORECASE)
_FILE_SCHEME = re.compile(r"file:\S", re.IGNORECASE)
_DRIVE = re.compile(r"^/(?=[A-Za-z]:)")  # how a file: URL writes a path that begins with a letter
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
_AMBIGUOUS = re.compile(
    r"""
      (?:~|\.{1,2})?[/\\].*                            # /a b, ~/a, ../a, \\host\a
    | [A-Za-z]:[/\\].*                                 # C:\a b
    | (?:data|file):\S*                                # a URL that says neither
    | (?=\S*[/\\])[^\s"<>{|}]+                         # a/b, an address, most base64; no JSON and no XML
    | [^\n"<>{|}]{1,1000}\.(?=[0-9]?[A-Za-z])[A-Za-z0-9]{1,5}  # my table.csv
    | (?:[A-Za-z0-9+/]{4}){16,}+(?:[A-Za-z0-9+/]{2,3}={1,2})?  # base64 of 48 bytes and more
    """,
    re.VERBOSE | re.IGNORECASE,
)


class File(NamedTuple):
    """A file's content and what the gateway is told of it; *name* is empty where nothing names it."""

    name: str
    content: bytes
    media_type: str


LoadFile = Callable[[str], File]


def refuse_path(_: str) -> File:
    """The LoadFile of those who allow none. Raises ValueError."""
    raise ValueError(
        "names a file of this machine, and none may be sent: set `upload_dir` to the folder whose files may, "
        "or send the content as a data: URL"
    )


def parse_file(value: Any, *, is_base64: bool, load_file: LoadFile) -> File:
    """The file that *value* means; with *is_base64* its text is base64, because the tool's schema says so.

    Raises ValueError with a reason that follows the argument's name, and whatever *load_file* raises.
    """
    if isinstance(value, str):
        return _parse_text(value, is_base64=is_base64, load_file=load_file)
    if isinstance(value, Mapping) and any(isinstance(value.get(key), str) for key in ("path", "data")):
        return _parse_description(value, load_file)
    return File("", to_text(value).encode(), "application/json")


def _parse_text(text: str, *, is_base64: bool, load_file: LoadFile) -> File:
    bare = text.strip()
    if _FILE_SCHEME.match(bare) and "\n" not in bare:
        return load_file(_to_path(bare))
    if match := _DATA_URL.fullmatch(bare):
        return _parse_data_url(match[1], match[2])
    if is_base64:
        return File("", _decode_base64(bare), OCTETS)
    if _AMBIGUOUS.fullmatch(bare):
        raise ValueError(f"is text that may be a path, an address or base64: {FORMS}")
    return File("", to_text(text).encode(), "text/plain; charset=utf-8")


def _parse_data_url(head: str, data: str) -> File:
    media_type, *parameters = head.split(";")
    options = {key.strip().lower(): value for key, _, value in (each.partition("=") for each in parameters)}
    content = _decode_base64(unquote(data)) if "base64" in options else unquote_to_bytes(to_text(data))
    return File(to_text(unquote(options.get("name", ""))), content, _to_media_type(media_type, "text/plain"))


def _parse_description(value: Mapping[str, Any], load_file: LoadFile) -> File:
    members = {key: member for key, member in value.items() if member is not None}
    fine = members.keys() <= _MEMBERS and len(members.keys() & {"path", "data"}) == 1
    if not fine or not all(isinstance(member, str) for member in members.values()):
        raise ValueError(
            'describes no file: an object has either "path" or "data" (base64), and may have "name" and "mime_type"'
        )
    is_path = "path" in members
    file = load_file(_to_path(members["path"])) if is_path else File("", _decode_base64(members["data"]), OCTETS)
    name = to_text(members.get("name", "")) or file.name
    return File(name, file.content, _to_media_type(members.get("mime_type", ""), file.media_type))


def _to_path(text: str) -> str:
    """The path in a file: URL, or *text* itself. Only a file of this machine can be read (RFC 8089 section 2)."""
    match = _FILE_URL.fullmatch(text.strip())
    if match is None:
        return text
    if (match[1] or "localhost").lower() != "localhost":
        raise ValueError("names a file of another machine: write file:table.csv, or file:///folder/table.csv")
    return _DRIVE.sub("", unquote(match[2]))


def _decode_base64(text: str) -> bytes:
    """The bytes of base64 that may stand on several lines."""
    try:
        return base64.b64decode("".join(map(str.strip, text.splitlines())), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("holds base64 that cannot be decoded: encode the content again") from error


def _to_media_type(text: str, otherwise: str) -> str:
    """*text* where it is a type and nothing more, which could break out of its header."""
    return text if _MEDIA_TYPE.fullmatch(text) else otherwise
