"""Which files of this machine are read: those of one folder, and nothing that only seems to be there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from colabhive_mcp.gateway import uploads
from colabhive_mcp.gateway.parts import MAX_UPLOAD, OCTETS, File, LoadFile
from colabhive_mcp.gateway.uploads import build_loader

SECRET = "not for the gateway"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files, and files beside it that are not to be read."""
    folder = tmp_path / "up"
    (folder / "sub" / "deeper").mkdir(parents=True)
    (folder / "a.csv").write_bytes(b"1;2")
    (folder / "sub" / "deeper" / "b ü.png").write_bytes(b"\x89PNG")
    (folder / "noext").write_bytes(b"")
    (folder / "c.csv.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "up-too").mkdir()
    (tmp_path / "up-too" / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def load(folder: Path) -> LoadFile:
    """What reads the files of that folder."""
    return build_loader(str(folder))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.csv", File("a.csv", b"1;2", "text/csv")),
        ("./sub/../a.csv", File("a.csv", b"1;2", "text/csv")),
        ("sub/deeper/b ü.png", File("b ü.png", b"\x89PNG", "image/png")),
        ("sub/deeper/../../../up/a.csv", File("a.csv", b"1;2", "text/csv")),
        ("noext", File("noext", b"", OCTETS)),
        ("c.csv.gz", File("c.csv.gz", b"\x1f\x8b", OCTETS)),
    ],
)
def test_files_of_the_folder(path: str, expected: File, load: LoadFile, folder: Path) -> None:
    """A path that ends within the folder is read, relative to it or absolute, with its type by its name."""
    assert load(path) == expected
    assert load(str(folder / path)) == expected


def test_links_within_the_folder(folder: Path, tmp_path: Path) -> None:
    """A link is followed where it stays within, under the name that was asked for; so is the folder's own."""
    (folder / "latest.csv").symlink_to("a.csv")
    (folder / "there").symlink_to(folder / "sub")
    (tmp_path / "alias").symlink_to(folder)
    for name in (str(folder), str(tmp_path / "alias")):
        load = build_loader(name)
        assert load("latest.csv") == File("latest.csv", b"1;2", "text/csv")
        assert load("there/deeper/b ü.png").content == b"\x89PNG"
        assert load(str(tmp_path / "alias" / "a.csv")).content == b"1;2"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "../up-too/secret.txt",
        "sub/../../secret.txt",
        "{outer}/secret.txt",
        "{outer}/up-too/secret.txt",
        "/etc/passwd",
        "/",
        "..",
        "leaf",
        "branch/secret.txt",
        "chain",
        "../nothing-there",
        "branch/nothing-there",
    ],
)
def test_files_outside_the_folder(path: str, load: LoadFile, folder: Path, tmp_path: Path) -> None:
    """What lies outside is refused by one and the same reason, whether it is there or not."""
    (folder / "leaf").symlink_to(tmp_path / "secret.txt")
    (folder / "branch").symlink_to(tmp_path / "up-too")
    (folder / "chain").symlink_to("leaf")
    with pytest.raises(ValueError, match="outside `upload_dir`") as caught:
        load(path.format(outer=tmp_path))
    assert SECRET not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nothing", "names no file"),
        ("sub/nothing", "names no file"),
        ("sub", "no regular file"),
        ("", "no regular file"),
        (".", "no regular file"),
        ("pipe", "no regular file"),
        ("loop", "no regular file"),
        ("a.csv/x", "no regular file"),
        ("a\x00.csv", "no regular file"),
        ("a\ud83d", "no regular file"),
        ("~/a.csv", "names no file"),
        ("x" * 5000, "no regular file"),
    ],
)
def test_what_is_no_file(path: str, words: str, load: LoadFile, folder: Path) -> None:
    """Folders, pipes, links in a circle and what is not there are refused at once."""
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    with pytest.raises(ValueError, match=words):
        load(path)


@pytest.mark.parametrize("path", [".env", ".git/config", "sub/.ssh/key", "shown", "gone/.none"])
def test_hidden_files(path: str, load: LoadFile, folder: Path) -> None:
    """A name that begins with a dot keeps a file from being sent, also by a link, whether it is there or not."""
    for name in (".env", ".git/config", "sub/.ssh/key"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(SECRET)
    (folder / "shown").symlink_to(".env")
    with pytest.raises(ValueError, match="hidden"):
        load(path)


def test_the_folder_itself_may_be_hidden(tmp_path: Path) -> None:
    """Only what lies below the folder counts."""
    (tmp_path / ".up").mkdir()
    (tmp_path / ".up" / "a").write_bytes(b"1")
    assert build_loader(str(tmp_path / ".up"))("a").content == b"1"


def test_a_link_put_there_meanwhile_is_not_followed(folder: Path, tmp_path: Path) -> None:
    """Between the look at a path and its opening a link may take the place of a file or a folder on it."""
    root = str(folder)
    (folder / "file").symlink_to(tmp_path / "secret.txt")
    (folder / "branch").symlink_to(tmp_path / "up-too")
    for parts in (["file"], ["branch", "secret.txt"]):
        with pytest.raises(OSError, match=r"."):
            os.close(uploads._open_below(root, parts))


def test_a_file_that_is_too_large(load: LoadFile, folder: Path) -> None:
    """A file over the limit is refused before it is read, and one at the limit is sent."""
    with (folder / "large").open("wb") as file:
        file.truncate(MAX_UPLOAD)
    assert len(load("large").content) == MAX_UPLOAD
    os.truncate(folder / "large", MAX_UPLOAD + 1)
    with pytest.raises(ValueError, match="64 MiB"):
        load("large")


def test_a_name_that_no_form_can_carry(load: LoadFile, folder: Path) -> None:
    """Bytes of a name that are no UTF-8 become a question mark."""
    Path(os.fsdecode(os.fsencode(folder / "b") + b"\xff.csv")).write_bytes(b"1")
    assert load("b\udcff.csv") == File("b?.csv", b"1", "text/csv")


def test_nothing_stays_open(load: LoadFile, folder: Path) -> None:
    """Neither a file that was read nor one that was refused keeps a descriptor."""
    os.mkfifo(folder / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a.csv", "sub/deeper/b ü.png", "sub", ".", "pipe", "nothing", "sub/nothing/x", "../secret.txt"):
        try:
            load(path)
        except ValueError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_without_a_folder_no_path_is_read() -> None:
    """The setting is off unless someone sets it, and the words say so."""
    with pytest.raises(ValueError, match="`upload_dir`"):
        build_loader(None)("a.csv")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """A folder that has left makes every path one of no file."""
    with pytest.raises(ValueError, match="names no file"):
        build_loader(str(tmp_path / "gone"))("a.csv")
