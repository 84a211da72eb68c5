"""How the values of settings are written: each kind reads a flag, a variable or the file, and says what is wrong.

It knows no setting by name, and reads nothing by itself. It is loaded before the first answer of the server, so it
loads nothing heavy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

DAY = 86_400.0
MIB = 1024 * 1024
KEY_PREFIX = "hive_"
_VALUE_SHOWN = 60
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1024, "mib": MIB, "gib": 1024 * MIB}
_LONGEST_NUMBER = 10  # digits
_SPANS = ("second", "minute", "hour", "day")
_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


class Kind(NamedTuple):
    """How the values of a setting are written.

    *parse* takes what a flag, a variable or the file gives, or a finished value, and answers the finished value; it
    raises `ValueError` with a phrase that goes on after the setting's name ("must be …"). *native* are the types that
    stand for it in the file, *many* says that it is a list.
    """

    parse: Callable[[Any], Any]
    metavar: str
    native: tuple[type, ...] = (str,)
    choices: tuple[str, ...] = ()
    many: bool = False


def mask(text: str) -> str:
    """*text* without anything that looks like a key."""
    import re  # noqa: PLC0415 - only for a message

    return re.sub(rf"(?<![A-Za-z0-9]){KEY_PREFIX}\S+", f"{KEY_PREFIX}…", text)


def show(raw: Any) -> str:
    """*raw* for a message: short and masked."""
    text = mask(str(raw))
    return repr(text if len(text) <= _VALUE_SHOWN else text[:_VALUE_SHOWN] + "…")


def _refuse(expected: str, raw: Any) -> ValueError:
    return ValueError(f"must be {expected}, not {show(raw)}")


def _parse_number(raw: Any, units: Mapping[str, float]) -> float:
    """A number with an optional unit; `ValueError` (without words) where it is none."""
    if not isinstance(raw, str):
        return float(raw)
    text = raw.strip().lower()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    if not digits or not digits.isascii() or "_" in digits:  # float() also takes 1_000 and other scripts' digits
        raise ValueError
    unit = text[len(digits) :].strip()
    if unit and unit not in units:
        raise ValueError
    return float(digits) * (units[unit] if unit else 1)


def _number(*, low: float, high: float, what: str, units: Mapping[str, float], whole: bool) -> Callable[[Any], Any]:
    expected = f"{what} from {low:g} to {high:.12g}"

    def parse(raw: Any) -> float | int:
        try:
            number = _parse_number(raw, units)
        except (ValueError, TypeError, OverflowError):
            raise _refuse(expected, raw) from None
        if isinstance(raw, bool) or not low <= number <= high or (whole and number != int(number)):
            raise _refuse(expected, raw)
        return int(number) if whole else number

    return parse


def duration(low: float, high: float) -> Kind:
    parse = _number(low=low, high=high, what="a number of seconds (or such as '1.5s', '5m')", units=_UNITS, whole=False)
    return Kind(parse, "SECONDS", (int, float, str))


def size(low: int, high: int) -> Kind:
    parse = _number(low=low, high=high, what="a number of bytes (or such as '64MiB')", units=_BYTES, whole=True)
    return Kind(parse, "SIZE", (int, str))


def count(low: int, high: int) -> Kind:
    return Kind(_number(low=low, high=high, what="a whole number", units={}, whole=True), "NUMBER", (int,))


def choice(*choices: str, metavar: str = "") -> Kind:
    expected = f"one of {', '.join(choices)}"

    def parse(raw: Any) -> str:
        value = str(raw).strip().lower()
        if value not in choices:
            raise _refuse(expected, raw)
        return value

    return Kind(parse, metavar or "|".join(choices), (str,), choices)


def _parse_switch(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    value = _SWITCH.get(str(raw).strip().lower())
    if value is None:
        raise _refuse("true or false", raw)
    return value


def _parse_text(raw: Any) -> str | None:
    text = str(raw).strip()
    if not text.isprintable():
        raise _refuse("one line of text", raw)
    return text or None


def _parse_path(raw: Any) -> str | None:
    """A path with ``~`` resolved: desktop clients start servers without a shell that would do it."""
    text = str(raw).strip()
    if "\0" in text:
        raise _refuse("a path", raw)
    return os.path.expanduser(text) if text else None


def is_etag(pin: str) -> bool:
    """Whether *pin*, a value of ``manifest_pin``, is an ETag (RFC 9110, 8.8.3) and not the name of a file."""
    return pin.startswith(('"', 'W/"')) and pin.endswith('"')


def _parse_pin(raw: Any) -> str | None:
    text = _parse_text(raw)
    return text if text is None or is_etag(text) else _parse_path(text)


def _parse_header(raw: Any) -> str | None:
    """Text that is safe as the value of an HTTP header."""
    text = _parse_text(raw)
    if text is not None and not text.isascii():
        raise _refuse("plain ASCII text", raw)
    return text


def _parse_key(raw: Any) -> str | None:
    """The key; no message repeats any of it."""
    key = str(raw).strip()
    if key.startswith("${"):
        raise ValueError("holds a placeholder instead of a key: whatever started this program does not fill it in")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("must be one word of ASCII characters; it holds white space or others (not shown)")
    return key or None


def _parse_list(raw: Any) -> tuple[str, ...]:
    items = [raw] if isinstance(raw, str) else list(raw)
    if not all(isinstance(item, str) for item in items):
        raise _refuse("a list of strings", raw)
    return tuple(dict.fromkeys(word for item in items for part in item.split(",") if (word := part.strip())))


_parse_wait = _number(low=0.01, high=DAY, what="a number of seconds", units=_UNITS, whole=False)


def _parse_waits(raw: Any) -> tuple[tuple[str, float], ...]:
    """``glob=seconds`` words to pairs, in the order given: the first match counts."""
    if isinstance(raw, tuple) and all(isinstance(item, tuple) for item in raw):
        raw = [f"{glob}={seconds}" for glob, seconds in raw]
    pairs = []
    for word in _parse_list(raw):
        glob, equals, seconds = word.partition("=")
        if not (glob.strip() and equals):
            raise _refuse("a list of 'tool=seconds'", word)
        pairs.append((glob.strip(), float(_parse_wait(seconds))))
    return tuple(pairs)


def _parse_url(raw: Any) -> str:
    """The base URL without a trailing slash. It is never repeated: what is wrong with it may be a key inside it."""
    url = str(raw).strip().rstrip("/")
    scheme, separator, rest = url.partition("://")
    authority = rest.partition("/")[0]
    if scheme.lower() not in ("http", "https") or not separator or not _is_authority(authority):
        raise ValueError(
            "must be such as 'https://api.colabhive.com': http or https, a host, perhaps a port and a path"
        )
    if any(mark in rest for mark in "@?#"):
        raise ValueError("must hold no user, password, query or fragment (not shown)")
    if not url.isascii() or not url.isprintable() or any(mark in url for mark in ' \\"<>'):
        raise ValueError("must hold no spaces or special characters (not shown)")
    return url


def _is_authority(text: str) -> bool:
    """``host``, ``host:port``, ``[ipv6]`` or ``[ipv6]:port``."""
    head, bracket, tail = text.rpartition("]")
    name, colon, port = tail.partition(":")
    host = head[1:] if bracket and head.startswith("[") and not name else name if not bracket else ""
    return bool(host) and (not colon or (port.isdecimal() and 0 < int(port) < 65536))


def _parse_address(raw: Any) -> str | None:
    """``host:port``, the host perhaps a bracketed IPv6 address."""
    text = _parse_text(raw)
    host, colon, port = (text or "").rpartition(":")
    if text is not None and not (host and colon and _is_authority(text) and port.isdecimal()):
        raise _refuse("such as '127.0.0.1:9100': a host and a port", raw)
    return text


def _parse_route(raw: Any) -> str:
    """A path of an HTTP server, without an end slash, since it answers with and without one."""
    path = str(raw).strip().rstrip("/")
    if not path.startswith("/") or not path.isascii() or not path.isprintable() or any(c in path for c in "?#% "):
        raise _refuse("a path such as '/mcp'", raw)
    return path


def _parse_origins(raw: Any) -> tuple[str, ...]:
    """Origins as browsers send them (RFC 6454): scheme, host, and the port where it is not the scheme's own."""
    origins = _parse_list(raw)
    for origin in origins:
        scheme, separator, authority = origin.partition("://")
        if origin != "*" and not (separator and scheme.isalpha() and _is_authority(authority)):
            raise _refuse("a list of origins such as 'https://app.example'", origin)
    return tuple(origin.lower() for origin in origins)


def _parse_hosts(raw: Any) -> tuple[str, ...]:
    """Names of hosts as they stand in ``Host``, each with or without a port."""
    hosts = _parse_list(raw)
    for host in hosts:
        if host != "*" and not _is_authority(host):
            raise _refuse("a list of host names such as 'mcp.example'", host)
    return tuple(host.lower() for host in hosts)


def parse_rate(raw: Any) -> str | None:
    """How often something may be done: ``120/minute``, ``1000/5 minutes``; None where nothing is said."""
    text = _parse_text(raw)
    if text is None:
        return None
    count, slash, span = text.lower().partition("/")
    number, _, unit = span.strip().rpartition(" ")
    whole = [part.strip() for part in (count, number or "1")]
    if not slash or unit.removesuffix("s") not in _SPANS or not all(map(_is_positive, whole)):
        raise _refuse("such as '120/minute'", raw)
    spans = f"{int(whole[1])} " if int(whole[1]) > 1 else ""
    return f"{int(whole[0])}/{spans}{unit.removesuffix('s')}"


def _is_positive(digits: str) -> bool:
    return digits.isdecimal() and len(digits) < _LONGEST_NUMBER and int(digits) > 0


def _parse_storage(raw: Any) -> str | None:
    """The URL of a Redis; it is never repeated, since it may hold a password."""
    text = _parse_text(raw)
    if text is not None and not text.startswith(("redis://", "rediss://", "unix://", "redis+unix://")):
        raise ValueError("must be the URL of a Redis, such as 'redis://127.0.0.1:6379' (not shown)")
    return text


PIN = Kind(_parse_pin, "FILE|ETAG")
KEY = Kind(_parse_key, "KEY")
HEADER = Kind(_parse_header, "TEXT")
URL = Kind(_parse_url, "URL")
ADDRESS = Kind(_parse_address, "HOST:PORT")
ROUTE = Kind(_parse_route, "PATH")
RATE = Kind(parse_rate, "NUMBER/TIME")
STORAGE = Kind(_parse_storage, "URL")
PATH = Kind(_parse_path, "PATH")
SWITCH = Kind(_parse_switch, "", (bool,))
LIST = Kind(_parse_list, "A,B,…", (list,), many=True)
ORIGINS = Kind(_parse_origins, "ORIGIN,…", (list,), many=True)
HOSTS = Kind(_parse_hosts, "HOST,…", (list,), many=True)
WAITS = Kind(_parse_waits, "TOOL=SECONDS,…", (list,), many=True)
