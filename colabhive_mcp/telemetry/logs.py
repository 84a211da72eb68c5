"""Events and log records as lines on stderr or in a file, JSON or text, with everything redacted that looks like a key.

The sink writes through ``logging``, so that what libraries log passes the same redaction. A log that cannot be written
never stops the server: the line is dropped.
"""

from __future__ import annotations

import json
import logging
import re
import select
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import IO, Any

from colabhive_mcp.telemetry.events import Event, Record, to_fields

LOGGER = "colabhive_mcp"

# Of what may stand before a key only our own name and two words are let be: a letter can be the end of "\n" or "%3D".
_KEY = re.compile(r"(?<!colab)(?<!arc)(?<!bee)hive_[A-Za-z0-9_\-]+")
_CREDENTIALS = re.compile(r"://[^/?#\s\"'<>]+@")  # without the scheme, whose search is quadratic in a long word
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.~\-]")
_MARK = "[redacted]"
_SECRET_PART = 6  # a run of a key this long is already too much to show
_PRINTED = 3  # times that a key can have been printed: in an error, in the frame of its result, in the line of that


class Redaction:
    """Replaces keys in text: anything in the form of a key, credentials in URLs, and the secrets it was told."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """*text* without any secret."""
        for secret in self._secrets:
            text = text.replace(secret, _MARK)
        text = _KEY.sub(_MARK, text)
        return _CREDENTIALS.sub(f"://{_MARK}@", text)


def _forms(secret: str) -> set[str]:
    """The ways in which a secret can stand in a message: itself, its words, as Python, JSON or a URL hold it.

    A word within a message within a log line is printed several times over.
    """
    words = {secret, secret.strip(), *secret.split()}
    printed = {secret}
    for _ in range(_PRINTED):
        printed |= {form for each in printed for form in _print(each)}
    quoted = {_NOT_PLAIN.sub(_percent_encode, word) for word in words}
    in_query = {form.replace("%20", "+") for form in quoted}
    return {form for form in words | printed | quoted | in_query if len(form) >= _SECRET_PART}


def _print(text: str) -> set[str]:
    """*text* as Python and JSON print it; Python escapes one quote where the other stands elsewhere in the text."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return {repr(text)[1:-1], escaped, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}


def _percent_encode(match: re.Match[str]) -> str:
    """As ``urllib.parse.quote`` does, which takes start-up longer to load than to do without."""
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace"))


class _RedactedFormatter(logging.Formatter):
    """Formats by another formatter, then redacts the finished line, tracebacks included."""

    def __init__(self, inner: logging.Formatter, redact: Redaction) -> None:
        super().__init__()
        self._inner = inner
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(self._inner.format(record))


class _TextFormatter(logging.Formatter):
    """``LEVEL name key=value …`` for people."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        fields: dict[str, Any] = getattr(record, "fields", {})
        pairs = " ".join(f"{key}={_show(value)}" for key, value in fields.items())
        return f"{line} {pairs}" if pairs else line


def _show(value: Any) -> str:
    """A value as one word; quoted where it would read as several, or as another line of the log."""
    text = str(value)
    return text if text.isprintable() and " " not in text else repr(value)


def _build_json_formatter() -> logging.Formatter:
    from pythonjsonlogger.json import JsonFormatter  # noqa: PLC0415 - loaded only where JSON lines are asked for

    class EventFormatter(JsonFormatter):
        """One JSON object a line: time, level, event, then the event's own fields."""

        def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
            fields = log_data.pop("fields", {})
            return {**log_data, **fields}

    return EventFormatter(
        "%(asctime)s %(levelname)s %(name)s %(message)s",
        rename_fields={"asctime": "time", "levelname": "level", "name": "logger", "message": "event"},
        json_ensure_ascii=False,
    )


# Readers with universal line breaks end a line at these, which JSON allows in a text.
_LINE_ENDS = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"})


class _LazyFormatter(logging.Formatter):
    """Builds the JSON formatter with the first line, so that start-up does not pay for it; a line stays one line."""

    def __init__(self) -> None:
        super().__init__()
        self._inner: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        if self._inner is None:
            self._inner = _TextFormatter()  # for a warning that the import itself may bring
            self._inner = _build_json_formatter()
        line = self._inner.format(record)
        return line if line.isascii() else line.translate(_LINE_ENDS)


def _takes_more(stream: IO[str]) -> bool:
    """Whether a write to *stream* would not wait; what is no file never does."""
    try:
        return bool(select.select((), (stream,), (), 0)[1])
    except (OSError, ValueError, TypeError):
        return True


class _QuietHandler(logging.StreamHandler[Any]):
    """A stderr that is closed, or full since nobody reads it, is no reason to say more, to wait, or to stop."""

    _held: list[str] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line where it can be written at once; where lines are held, later."""
        try:
            line = self.format(record) + self.terminator
        except Exception:  # a record that nobody can format is no line
            return
        if self._held is None:
            self._write(line)
        else:
            self._held.append(line)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Write what comes in the block at its end, in pieces that a pipe takes as one."""
        with self.lock or nullcontext():
            self._held = []
            try:
                yield
            finally:
                held, self._held = self._held, None
                for piece in _to_pieces(held):
                    self._write(piece)

    def _write(self, text: str) -> None:
        with suppress(Exception):
            if _takes_more(self.stream):
                self.stream.write(text)
                self.flush()


def _to_pieces(lines: list[str]) -> Iterator[str]:
    piece = ""
    for line in lines:
        if piece and len(piece) + len(line) > select.PIPE_BUF:
            yield piece
            piece = ""
        piece += line
    if piece:
        yield piece


@contextmanager
def hold_lines() -> Iterator[None]:
    """Write what is logged in the block together at its end: each write costs a turn at the processor."""
    with ExitStack() as held:
        for handler in logging.getLogger().handlers:
            if isinstance(handler, _QuietHandler):
                held.enter_context(handler.hold())
        yield


def build_record(
    *,
    level: str,
    log_format: str,
    stream: IO[str] | None = None,
    redact: Redaction,
) -> Record:
    """Set logging up and answer the sink for events.

    *log_format* is ``json`` or ``text``; *stream* defaults to stderr. ``debug`` shows the records of every library too.
    """
    handler = _QuietHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(_RedactedFormatter(_LazyFormatter() if log_format == "json" else _TextFormatter(), redact))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.captureWarnings(capture=True)
    number = getattr(logging, level.upper())
    logging.getLogger().setLevel(number if level == "debug" else max(number, logging.WARNING))
    logger = logging.getLogger(LOGGER)
    logger.setLevel(number)

    levels = {name.lower(): value for name, value in logging.getLevelNamesMapping().items()}

    def record(event: Event) -> None:
        number = levels[event.level]
        if logger.isEnabledFor(number):
            logger.log(number, event.name, extra={"fields": to_fields(event)})

    return record
