"""The settings: one table of them, and the one place that reads the environment and the configuration file.

Owns names, defaults, how a value is written, who wins (defaults < file < environment < flags) and what contradicts
what. Everything below the command line gets a finished `Settings` and must not look further. This module is imported
before the first answer of the server, so it loads nothing heavy: no click, no pathlib, and TOML only where there is a
file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from colabhive_mcp.errors import ConfigError
from colabhive_mcp.kinds import (
    ADDRESS,
    DAY,
    HEADER,
    HOSTS,
    KEY,
    KEY_PREFIX,
    LIST,
    MIB,
    ORIGINS,
    PATH,
    PIN,
    RATE,
    ROUTE,
    STORAGE,
    SWITCH,
    URL,
    WAITS,
    Kind,
    choice,
    count,
    duration,
    is_etag,
    mask,
    show,
    size,
)

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

_KEY_SHOWN = 3  # characters after the prefix: enough to tell two keys apart, too few to be of use
_KEY_FILE_LIMIT = 65_536


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
    http_timeout: float = _setting(30.0, duration(0.01, DAY), "gateway", "How long an HTTP answer may take.")
    connect_timeout: float = _setting(10.0, duration(0.01, 3600), "gateway", "How long connecting may take.")
    max_response_bytes: int = _setting(64 * MIB, size(1024, 2**40), "gateway", "The largest answer of the gateway.")
    ca_bundle: str | None = _setting(None, PATH, "gateway", "A file or folder of certificates to trust.")
    verify_tls: bool = _setting(True, SWITCH, "gateway", "Check the gateway's certificate.")

    manifest_ttl: float = _setting(300.0, duration(0.01, 365 * DAY), "manifest", "How long a manifest stays fresh.")
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
        "beta",
        choice("experimental", "beta", "stable"),
        "filters",
        "Offer only tools that are at least this stable.",
    )
    deprecated: str = _setting(
        "show", choice("show", "hide"), "filters", "Whether deprecated tools are offered, last of all."
    )

    tool_names: str = _setting(
        "portable",
        choice("portable", "exact"),
        "listing",
        "Names that every client takes, or the manifest's own.",
    )
    schemas: str = _setting(
        "compatible",
        choice("compatible", "exact"),
        "listing",
        "Schemas that every client takes, or the manifest's own.",
    )
    page_size: int = _setting(0, count(0, 1_000_000), "listing", "Tools on a page of a list; 0 is one page.")
    listing: str = _setting(
        "all",
        choice("all", "search", "auto"),
        "listing",
        "List all tools, or some that search; auto by their number.",
    )
    listing_threshold: int = _setting(
        100, count(0, 1_000_000), "listing", "How many tools `listing = auto` lists before it searches."
    )
    client_profile: str = _setting(
        "auto",
        choice(*CLIENT_PROFILES, metavar="CLIENT"),
        "listing",
        "The client to suit, such as cursor or vs-code; auto goes by its name.",
    )

    sync_timeout: float = _setting(30.0, duration(1, 300), "calls", "How long the gateway may hold a call open.")
    poll_interval: float = _setting(2.0, duration(0.01, 3600), "calls", "The longest pause between two polls of a job.")
    poll_max_wait: float = _setting(300.0, duration(0.01, 7 * DAY), "calls", "How long a job may take.")
    poll_max_wait_for: tuple[tuple[str, float], ...] = _setting(
        (), WAITS, "calls", "How long the jobs of some tools may take; the first glob that matches counts."
    )
    max_result_bytes: int = _setting(MIB, size(1024, 2**40), "calls", "The most text that one result carries.")
    artifact_dir: str | None = _setting(None, PATH, "calls", "A folder for results that are too large for a message.")
    upload_dir: str | None = _setting(None, PATH, "calls", "The one folder from which calls may send files.")

    workers: int = _setting(32, count(1, 1024), "server", "Requests answered at the same time.")
    drain_timeout: float = _setting(
        1.5, duration(0, 3600), "server", "How long calls may go on at the end; in the relay 30 s."
    )
    max_message_bytes: int = _setting(64 * MIB, size(1024, 2**40), "server", "The longest line that a client may send.")
    log_jsonrpc: bool = _setting(False, SWITCH, "server", "Log every message of the protocol.")

    host: str = _setting("127.0.0.1", HEADER, "relay", "The address to listen on.")
    port: int = _setting(8765, count(0, 65535), "relay", "The port; 0 is any free one.")
    path: str = _setting("/mcp", ROUTE, "relay", "Where the MCP endpoint is.")
    threads: int = _setting(128, count(8, 4096), "relay", "Requests answered at the same time, waiting ones included.")
    tenant_concurrency: int = _setting(32, count(1, 4096), "relay", "Calls of one key at the same time.")
    max_tenants: int = _setting(64, count(1, 100_000), "relay", "Keys whose tools are kept at hand.")
    max_streams: int = _setting(8, count(0, 4096), "relay", "Notification streams of one key; 0 offers none.")
    max_body_bytes: int = _setting(4 * MIB, size(1024, 2**40), "relay", "The longest request that a client may send.")
    rate_limit: str | None = _setting(None, RATE, "relay", "Requests that one key may make, such as 120/minute.")
    rate_limit_storage: str | None = _setting(
        None, STORAGE, "relay", "A Redis that counts for several relays.", secret=True
    )
    cors_origins: tuple[str, ...] = _setting((), ORIGINS, "relay", "Origins of web pages that may ask; * is any.")
    allowed_hosts: tuple[str, ...] = _setting(
        (), HOSTS, "relay", "Names under which clients may ask, beside those of the loopback; * is any."
    )
    trusted_proxy: str | None = _setting(None, HEADER, "relay", "The address whose X-Forwarded headers are believed.")
    metrics_listen: str | None = _setting(
        None, ADDRESS, "relay", "An address for /metrics alone; without one it is answered on the loopback only."
    )

    log_level: str = _setting("info", choice("debug", "info", "warning", "error"), "logs", "How much to log.")
    log_format: str = _setting(
        "auto",
        choice("auto", "json", "text"),
        "logs",
        "The form of log lines; auto is text on a terminal, else JSON.",
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
        raise ConfigError(f"A profile's name consists of letters, digits, '-', '_' and '.': {show(profile)} does not.")
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
    prefix = KEY_PREFIX if key.startswith(KEY_PREFIX) else ""
    rest = key[len(prefix) :]
    return f"{prefix}{rest[: min(_KEY_SHOWN, len(rest) // 4)]}…"


def _show_value(setting: Setting, value: Any) -> str:
    return "(not shown)" if setting.secret else show(value)


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
            warnings.append(f"The variable {show(variable)} is no setting and is ignored{_suggest(variable, known)}.")
    return given


def _read_file(path: str, *, required: bool, warnings: list[str]) -> dict[str, _Given]:
    content = _load_file(path, required=required)
    given = {}
    for key, raw in content.items():
        setting = _BY_NAME.get(key)
        if setting is None:
            raise ConfigError(f"{path} holds the unknown key {show(key)}{_suggest(key, _BY_NAME)}.")
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
    if os.path.basename(path).startswith(KEY_PREFIX) and not os.path.exists(path):
        raise ConfigError(f"{where} holds a key and not the name of a file: give a key with COLABHIVE_API_KEY.")
    try:
        with open(path, encoding="utf-8-sig") as stream:
            text = stream.read(_KEY_FILE_LIMIT)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{where} names {mask(path)}, which cannot be read: {reason}.") from None
    _warn_if_shared(path, warnings)
    key: str | None = _parse(_BY_NAME["api_key"], text, f"The key in {path}")
    if key is None:
        raise ConfigError(f"{where} names {mask(path)}, which is empty.")
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
                doubts.append(f"{where} holds {show(word)}, which no manifest uses{_suggest(word, setting.known)}.")
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
        raise ConfigError(f"{_name(settings, 'ca_bundle')}: there is no {mask(settings.ca_bundle)}.")
    pin = settings.manifest_pin
    if pin is not None and not is_etag(pin) and not os.path.isfile(pin):
        raise ConfigError(
            f"{_name(settings, 'manifest_pin')}: there is no file {mask(pin)}; an ETag is written with its quotes."
        )
    folders = ((settings.artifact_dir, "artifact_dir", True), (settings.upload_dir, "upload_dir", False))
    for path, name, may_come in folders:
        if path is not None and not os.path.isdir(path) and (not may_come or os.path.exists(path)):
            raise ConfigError(f"{_name(settings, name)}: no folder is {mask(path)}.")


def _name(settings: Settings, name: str) -> str:
    """A setting for a message, with its source."""
    return f"{name} ({settings.source(name)})"


def _suggest(word: str, known: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - only for somebody's typing error

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
