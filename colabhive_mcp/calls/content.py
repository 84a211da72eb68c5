"""An outcome as the body of a CallToolResult: shaped for the revision, held to its schema, within the limit.

Nothing is lost: what does not fit is read on with ``get_invocation_result`` from the offset that the note names.
Offsets count the bytes of all blocks one after the other, a text in UTF-8, an image or a sound in base64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from colabhive_mcp.calls.blocks import find_untold, is_embedding, render, shape_block, text_block, to_text
from colabhive_mcp.calls.checks import find_payload
from colabhive_mcp.calls.media import Block, link_block
from colabhive_mcp.errors import ToolError
from colabhive_mcp.manifest.schemas import Checker
from colabhive_mcp.protocol.messages import dump_json
from colabhive_mcp.protocol.revisions import Revision

META_KEY = "com.colabhive/result"
MAX_META_BYTES = 4096  # of what stands beside the words of a result; more is shown as text, which can be read on

Body = dict[str, Any]
Save = Callable[[str, str], str]
"""Keeps base64 data of a media type in a file and answers its URI."""


@dataclass(frozen=True, slots=True)
class Form:
    """How results are wanted: for which revision, up to how many bytes, and where larger blocks may be kept.

    *structured* is how many bytes the structured content may have beside that, None as many. With *once* the text does
    not say again what is structured.
    """

    revision: Revision
    limit: int
    save: Save | None = None
    structured: int | None = None
    once: bool = False


def to_error(words: str) -> Body:
    """A failed tool in words that a model can act on; never structured, which clients hold to the output schema."""
    return {"content": [text_block(words)], "isError": True}


def add_note(body: Body, words: str) -> Body:
    """*body* with *words* behind its content, for whoever reads the result."""
    return {**body, "content": [*body["content"], text_block(words)]}


def to_result(
    result: Any, form: Form, *, output: Checker | None = None, invocation_id: str | None, offset: int | None = None
) -> Body:
    """A finished call. *output* is the checker of the output schema that the client was shown, None where it saw none.

    With *offset* the result is read on from that byte; raises ToolError where it is beyond the end.
    """
    summarised = is_embedding(result)
    wanted = offset is None and (output is not None or (summarised and form.revision.structured))
    complaint = _complain(result, output, form.structured or form.limit) if wanted else None
    structured = wanted and complaint is None
    blocks = render(result)
    if structured:
        content = _fit(_leave_texts(blocks) if form.once else blocks, form, invocation_id, offset)
        return {"content": content, "isError": False, "structuredContent": result}
    if summarised:
        blocks.append(text_block(to_text(result)))
    untold = find_untold(result)
    beside = untold is not None and len(dump_json(untold)) <= MAX_META_BYTES
    if untold is not None and not beside:
        blocks.append(text_block(to_text(untold)))
    content = _fit(blocks, form, invocation_id, offset)
    meta = {"_meta": {META_KEY: untold}} if beside else {}
    if complaint is not None and output is not None:
        return {"content": [text_block(complaint), *content], "isError": True, **meta}
    return {"content": content, "isError": False, **meta}


def _leave_texts(blocks: list[Block]) -> list[Block]:
    """What is no text, which the structured content says; a word where nothing else is left."""
    return [block for block in blocks if block["type"] != "text"] or [text_block("See the structured content.")]


def _complain(result: Any, output: Checker | None, limit: int) -> str | None:
    """Why *result* cannot be sent as structured content.

    Tools, structured content: "If an output schema is provided: Servers MUST provide structured results that conform
    to this schema." Clients refuse a success without them, so it is told as an error that carries the output all the
    same.
    """
    findings = output.findings(result, limit=1) if output is not None else []
    if findings:
        where = findings[0].path or "the result"
        promise = f"{where}: {findings[0].message}"
        return f"The tool ran, but its output is not what its output schema promises ({promise}). The output:"
    size = len(dump_json(result))
    if size > limit:
        return f"The tool ran, but its output of {size:,} bytes is over max_result_bytes ({limit:,}). The output:"
    return None


def _fit(blocks: list[Block], form: Form, invocation_id: str | None, offset: int | None) -> list[Block]:
    """The blocks from *offset* on that fit, each other one as a note of how to read it.

    A block that weighs nothing belongs to the page on which what is before it ends.
    """
    payloads = [_payload(block) for block in blocks]
    total = sum(map(len, payloads))
    start, reached, budget = offset or 0, 0, form.limit
    if start > max(total - 1, 0):
        raise ToolError(f"The offset {offset} is beyond the end: the result has {total} bytes")
    content: list[Block] = []
    for block, data in zip(blocks, payloads, strict=True):
        position, reached = reached, reached + len(data)
        skip = max(0, start - position)
        if start and reached <= start:
            continue
        if not skip and len(data) <= budget:
            content.append(shape_block(block, form.revision))
            budget -= len(data)
        elif skip or offset == position or _is_words(block):
            end = _find_end(data, skip, budget)
            content += _cut(block, data, skip, end)
            budget -= end - skip
            if end < len(data):
                return [*content, text_block(f"[{_say_where(position + end, total, invocation_id)}]")]
        else:
            content.append(_keep_elsewhere(block, len(data), position, form, invocation_id))
    return content


def _payload(block: Block) -> bytes:
    """What a block weighs: its text, or its base64; a link weighs nothing."""
    holder = block.get("resource", block)
    name = find_payload(holder)
    return b"" if name is None else str(holder[name]).encode("utf-8", "replace")


def _is_words(block: Block) -> bool:
    return find_payload(block.get("resource", block)) == "text"


def _find_end(data: bytes, start: int, budget: int) -> int:
    """Where *budget* bytes from *start* on end, before a character that doesn't fit whole."""
    end = start + budget
    while start < end < len(data) and data[end] & 0xC0 == 0x80:  # inside a UTF-8 character
        end -= 1
    return min(end, len(data))


def _cut(block: Block, data: bytes, start: int, end: int) -> list[Block]:
    """A piece of one block; of base64 it says what it is, since it comes as text."""
    piece = [text_block(data[start:end].decode("utf-8", "ignore"))] if end > start else []
    if _is_words(block):
        return piece
    return [*piece, text_block(f"[base64 of {_mime_type(block)}, bytes {start:,} to {end:,} of {len(data):,}]")]


def _mime_type(block: Block) -> str:
    return str(block.get("resource", block).get("mimeType") or "application/octet-stream")


def _say_where(offset: int, total: int, invocation_id: str | None) -> str:
    shown = f"cut at byte {offset:,} of {total:,}"
    if invocation_id is None:
        return f"{shown}; the rest is over max_result_bytes and can't be fetched again"
    call = to_text({"invocation_id": invocation_id, "offset": offset})
    return f"{shown}; call get_invocation_result with {call} to read on, at no new cost"


def _keep_elsewhere(block: Block, size: int, position: int, form: Form, invocation_id: str | None) -> Block:
    """A block that can't be cut, as a link to a file or a note of how to read it."""
    mime_type = _mime_type(block)
    if form.save is not None and "data" in block:
        return shape_block(link_block(form.save(block["data"], mime_type), mime_type, block["type"]), form.revision)
    how = "raise max_result_bytes to see it"
    if invocation_id is not None:
        call = to_text({"invocation_id": invocation_id, "offset": position})
        how = f"call get_invocation_result with {call} to read it, or set artifact_dir to have it as a file"
    return text_block(
        f"[{block['type']} of type {mime_type}, {size:,} bytes in base64, is too large for max_result_bytes; {how}]"
    )
