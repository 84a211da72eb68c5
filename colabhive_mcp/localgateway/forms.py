"""Forms of several parts, as ``multipart/form-data`` carries them (RFC 7578), and the tables that come in them.

Owns reading them. Must not know a route, nor what becomes of a table.
"""

import csv
import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from typing import Any, NamedTuple

from colabhive_mcp.localgateway.wire import RefusedError, Request, to_fault


class Upload(NamedTuple):
    """One file of a form."""

    filename: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Form:
    """The parts of a form by their names: those with a file's name are *files*, all others are *fields*."""

    fields: Mapping[str, str]
    files: Mapping[str, Upload]


def parse_form(request: Request) -> Form:
    """The request's form; a body of another type is a 422 in the list form."""
    fields, files = {}, {}
    for head, content in _split(request):
        name = str(head.get_param("name", "", header="content-disposition"))
        filename = head.get_filename()
        if filename is None:
            fields[name] = content.decode("utf-8", "replace")
        else:
            files[name] = Upload(filename, head.get_content_type(), content)
    return Form(fields, files)


def _split(request: Request) -> Iterator[tuple[Message, bytes]]:
    """The header and the content of each part."""
    kind = Message()
    kind["Content-Type"] = request.headers.get("content-type", "")
    boundary = kind.get_boundary()
    if kind.get_content_type() != "multipart/form-data" or not boundary:
        raise RefusedError(422, [to_fault("Input should be a form of several parts", "body", kind="form_invalid")])
    mark = b"\r\n--" + boundary.encode()
    for part in (b"\r\n" + request.body).split(mark)[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        yield HeaderParser().parsestr(head.decode("utf-8", "replace")), content


def describe_table(upload: Upload) -> dict[str, Any]:
    """What a CSV table holds: its size and SHA-256, its columns, and how many rows. Raises ValueError."""
    try:
        head, *rows = [row for row in csv.reader(io.StringIO(upload.content.decode("utf-8-sig"), newline="")) if row]
    except (csv.Error, UnicodeDecodeError):
        raise ValueError("Input should be a table as CSV in UTF-8") from None
    except ValueError:
        raise ValueError("Input should be a table with a line of column names") from None
    return {
        "name": upload.filename,
        "bytes": len(upload.content),
        "sha256": hashlib.sha256(upload.content).hexdigest(),
        "columns": head,
        "rows": len(rows),
    }
