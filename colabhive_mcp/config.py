"""The settings: one table of them, and the one place that reads the environment and the configuration file.

Owns names, defaults, how a value is written, who wins (defaults < file < environment < flags) and what contradicts
what. Everything below the command line gets a finished `Settings` and must not look further. This module is imported
before the first answer of the server, so it loads nothing heavy: no click, no pathlib, and TOML only where there is a
file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from colabhive_mcp.errors import ConfigError

PREFIX = "COLABHIVE_"
PROFILE = "COLABHIVE_PROFILE"
GATEWAY_KEY = "COLABHIVE_GATEWAY_KEY"
OTHER_VARIABLES = (PROFILE, GATEWAY_KEY)

KINDS = ("llm", "specialist", "tool", "trained_model", "generative", "model", "operation")
SIDE_EFFECTS = (
    "network",
    "storage",
    "pii",
    "cost",
    "mutating",
    "external",
    "creates_job",
    "creates_model_version",
)

CLIENT_PROFILES = (
    *("auto", "default", "claude-code", "claude-desktop", "cursor", "vs-code", "codex", "gemini-cli"),
    *("windsurf", "chatgpt", "n8n"),
)

DAY = 86_400.0
MIB = 1024 * 1024
_KEY_PREFIX = "hive_"
_KEY_SHOWN = 3  # characters after the prefix: enough to tell two keys apart, too few to be of use
_KEY_FILE_LIMIT = 65_536
_VALUE_SHOWN = 60
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1024, "mib": MIB, "gib": 1024 * MIB}
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


class Setting(NamedTuple):
    """One row of the table: the name in the file, from which the flag and the variable follow.

    *group* is what the setting is for, so that each command offers the flags of what it uses. *known* are the values
    of a list that this version knows; others draw a warning.
    """

    name: str
    default: Any
    kind: Kind
    help: str
    group: str
    secret: bool = False
    known: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """As it stands on the command line: ``--poll-interval``."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """As it stands in the environment: ``COLABHIVE_POLL_INTERVAL``."""
        return PREFIX + self.name.upper()


def _mask(text: str) -> str:
    """*text* without anything that looks like a key."""
    import re  # noqa: PLC0415 - only for a message

    return re.sub(rf"(?<![A-Za-z0-9]){_KEY_PREFIX}\S+", f"{_KEY_PREFIX}…", text)


def _show(raw: Any) -> str:
    """*raw* for a message: short and masked."""
    text = _mask(str(raw))
    return repr(text if len(text) <= _VALUE_SHOWN else text[:_VALUE_SHOWN] + "…")


def _refuse(expected: str, raw: Any) -> ValueError:
    return ValueError(f"must be {expected}, not {_show(raw)}")


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


def _duration(low: float, high: float) -> Kind:
    parse = _number(low=low, high=high, what="a number of seconds (or such as '1.5s', '5m')", units=_UNITS, whole=False)
    return Kind(parse, "SECONDS", (int, float, str))


def _size(low: int, high: int) -> Kind:
    parse = _number(low=low, high=high, what="a number of bytes (or such as '64MiB')", units=_BYTES, whole=True)
    return Kind(parse, "SIZE", (int, str))


def _count(low: int, high: int) -> Kind:
    return Kind(_number(low=low, high=high, what="a whole number", units={}, whole=True), "NUMBER", (int,))


def _choice(*choices: str, metavar: str = "") -> Kind:
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


PIN = Kind(_parse_pin, "FILE|ETAG")
KEY = Kind(_parse_key, "KEY")
HEADER = Kind(_parse_header, "TEXT")
URL = Kind(_parse_url, "URL")
PATH = Kind(_parse_path, "PATH")
SWITCH = Kind(_parse_switch, "", (bool,))
LIST = Kind(_parse_list, "A,B,…", (list,), many=True)
WAITS = Kind(_parse_waits, "TOOL=SECONDS,…", (list,), many=True)


def _setting(default: Any, kind: Kind, group: str, text: str, **more: Any) -> Any:
    """A field of `Settings` that is also a row of the table."""
    return field(default=default, metadata={"kind": kind, "group": group, "help": text, **more})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Settings:
    """Every setting, checked; durations in seconds, sizes in bytes.

    Each field with a help sentence is one row of the table that flags, variables, file keys and the documentation
    follow. *sources* says where each value came from (``default``, ``file PATH``, ``environment NAME`` or
    ``flag --NAME``), *warnings* what an operator should know at each start, *file* the configuration file that was
    looked for. Raises `ConfigError` where a value is wrong or two contradict each other.
    """

    api_key: str | None = _setting(None, KEY, "gateway", "The API key; better given by variable or file.", secret=True)
    api_key_file: str | None = _setting(None, PATH, "gateway", "A file that holds the API key.")
    api_url: str = _setting("https://api.colabhive.com", URL, "gateway", "Where the gateway is.")
    account_id: str | None = _setting(None, HEADER, "gateway", "The account to act for, sent as X-Account-ID.")
    http_timeout: float = _setting(30.0, _duration(0.01, DAY), "gateway", "How long an HTTP answer may take.")
    connect_timeout: float = _setting(10.0, _duration(0.01, 3600), "gateway", "How long connecting may take.")
    max_response_bytes: int = _setting(64 * MIB, _size(1024, 2**40), "gateway", "The largest answer of the gateway.")
    ca_bundle: str | None = _setting(None, PATH, "gateway", "A file or folder of certificates to trust.")
    verify_tls: bool = _setting(True, SWITCH, "gateway", "Check the gateway's certificate.")

    manifest_ttl: float = _setting(300.0, _duration(0.01, 365 * DAY), "manifest", "How long a manifest stays fresh.")
    manifest_pin: str | None = _setting(
        None, PIN, "manifest", "Serve only this manifest: a file made by `manifest pin`, or an ETag."
    )
    use_etag: bool = _setting(True, SWITCH, "manifest", "Ask the gateway only for a changed manifest.")

    allow_tools: tuple[str, ...] = _setting((), LIST, "filters", "Offer only the tools that match one of these globs.")
    deny_tools: tuple[str, ...] = _setting((), LIST, "filters", "Never offer the tools that match one of these globs.")
    allow_kinds: tuple[str, ...] = _setting((), LIST, "filters", "Offer only tools of these kinds.", known=KINDS)
    deny_side_effects: tuple[str, ...] = _setting(
        (), LIST, "filters", "Never offer tools with one of these side-effects.", known=SIDE_EFFECTS
    )
    stability: str = _setting(
        "beta", _choice("experimental", "beta", "stable"), "filters", "Offer only tools that are at least this stable."
    )
    deprecated: str = _setting(
        "show", _choice("show", "hide"), "filters", "Whether deprecated tools are offered, last of all."
    )

    tool_names: str = _setting(
        "portable", _choice("portable", "exact"), "listing", "Names that every client takes, or the manifest's own."
    )
    schemas: str = _setting(
        "compatible",
        _choice("compatible", "exact"),
        "listing",
        "Schemas that every client takes, or the manifest's own.",
    )
    page_size: int = _setting(0, _count(0, 1_000_000), "listing", "Tools on a page of a list; 0 is one page.")
    listing: str = _setting(
        "all", _choice("all", "search", "auto"), "listing", "List all tools, or some that search; auto by their number."
    )
    listing_threshold: int = _setting(
        100, _count(0, 1_000_000), "listing", "How many tools `listing = auto` lists before it searches."
    )
    client_profile: str = _setting(
        "auto",
        _choice(*CLIENT_PROFILES, metavar="CLIENT"),
        "listing",
        "The client to suit, such as cursor or vs-code; auto goes by its name.",
    )

    sync_timeout: float = _setting(30.0, _duration(1, 300), "calls", "How long the gateway may hold a call open.")
    poll_interval: float = _setting(
        2.0, _duration(0.01, 3600), "calls", "The longest pause between two polls of a job."
    )
    poll_max_wait: float = _setting(300.0, _duration(0.01, 7 * DAY), "calls", "How long a job may take.")
    poll_max_wait_for: tuple[tuple[str, float], ...] = _setting(
        (), WAITS, "calls", "How long the jobs of some tools may take; the first glob that matches counts."
    )
    max_result_bytes: int = _setting(MIB, _size(1024, 2**40), "calls", "The most text that one result carries.")
    artifact_dir: str | None = _setting(None, PATH, "calls", "A folder for results that are too large for a message.")
    upload_dir: str | None = _setting(None, PATH, "calls", "The one folder from which calls may send files.")

    workers: int = _setting(32, _count(1, 1024), "server", "Requests answered at the same time.")
    drain_timeout: float = _setting(1.5, _duration(0, 3600), "server", "How long calls may go on at the end of input.")
    max_message_bytes: int = _setting(
        64 * MIB, _size(1024, 2**40), "server", "The longest line that a client may send."
    )
    log_jsonrpc: bool = _setting(False, SWITCH, "server", "Log every message of the protocol.")

    log_level: str = _setting("info", _choice("debug", "info", "warning", "error"), "logs", "How much to log.")
    log_format: str = _setting(
        "auto", _choice("auto", "json", "text"), "logs", "The form of log lines; auto is text on a terminal, else JSON."
    )
    log_file: str | None = _setting(None, PATH, "logs", "A file to log to instead of stderr.")

    sources: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    file: str | None = None

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            value = getattr(self, setting.name)
            if value != setting.default and _parse(setting, value, setting.name) != value:
                raise ConfigError(f"{setting.name} is not in its finished form: {_show_value(setting, value)}.")
        _check_together(self)

    def __repr__(self) -> str:
        changed = [s for s in SETTINGS if getattr(self, s.name) != s.default]
        return f"Settings({', '.join(f'{s.name}={public_value(self, s.name)!r}' for s in changed)})"

    def source(self, name: str) -> str:
        """Where the value of *name* came from."""
        return self.sources.get(name, "default")

    def require_key(self) -> str:
        """The API key, for what cannot do without; `ConfigError` that says how to give one."""
        if self.api_key is None:
            raise ConfigError(
                "There is no API key: set COLABHIVE_API_KEY, or set COLABHIVE_API_KEY_FILE to a file that holds it, "
                f"or write api_key into {self.file or 'the configuration file'}."
            )
        return self.api_key


SETTINGS: tuple[Setting, ...] = tuple(
    Setting(row.name, row.default, **row.metadata) for row in fields(Settings) if "kind" in row.metadata
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}


class _Given(NamedTuple):
    """A raw value, its *source* as `Settings.sources` words it, and *where* as a message names it."""

    raw: Any
    source: str
    where: str


def load_settings(
    *, flags: Mapping[str, Any], environ: Mapping[str, str] | None = None, profile: str | None = None
) -> Settings:
    """The settings of this start.

    *flags* maps names to what the command line gave (None where it gave nothing); *environ* stands in for the process's
    own environment; *profile* outranks ``COLABHIVE_PROFILE``. Raises `ConfigError` that names the flag, variable or
    file and key that is wrong.
    """
    environ = os.environ if environ is None else environ
    profile = profile or environ.get(PROFILE, "").strip() or None
    path = find_file(environ, profile)
    warnings: list[str] = []
    layers = (
        _read_file(path, required=profile is not None, warnings=warnings) if path else {},
        _read_environment(environ, warnings),
        _read_flags(flags, warnings),
    )
    given = _choose(layers)
    values = {name: _parse(_BY_NAME[name], item.raw, item.where) for name, item in given.items()}
    sources = {name: item.source for name, item in given.items()}
    if values.get("api_key_file") and "api_key" not in given:
        values["api_key"] = _load_key(values["api_key_file"], given["api_key_file"].where, warnings)
        sources["api_key"] = f"file {values['api_key_file']}"
    warnings += _list_doubts(values, given)
    return Settings(**values, sources=sources, warnings=tuple(warnings), file=path)


def find_file(environ: Mapping[str, str] | None = None, profile: str | None = None) -> str | None:
    """Where the configuration file of *profile* (or the plain one) has to be; None where there is no home."""
    environ = os.environ if environ is None else environ
    root = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(root):  # the XDG specification: a relative one is to be ignored
        home = environ.get("HOME") or os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        root = os.path.join(home, ".config")
    if profile is None:
        return os.path.join(root, "colabhive-mcp", "config.toml")
    if not profile.replace("-", "").replace("_", "").replace(".", "").isalnum() or profile.startswith("."):
        raise ConfigError(f"A profile's name consists of letters, digits, '-', '_' and '.': {_show(profile)} does not.")
    return os.path.join(root, "colabhive-mcp", "profiles", f"{profile}.toml")


def build_environ(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child process: this one's without its settings, and with *given*."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)} | dict(given)


def public_value(settings: Settings, name: str) -> Any:
    """The value of *name* as plain JSON that may be shown: of a key no more than its first characters."""
    setting, value = _BY_NAME[name], getattr(settings, name)
    if value is None:
        return None
    if setting.secret:
        return _shorten(value)
    if setting.kind is WAITS:
        return [f"{glob}={seconds:g}" for glob, seconds in value]
    return list(value) if isinstance(value, tuple) else value


def _shorten(key: str) -> str:
    prefix = _KEY_PREFIX if key.startswith(_KEY_PREFIX) else ""
    rest = key[len(prefix) :]
    return f"{prefix}{rest[: min(_KEY_SHOWN, len(rest) // 4)]}…"


def _show_value(setting: Setting, value: Any) -> str:
    return "(not shown)" if setting.secret else _show(value)


def _parse(setting: Setting, raw: Any, where: str) -> Any:
    if raw is None:
        return None
    try:
        return setting.kind.parse(raw)
    except ValueError as error:
        raise ConfigError(f"{where} {error}.") from None


def _read_flags(flags: Mapping[str, Any], warnings: list[str]) -> dict[str, _Given]:
    given = {}
    for name, raw in flags.items():
        if raw is None or raw == ():
            continue
        flag = _BY_NAME[name].flag
        given[name] = _Given(raw, f"flag {flag}", flag)
    if "api_key" in given:
        warnings.append(
            "--api-key can be read by every user of this machine in the list of processes: "
            "use COLABHIVE_API_KEY or COLABHIVE_API_KEY_FILE instead."
        )
    return given


def _read_environment(environ: Mapping[str, str], warnings: list[str]) -> dict[str, _Given]:
    given = {}
    for variable, raw in environ.items():
        if not variable.startswith(PREFIX) or not raw.strip():
            continue
        setting = _BY_VARIABLE.get(variable)
        if setting is not None:
            given[setting.name] = _Given(raw, f"environment {variable}", variable)
        elif variable not in OTHER_VARIABLES:
            known = [*_BY_VARIABLE, *OTHER_VARIABLES]
            warnings.append(f"The variable {_show(variable)} is no setting and is ignored{_suggest(variable, known)}.")
    return given


def _read_file(path: str, *, required: bool, warnings: list[str]) -> dict[str, _Given]:
    content = _load_file(path, required=required)
    given = {}
    for key, raw in content.items():
        setting = _BY_NAME.get(key)
        if setting is None:
            raise ConfigError(f"{path} holds the unknown key {_show(key)}{_suggest(key, _BY_NAME)}.")
        where = f"{key} in {path}"
        _check_native(setting, raw, where)
        given[key] = _Given(_anchor(setting, raw, path), f"file {path}", where)
    if "api_key" in given:
        _warn_if_shared(path, warnings)
    return given


def _load_file(path: str, *, required: bool) -> dict[str, Any]:
    """The file's table; empty where it is missing or cannot be seen at all and nobody asked for it by name."""
    try:
        os.stat(path)
    except OSError as error:
        if required:
            raise ConfigError(f"The profile's file {path} cannot be read: {error.strerror}.") from None
        return {}
    import tomllib  # noqa: PLC0415 - costs more than all the rest of this module

    try:
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ConfigError(f"{path} is no TOML file: {error}.") from None


def _check_native(setting: Setting, raw: Any, where: str) -> None:
    native = setting.kind.native
    if not isinstance(raw, native) or (isinstance(raw, bool) and bool not in native):
        names = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", list: "an array"}
        wanted = " or ".join(names[kind] for kind in native)
        raise ConfigError(f"{where} must be {wanted}, not {_show_value(setting, raw)}.")


def _anchor(setting: Setting, raw: Any, path: str) -> Any:
    """Relative paths in the file start at the file: the working directory of a client's server can be anything."""
    if setting.kind not in (PATH, PIN) or not raw.strip() or raw.lstrip().startswith("~"):
        return raw
    if setting.kind is PIN and is_etag(raw.strip()):
        return raw
    return os.path.join(os.path.dirname(path), raw.strip())


def _choose(layers: Iterable[Mapping[str, _Given]]) -> dict[str, _Given]:
    """The layers, the last the strongest, as one; of the two ways to give a key the stronger stays."""
    chosen: dict[str, _Given] = {}
    for layer in layers:
        if "api_key" in layer and "api_key_file" in layer:
            one, other = layer["api_key"].where, layer["api_key_file"].where
            raise ConfigError(f"{one} contradicts {other}: give the key in one way.")
        if "api_key_file" in layer:
            chosen.pop("api_key", None)
        chosen.update(layer)
    return chosen


def _load_key(path: str, where: str, warnings: list[str]) -> str | None:
    """The key in the file *path*; no message repeats what the file holds."""
    if os.path.basename(path).startswith(_KEY_PREFIX) and not os.path.exists(path):
        raise ConfigError(f"{where} holds a key and not the name of a file: give a key with COLABHIVE_API_KEY.")
    try:
        with open(path, encoding="utf-8-sig") as stream:
            text = stream.read(_KEY_FILE_LIMIT)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{where} names {_mask(path)}, which cannot be read: {reason}.") from None
    _warn_if_shared(path, warnings)
    key: str | None = _parse(_BY_NAME["api_key"], text, f"The key in {path}")
    if key is None:
        raise ConfigError(f"{where} names {_mask(path)}, which is empty.")
    return key


def _warn_if_shared(path: str, warnings: list[str]) -> None:
    mode = os.stat(path).st_mode
    if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o077:
        warnings.append(f"{path} holds an API key and other users may read it: chmod 600 {path}")


def _list_doubts(values: Mapping[str, Any], given: Mapping[str, _Given]) -> list[str]:
    """What is allowed and probably not meant."""
    doubts = []
    for setting in SETTINGS:
        for word in values.get(setting.name) or () if setting.known else ():
            if word not in setting.known:
                where = given[setting.name].where
                doubts.append(f"{where} holds {_show(word)}, which no manifest uses{_suggest(word, setting.known)}.")
    if values.get("verify_tls") is False:
        doubts.append(
            f"{given['verify_tls'].where}: the gateway's certificate is not checked; anyone in between can read."
        )
    if _is_exposed(values.get("api_url", "")):
        doubts.append(f"{given['api_url'].where} is not https: the key can be read on the way.")
    return doubts


def _is_exposed(url: str) -> bool:
    """Whether *url* would send the key in the clear to another machine."""
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0]
    host = authority[: authority.rindex("]") + 1] if "]" in authority else authority.partition(":")[0]
    local = host.lower() in ("localhost", "[::1]") or host.startswith("127.")
    return scheme.lower() == "http" and not local


def _check_together(settings: Settings) -> None:
    """What two settings say must be possible at the same time, and what they name must be there."""
    both = [glob for glob in settings.allow_tools if glob in settings.deny_tools]
    if both:
        raise ConfigError(f"{_name(settings, 'allow_tools')} contradicts {_name(settings, 'deny_tools')}: {both[0]!r}.")
    if settings.ca_bundle is not None and not settings.verify_tls:
        raise ConfigError(f"{_name(settings, 'ca_bundle')} contradicts {_name(settings, 'verify_tls')}=false.")
    if settings.ca_bundle is not None and not os.path.exists(settings.ca_bundle):
        raise ConfigError(f"{_name(settings, 'ca_bundle')}: there is no {_mask(settings.ca_bundle)}.")
    pin = settings.manifest_pin
    if pin is not None and not is_etag(pin) and not os.path.isfile(pin):
        raise ConfigError(
            f"{_name(settings, 'manifest_pin')}: there is no file {_mask(pin)}; an ETag is written with its quotes."
        )
    folders = ((settings.artifact_dir, "artifact_dir", True), (settings.upload_dir, "upload_dir", False))
    for path, name, may_come in folders:
        if path is not None and not os.path.isdir(path) and (not may_come or os.path.exists(path)):
            raise ConfigError(f"{_name(settings, name)}: no folder is {_mask(path)}.")


def _name(settings: Settings, name: str) -> str:
    """A setting for a message, with its source."""
    return f"{name} ({settings.source(name)})"


def _suggest(word: str, known: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - only for somebody's typing error

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
