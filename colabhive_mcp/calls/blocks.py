"""A gateway's result as content blocks, by its shape. Pure; nothing of a result is dropped.

The recognisers stand in one table; the first that knows a shape renders it, and what none knows is shown as text.
Blocks are in the newest revision's form; an older one gets the nearest that it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from colabhive_mcp.calls.checks import drop_nulls, is_in_order, is_known, is_number
from colabhive_mcp.calls.media import MEDIA, Block, to_link, to_media
from colabhive_mcp.protocol.messages import dump_json
from colabhive_mcp.protocol.revisions import Revision

Recogniser = Callable[[Any], list[Block] | None]

_LINKS = {"image_url": "image", "audio_url": "audio", "artifact_url": "artifact", "url": "file"}
_SHOWN_VALUES = 8


def to_text(value: Any) -> str:
    """A value as a model reads it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else dump_json(value).decode()


def text_block(text: str) -> Block:
    """A block of plain text."""
    return {"type": "text", "text": text}


def render(result: Any) -> list[Block]:
    """The content blocks of *result*; never none."""
    for recognise in _RECOGNISERS:
        blocks = recognise(result)
        if blocks:
            return blocks
    return [text_block(to_text(result))]


def is_embedding(result: Any) -> bool:
    """Whether *result* is a vector or a list of vectors, of which the text is only a summary."""
    return _vectors(result) is not None


def shape_block(block: Block, revision: Revision) -> Block:
    """*block* in the nearest form that *revision* has."""
    kind = block["type"]
    if kind == "audio" and not revision.audio:
        resource = {"uri": "urn:colabhive:audio", "mimeType": block["mimeType"], "blob": block["data"]}
        return {"type": "resource", "resource": resource}
    if kind == "resource_link" and not revision.resource_links:
        mime_type = f" ({block['mimeType']})" if "mimeType" in block else ""
        more = {key: value for key, value in block.items() if key not in {"type", "name", "uri", "mimeType"}}
        return text_block(f"{block['name']}: {block['uri']}{mime_type}{' ' + to_text(more) if more else ''}")
    return block


def _render_choices(result: Any) -> list[Block] | None:
    choices = result.get("choices") if isinstance(result, dict) else None
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        return None
    blocks = [block for choice in choices for block in _render_choice(choice)]
    return blocks or None


def _render_choice(choice: Mapping[str, Any]) -> Iterator[Block]:
    message = choice.get("message")
    said = message.get("content") if isinstance(message, dict) else choice.get("text")
    text = _join_parts(said)
    if text:
        yield text_block(text)
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    if calls:
        yield text_block(to_text({"tool_calls": calls}))
    if not text and not calls:
        yield text_block(to_text(choice))


def find_untold(result: Any) -> dict[str, Any] | None:
    """What the blocks of choices don't tell, such as usage, ids and finish reasons; None where that is nothing."""
    if _render_choices(result) is None:
        return None
    choices = [_leave_told(choice) for choice in result["choices"]]
    rest = {key: value for key, value in result.items() if key != "choices"}
    return ({**rest, "choices": choices} if any(choices) else rest) or None


def _leave_told(choice: Mapping[str, Any]) -> dict[str, Any]:
    """A choice without its words and without its place, which the order of the blocks tells."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return {key: value for key, value in choice.items() if key not in ("text", "index")}
    untold = {key: value for key, value in message.items() if key not in ("role", "content", "tool_calls")}
    rest = {key: value for key, value in choice.items() if key not in ("message", "index")}
    return {**rest, "message": untold} if untold else rest


def _join_parts(content: Any) -> str:
    """A message's content, a text or a list of parts, as one text."""
    if not isinstance(content, list):
        return to_text(content) if content is not None else ""
    parts = (part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part for part in content)
    return "\n".join(to_text(part) for part in parts if part is not None)


def _render_blocks(result: Any) -> list[Block] | None:
    """MCP blocks that the gateway made itself: each that is in order passes through, any other is shown as text."""
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list) or not content:
        return None
    if not all(map(is_known, content)):
        return None
    plain = [drop_nulls(block) for block in content]
    blocks = [block if is_in_order(block) else text_block(to_text(block)) for block in plain]
    rest = {key: value for key, value in result.items() if key != "content"}
    return blocks + ([text_block(to_text(rest))] if rest else [])


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_number, value))


def _vectors(result: Any) -> Sequence[Sequence[float]] | None:
    if not isinstance(result, dict):
        return None
    one, many = result.get("embedding"), result.get("embeddings")
    if isinstance(one, list) and _is_vector(one):
        return [one]
    return many if isinstance(many, list) and many and all(map(_is_vector, many)) else None


def _render_embedding(result: Any) -> list[Block] | None:
    vectors = _vectors(result)
    if vectors is None:
        return None
    count = f"{len(vectors)} embedding{'s' if len(vectors) > 1 else ''}"
    shown = ", ".join(to_text(number) for number in vectors[0][:_SHOWN_VALUES])
    more = ", …" if len(vectors[0]) > _SHOWN_VALUES else ""
    return [text_block(f"{count} of dimension {len(vectors[0])}; the first begins [{shown}{more}]")]


def _render_media(result: Any) -> list[Block] | None:
    """Images and sounds in base64, then whatever else came with them; null is none."""
    if not isinstance(result, dict):
        return None
    stated = _text_or_none(result.get("mime_type"))
    given = {key: result[key] for key in (*MEDIA, "images") if result.get(key) is not None}
    found = [to_media(given[key], stated, kind) for key, kind in MEDIA.items() if key in given]
    images = given.get("images", [])
    pictures = [_to_image(image, stated) for image in images] if isinstance(images, list) else [None]
    blocks = [[block] if block else None for block in found] + pictures
    known = [each for each in blocks if each]
    if not known or len(known) < len(blocks):
        return None
    shown = {*MEDIA, "images", *(["mime_type"] if stated else [])}
    return [block for each in known for block in each] + _render_rest(result, shown)


def _to_image(image: Any, stated: str | None) -> list[Block] | None:
    """One entry of a list of images, and what else it says."""
    if not isinstance(image, dict):
        block = to_media(image, stated, "image")
        return [block] if block else None
    own = _text_or_none(image.get("mime_type"))
    data = image.get("image_b64")
    key, convert = ("url", to_link) if data is None else ("image_b64", to_media)
    block = convert(image.get(key), own or stated, "image")
    return [block, *_render_rest(image, {"image_b64", key, *(["mime_type"] if own else [])})] if block else None


def _render_links(result: Any) -> list[Block] | None:
    if not isinstance(result, dict):
        return None
    stated = _text_or_none(result.get("mime_type"))
    kinds = _LINKS if stated else {key: kind for key, kind in _LINKS.items() if key != "url"}
    links = {key: to_link(result.get(key), stated, kind) for key, kind in kinds.items()}
    known = {key: block for key, block in links.items() if block}
    if not known:
        return None
    return [*known.values(), *_render_rest(result, {*known, *(["mime_type"] if stated else [])})]


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _render_rest(result: Mapping[str, Any], shown: set[str]) -> list[Block]:
    rest = {key: value for key, value in result.items() if key not in shown}
    return [text_block(to_text(rest))] if rest else []


def _render_judgement(result: Any) -> list[Block] | None:
    """Answers and rankings: a line each, best first, then the JSON."""
    inner = result.get("result") if isinstance(result, dict) else None
    for holder in (result, inner):
        if not isinstance(holder, dict):
            continue
        lines = _say_answers(holder.get("answers")) or _say_ranked(holder.get("ranked"))
        if lines:
            return [text_block("\n".join(lines)), text_block(to_text(result))]
    return None


def _weigh(entry: Mapping[str, Any]) -> float | None:
    numbers = (entry.get(key) for key in ("prob", "score", "confidence"))
    return next((number for number in numbers if is_number(number)), None)


def _say_answers(answers: Any) -> list[str] | None:
    if not isinstance(answers, dict) or not answers or not all(isinstance(one, dict) for one in answers.values()):
        return None
    best_first = sorted(answers.items(), key=lambda pair: -(_weigh(pair[1]) or 0))
    return [f"{name} ({answer.get('type', 'answer')}): {_say_members(answer)}" for name, answer in best_first]


def _say_members(answer: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {to_text(value)}" for key, value in answer.items() if key != "type")


def _say_ranked(ranked: Any) -> list[str] | None:
    if not isinstance(ranked, list) or not ranked:
        return None
    if not all(isinstance(entry, dict) and "candidate" in entry for entry in ranked):
        return None
    best_first = sorted(ranked, key=lambda entry: (_rank(entry), -(_weigh(entry) or 0)))
    return [
        f"{place}. {to_text(entry['candidate'])}{_say_weight(_weigh(entry))}"
        for place, entry in enumerate(best_first, start=1)
    ]


def _say_weight(weight: float | None) -> str:
    if weight is None:
        return ""
    return f" ({weight:.4g})" if isinstance(weight, float) else f" ({weight})"


def _rank(entry: Mapping[str, Any]) -> float:
    rank = entry.get("rank")
    return rank if is_number(rank) else math.inf


_RECOGNISERS: tuple[Recogniser, ...] = (
    _render_choices,
    _render_blocks,
    _render_embedding,
    _render_media,
    _render_links,
    _render_judgement,
)
