"""Results within the size limit: what is cut, how it is read on, and what is structured."""

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from colabhive_mcp.calls.content import Body, Form, add_note, to_error, to_result
from colabhive_mcp.errors import ToolError
from colabhive_mcp.manifest.schemas import build_checker
from colabhive_mcp.protocol.revisions import REVISIONS
from tests.harness import spec

LATEST = REVISIONS["2025-11-25"]
NOTE = re.compile(r"\[cut at byte ([\d,]+) of ([\d,]+); call get_invocation_result with (\{.*\}) to read on, .*\]")
PIECE = re.compile(r"\[base64 of ([^,]+), bytes ([\d,]+) to ([\d,]+) of ([\d,]+)\]")
ELSEWHERE = re.compile(
    r"\[(\w+) of type (\S+), ([\d,]+) bytes in base64, .* get_invocation_result with (\{.*\}) to read"
)


def to_base64(size: int) -> str:
    """Base64 that is *size* bytes long, a multiple of four."""
    return base64.b64encode(bytes(size * 3 // 4)).decode()


def read(result: Any, limit: int, offset: int | None = None, revision: str = "2025-11-25") -> Body:
    """One page of *result*."""
    return to_result(result, Form(REVISIONS[revision], limit), invocation_id="inv", offset=offset)


def find_next(body: Body) -> int | None:
    """The offset that the note at the end of a page names; None on the last."""
    last = body["content"][-1]
    found = NOTE.fullmatch(last["text"]) if last["type"] == "text" else None
    if found is None:
        return None
    call = json.loads(found[3])
    assert call == {"invocation_id": "inv", "offset": int(found[1].replace(",", ""))}
    return int(call["offset"])


def read_whole(result: Any, limit: int) -> tuple[list[dict[str, Any]], list[Body]]:
    """The blocks of every page one after the other, without the notes at their ends, and the pages."""
    pages = [read(result, limit)]
    while (offset := find_next(pages[-1])) is not None:
        assert len(pages) < 2000, "reading on never ends"
        pages.append(read(result, limit, offset))
    blocks = [block for page in pages for block in (page["content"][:-1] if page is not pages[-1] else page["content"])]
    return blocks, pages


def join_text(blocks: list[dict[str, Any]]) -> str:
    """What the text blocks hold together."""
    return "".join(block["text"] for block in blocks if block["type"] == "text")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@settings(max_examples=150, deadline=None)
@given(text=texts, limit=st.integers(4, 40))
def test_a_text_is_read_on_whole(text: str, limit: int) -> None:
    """Whatever the text and the limit, the pages are within the limit and are the text when put together."""
    assume(NOTE.search(text) is None)
    blocks, pages = read_whole(text, limit)
    assert join_text(blocks) == text
    for page in pages:
        shown = page["content"] if find_next(page) is None else page["content"][:-1]
        assert len(join_text(shown).encode()) <= limit


@settings(max_examples=150, deadline=None)
@given(parts=st.lists(texts, min_size=1, max_size=5), limit=st.integers(4, 40), links=st.sets(st.integers(0, 5)))
def test_blocks_are_read_on_whole(parts: list[str], limit: int, links: set[int]) -> None:
    """Of several blocks nothing is lost and nothing is sent twice, and links come exactly once and in their place."""
    content = [{"type": "text", "text": part} for part in parts]
    for place in sorted(links, reverse=True):
        content.insert(place, {"type": "resource_link", "uri": f"urn:x:{place}", "name": "n"})
    blocks, _ = read_whole({"content": content}, limit)
    assert join_text(blocks) == "".join(parts)
    seen = [block["uri"] for block in blocks if block["type"] == "resource_link"]
    assert seen == [block["uri"] for block in content if block["type"] == "resource_link"]


@settings(max_examples=100, deadline=None)
@given(value=st.recursive(texts | st.integers(), lambda inner: st.lists(inner, max_size=4), max_leaves=20))
def test_json_is_read_on_whole(value: Any) -> None:
    """A result of no known shape is JSON, and is that JSON again when its pages are put together."""
    blocks, _ = read_whole(value, 16)
    joined = join_text(blocks)
    assert joined == value if isinstance(value, str) else json.loads(joined) == value


@pytest.mark.parametrize("limit", [4, 5, 6, 7, 8, 9])
@pytest.mark.parametrize("text", ["aaaaaé漢🎉bbbb", "🎉" * 5, "é" * 9, "漢" * 7])
def test_cuts_are_between_characters(text: str, limit: int) -> None:
    """No page ends within a character."""
    _, pages = read_whole(text, limit)
    assert all("\ufffd" not in join_text(page["content"]) for page in pages)


def test_the_note_names_the_place() -> None:
    """The note at a cut tells the byte, the size, and the call that reads on."""
    body = read("x" * 3000, 1024)
    assert body["content"][1]["text"] == (
        '[cut at byte 1,024 of 3,000; call get_invocation_result with {"invocation_id":"inv","offset":1024} '
        "to read on, at no new cost]"
    )


def test_what_cannot_be_read_on_says_so() -> None:
    """Without an invocation there is nothing to read on from, and the note says that."""
    body = to_result("x" * 2000, Form(LATEST, 1024), invocation_id=None)
    assert "can't be fetched again" in body["content"][1]["text"]


@pytest.mark.parametrize(("size", "cut"), [(1023, False), (1024, False), (1025, True)])
def test_the_limit_is_exact(size: int, cut: bool) -> None:
    """What is exactly as large as the limit is whole."""
    assert (find_next(read("x" * size, 1024)) is not None) is cut


@pytest.mark.parametrize(
    ("result", "total"),
    [("x" * 10, 10), ("é", 2), ("", 0), ({"image_url": "https://x.test/a"}, 0), ({"image_b64": to_base64(8)}, 8)],
)
def test_offsets_beyond_the_end(result: Any, total: int) -> None:
    """An offset beyond the end is the caller's mistake, and is told with the size."""
    read(result, 100, max(total - 1, 0))
    for offset in (max(total, 1), total + 1, 10**12):
        with pytest.raises(ToolError, match=f"has {total} bytes"):
            read(result, 100, offset)


def test_offset_zero_is_the_beginning() -> None:
    """Reading from byte 0 is reading from the beginning."""
    assert read("words", 100, 0) == read("words", 100)


# Images and sounds


def test_an_image_within_the_limit_is_whole() -> None:
    """An image that fits is an image, on whatever page it comes."""
    image = {"type": "image", "data": to_base64(1000), "mimeType": "image/png"}
    content = [{"type": "text", "text": "x" * 1500}, image]
    first = read({"content": content}, 1024)
    assert find_next(first) == 1024
    second = read({"content": content}, 1024, 1024)
    assert "is too large" in second["content"][1]["text"]
    assert read({"content": content}, 1024, 1500)["content"] == [image]


@pytest.mark.parametrize("kind", ["image", "audio"])
def test_a_large_image_is_read_in_pieces(kind: str) -> None:
    """An image over the limit is a note on its page; from the offset that the note names its base64 is read whole."""
    data = to_base64(2500)
    content = [
        {"type": "text", "text": "before"},
        {"type": kind, "data": data, "mimeType": f"{kind}/x"},
        {"type": "text", "text": "behind"},
    ]
    body = read({"content": content}, 1024)
    before, note, behind = (block["text"] for block in body["content"])
    assert (before, behind) == ("before", "behind")
    told = ELSEWHERE.match(note)
    assert told is not None
    assert (told[1], told[2], told[3]) == (kind, f"{kind}/x", "2,500")
    offset: int | None = json.loads(told[4])["offset"]
    pieces = []
    while offset is not None:
        page = read({"content": content}, 1024, offset)
        pieces.append(page["content"][0]["text"])
        assert PIECE.fullmatch(page["content"][1]["text"])
        offset = find_next(page)
    assert "".join(pieces) == data
    assert page["content"][-1]["text"] == "behind"


def test_a_large_image_goes_to_a_file() -> None:
    """Where files may be kept, a block over the limit is a link to one, and the text beside it still fits."""
    kept: list[tuple[str, str]] = []

    def save(data: str, mime_type: str) -> str:
        kept.append((data, mime_type))
        return f"file:///kept/{len(kept)}"

    data = to_base64(2000)
    result = {"images": [data, to_base64(4)], "mime_type": "image/png", "note": "n"}
    body = to_result(result, Form(LATEST, 1024, save), invocation_id="inv")
    assert kept == [(data, "image/png")]
    assert body["content"] == [
        {"type": "resource_link", "uri": "file:///kept/1", "name": "image", "mimeType": "image/png"},
        {"type": "image", "data": to_base64(4), "mimeType": "image/png"},
        {"type": "text", "text": '{"note":"n"}'},
    ]
    old = to_result(result, Form(REVISIONS["2024-11-05"], 1024, save), invocation_id="inv")
    assert old["content"][0] == {"type": "text", "text": "image: file:///kept/2 (image/png)"}


def test_an_image_without_a_way_to_read_it() -> None:
    """Of what can neither be cut nor fetched again it is told what it is, and which setting shows it."""
    body = to_result({"image_b64": to_base64(2000)}, Form(LATEST, 1024), invocation_id=None)
    assert "raise max_result_bytes" in body["content"][0]["text"]


@pytest.mark.parametrize(
    ("resource", "words"), [({"text": "é" * 1500}, True), ({"blob": to_base64(3000), "mimeType": "a/b"}, False)]
)
def test_embedded_resources_are_cut_too(resource: dict[str, str], words: bool) -> None:
    """The text of a resource is cut like any text, its base64 read in pieces like an image's."""
    result = {"content": [{"type": "resource", "resource": {"uri": "urn:x", **resource}}]}
    first = read(result, 1024)
    if words:
        blocks, _ = read_whole(result, 1024)
        assert join_text(blocks) == resource["text"]
    else:
        assert "resource of type a/b, 3,000 bytes" in first["content"][0]["text"]
        assert read(result, 1024, 0)["content"][0]["text"] == resource["blob"][:1024]


# Structured content


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def structure(result: Any, schema: Any, revision: str = "2025-11-25", limit: int = 1024) -> Body:
    """A result of a tool whose output schema the client was shown."""
    checker = None if schema is None else build_checker(schema)
    body = to_result(result, Form(REVISIONS[revision], limit), output=checker, invocation_id="inv")
    modern = {"resultType": "complete"} if REVISIONS[revision].modern else {}
    spec.check({"jsonrpc": "2.0", "id": 1, "result": {**body, **modern}}, revision=revision, method="tools/call")
    return body


@pytest.mark.parametrize("result", [{"n": 1}, {"n": 3.0, "more": None}])
def test_conforming_output_is_structured_and_text(result: Any) -> None:
    """Output that keeps the promise is structured content, with the same as text beside it."""
    body = structure(result, SCHEMA)
    assert body["structuredContent"] == result
    assert json.loads(body["content"][0]["text"]) == result
    assert body["isError"] is False


@pytest.mark.parametrize(
    "result", [{}, {"n": "1"}, {"n": None}, [], None, "text", {"image_b64": to_base64(8)}, {"embedding": [1, 2]}]
)
def test_output_that_breaks_its_promise(result: Any) -> None:
    """Output that the schema refuses is never structured: it is an error that says why and carries the output."""
    body = structure(result, SCHEMA)
    assert body["isError"] is True
    assert "structuredContent" not in body
    assert "not what its output schema promises" in body["content"][0]["text"]
    assert len(body["content"]) > 1


def test_output_of_exactly_the_limit_is_structured() -> None:
    """Output whose JSON is as large as the limit is structured, and a byte more is not."""
    result = {"n": 1, "filler": "x" * 100}
    size = len(json.dumps(result, separators=(",", ":")))
    assert "structuredContent" in structure(result, SCHEMA, limit=size)
    assert "structuredContent" not in structure(result, SCHEMA, limit=size - 1)


def test_output_over_the_limit_is_not_structured() -> None:
    """Output that is too large to be structured is an error that says so, with the output to read on as text."""
    result = {"n": 1, "filler": "x" * 2000}
    body = structure(result, SCHEMA)
    assert body["isError"] is True
    assert "over max_result_bytes (1,024)" in body["content"][0]["text"]
    blocks = [*body["content"][1:-1]]
    offset = find_next(body)
    while offset is not None:
        page = read(result, 1024, offset)
        offset = find_next(page)
        blocks += page["content"] if offset is None else page["content"][:-1]
    assert json.loads(join_text(blocks)) == result


@pytest.mark.parametrize("result", [[1, 2], 5, None, "x"])
def test_structured_content_of_any_type(result: Any) -> None:
    """Where the revision has it, output that is no object is structured as it is; null is content like any other."""
    body = structure(result, {}, spec.MODERN)
    assert "structuredContent" in body
    assert body["structuredContent"] == result


@pytest.mark.parametrize("revision", spec.REVISIONS)
@pytest.mark.parametrize("result", [{"embedding": [0.5] * 20}, {"embeddings": [[1, 2], [3, 4]], "model": "m"}])
def test_vectors_are_whole_in_every_revision(result: Any, revision: str) -> None:
    """A vector, of which the text is a summary, is whole beside it: structured where that is possible, else as JSON."""
    body = structure(result, None, revision)
    assert "dimension" in body["content"][0]["text"]
    if REVISIONS[revision].structured:
        assert (body["structuredContent"], len(body["content"])) == (result, 1)
    else:
        assert "structuredContent" not in body
        assert json.loads(body["content"][1]["text"]) == result


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_a_large_vector_is_read_on(revision: str) -> None:
    """A vector over the limit is no error and not lost: its JSON is read on like any text."""
    result = {"embedding": [0.125] * 500}
    body = structure(result, None, revision)
    assert (body["isError"], "structuredContent" in body) == (False, False)
    blocks, offset = body["content"][:-1], find_next(body)
    while offset is not None:
        page = read(result, 1024, offset, revision)
        assert "structuredContent" not in page
        offset = find_next(page)
        blocks += page["content"] if offset is None else page["content"][:-1]
    assert json.loads(join_text(blocks[1:])) == result


def test_reading_on_repeats_nothing() -> None:
    """A page that is read on carries no structured content: the first one had it, or none could."""
    page = to_result({"n": 1}, Form(LATEST, 1024), output=build_checker(SCHEMA), invocation_id="inv", offset=2)
    assert page == {"content": [{"type": "text", "text": 'n":1}'}], "isError": False}


def test_errors_are_words() -> None:
    """A failed tool is an error with its words, and never structured."""
    assert to_error("no such file") == {"content": [{"type": "text", "text": "no such file"}], "isError": True}


ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris."}}]}
BESIDE: list[tuple[dict[str, Any], Any]] = [
    (ANSWER, None),
    ({"choices": [{"text": "Paris."}]}, None),
    ({**ANSWER, "usage": {"total_tokens": 3}}, {"usage": {"total_tokens": 3}}),
    (
        {"choices": [{"index": 0, "text": "Paris.", "finish_reason": "stop"}]},
        {"choices": [{"finish_reason": "stop"}]},
    ),
    (
        {"choices": [{"message": {"role": "assistant", "content": "Paris.", "refusal": "no"}}], "id": "x"},
        {"id": "x", "choices": [{"message": {"refusal": "no"}}]},
    ),
]


@pytest.mark.parametrize(("result", "beside"), BESIDE)
@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_what_stands_beside_the_words_of_a_model_is_kept(result: dict[str, Any], beside: Any, revision: str) -> None:
    """A choice is one text block; whatever else came with it is in ``_meta`` where it is not structured."""
    body = read(result, 10_000, revision=revision)
    assert body["content"] == [{"type": "text", "text": "Paris."}]
    assert body.get("_meta") == (None if beside is None else {"com.colabhive/result": beside})


def test_what_stands_beside_is_no_way_around_the_limit() -> None:
    """Much beside the words of a model is text like any other, and is cut and read on."""
    blocks, pages = read_whole({**ANSWER, "logprobs": ["x" * 99] * 99}, 2000)
    assert len(pages) > 2
    assert "_meta" not in pages[0]
    assert json.loads(join_text(blocks).removeprefix("Paris.")) == {"logprobs": ["x" * 99] * 99}


# What clients need


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_structured_content_once(revision: str) -> None:
    """Where a model sees both, no text says again what is structured; what is no text stays, and so does all else."""
    form = Form(REVISIONS[revision], 10_000, once=True)
    output = build_checker({"type": "object"})
    told = to_result({"text": "x"}, form, output=output, invocation_id="inv")
    assert told == {
        "content": [{"type": "text", "text": "See the structured content."}],
        "isError": False,
        "structuredContent": {"text": "x"},
    }
    image = {"image_b64": to_base64(8), "mime_type": "image/png"}
    assert [block["type"] for block in to_result(image, form, output=output, invocation_id="inv")["content"]] == [
        "image"
    ]
    for unstructured in (
        to_result({"text": "x"}, form, invocation_id="inv"),
        to_result({"text": "x"}, form, output=build_checker({"required": ["y"]}), invocation_id="inv"),
    ):
        assert "structuredContent" not in unstructured
        assert '"x"' in join_text(unstructured["content"])


@pytest.mark.parametrize("body", [to_error("It failed."), read("x", 100), {**read("x", 100), "structuredContent": 1}])
def test_a_note_is_behind_it_all(body: Body) -> None:
    """A note is one more block at the end; nothing else of the result changes, nor does the result itself."""
    before = json.dumps(body)
    noted = add_note(body, "A note.")
    assert noted == {**body, "content": [*body["content"], {"type": "text", "text": "A note."}]}
    assert json.dumps(body) == before


def test_structured_content_has_a_limit_of_its_own() -> None:
    """A client whose model reads less text than that still gets the structured content whole; its text is cut."""
    result = {"words": "x" * 200}
    checker = build_checker({"type": "object"})
    body = to_result(result, Form(REVISIONS["2025-11-25"], 100, structured=1000), output=checker, invocation_id="inv")
    assert (body["isError"], body["structuredContent"]) == (False, result)
    assert "cut at byte 100" in body["content"][-1]["text"]
    body = to_result(result, Form(REVISIONS["2025-11-25"], 100, structured=150), output=checker, invocation_id="inv")
    assert body["isError"]
    assert "structuredContent" not in body
