"""Pictures and sound as bytes.

Owns the PNG and the WAV encoding. Must not know where the numbers come from.
"""

import io
import math
import struct
import wave
import zlib
from collections.abc import Sequence

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
SAMPLE_RATE = 8000


def encode_sparkline(values: Sequence[float], *, width: int, height: int) -> bytes:
    """Draw *values* from left to right as a dark line on white: a grey-scale PNG of *width* by *height* pixels."""
    rows = [bytearray(b"\xff" * width) for _ in range(height)]
    heights = [_scale(values, x / max(width - 1, 1), height) for x in range(width)]
    for x, y in enumerate(heights):
        before = heights[x - 1] if x else y
        for between in range(min(before, y), max(before, y) + 1):
            rows[between][x] = 0x20
    return _encode_png(rows, width, height)


def encode_tone(frequency: float, seconds: float) -> bytes:
    """A sine of *frequency* hertz for *seconds*, faded at both ends: a WAV of 16-bit mono samples."""
    count = max(1, round(seconds * SAMPLE_RATE))
    fade = max(1, min(count // 2, SAMPLE_RATE // 100))
    step = 2 * math.pi * frequency / SAMPLE_RATE
    samples = [round(24000 * math.sin(step * n) * min(1.0, n / fade, (count - n) / fade)) for n in range(count)]
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(SAMPLE_RATE)
        out.writeframes(struct.pack(f"<{count}h", *samples))
    return buffer.getvalue()


def _scale(values: Sequence[float], place: float, height: int) -> int:
    """The pixel row, counted from the top, of the line at *place* (0 to 1 of the way)."""
    at = place * (len(values) - 1)
    left = min(int(at), len(values) - 1)
    right = min(left + 1, len(values) - 1)
    value = values[left] + (values[right] - values[left]) * (at - left)
    low, high = min(values), max(values)
    share = (value - low) / (high - low) if high > low else 0.5
    return round((1 - share) * (height - 1))


def _encode_png(rows: Sequence[bytearray], width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = b"".join(b"\x00" + bytes(row) for row in rows)  # a filter byte of 0 before each row: not filtered
    return PNG_SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(pixels)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
