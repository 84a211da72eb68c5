"""The built-in actions: what comes out can be decoded and is right."""

import base64
import io
import itertools
import math
import struct
import wave
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from colabhive_mcp.localgateway.actions import ACTIONS, ActionError, Context, Pause
from colabhive_mcp.localgateway.media import PNG_SIGNATURE, SAMPLE_RATE


def run(name: str, /, **arguments: Any) -> Any:
    """The result of an action that takes no time."""
    return ACTIONS[name](arguments, Context(append_note=lambda _: 1, chat=None, metrics={}))


def decode_png(data: bytes) -> tuple[int, int, list[bytes]]:
    """Width, height and pixel rows of a grey-scale PNG; every checksum has to be right."""
    assert data.startswith(PNG_SIGNATURE)
    chunks, place = {}, len(PNG_SIGNATURE)
    while place < len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        body = data[place + 8 : place + 8 + size]
        assert struct.unpack_from(">I", data, place + 8 + size)[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + size
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert form == [8, 0, 0, 0, 0]
    pixels = zlib.decompress(chunks[b"IDAT"])
    assert len(pixels) == height * (width + 1)
    return width, height, [pixels[y * (width + 1) + 1 : (y + 1) * (width + 1)] for y in range(height)]


class TestText:
    """echo and text-stats."""

    @pytest.mark.parametrize(
        ("arguments", "result"),
        [({"text": "a", "more": 1}, "a"), ({"text": 5}, {"text": 5}), ({}, {}), ({"text": ""}, "")],
    )
    def test_echo(self, arguments: Mapping[str, Any], result: Any) -> None:
        """A text comes back alone, and input without one comes back whole."""
        assert run("echo", **arguments) == result

    @pytest.mark.parametrize(
        ("text", "counts"),
        [
            ("", (0, 0, 0, 0, "")),
            ("Bees dance.\nHives hum!", (22, 4, 2, 2, "dance")),
            ("  — … ", (6, 0, 1, 1, "")),
            ("Größe 漢字 a-b", (12, 3, 1, 1, "Größe")),
        ],
    )
    def test_text_stats(self, text: str, counts: tuple[Any, ...]) -> None:
        """Characters are code points, and words have a letter or digit, in any language."""
        stats = run("text-stats", text=text)
        assert tuple(stats[key] for key in ("characters", "words", "lines", "sentences", "longest_word")) == counts


class TestEmbedding:
    """hash-embedding."""

    def test_length_and_dimension(self) -> None:
        """A vector has the dimension asked for, and length 1."""
        for dimension in (2, 64, 300):
            vector = run("hash-embedding", text="the bees of the hive", dimension=dimension)["embedding"]
            assert len(vector) == dimension
            assert math.isclose(sum(value * value for value in vector), 1, abs_tol=1e-4)

    def test_texts_that_share_words_are_near(self) -> None:
        """The cosine of two texts rises with the words that they share."""
        bees, more_bees, else_ = run("hash-embedding", text=["busy bees fly", "busy bees hum", "cold iron ore"])[
            "embeddings"
        ]
        near, far = (sum(a * b for a, b in zip(bees, other, strict=True)) for other in (more_bees, else_))
        assert near > 0.3 > far

    def test_same_text_same_vector(self) -> None:
        """Alone or in a list, and at any time, a text has one vector."""
        alone = run("hash-embedding", text="bee")["embedding"]
        assert run("hash-embedding", text=["bee", "bee"])["embeddings"] == [alone, alone]
        assert run("hash-embedding", text=[])["embeddings"] == []


class TestMedia:
    """sparkline and tone."""

    @pytest.mark.parametrize(("width", "height"), [(240, 60), (2, 2), (17, 5)])
    def test_sparkline_is_a_png(self, width: int, height: int) -> None:
        """The image is a PNG of the size asked for, with a mark in every column."""
        result = run("sparkline", values=[1, 5, 2, 8.5, -3], width=width, height=height)
        assert result["mime_type"] == "image/png"
        found_width, found_height, rows = decode_png(base64.b64decode(result["image_b64"], validate=True))
        assert (found_width, found_height) == (width, height)
        assert all(min(column) < 0xFF for column in zip(*rows, strict=True))

    def test_sparkline_follows_its_values(self) -> None:
        """The highest value touches the top row and the lowest the bottom row, each in its place."""
        result = run("sparkline", values=[0, 10, 0], width=21, height=9)
        _, _, rows = decode_png(base64.b64decode(result["image_b64"]))
        assert rows[0][10] < 0xFF
        assert rows[0][0] == 0xFF
        assert rows[-1][0] < 0xFF
        assert rows[-1][20] < 0xFF

    @pytest.mark.parametrize("values", [[7], [3, 3, 3], [1e300, -1e300]])
    def test_sparkline_of_odd_values(self, values: list[float]) -> None:
        """One value, equal values and huge ones are drawn."""
        decode_png(base64.b64decode(run("sparkline", values=values)["image_b64"]))

    @pytest.mark.parametrize(("frequency", "seconds"), [(440, 0.5), (3900, 0.01), (20, 1)])
    def test_tone_is_a_wav(self, frequency: float, seconds: float) -> None:
        """The audio is a mono WAV of the duration asked for, and swings at the frequency asked for."""
        result = run("tone", frequency=frequency, seconds=seconds)
        assert result["mime_type"] == "audio/wav"
        with wave.open(io.BytesIO(base64.b64decode(result["audio_b64"], validate=True))) as audio:
            assert (audio.getnchannels(), audio.getsampwidth(), audio.getframerate()) == (1, 2, SAMPLE_RATE)
            count = audio.getnframes()
            samples = struct.unpack(f"<{count}h", audio.readframes(count))
        assert count == round(seconds * SAMPLE_RATE)
        crossings = sum(1 for a, b in itertools.pairwise(samples) if (a < 0) != (b < 0))
        assert abs(crossings - 2 * frequency * seconds) <= 2


class TestOthers:
    """slow-count, notes-append, chat, fail, and input that no schema has checked."""

    def test_slow_count_steps(self) -> None:
        """A count waits an interval before each number and says how far it is."""
        steps = run("slow-count", to=3, interval=0.5)
        assert [next(steps) for _ in range(3)] == [Pause(0.5, f"counted {number} of 3") for number in range(3)]
        with pytest.raises(StopIteration) as end:
            next(steps)
        assert end.value.value == {"counted": 3}

    def test_slow_count_needs_no_argument(self) -> None:
        """Without arguments it counts to five, 0.4 seconds apart."""
        assert list(run("slow-count")) == [Pause(0.4, f"counted {number} of 5") for number in range(5)]

    def test_notes_append(self) -> None:
        """The line goes to the account's notes, and their number comes back."""
        lines: list[str] = []
        context = Context(append_note=lambda line: lines.append(line) or 7, chat=None, metrics={})
        assert ACTIONS["notes-append"]({"line": "a"}, context) == {"notes": 7}
        assert lines == ["a"]

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("text-stats", {}),
            ("text-stats", {"text": 5}),
            ("hash-embedding", {"text": [1]}),
            ("hash-embedding", {"text": "a", "dimension": True}),
            ("sparkline", {}),
            ("sparkline", {"values": []}),
            ("sparkline", {"values": ["1"]}),
            ("sparkline", {"values": [1], "width": 1}),
            ("tone", {"frequency": 5}),
            ("tone", {"seconds": "long"}),
            ("notes-append", {}),
            ("chat", {}),
            ("chat", {"messages": ["hello"]}),
        ],
    )
    def test_input_that_no_schema_checked(self, name: str, arguments: Mapping[str, Any]) -> None:
        """An action registered under another schema still refuses input that it cannot use, and names it."""
        with pytest.raises(ActionError) as refused:
            run(name, **arguments)
        assert refused.value.code == "invalid_input"
        assert refused.value.message.split(":")[0] in {
            "text",
            "values",
            "width",
            "dimension",
            "frequency",
            "seconds",
            "line",
            "messages",
        }

    def test_fail(self) -> None:
        """The failing action fails as it is told to."""
        with pytest.raises(ActionError, match="Not today") as failed:
            run("fail", code="no_luck", message="Not today.")
        assert failed.value.code == "no_luck"
