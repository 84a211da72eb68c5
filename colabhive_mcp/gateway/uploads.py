"""Files of this machine that a call may send: those below the one folder that the setting `upload_dir` names.

Owns reading them. It must not know what becomes of them. Whatever links a path has, and whatever changes while it is
opened, only a regular file of that folder is read; what is elsewhere is never told, not even whether it is there.
Hidden files are not read: in a folder of someone's work they hold keys and not data (``.env``, ``.git``, ``.ssh``).
"""

from __future__ import annotations

import errno
import mimetypes
import os
import stat
from collections.abc import Sequence
from functools import partial

from colabhive_mcp.gateway.parts import MAX_UPLOAD, OCTETS, File, LoadFile, refuse_path
from colabhive_mcp.gateway.values import to_text

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_FOLDER = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_DIRECTORY", 0)
_FILE = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_BINARY", 0)
_REASONS = {
    errno.ENOENT: "names no file of `upload_dir`: give a path relative to that folder, of a file that is there",
    errno.EACCES: "names a file that this program may not read: change its mode, or send another",
}
_OUTSIDE = (
    "names a file outside `upload_dir`: put it there and give a path relative to that folder, "
    "or send the content as a data: URL"
)
_HIDDEN = "names a hidden file or one in a hidden folder, and none is sent: give it a name that begins with no dot"
_IRREGULAR = "names something that is no regular file, or cannot be read: give the path of a file"
_TOO_LARGE = f"names a file of more than {MAX_UPLOAD // 1024**2} MiB, which is the most that a call sends"


def build_loader(upload_dir: str | None) -> LoadFile:
    """What reads a path below *upload_dir*; relative paths are relative to it. Without a folder every path is refused.

    The loader raises ValueError with a reason that follows the argument's name.
    """
    if upload_dir is None:
        return refuse_path
    return partial(_load, upload_dir)


def _load(folder: str, path: str) -> File:
    root = os.path.realpath(folder)
    try:
        content = _read(_open_below(root, _find_parts(root, path)))
    except OSError as error:
        raise ValueError(_REASONS.get(error.errno or 0, _IRREGULAR)) from error
    except UnicodeEncodeError as error:  # half of a surrogate pair, which no file name has
        raise ValueError(_IRREGULAR) from error
    name = to_text(os.path.basename(path))
    return File(name, content, _find_media_type(name))


def _find_parts(root: str, path: str) -> Sequence[str]:
    """The steps from *root* to the file that *path* means once its links are followed, none of which leaves *root*."""
    if "\x00" in path:
        raise ValueError(_IRREGULAR)
    real = os.path.realpath(os.path.join(root, path))
    within = os.path.normcase(real).startswith(os.path.join(os.path.normcase(root), ""))
    if not within and real != root:
        raise ValueError(_OUTSIDE)
    parts = os.path.relpath(real, root).split(os.sep)
    if any(part.startswith(".") and part != os.curdir for part in parts):
        raise ValueError(_HIDDEN)
    return parts


def _open_below(root: str, parts: Sequence[str]) -> int:
    """Open *parts*, each within the one before and no link followed: a link that was put there since leads nowhere."""
    if os.open not in os.supports_dir_fd:  # Windows
        return os.open(os.path.join(root, *parts), _FILE)
    here = os.open(root, _FOLDER)
    try:
        for part in parts[:-1]:
            outer, here = here, os.open(part, _FOLDER, dir_fd=here)
            os.close(outer)
        return os.open(parts[-1], _FILE, dir_fd=here)
    finally:
        os.close(here)


def _read(descriptor: int) -> bytes:
    """The content of the open file, which is closed."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(_IRREGULAR)
        with open(descriptor, "rb", closefd=False) as file:
            content = b"" if status.st_size > MAX_UPLOAD else file.read(MAX_UPLOAD + 1)
    finally:
        os.close(descriptor)
    if max(len(content), status.st_size) > MAX_UPLOAD:  # what grows while it is read counts as it is
        raise ValueError(_TOO_LARGE)
    return content


def _find_media_type(name: str) -> str:
    kind, encoding = mimetypes.guess_type(name)
    return kind if kind is not None and encoding is None else OCTETS
