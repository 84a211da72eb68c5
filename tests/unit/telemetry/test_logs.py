"""Log lines: their form, and that no key is ever in one."""

import io
import json
import logging
import urllib.parse
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabhive_mcp.telemetry.events import (
    Event,
    Failed,
    FrameSeen,
    ManifestFailed,
    ManifestFetched,
    SessionStarted,
    ToolInvoked,
    ToolLeftOut,
    ToolRewritten,
    Warned,
    discard,
)
from colabhive_mcp.telemetry.logs import LOGGER, Redaction, build_record

KEY = "hive_" + "AbC-d_1234567890xyz"
MARK = "[redacted]"


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Logging as the test sets it up, and afterwards as it was before."""
    root, own = logging.getLogger(), logging.getLogger(LOGGER)
    before = root.handlers[:], root.level, own.level
    root.handlers[:] = []
    with warnings.catch_warnings():
        yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])


def shares(text: str, secret: str, length: int = 6) -> bool:
    """Whether *text* holds that many characters of *secret* in a row."""
    return any(secret[start : start + length] in text for start in range(len(secret) - length + 1))


# Redaction

SHOWN = "shown"
TEXTS = [  # where a key may stand
    KEY,
    f"the key {KEY} is refused",
    f"'X-API-Key': '{KEY}'",
    f"Bearer {KEY}",
    f"x{KEY}y",
    f"{KEY}, {KEY}",
    f"https://x.test/a?api_key={KEY}&b=1",
    f"https://x.test/a%3Fkey%3D{KEY}",
    f"https://{KEY}@x.test/a",
    f"https://user:{KEY}@x.test/a",
    f"https://{KEY}:pass@x.test/a",
    f"line\n{KEY}\nline",
    repr(f"line\n{KEY}\nline"),
    json.dumps({"headers": {"X-API-Key": f"\t{KEY}"}}),
    json.dumps(json.dumps({"key": f"\n{KEY}"})),
    repr(KEY.encode()),
    repr(ValueError(f"bad header {KEY!r}")),
    KEY[:14],
]


@pytest.mark.parametrize("secrets", [(), (KEY,)])
@pytest.mark.parametrize("text", TEXTS)
def test_keys_are_redacted(text: str, secrets: tuple[str, ...]) -> None:
    """What has the form of a key is taken out wherever it stands, whether it is ours or not."""
    redacted = Redaction(secrets)(text)
    assert MARK in redacted
    assert not shares(redacted.replace(MARK, ""), KEY)


ODD_SECRETS = [
    "not-in-the-form-of-a-key",
    "with space and words",
    "with\nnewline",
    "  padded-secret  ",
    'quoted"secret\\x',
    "it's'quoted",
    "ümläut-secret",
    "percent%secret/slash?query=1",
    "key-with-plus+sign",
    "\U0001f511-key-secret",
]


@pytest.mark.parametrize("secret", ODD_SECRETS)
@pytest.mark.parametrize(
    "show",
    [
        str,
        repr,
        json.dumps,
        lambda secret: json.dumps(secret, ensure_ascii=False),
        lambda secret: repr(ValueError(f"bad {secret}")),
        lambda secret: json.dumps(json.dumps(f"bad {secret!r}")),
        lambda secret: repr(json.dumps({"text": f"it's {secret}"})),
        lambda secret: f"https://x.test/?k={urllib.parse.quote(secret.strip(), safe='')}",
        lambda secret: f"https://x.test/?k={urllib.parse.quote_plus(secret.strip())}",
        lambda secret: f"{secret.strip()}|{secret.strip()}",
        lambda secret: secret.replace("\n", " "),
    ],
)
def test_secrets_of_any_form_are_redacted(secret: str, show: Any) -> None:
    """A secret that was told is taken out in the forms in which Python, JSON and URLs write it."""
    redacted = Redaction([secret])(f"before {show(secret)} behind")
    assert MARK in redacted
    assert not any(shares(redacted, word) for word in secret.split() if len(word) >= 6)
    assert redacted.startswith("before ")
    assert redacted.endswith(" behind")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://user:p@ss@x.test/a", f"https://{MARK}@x.test/a"),
        ("redis://:secret@10.0.0.1:6379/0", f"redis://{MARK}@10.0.0.1:6379/0"),
        ("HTTP://User@x.test", f"HTTP://{MARK}@x.test"),
        ("see https://a:b@x.test and https://c:d@y.test", f"see https://{MARK}@x.test and https://{MARK}@y.test"),
        ('{"url": "https://x.test", "mail": "a@x.test"}', '{"url": "https://x.test", "mail": "a@x.test"}'),
        ('["https://x.test","a@x.test"]', '["https://x.test","a@x.test"]'),
        ("https://x.test/path?mail=a@x.test", "https://x.test/path?mail=a@x.test"),
        ("https://x.test?mail=a@x.test", "https://x.test?mail=a@x.test"),
        ("https://x.test/@scope/name", "https://x.test/@scope/name"),
        ("a@x.test", "a@x.test"),
    ],
)
def test_credentials_in_urls(text: str, expected: str) -> None:
    """What stands before the host of a URL is taken out, and nothing else that has an at sign."""
    assert Redaction()(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hive",
        "hive_",
        "HIVE_x",
        "archive_format",
        "archive_search",
        "beehive_count",
        "colabhive_mcp.cli",
        "a hive of bees",
        "hive-x",
    ],
)
def test_what_is_no_key_stays(text: str) -> None:
    """Words that only look a little like a key are let be."""
    assert Redaction([])(text) == text
    assert Redaction(["", " ", "abc"])(text) == text


@pytest.mark.parametrize(("secret", "taken"), [("abcde", False), ("abcdef", True), ("ab cdefgh", True)])
def test_how_short_a_secret_may_be(secret: str, taken: bool) -> None:
    """From six characters on a secret, or a word of it, is taken out; a shorter one would take words with it."""
    assert (MARK in Redaction([secret])(f"x {secret.rsplit(maxsplit=1)[-1]} y")) is taken


@settings(max_examples=150, deadline=None)
@given(
    before=st.text(max_size=10).filter(lambda text: not text.endswith(("arc", "bee"))),
    key=st.text("abcXYZ019_-", min_size=6, max_size=20),
    behind=st.text(max_size=10),
)
def test_no_key_survives(before: str, key: str, behind: str) -> None:
    """Whatever stands around it, no part of a key is left."""
    redacted = Redaction()(f"{before}hive_{key}{behind}")
    assert f"hive_{key}" not in redacted


# Lines


def lines(stream: io.StringIO) -> list[str]:
    """What was logged."""
    return stream.getvalue().splitlines()


def start(**options: Any) -> tuple[Any, io.StringIO]:
    """A sink, and what it writes to."""
    stream = io.StringIO()
    settings = {"level": "info", "log_format": "json", "redact": Redaction([KEY]), **options}
    return build_record(stream=stream, **settings), stream


EVENTS: list[tuple[Event, str, str, dict[str, Any]]] = [  # an event, its level, its name, its fields
    (
        SessionStarted("c", None, "2025-11-25", "stdio"),
        "INFO",
        "mcp.session.started",
        {"client": "c", "protocol_version": "2025-11-25", "transport": "stdio"},
    ),
    (
        ManifestFetched(1.5, 10, 2, 'W/"x"', unchanged=False),
        "INFO",
        "manifest.fetched",
        {"duration_ms": 1.5, "bytes": 10, "tools": 2, "etag": 'W/"x"', "unchanged": False},
    ),
    (
        ManifestFailed("away", 1.0, None),
        "WARNING",
        "manifest.failed",
        {"error": "away", "retry_in_s": 1.0},
    ),
    (ToolLeftOut("t", "why"), "WARNING", "manifest.tool_left_out", {"tool": "t", "reason": "why"}),
    (ToolRewritten("t", "how"), "WARNING", "manifest.tool_rewritten", {"tool": "t", "reason": "how"}),
    (
        ToolInvoked("s", sync=True, latency_ms=2.0, status="succeeded"),
        "INFO",
        "mcp.tool.invoked",
        {"slug": "s", "sync": True, "latency_ms": 2.0, "status": "succeeded"},
    ),
    (Warned("words"), "WARNING", "mcp.warning", {"message": "words"}),
    (Failed("e", "trace\nback"), "ERROR", "mcp.internal_error", {"error": "e", "traceback": "trace\nback"}),
    (FrameSeen("in", '{"id":1}'), "INFO", "mcp.jsonrpc", {"direction": "in", "frame": '{"id":1}'}),
]


@pytest.mark.parametrize(("event", "level", "name", "fields"), EVENTS)
def test_json_lines(event: Event, level: str, name: str, fields: dict[str, Any]) -> None:
    """An event is one JSON object on one line: time, level, name, and the fields that are known."""
    record, stream = start()
    record(event)
    (line,) = lines(stream)
    written = json.loads(line)
    assert written.pop("time")
    assert written == {"level": level, "logger": LOGGER, "event": name, **fields}


@pytest.mark.parametrize(("event", "level", "name", "fields"), EVENTS)
def test_text_lines(event: Event, level: str, name: str, fields: dict[str, Any]) -> None:
    """An event is one line of text: level, name, and the fields as words."""
    record, stream = start(log_format="text")
    record(event)
    (line,) = lines(stream)
    assert line.startswith(f"{level} {name} ")
    assert [word.partition("=")[0] for word in line.split() if "=" in word] == list(fields)


@pytest.mark.parametrize("log_format", ["json", "text"])
@pytest.mark.parametrize("words", ["a\nERROR forged", "a b", "a\r\nb", "a\u2028b\u2029c\x85d", "a\x1b[31mb"])
def test_no_value_forges_a_line(words: str, log_format: str) -> None:
    """A value with a line break or a control character is quoted, so that it cannot pass for a line of its own."""
    record, stream = start(log_format=log_format)
    record(ToolInvoked(words, sync=True, latency_ms=1, status="failed", error=words))
    text = stream.getvalue()
    assert len(text.splitlines()) == 1
    assert text.rstrip("\n").isprintable()
    assert log_format == "text" or json.loads(text)["slug"] == words


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_no_line_holds_a_key(log_format: str) -> None:
    """Events, records of libraries, tracebacks and warnings pass the same redaction."""
    record, stream = start(log_format=log_format, level="debug")
    record(Failed(f"refused {KEY}", f"Traceback: {KEY}"))
    record(FrameSeen("in", json.dumps({"key": f"\n{KEY}"})))
    logging.getLogger("urllib3").debug("GET https://x.test/?key=%s", KEY)
    try:
        raise ValueError(f"bad {KEY}")
    except ValueError:
        logging.getLogger("requests").exception("failed with %r", {"X-API-Key": KEY})
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(f"look at {KEY}", stacklevel=1)
    text = stream.getvalue()
    assert text.count(MARK) >= 6
    assert not shares(text, KEY)


@pytest.mark.parametrize(
    ("level", "own", "others"),
    [
        ("debug", "debug info warning error", "debug info warning error"),
        ("info", "info warning error", "warning error"),
        ("warning", "warning error", "warning error"),
        ("error", "error", "error"),
    ],
)
def test_levels(level: str, own: str, others: str) -> None:
    """The level is that of our own events; of libraries only warnings are shown, but for debugging."""
    _, stream = start(level=level, log_format="text")
    for name in (LOGGER, "urllib3"):
        for each in ("debug", "info", "warning", "error"):
            getattr(logging.getLogger(name), each)(f"{name} {each}")
    seen = [tuple(line.split()[1:]) for line in lines(stream)]
    assert [each for name, each in seen if name == LOGGER] == own.split()
    assert [each for name, each in seen if name == "urllib3"] == others.split()


def test_setting_up_again_replaces() -> None:
    """A second set-up writes to its own stream, and nothing twice."""
    _, first = start()
    record, second = start()
    record(Warned("x"))
    assert (len(lines(first)), len(lines(second))) == (0, 1)


def test_stderr_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a stream lines go to stderr, and nothing to stdout."""
    record = build_record(level="info", log_format="text", redact=Redaction())
    record(Warned("x"))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "WARNING mcp.warning message=x\n")


class Broken(io.StringIO):
    """A stream that cannot be written."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        """Fail."""
        raise self._error


@pytest.mark.parametrize("log_format", ["json", "text"])
@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "full"), ValueError("closed"), UnicodeError("x")])
def test_a_log_that_cannot_be_written(error: Exception, log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A line that cannot be written is dropped, and nothing is said of it anywhere."""
    record = build_record(level="info", log_format=log_format, stream=Broken(error), redact=Redaction())
    record(Warned("x"))
    logging.getLogger("urllib3").warning("x")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_a_closed_log(log_format: str) -> None:
    """A stream that was closed stops nothing."""
    record, stream = start(log_format=log_format)
    stream.close()
    record(Warned("x"))
    logging.getLogger("urllib3").warning("x")


def test_a_record_that_cannot_be_formatted() -> None:
    """A library's record with the wrong arguments is dropped."""
    _, stream = start(log_format="text")
    logging.getLogger("x").warning("%d", "no number")
    assert stream.getvalue() == ""


def test_the_silent_sink() -> None:
    """The sink of tests keeps nothing."""
    assert discard(Warned("x")) is None


def test_events_are_frozen() -> None:
    """An event cannot be changed on its way."""
    with pytest.raises(AttributeError):
        Warned("x").message = "y"  # type: ignore[misc]
