"""Results as text, JSON and files."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from colabhive_mcp.cli.results import Files, to_json, to_text
from colabhive_mcp.errors import ConfigError

PNG = base64.b64encode(b"\x89PNG data").decode()
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
BODY = {
    "content": [
        {"type": "text", "text": "words"},
        IMAGE,
        {"type": "resource_link", "uri": "https://x/y", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "a:b", "text": "inner"}},
        {"type": "resource", "resource": {"uri": "a:b", "blob": PNG, "mimeType": "../../etc"}},
    ],
    "isError": False,
}


def test_text_without_files() -> None:
    """Text is printed as it is; data is named with type and size, and how to get it."""
    lines = to_text(BODY, None).splitlines()
    assert lines == [
        "words",
        "[image/png, 9 bytes; --save DIR writes it to a file]",
        "https://x/y (image/png)",
        "inner",
        "[../../etc, 9 bytes; --save DIR writes it to a file]",
    ]


def test_files(tmp_path: Path) -> None:
    """Data goes to files whose names come from the slug alone; a type that is not known is ``bin``."""
    folder = tmp_path / "out"
    text = to_text(BODY, Files(str(folder), "../model/v1.5"))
    assert sorted(path.name for path in folder.iterdir()) == ["model-v1-5-1.png", "model-v1-5-2.bin"]
    assert (folder / "model-v1-5-1.png").read_bytes() == b"\x89PNG data"
    assert f"{folder}/model-v1-5-1.png (image/png, 9 bytes)" in text


def test_files_are_never_overwritten(tmp_path: Path) -> None:
    """A file that is there stays as it is; links are not followed."""
    (tmp_path / "echo-1.png").write_text("mine")
    (tmp_path / "echo-2.png").symlink_to(tmp_path / "target")
    to_text(BODY, Files(str(tmp_path), "echo"))
    assert (tmp_path / "echo-1.png").read_text() == "mine"
    assert not (tmp_path / "target").exists()
    assert (tmp_path / "echo-3.png").exists()


@pytest.mark.parametrize(
    ("slug", "name"),
    [("..", "result-1.png"), ("é", "result-1.png"), ("a" * 200, "a" * 60 + "-1.png"), ("C:\\x", "C--x-1.png")],
)
def test_names(tmp_path: Path, slug: str, name: str) -> None:
    """A file's name is safe and short whatever the slug is."""
    to_text({"content": [IMAGE]}, Files(str(tmp_path), slug))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A folder that cannot be written is the caller's to mend."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--save"):
        to_text({"content": [IMAGE]}, Files(str(tmp_path / "file"), "x"))


def test_json(tmp_path: Path) -> None:
    """As JSON the whole result is there; with files, their paths stand in place of the data."""
    assert json.loads(to_json(BODY, None)) == BODY
    moved = json.loads(to_json(BODY, Files(str(tmp_path), "x")))["content"]
    assert moved[1] == {"type": "image", "mimeType": "image/png", "file": str(tmp_path / "x-1.png")}
    assert moved[0] == BODY["content"][0]
