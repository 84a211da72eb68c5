"""Settings: one table, four sources, and refusals that name where the wrong value stands."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from colabhive_mcp.config import (
    GATEWAY_KEY,
    SETTINGS,
    Settings,
    build_environ,
    find_file,
    load_settings,
    public_value,
)
from colabhive_mcp.errors import ConfigError

KEY = "hive_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def home(tmp_path):
    """An empty configuration folder and the environment that points at it."""
    (tmp_path / "colabhive-mcp" / "profiles").mkdir(parents=True)
    return tmp_path / "colabhive-mcp"


def load(home, *, file=None, environ=None, flags=None, profile=None):
    """The settings from the three sources, the environment without its prefix."""
    if file is not None:
        (home / "config.toml").write_text(file)
    variables = {f"COLABHIVE_{name}": value for name, value in (environ or {}).items()}
    return load_settings(flags=flags or {}, environ={"XDG_CONFIG_HOME": str(home.parent), **variables}, profile=profile)


def refusal(*args, **kwargs):
    """The sentence of the refusal to start."""
    with pytest.raises(ConfigError) as caught:
        load(*args, **kwargs)
    assert caught.value.exit_code == 78
    return str(caught.value)


def leaked(key, text):
    """Whether *text* holds six characters in a row of the key's secret part."""
    body = key.removeprefix("hive_")
    return any(body[i : i + 6] in text for i in range(len(body) - 5))


def test_defaults(home):
    """With nothing given every setting has the default of the table, and says so."""
    settings = load(home)
    assert all(getattr(settings, setting.name) == setting.default for setting in SETTINGS)
    assert {settings.source(setting.name) for setting in SETTINGS} == {"default"}
    assert settings.warnings == ()


def test_documented_defaults(home):
    """The defaults are those of the design."""
    settings = load(home)
    assert (settings.api_url, settings.manifest_ttl, settings.poll_interval) == ("https://api.colabhive.com", 300, 2)
    assert (settings.sync_timeout, settings.poll_max_wait, settings.http_timeout) == (30, 300, 30)
    assert (settings.drain_timeout, settings.workers, settings.page_size) == (1.5, 32, 0)
    assert (settings.max_result_bytes, settings.max_response_bytes) == (1 << 20, 64 << 20)
    assert (settings.stability, settings.tool_names, settings.schemas) == ("beta", "portable", "compatible")


def test_precedence(home):
    """A flag beats a variable, a variable beats the file, the file beats the default; the source is kept."""
    file = "poll_interval = 3\npoll_max_wait = 30\nworkers = 3"
    settings = load(
        home, file=file, environ={"POLL_INTERVAL": "4", "POLL_MAX_WAIT": "40"}, flags={"poll_interval": "5"}
    )
    assert (settings.poll_interval, settings.poll_max_wait, settings.workers) == (5, 40, 3)
    assert settings.source("poll_interval") == "flag --poll-interval"
    assert settings.source("poll_max_wait") == "environment COLABHIVE_POLL_MAX_WAIT"
    assert settings.source("workers") == f"file {home / 'config.toml'}"
    assert settings.source("page_size") == "default"


def test_empty_variable_is_unset(home):
    """An empty or blank variable counts as unset, so that the file's value stays."""
    settings = load(home, file='stability = "stable"', environ={"STABILITY": "", "API_KEY": " \n", "WORKERS": " "})
    assert (settings.stability, settings.workers, settings.api_key) == ("stable", 32, None)


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("poll_interval", "1.5", 1.5),
        ("poll_interval", "500ms", 0.5),
        ("poll_max_wait", "5m", 300),
        ("poll_max_wait", "1 h", 3600),
        ("sync_timeout", "300s", 300),
        ("max_result_bytes", "64MiB", 64 << 20),
        ("max_result_bytes", "2 kb", 2000),
        ("max_result_bytes", "1048576", 1 << 20),
        ("max_message_bytes", "1.5gib", 3 << 29),
        ("use_etag", "no", False),
        ("verify_tls", "TRUE", True),
        ("allow_tools", " a*, b ,,a*", ("a*", "b")),
        ("poll_max_wait_for", "train.*=2h, slow=9", (("train.*", 7200), ("slow", 9))),
        ("stability", "Stable", "stable"),
        ("api_url", "http://127.0.0.1:8766/", "http://127.0.0.1:8766"),
        ("api_url", "http://[::1]:80/base/", "http://[::1]:80/base"),
        ("manifest_pin", 'W/"sha256:ab"', 'W/"sha256:ab"'),
        ("manifest_pin", '"strong"', '"strong"'),
        ("page_size", "0", 0),
        ("listing", "AUTO", "auto"),
        ("listing_threshold", "0", 0),
        ("deprecated", "Hide", "hide"),
        ("client_profile", " Claude-Code ", "claude-code"),
    ],
)
def test_forms_of_values(home, name, raw, value):
    """Durations and sizes take units, switches take words, lists take commas; a finished value is left as it is."""
    settings = load(home, environ={name.upper(): raw})
    assert getattr(settings, name) == value
    assert getattr(Settings(**{name: value}), name) == value


def test_lists_in_flags_and_file(home):
    """A repeated flag and an array of the file give the same list as commas do."""
    settings = load(home, file='deny_tools = ["a", "b"]', flags={"allow_tools": ("c,d", "e"), "deny_tools": ()})
    assert (settings.allow_tools, settings.deny_tools) == (("c", "d", "e"), ("a", "b"))


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("sync_timeout", "0"),
        ("sync_timeout", "301"),
        ("poll_interval", "nan"),
        ("poll_interval", "inf"),
        ("poll_interval", "-1"),
        ("poll_interval", "1_0"),
        ("poll_interval", "٣"),
        ("poll_interval", "5 parsecs"),
        ("poll_interval", "s"),
        ("max_result_bytes", "64Mx"),
        ("max_result_bytes", "1e400"),
        ("workers", "1.5"),
        ("workers", "many"),
        ("workers", "0"),
        ("use_etag", "maybe"),
        ("stability", "alpha"),
        ("listing", "some"),
        ("listing_threshold", "-1"),
        ("deprecated", "no"),
        ("client_profile", "emacs"),
        ("manifest_pin", "a\nb"),
        ("poll_max_wait_for", "train"),
        ("poll_max_wait_for", "=3"),
        ("account_id", "a\r\nX-Evil: 1"),
        ("account_id", "ü"),
        ("api_url", "ftp://host"),
        ("api_url", "host"),
        ("api_url", "https://"),
        ("api_url", "https://host:port"),
        ("api_url", "https://host:70000"),
        ("api_url", "https://::1"),
        ("api_url", "https://user:pw@host"),
        ("api_url", "https://host/?key=1"),
        ("api_url", "https://host/a b"),
    ],
)
def test_wrong_values(home, name, raw):
    """A wrong value refuses to start, naming the variable or the flag that holds it."""
    assert refusal(home, environ={name.upper(): raw}).startswith(f"COLABHIVE_{name.upper()} must ")
    assert refusal(home, flags={name: raw}).startswith(f"--{name.replace('_', '-')} must ")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("use_etag = 'true'", "true or false"),
        ("workers = '3'", "a whole number"),
        ("workers = 3.0", "a whole number"),
        ("poll_interval = true", "a number"),
        ("allow_tools = 'a,b'", "an array"),
        ("allow_tools = [1]", "strings"),
        ("stability = 1", "a string"),
        ("api_key = 5", "a string"),
        ("workers = 5000", "from 1 to 1024"),
    ],
)
def test_wrong_types_in_file(home, line, words):
    """In the file each value has its own type; the refusal names key and file."""
    message = refusal(home, file=line)
    assert f"{line.split()[0]} in {home / 'config.toml'} must be" in message
    assert words in message


def test_unknown_key_in_file(home):
    """An unknown key refuses to start and suggests the setting that was meant."""
    message = refusal(home, file="pol_interval = 3")
    assert "unknown key 'pol_interval'" in message
    assert "did you mean poll_interval?" in message
    assert "'server'" in refusal(home, file="[server]\nport = 3")


def test_unknown_variable_warns(home):
    """An unknown COLABHIVE variable is told and ignored; the gateway's own key is no stranger."""
    settings = load(home, environ={"POL_INTERVAL": "3", GATEWAY_KEY.removeprefix("COLABHIVE_"): "hive_x"})
    (warning,) = settings.warnings
    assert "COLABHIVE_POL_INTERVAL" in warning
    assert "did you mean COLABHIVE_POLL_INTERVAL?" in warning


def test_unknown_flag_name_is_our_fault(home):
    """A name outside the table cannot come from a person, so it is no ConfigError."""
    with pytest.raises(KeyError):
        load(home, flags={"nonsense": "1"})


def test_broken_file(home):
    """A file that is no TOML refuses to start with its path and the place."""
    assert str(home / "config.toml") in refusal(home, file="workers = ")
    (home / "config.toml").write_bytes(b"\xff\xfe")
    assert "no TOML file" in refusal(home)


def test_file_that_cannot_be_read(home):
    """A configuration that is there and cannot be read is never silently skipped."""
    (home / "config.toml").mkdir()
    assert "cannot be read" in refusal(home)


def test_no_home(tmp_path):
    """A home that is missing, a file, or relative is no reason to fail."""
    (tmp_path / "file").write_text("")
    for environ in (
        {"HOME": str(tmp_path / "none")},
        {"HOME": str(tmp_path / "file")},
        {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"},
    ):
        assert load_settings(flags={}, environ=environ).workers == 32
    assert find_file({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == "/h/.config/colabhive-mcp/config.toml"


def test_profile(home):
    """A profile is a file of its own in place of the plain one; the flag outranks the variable."""
    (home / "config.toml").write_text("workers = 1")
    (home / "profiles" / "work.toml").write_text("workers = 2")
    (home / "profiles" / "play.toml").write_text("page_size = 3")
    assert load(home, profile="work").workers == 2
    assert load(home, environ={"PROFILE": "work"}).workers == 2
    assert load(home, environ={"PROFILE": "work"}, profile="play").workers == 32


@pytest.mark.parametrize("name", ["none", "../config", "a/b", ".hidden", "a b", "/etc/passwd"])
def test_wrong_profile(home, name):
    """A profile that is missing or whose name leaves the folder refuses to start."""
    assert "profile" in refusal(home, profile=name)


def test_key_ways(home, tmp_path):
    """The key comes from a variable, a file or the configuration, without the white space around it."""
    path = tmp_path / "key"
    path.write_bytes(b"\xef\xbb\xbf" + KEY.encode() + b"\r\n")
    path.chmod(0o600)
    assert load(home, environ={"API_KEY": f" {KEY}\n"}).require_key() == KEY
    settings = load(home, environ={"API_KEY_FILE": str(path)})
    assert (settings.require_key(), settings.warnings) == (KEY, ())
    assert settings.source("api_key") == f"file {path}"
    (home / "config.toml").touch(mode=0o600)
    assert load(home, file=f"api_key = '{KEY}'").require_key() == KEY


def test_missing_key(home):
    """The settings load without a key; what needs one says the three ways to give it."""
    for environ in ({}, {"API_KEY": "  "}):
        with pytest.raises(ConfigError, match=r"COLABHIVE_API_KEY, or set COLABHIVE_API_KEY_FILE .*config\.toml"):
            load(home, environ=environ).require_key()
    with pytest.raises(ConfigError, match="There is no API key"):
        load(home, flags={"api_key": " "}).require_key()


def test_key_given_twice(home, tmp_path):
    """Two ways from one source contradict each other; from two sources the stronger wins, also over the other way."""
    path = tmp_path / "key"
    path.write_text("hive_from_file")
    path.chmod(0o600)
    message = refusal(home, environ={"API_KEY": KEY, "API_KEY_FILE": str(path)})
    assert "COLABHIVE_API_KEY contradicts COLABHIVE_API_KEY_FILE" in message
    assert load(home, environ={"API_KEY": KEY}, flags={"api_key_file": str(path)}).api_key == "hive_from_file"
    assert load(home, environ={"API_KEY_FILE": str(path)}, flags={"api_key": KEY}).api_key == KEY


@pytest.mark.parametrize("bad", [f"{KEY} {KEY}", f"{KEY}\n{KEY}", f"{KEY}\x07", f"{KEY}ü", f"{KEY}\u200b"])
def test_malformed_key_is_not_shown(home, tmp_path, bad):
    """A key with white space or other characters inside is refused without showing any of it."""
    path = tmp_path / "key"
    path.write_text(bad)
    for message in (
        refusal(home, environ={"API_KEY": bad}),
        refusal(home, flags={"api_key": bad}),
        refusal(home, environ={"API_KEY_FILE": str(path)}),
    ):
        assert "not shown" in message
        assert not leaked(KEY, message)


def test_placeholder_as_key(home):
    """A client that does not fill in its variables is named as the cause."""
    assert "placeholder" in refusal(home, environ={"API_KEY": "${COLABHIVE_API_KEY}"})


@pytest.mark.parametrize("name", ["api_key_file", "api_url", "account_id", "stability", "workers", "verify_tls"])
def test_key_in_the_wrong_setting(home, name):
    """A key that was put into another setting is not repeated by the refusal."""
    raw = KEY if name != "account_id" else f"{KEY}\n{KEY}"
    assert not leaked(KEY, refusal(home, environ={name.upper(): raw}))


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "is empty"), (b" \n", "is empty"), (b"\xff", "not text"), (None, "No such file")]
)
def test_bad_key_file(home, tmp_path, content, words):
    """A key file that is missing, empty or no text refuses to start, naming the variable and the file."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    message = refusal(home, environ={"API_KEY_FILE": str(path)})
    assert "COLABHIVE_API_KEY_FILE" in message
    assert str(path) in message
    assert words in message


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
def test_shared_key_file_warns(home, tmp_path):
    """A key that other users may read in a file draws a warning, in a key file and in the configuration."""
    path = tmp_path / "key"
    path.write_text(KEY)
    path.chmod(0o644)
    (warning,) = load(home, environ={"API_KEY_FILE": str(path)}).warnings
    assert f"chmod 600 {path}" in warning
    (home / "config.toml").touch()
    (home / "config.toml").chmod(0o640)
    (warning,) = load(home, file=f"api_key = '{KEY}'").warnings
    assert "config.toml" in warning


def test_key_flag_warns(home):
    """A key on the command line works and draws one warning that names the better ways."""
    settings = load(home, flags={"api_key": KEY})
    (warning,) = settings.warnings
    assert settings.api_key == KEY
    assert "COLABHIVE_API_KEY_FILE" in warning
    assert not leaked(KEY, warning)


def test_tls(home, tmp_path):
    """Switching the check of certificates off warns at each start; a missing bundle or a bundle beside it refuses."""
    (warning,) = load(home, environ={"VERIFY_TLS": "false"}).warnings
    assert "COLABHIVE_VERIFY_TLS" in warning
    bundle = tmp_path / "ca.pem"
    assert str(bundle) in refusal(home, environ={"CA_BUNDLE": str(bundle)})
    bundle.write_text("")
    assert load(home, environ={"CA_BUNDLE": str(bundle)}).ca_bundle == str(bundle)
    assert "contradicts verify_tls" in refusal(home, environ={"CA_BUNDLE": str(bundle), "VERIFY_TLS": "0"})


@pytest.mark.parametrize(
    ("url", "exposed"),
    [
        ("http://gateway.example", True),
        ("http://localhost:1", False),
        ("http://127.0.0.1:8766", False),
        ("http://[::1]:8766", False),
        ("https://gateway.example", False),
    ],
)
def test_key_in_the_clear_warns(home, url, exposed):
    """A gateway on another machine without https draws a warning."""
    assert bool(load(home, environ={"API_URL": url}).warnings) == exposed


def test_contradicting_filters(home):
    """The same glob allowed and denied refuses to start, naming both sources."""
    message = refusal(home, file='allow_tools = ["x", "a*"]', environ={"DENY_TOOLS": "a*"})
    assert f"allow_tools (file {home / 'config.toml'})" in message
    assert "deny_tools (environment COLABHIVE_DENY_TOOLS)" in message


def test_unknown_filter_words_warn(home):
    """A kind or side-effect that no manifest uses is most likely a typing error, and draws a warning."""
    settings = load(home, environ={"DENY_SIDE_EFFECTS": "netwrok,pii", "ALLOW_KINDS": "llm"})
    (warning,) = settings.warnings
    assert "'netwrok'" in warning
    assert "did you mean network?" in warning


def test_paths(home, tmp_path):
    """``~`` is the home, and a relative path in the file starts at the file."""
    (home / "out").mkdir()
    assert load(home, file='artifact_dir = "out"').artifact_dir == str(home / "out")
    assert load(home, file="", environ={"LOG_FILE": "~/x.log"}).log_file == os.path.expanduser("~/x.log")
    assert load(home, environ={"ARTIFACT_DIR": str(tmp_path / "later")}).artifact_dir == str(tmp_path / "later")
    assert "no folder" in refusal(home, environ={"ARTIFACT_DIR": str(home / "config.toml")})


def test_pins(home):
    """A pin is an ETag, or a file that is there; a relative one in the file starts at the file."""
    (home / "pin.json").write_text("{}")
    assert load(home, file='manifest_pin = "pin.json"').manifest_pin == str(home / "pin.json")
    assert load(home, file="manifest_pin = '\"e\"'").manifest_pin == '"e"'
    for wrong in ("nothing.json", str(home), "sha256:ab", 'W/"half'):
        assert "an ETag is written with its quotes" in refusal(home, file="", environ={"MANIFEST_PIN": wrong})


def test_checked_at_birth():
    """Settings that are wrong cannot be made, by whatever way; made ones cannot be changed."""
    for wrong in ({"workers": 0}, {"poll_interval": "2s"}, {"allow_tools": ["a"]}, {"api_key": "a b"}):
        with pytest.raises(ConfigError):
            Settings(**wrong)
    with pytest.raises(AttributeError):
        Settings().workers = 1


def test_key_is_never_in_text():
    """Neither the text of the settings nor the public value holds more than the first characters of the key."""
    settings = Settings(api_key=KEY)
    assert public_value(settings, "api_key") == "hive_abc…"
    assert not leaked(KEY, f"{settings!r} {settings}")
    assert public_value(Settings(api_key="abcdefgh"), "api_key") == "ab…"
    assert public_value(Settings(api_key="hive_a"), "api_key") == "hive_…"
    assert public_value(Settings(), "api_key") is None


def test_public_values_are_json():
    """Other values are shown as plain JSON that can be given back."""
    settings = Settings(allow_tools=("a", "b"), poll_max_wait_for=(("x*", 600.0), ("y", 0.5)), use_etag=False)
    assert public_value(settings, "allow_tools") == ["a", "b"]
    assert public_value(settings, "poll_max_wait_for") == ["x*=600", "y=0.5"]
    assert public_value(settings, "use_etag") is False


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_table(setting):
    """Each row has a one-line sentence, a default in finished form, and names that follow from its own."""
    assert setting.help.endswith(".")
    assert len(setting.help) < 90
    assert setting.default is None or setting.kind.parse(setting.default) == setting.default
    assert setting.flag == "--" + setting.name.replace("_", "-")
    assert setting.variable == "COLABHIVE_" + setting.name.upper()
    assert not setting.kind.choices or setting.default in setting.kind.choices


def test_child_environment(monkeypatch):
    """A child process inherits everything but the settings of its parent."""
    monkeypatch.setenv("COLABHIVE_API_KEY", KEY)
    monkeypatch.setenv("OTHER", "1")
    environ = build_environ({"COLABHIVE_API_URL": "http://127.0.0.1:1"})
    assert "COLABHIVE_API_KEY" not in environ
    assert (environ["OTHER"], environ["COLABHIVE_API_URL"]) == ("1", "http://127.0.0.1:1")


def test_import_is_light():
    """Importing the settings loads none of what would slow down the start of the server."""
    code = "import colabhive_mcp.config, sys; print(*sys.modules)"
    source = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-S", "-c", code], cwd=source, capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"click", "pathlib", "tomllib", "json", "logging", "requests", "difflib", "urllib.parse"}


def test_file_forms_are_toml(home):
    """Every public value but a missing one can be written into the file as it is shown, and means the same."""
    settings = Settings(allow_tools=("a",), poll_max_wait_for=(("x", 5.0),), account_id="acc")
    lines = []
    for setting in SETTINGS:
        value = public_value(settings, setting.name)
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else repr(value)
            lines.append(f"{setting.name} = {text}")
    file = "\n".join(lines)
    assert tomllib.loads(file)
    again = load(home, file=file)
    assert all(getattr(again, s.name) == getattr(settings, s.name) for s in SETTINGS)
