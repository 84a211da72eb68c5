"""Results of every shape as content blocks of every revision, with nothing dropped."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabhive_mcp.calls.blocks import is_embedding, render, shape_block
from colabhive_mcp.protocol.revisions import REVISIONS, Revision
from tests.harness import spec

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(24)).decode()
WAV = base64.b64encode(b"RIFF\x24\0\0\0WAVEfmt " + bytes(16)).decode()
JUNK = base64.b64encode(b"no known beginning").decode()
LINK = {"type": "resource_link", "uri": "https://x.test/a", "name": "image"}


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


def image(data: str = PNG, mime_type: str = "image/png") -> dict[str, Any]:
    """An image block."""
    return {"type": "image", "data": data, "mimeType": mime_type}


def audio(data: str = WAV, mime_type: str = "audio/wav") -> dict[str, Any]:
    """An audio block."""
    return {"type": "audio", "data": data, "mimeType": mime_type}


def link(uri: str, name: str, mime_type: str | None = None) -> dict[str, Any]:
    """A link."""
    block = {"type": "resource_link", "uri": uri, "name": name}
    return block if mime_type is None else {**block, "mimeType": mime_type}


def message(content: Any, **more: Any) -> dict[str, Any]:
    """A choice with a message."""
    return {"message": {"role": "assistant", "content": content, **more}}


CALLS = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]

SHAPES: list[tuple[Any, list[dict[str, Any]]]] = [  # a result -> its blocks
    # choices
    ({"choices": [message("Paris.")]}, [text("Paris.")]),
    ({"choices": [message("a"), message("b")]}, [text("a"), text("b")]),
    ({"choices": [{"text": "plain"}]}, [text("plain")]),
    ({"choices": [message([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])]}, [text("a\nb")]),
    ({"choices": [message(["a", "b"])]}, [text("a\nb")]),
    (
        {"choices": [message([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "u"}])]},
        [text('a\n{"type":"image_url","image_url":"u"}')],
    ),
    ({"choices": [message("see", tool_calls=CALLS)]}, [text("see"), text(json.dumps({"tool_calls": CALLS}))]),
    ({"choices": [message(None, tool_calls=CALLS)]}, [text(json.dumps({"tool_calls": CALLS}))]),
    ({"choices": [message("", refusal="no")]}, [text(json.dumps(message("", refusal="no")))]),
    ({"choices": [{"index": 0}]}, [text('{"index":0}')]),
    # blocks of the gateway's own
    ({"content": [text("a"), image()]}, [text("a"), image()]),
    ({"content": [text("a")], "meta": 1}, [text("a"), text('{"meta":1}')]),
    ({"content": [LINK]}, [LINK]),
    # embeddings
    ({"embedding": [0.5, 1]}, [text("1 embedding of dimension 2; the first begins [0.5, 1]")]),
    ({"embeddings": [[0.5, 1], [2, 3]]}, [text("2 embeddings of dimension 2; the first begins [0.5, 1]")]),
    (
        {"embedding": list(range(9))},
        [text("1 embedding of dimension 9; the first begins [0, 1, 2, 3, 4, 5, 6, 7, …]")],
    ),
    # media
    ({"image_b64": PNG}, [image()]),
    ({"image_b64": PNG, "mime_type": "image/x-own"}, [image(mime_type="image/x-own")]),
    ({"image_b64": f"data:image/webp;base64,{PNG}"}, [image(mime_type="image/webp")]),
    ({"image_b64": f"data:image/webp;charset=x;q=1;base64,{PNG}"}, [image(mime_type="image/webp")]),
    ({"image_b64": f"data:;base64,{PNG}"}, [image()]),
    ({"image_b64": f"DATA:IMAGE/GIF;BASE64,{PNG}"}, [image(mime_type="IMAGE/GIF")]),
    ({"image_b64": PNG[:8] + "\r\n" + PNG[8:] + "\n"}, [image()]),
    ({"image_b64": PNG, "audio_b64": None, "images": None}, [image()]),
    ({"image_b64": PNG, "seed": 7}, [image(), text('{"seed":7}')]),
    ({"image_b64": JUNK}, [image(JUNK, "image/*")]),
    ({"image_b64": JUNK, "mime_type": "application/x"}, [image(JUNK, "application/x")]),
    ({"image_b64": PNG, "mime_type": 5}, [image(), text('{"mime_type":5}')]),
    ({"audio_b64": WAV}, [audio()]),
    ({"audio_b64": WAV, "mime_type": "audio/x-own"}, [audio(mime_type="audio/x-own")]),
    ({"image_b64": PNG, "audio_b64": WAV}, [image(), audio()]),
    ({"image_b64": PNG, "audio_b64": WAV, "mime_type": "image/png"}, [image(), audio()]),
    ({"images": [PNG, f"data:image/gif;base64,{PNG}"]}, [image(), image(mime_type="image/gif")]),
    ({"images": [{"image_b64": PNG}]}, [image()]),
    ({"images": [{"image_b64": PNG, "mime_type": "image/bmp"}]}, [image(mime_type="image/bmp")]),
    ({"images": [{"image_b64": PNG}], "mime_type": "image/bmp"}, [image(mime_type="image/bmp")]),
    ({"images": [{"image_b64": PNG, "seed": 7}]}, [image(), text('{"seed":7}')]),
    ({"images": [{"url": "https://x.test/a"}]}, [link("https://x.test/a", "image")]),
    (
        {"images": [{"url": "https://x.test/a", "mime_type": "image/png"}]},
        [link("https://x.test/a", "image", "image/png")],
    ),
    ({"images": [{"url": f"data:image/png;base64,{PNG}"}]}, [image()]),
    ({"images": [PNG], "count": 1}, [image(), text('{"count":1}')]),
    # links
    ({"image_url": "https://x.test/a"}, [link("https://x.test/a", "image")]),
    ({"audio_url": "https://x.test/a"}, [link("https://x.test/a", "audio")]),
    ({"artifact_url": "https://x.test/a", "size": 3}, [link("https://x.test/a", "artifact"), text('{"size":3}')]),
    ({"url": "https://x.test/a", "mime_type": "text/csv"}, [link("https://x.test/a", "file", "text/csv")]),
    (
        {"image_url": "https://x.test/a", "audio_url": "https://x.test/b"},
        [link("https://x.test/a", "image"), link("https://x.test/b", "audio")],
    ),
    ({"image_url": f"data:image/png;base64,{PNG}"}, [image()]),
    ({"audio_url": f"data:audio/wav;base64,{WAV}"}, [audio()]),
    # judgements
    (
        {"answers": {"a": {"type": "score", "score": 0.25}, "b": {"type": "noul", "prob": 0.75, "answer": "yes"}}},
        [
            text("b (noul): prob 0.75, answer yes\na (score): score 0.25"),
            text(
                '{"answers":{"a":{"type":"score","score":0.25},"b":{"type":"noul","prob":0.75,"answer":"yes"}}}',
            ),
        ],
    ),
    (
        {"ranked": [{"candidate": "x", "prob": 0.25}, {"candidate": "y", "prob": 0.75}]},
        [
            text("1. y (0.75)\n2. x (0.25)"),
            text('{"ranked":[{"candidate":"x","prob":0.25},{"candidate":"y","prob":0.75}]}'),
        ],
    ),
    (
        {"ranked": [{"candidate": "x", "prob": 1, "rank": 2}, {"candidate": "y", "prob": 0, "rank": 1}]},
        [
            text("1. y (0)\n2. x (1)"),
            text('{"ranked":[{"candidate":"x","prob":1,"rank":2},{"candidate":"y","prob":0,"rank":1}]}'),
        ],
    ),
    (
        {"result": {"ranked": [{"candidate": {"id": 1}}]}},
        [text('1. {"id":1}'), text('{"result":{"ranked":[{"candidate":{"id":1}}]}}')],
    ),
    (
        {"result": {"answers": {"q": {"choice": "b"}}}},
        [text("q (answer): choice b"), text('{"result":{"answers":{"q":{"choice":"b"}}}}')],
    ),
    # anything else
    ("words", [text("words")]),
    ("", [text("")]),
    (None, [text("null")]),
    (True, [text("true")]),
    (0, [text("0")]),
    (2**80, [text(str(2**80))]),
    (0.1, [text("0.1")]),
    ([], [text("[]")]),
    ([1, "ä"], [text('[1,"ä"]')]),
    ({}, [text("{}")]),
    ({"label": "ä"}, [text('{"label":"ä"}')]),
]

SHOWN_AS_JSON: list[Any] = [  # almost a known shape, but not one
    {"choices": []},
    {"choices": "x"},
    {"choices": ["x"]},
    {"content": []},
    {"content": "x"},
    {"content": [{"type": "hologram"}]},
    {"content": [{"type": ["text"]}]},
    {"content": [{"type": None}]},
    {"content": ["x"]},
    {"content": [{"type": "text", "text": "a"}, 5]},
    {"embedding": []},
    {"embedding": ["a"]},
    {"embedding": [True, False]},
    {"embedding": "x"},
    {"embeddings": []},
    {"embeddings": [[1], []]},
    {"image_b64": ""},
    {"image_b64": "no base64!"},
    {"image_b64": PNG[:-3]},
    {"image_b64": 5},
    {"image_b64": None},
    {"image_b64": PNG, "images": {"a": 1}},
    {"image_b64": "data:image/svg+xml,%3Csvg/%3E"},
    {"audio_b64": ["x"]},
    {"images": []},
    {"images": ["https://x.test/a"]},
    {"images": [PNG, "not base64"]},
    {"images": [{"note": "none"}]},
    {"images": [5]},
    {"image_url": "no url"},
    {"image_url": "/relative"},
    {"image_url": {"url": "https://x.test/a"}},
    {"image_url": "https://x.test/a b"},
    {"image_url": "https://x.test/\u202ea"},
    {"image_url": "https://[x"},
    {"image_url": "https://x.test/" + "a" * 5000},
    {"image_url": "data:image/png,raw"},
    {"artifact_url": f"data:image/png;base64,{PNG}"},
    {"url": "https://x.test/a"},
    {"answers": {}},
    {"answers": {"a": 1}},
    {"answers": [1]},
    {"ranked": []},
    {"ranked": [{"name": "x"}]},
    {"ranked": ["x"]},
    {"result": {"choices": [message("x")]}},
]


@pytest.mark.parametrize(("result", "blocks"), SHAPES)
def test_shapes(result: Any, blocks: list[dict[str, Any]]) -> None:
    """Each shape that is known has its blocks, and each other is text."""
    rendered = render(result)
    assert [block if block["type"] != "text" else text(_plain(block["text"])) for block in rendered] == [
        block if block["type"] != "text" else text(_plain(block["text"])) for block in blocks
    ]


def _plain(words: str) -> str:
    """JSON without its blanks; anything else as it is."""
    try:
        return json.dumps(json.loads(words))
    except ValueError:
        return words


@pytest.mark.parametrize("result", SHOWN_AS_JSON)
def test_what_only_looks_like_a_shape(result: Any) -> None:
    """What is not quite a known shape is shown whole as JSON."""
    (block,) = render(result)
    assert json.loads(block["text"]) == result


@pytest.mark.parametrize(
    "result", [result for result, _ in SHAPES if isinstance(result, dict) and not {"choices"} & set(result)]
)
def test_what_comes_beside_a_shape_is_shown(result: dict[str, Any]) -> None:
    """A member that no shape knows is in the text, or the result is an embedding, which is sent whole beside it."""
    blocks = render({**result, "beside": "a mark"})
    assert is_embedding(result) or "a mark" in str(blocks)


@pytest.mark.parametrize(
    ("head", "kind", "mime_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image", "image/png"),
        (b"\xff\xd8\xff\xe0", "image", "image/jpeg"),
        (b"GIF89a", "image", "image/gif"),
        (b"BM", "image", "image/bmp"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image", "image/webp"),
        (b"\0\0\0\x1cftypavif", "image", "image/avif"),
        (b"\0\0\0\x18ftypheic", "image", "image/heic"),
        (b"\0\0\0\x18ftypM4V ", "image", "image/*"),
        (b"RIFF\0\0\0\0WAVEfmt ", "image", "image/*"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio", "audio/wav"),
        (b"RIFF\0\0\0\0AVI ", "audio", "audio/*"),
        (b"OggS", "audio", "audio/ogg"),
        (b"fLaC", "audio", "audio/flac"),
        (b"ID3", "audio", "audio/mpeg"),
        (b"\xff\xfb", "audio", "audio/mpeg"),
        (b"\0\0\0\x1cftypM4A ", "audio", "audio/mp4"),
        (b"BM", "audio", "audio/*"),
        (b"x", "audio", "audio/*"),
    ],
)
def test_missing_types_are_read_from_the_first_bytes(head: bytes, kind: str, mime_type: str) -> None:
    """The type that nobody states is told by the data, as far as it is one of its kind."""
    (block,) = render({f"{kind}_b64": base64.b64encode(head + b"\0").decode()})
    assert (block["type"], block["mimeType"]) == (kind, mime_type)


EMBEDDED = {"type": "resource", "resource": {"uri": "file:///a", "text": "t", "mimeType": "text/plain"}}
PASSED: list[dict[str, Any]] = [
    text(""),
    {**text("a"), "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01"}},
    {**text("a"), "_meta": {"k": 1}, "own": [1]},
    image(),
    audio(),
    {**LINK, "title": "t", "description": "d", "size": 3, "mimeType": "text/csv", "icons": [{"src": "https://x.test"}]},
    EMBEDDED,
    {"type": "resource", "resource": {"uri": "urn:x", "blob": PNG}},
]
REPLACED: list[dict[str, Any]] = [
    {"type": "text"},
    {"type": "text", "text": 5},
    {**text("a"), "annotations": []},
    {**text("a"), "annotations": {"audience": "user"}},
    {**text("a"), "annotations": {"audience": ["model"]}},
    {**text("a"), "annotations": {"priority": 2}},
    {**text("a"), "annotations": {"priority": True}},
    {**text("a"), "_meta": "x"},
    {**text("a"), "own": "x" * 9000},
    {"type": "image", "data": PNG},
    {"type": "image", "data": "no base64", "mimeType": "image/png"},
    {"type": "image", "data": "", "mimeType": "image/png"},
    {"type": "image", "data": PNG, "mimeType": 5},
    {"type": "audio", "data": 5, "mimeType": "audio/wav"},
    {"type": "image", "data": base64.b64encode(bytes(9000)).decode(), "mimeType": "image/png", "text": "x"},
    {"type": "resource_link", "uri": "https://x.test/a"},
    {"type": "resource_link", "uri": "no uri", "name": "n"},
    {"type": "resource_link", "uri": f"data:image/png;base64,{PNG}", "name": "n"},
    {**LINK, "mimeType": 5},
    {**LINK, "size": "3"},
    {**LINK, "size": True},
    {**LINK, "icons": "x"},
    {**LINK, "icons": [{"src": 5}]},
    {**LINK, "description": "x" * 9000},
    {**LINK, "text": "x"},
    {"type": "resource"},
    {"type": "resource", "resource": {"uri": "urn:x"}},
    {"type": "resource", "resource": {"text": "t"}},
    {"type": "resource", "resource": {"uri": "urn:x", "text": 5}},
    {"type": "resource", "resource": {"uri": "urn:x", "blob": "no base64"}},
    {"type": "resource", "resource": {"uri": "urn:x", "text": "t", "mimeType": 5}},
    {"type": "resource", "resource": {"uri": "urn:x", "text": "t", "own": "x" * 9000}},
]


@pytest.mark.parametrize("block", PASSED)
def test_blocks_in_order_pass(block: dict[str, Any]) -> None:
    """A block of the gateway's own that MCP allows is passed on as it is, members that are null left out."""
    assert render({"content": [block]}) == [block]
    nulls = {key: None for key in ("annotations", "_meta", "title") if key not in block}
    assert render({"content": [{**block, **nulls}]}) == [block]


@pytest.mark.parametrize("block", REPLACED)
def test_blocks_out_of_order_are_shown(block: dict[str, Any]) -> None:
    """A block that clients would refuse, or that no limit could cut, is shown as text, and takes no other with it."""
    first, second = render({"content": [block, text("b")]})
    assert json.loads(first["text"]) == block
    assert second == text("b")


def check(blocks: list[dict[str, Any]], revision: Revision) -> None:
    """*blocks* are content that *revision* allows."""
    modern = {"resultType": "complete"} if revision.modern else {}
    result = {"content": [shape_block(block, revision) for block in blocks], "isError": False, **modern}
    spec.check({"jsonrpc": "2.0", "id": 1, "result": result}, revision=revision.name, method="tools/call")


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=REVISIONS)
@pytest.mark.parametrize("result", [result for result, _ in SHAPES] + [{"content": PASSED}, {"content": REPLACED}])
def test_shapes_fit_every_revision(result: Any, revision: Revision) -> None:
    """Whatever the result, its blocks are some that the revision has."""
    check(render(result), revision)


@pytest.mark.parametrize(
    ("block", "revision", "expected"),
    [
        (audio(), "2025-03-26", audio()),
        (
            audio(),
            "2024-11-05",
            {"type": "resource", "resource": {"uri": "urn:colabhive:audio", "mimeType": "audio/wav", "blob": WAV}},
        ),
        (image(), "2024-11-05", image()),
        (EMBEDDED, "2024-11-05", EMBEDDED),
        (link("https://x.test/a", "image"), "2025-06-18", link("https://x.test/a", "image")),
        (link("https://x.test/a", "image"), "2025-03-26", text("image: https://x.test/a")),
        (link("https://x.test/a", "file", "text/csv"), "2024-11-05", text("file: https://x.test/a (text/csv)")),
        ({**LINK, "title": "t"}, "2024-11-05", text('image: https://x.test/a {"title":"t"}')),
    ],
)
def test_older_revisions_get_the_nearest_form(block: dict[str, Any], revision: str, expected: dict[str, Any]) -> None:
    """A block that a revision lacks becomes the nearest that it has, with all that it said."""
    assert shape_block(block, REVISIONS[revision]) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"embedding": [1]}, True),
        ({"embeddings": [[1.5]], "model": "m"}, True),
        ({"embedding": []}, False),
        ({"embedding": [[1]]}, False),
        ([1, 2], False),
        (None, False),
    ],
)
def test_embeddings_are_told_apart(result: Any, expected: bool) -> None:
    """Only a vector of numbers, or a list of such, is an embedding."""
    assert is_embedding(result) is expected


def test_huge_numbers_are_shown() -> None:
    """A weight too large for a double is shown like any other."""
    lines, _ = render({"ranked": [{"candidate": "x", "prob": 10**400}, {"candidate": "y", "prob": True}]})
    assert lines["text"] == f"1. x ({10**400})\n2. y"


KEYS = (
    "choices message content text type data mimeType embedding embeddings image_b64 images audio_b64 mime_type "
    "image_url url answers ranked candidate prob rank result resource uri name blob annotations _meta tool_calls"
)
keys = st.sampled_from(KEYS.split())
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(
        [0.5, PNG, WAV, "https://x.test/a", "text", "image", "audio", "resource_link", "resource", "x", ""]
    )
)
results = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=10
)


@settings(max_examples=150, deadline=None)
@given(result=results)
def test_any_result_is_content_of_any_revision(result: Any) -> None:
    """However members of known names are put together, every revision gets blocks that it allows, at least one."""
    blocks = render(result)
    assert blocks
    for revision in REVISIONS.values():
        check(blocks, revision)
