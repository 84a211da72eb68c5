"""The key and the start of the real process: where the key may be seen, where it may travel, what starts and what
doesn't.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from colabhive_mcp.localgateway.store import Store
from tests.conftest import Connect
from tests.harness import spec
from tests.harness.client import StdioClient
from tests.harness.gateway import KEY, GatewayProcess
from tests.harness.network import Authority, Forwarder, open_black_hole, open_silence
from tests.harness.processes import COMMAND, INITIALIZE, build_environment
from tests.unit.gateway.scripted import ScriptedServer, answer

INVOKE = "*:invoke"
POLL = "*/invocations/*"
MANIFEST = "*/mcp/manifest"
RUNNING = {"invocation_id": "i-1", "status": "running"}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run("config", environment={…})``: one command to its end, with nothing of this machine's environment."""

    def start(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd="/",
        )

    return start


def find_parts(key: str, text: str) -> list[str]:
    """The runs of six characters of *key*, without the prefix that all keys have, that *text* holds."""
    secret = key.removeprefix("hive_")
    return [part for at in range(len(secret) - 5) if (part := secret[at : at + 6]) in text]


def say(message: dict[str, Any]) -> str:
    """All words of a message."""
    return json.dumps(message, ensure_ascii=False)


# Nowhere a part of the key

KEYS = {
    "ordinary": KEY,
    "quotes and backslashes": 'hive_Zq1"wX2\\eR3%tY4\'uI5oP6aS7dF8"gH9',
    "signs of addresses": "hive_Jk1+Lz2/Xc3=Vb4&Nm5?Qw6#Er7:Ty8@Ui9",
    "markup": "hive_<b>Op1As2Df3</b>Gh4&amp;Jk5Lz6Xc7",
    "no prefix": "Vb1Nm2Qw3Er4Ty5Ui6Op7As8Df9Gh0",
}


def list_indiscretions(key: str) -> list[dict[str, Any]]:
    """Answers of a gateway that says the key in every way it can."""
    return [
        {"status": 401, "body": {"detail": f"unknown key {key}"}},
        {"status": 403, "body": {"error": {"code": key, "message": f"key={key}, not allowed"}}},
        {"status": 400, "body": "x" * 290 + key},
        {"status": 404, "body": {"error": key}},
        {"status": 422, "body": {"detail": [{"loc": ["body", key], "msg": f"{key!r} is wrong"}]}},
        {"status": 500, "body": f"<html><title>{key}</title><p>{key}</p></html>"},
        {"status": 302, "body": "", "headers": {"Location": f"https://elsewhere.example/?key={key}"}},
        {"status": 429, "body": {"detail": key}, "headers": {"Retry-After": "3600"}},
        {"body": f"<html><title>{key}</title></html>"},
        {"body": key},
        {"body": [key]},
        {"body": {"status": "failed", "error": f"no money on {key}"}},
        {"body": {"status": "failed", "error": {"code": key, "message": key}}},
        {"body": {"status": "failed", "invocation_id": key, "error": "none"}},
        {"body": {"status": "running", "key": key}},
    ]


@pytest.mark.parametrize(
    ("case", "log_format"), [*((case, "json") for case in KEYS), ("quotes and backslashes", "text")]
)
def test_no_part_of_the_key_is_told(
    gateway: GatewayProcess, connect: Connect, tmp_path: Path, case: str, log_format: str
) -> None:
    """With everything logged and a gateway that repeats the key, no log, error or progress has six characters of it."""
    key = KEYS[case]
    if key != KEY:
        with Store(gateway.database) as store:
            store.create_key(key)
    client = connect(
        gateway, environment={"COLABHIVE_API_KEY": key}, log_level="debug", log_jsonrpc="true", log_format=log_format
    )
    client.tools()
    assert client.call("echo", {"text": f"my key is {key}!"})["isError"] is False
    told = [client.call("text-stats", {"text": [key]})]
    for fault in list_indiscretions(key):
        gateway.clear()
        gateway.fault(path=INVOKE, **{"times": 1, **fault})
        result = client.call("echo", {"text": "a"})
        assert result["isError"] is True
        told.append(result)
    gateway.clear()
    told += follow_a_talkative_job(client, gateway, key)
    assert [words for words in map(say, told) if find_parts(key, words)] == []
    for method, params in (("tools/call", {"name": key}), ("tools/list", {"cursor": key}), (key, None)):
        assert "error" in client.ask(method, params)
    assert client.close() == 0
    assert find_parts(key, client.stderr) == []
    assert ":invoke HTTP/1.1" in client.stderr  # what urllib3 logs
    if key != KEY:
        with Store(gateway.database) as store:
            store.revoke_key(key)


def follow_a_talkative_job(client: StdioClient, gateway: GatewayProcess, key: str) -> list[dict[str, Any]]:
    """A job that tells the key in its progress, and then in its failure."""
    gateway.fault(path=INVOKE, body={**RUNNING, "status_detail": f"for {key}"})
    gateway.fault(path=POLL, body={**RUNNING, "status": f"loading {key}"})
    gateway.fault(path=POLL, status=400, body={"detail": key})
    params = {"name": "echo", "arguments": {"text": "a"}, "_meta": {"progressToken": "t"}}
    response, before = client.wait(client.request("tools/call", params))
    assert len(before) >= 2
    return [response, *before]


FAILING_URLS = {
    "TLS where none is spoken": lambda url: url.replace("http:", "https:"),
    "nobody there": lambda url: "http://127.0.0.1:9",
    "no such name": lambda url: "http://gateway.invalid",
}


@pytest.mark.parametrize("case", FAILING_URLS)
def test_no_part_of_the_key_is_told_without_a_connection(gateway: GatewayProcess, connect: Connect, case: str) -> None:
    """What is said of a connection that cannot be made holds no part of the key."""
    url = FAILING_URLS[case](gateway.url)
    times = {"connect_timeout": 0.5, "http_timeout": 0.5}
    client = connect(gateway, api_url=url, log_level="debug", log_jsonrpc="true", **times)
    error = client.ask("tools/list")["error"]
    assert error["code"] == -32603
    assert client.close() == 0
    assert find_parts(KEY, say(error) + client.stderr) == []


def test_a_result_may_say_what_the_client_said(gateway: GatewayProcess, connect: Connect) -> None:
    """What a tool gives back is the client's: a result is never changed."""
    text = f"{KEY} and https://user:word@host/"
    assert connect(gateway).call("echo", {"text": text})["content"][0]["text"] == text


WRONG_STARTS = {
    "no key": {},
    "an empty key": {"COLABHIVE_API_KEY": ""},
    "a blank key": {"COLABHIVE_API_KEY": " \t\n"},
    "a key of two lines": {"COLABHIVE_API_KEY": f"{KEY}\n{KEY}"},
    "a key of two words": {"COLABHIVE_API_KEY": f"{KEY} {KEY}"},
    "a key that no header can carry": {"COLABHIVE_API_KEY": f"{KEY}ü"},
    "a placeholder": {"COLABHIVE_API_KEY": "${COLABHIVE_API_KEY}"},
    "a key file that is not there": {"COLABHIVE_API_KEY_FILE": "/nowhere/key"},
    "a key in place of its file": {"COLABHIVE_API_KEY_FILE": KEY},
    "a key in the user of the address": {
        "COLABHIVE_API_KEY": KEY,
        "COLABHIVE_API_URL": f"https://{KEY}@host.example",
    },
    "a key in the password of the address": {
        "COLABHIVE_API_KEY": KEY,
        "COLABHIVE_API_URL": f"https://user:{KEY}@host.example",
    },
    "a key in the query of the address": {
        "COLABHIVE_API_KEY": KEY,
        "COLABHIVE_API_URL": f"https://host.example/?key={KEY}",
    },
    "a key in place of the address": {"COLABHIVE_API_KEY": KEY, "COLABHIVE_API_URL": KEY},
    "a key for the account": {"COLABHIVE_API_KEY": KEY, "COLABHIVE_ACCOUNT_ID": f"{KEY}ü"},
    "a key for a number": {"COLABHIVE_API_KEY": KEY, "COLABHIVE_WORKERS": KEY},
    "a key for a path": {"COLABHIVE_API_KEY": KEY, "COLABHIVE_CA_BUNDLE": f"/nowhere/{KEY}"},
}


@pytest.mark.parametrize("case", WRONG_STARTS)
def test_a_start_without_a_good_key_is_refused(run: Run, case: str) -> None:
    """Where key or address cannot be used, the start ends with 78 and a sentence on stderr that shows neither."""
    ran = run(environment={"COLABHIVE_LOG_LEVEL": "debug", **WRONG_STARTS[case]})
    assert ran.returncode == 78
    assert ran.stdout == ""
    assert ran.stderr.startswith("Error: ")
    assert "COLABHIVE_" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert find_parts(KEY, ran.stderr) == []


@pytest.mark.parametrize("source", ["a variable", "a file", "a file that is named", "a configuration file"])
def test_the_key_is_not_on_the_command_line(
    gateway: GatewayProcess, connect: Connect, tmp_path: Path, source: str
) -> None:
    """A key from the environment or a file works, and the list of processes shows none of it."""
    (tmp_path / "key").write_text(f"\n{KEY}\r\n")
    (tmp_path / "key").chmod(0o600)
    configuration = tmp_path / ".config" / "colabhive-mcp" / "config.toml"
    configuration.parent.mkdir(parents=True)
    ways: dict[str, Any] = {
        "a variable": {},
        "a file": {"environment": {"COLABHIVE_API_KEY": "", "COLABHIVE_API_KEY_FILE": str(tmp_path / "key")}},
        "a file that is named": {
            "environment": {"COLABHIVE_API_KEY": ""},
            "arguments": ("--api-key-file", str(tmp_path / "key")),
        },
        "a configuration file": {"environment": {"COLABHIVE_API_KEY": ""}},
    }
    if source == "a configuration file":
        configuration.write_text(f'api_key = "{KEY}"\n')
        configuration.chmod(0o600)
    client = connect(gateway, **ways[source])
    assert "echo" in client.tools()
    assert "warning" not in client.stderr.lower()
    for pid in list_family(client.process.pid):
        assert find_parts(KEY, Path(f"/proc/{pid}/cmdline").read_text()) == []


def list_family(pid: int) -> list[int]:
    """A process and its children."""
    children = [Path(f"/proc/{pid}/task/{task}/children").read_text() for task in os.listdir(f"/proc/{pid}/task")]
    return [pid, *(int(child) for line in children for child in line.split())]


def test_a_key_on_the_command_line_is_warned_of(gateway: GatewayProcess, connect: Connect) -> None:
    """``--api-key`` works, and says on stderr, once, that others can read it."""
    client = connect(gateway, environment={"COLABHIVE_API_KEY": ""}, arguments=("--api-key", KEY))
    assert "echo" in client.tools()
    assert client.stderr.count("--api-key can be read by every user") == 1
    assert find_parts(KEY, client.stderr) == []


@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("version",),
        ("config",),
        ("config", "--json"),
        ("config", "--check"),
        ("config", "--client", "claude-desktop"),
        ("tools", "--json"),
        ("test", "--json", "--log-level", "debug"),
        ("call", "echo", "--arg", "text=a", "--log-level", "debug"),
    ],
    ids=" ".join,
)
def test_no_command_shows_the_key(gateway: GatewayProcess, run: Run, command: tuple[str, ...]) -> None:
    """No command prints the key, wherever it comes from."""
    ran = run(*command, environment={"COLABHIVE_API_KEY": KEY, "COLABHIVE_API_URL": gateway.url})
    assert ran.returncode == 0
    assert ran.stdout
    assert find_parts(KEY, ran.stdout + ran.stderr) == []


# Where the key travels


def test_the_gateway_sees_our_own_headers_alone(gateway: GatewayProcess, connect: Connect) -> None:
    """Each request carries the key once, in its own header, and nothing that the client sent beside the arguments."""
    client = connect(gateway, poll_interval=0.1, account_id="acc-1")
    meta = {"traceparent": "00-1-2-00", "authorization": "Bearer x", "io.example/secret": "s3cret"}
    for name, arguments in (("echo", {"text": "a"}), ("slow-count", {"to": 1})):
        response = client.ask("tools/call", {"name": name, "arguments": arguments, "_meta": meta, "extra": 1})
        assert response["result"]["isError"] is False
    seen = gateway.seen()
    assert {each["method"] for each in seen} == {"GET", "POST"}
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    usual = {"host", "x-api-key", "x-account-id", "user-agent", "accept", "accept-encoding"}
    written = {"content-type", "content-length", "idempotency-key"}
    for each in seen:
        assert each["headers"]["x-api-key"] == digest
        assert each["headers"]["x-account-id"] == "acc-1"
        assert set(each["headers"]) == usual | (written if each["method"] == "POST" else set())
        assert each["body"] is None or set(each["body"]) == {"input", "sync", "sync_timeout_s"}
    assert {str(each["body"]["input"]) for each in seen if each["body"]} == {"{'text': 'a'}", "{'to': 1}"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_netrc_never_replaces_the_key(gateway: GatewayProcess, connect: Connect, tmp_path: Path, host: str) -> None:
    """A login for the gateway's host, in the home or where NETRC points, is not used."""
    for name in (".netrc", "_netrc", "other"):
        (tmp_path / name).write_text(f"machine {host} login evil password evil\ndefault login evil password evil\n")
        (tmp_path / name).chmod(0o600)
    url = gateway.url.replace("127.0.0.1", host)
    client = connect(gateway, api_url=url, environment={"NETRC": str(tmp_path / "other")}, poll_interval=0.1)
    assert client.call("echo", {"text": "a"})["isError"] is False
    assert client.call("slow-count", {"to": 1})["isError"] is False
    for each in gateway.seen():
        assert each["headers"]["x-api-key"] == hashlib.sha256(KEY.encode()).hexdigest()
        assert "authorization" not in each["headers"]


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ScriptedServer]:
    """Where redirects and links point to; whoever asks it anything has failed."""
    with ScriptedServer([answer({"tools": [], **RUNNING})]) as server:
        yield server


@pytest.fixture(scope="module")
def session(shared_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioClient]:
    """A session for all that points elsewhere."""
    folder = tmp_path_factory.mktemp("session")
    environment = build_environment(shared_gateway, folder, poll_interval=0.05)
    with StdioClient(folder, environment=environment) as client:
        assert "echo" in client.open().tools()
        yield client


TARGETS = {
    "another port": ("http://127.0.0.1:{port}/s3cret?key=s3cret", "127.0.0.1:{port}"),
    "another host": ("http://localhost:{port}/s3cret", "localhost:{port}"),
    "another scheme": ("https://127.0.0.1:{port}/s3cret", "127.0.0.1:{port}"),
    "without a scheme": ("//127.0.0.1:{port}/s3cret", "127.0.0.1:{port}"),
    "a user": ("http://s3cret:s3cret@127.0.0.1:{port}/", "127.0.0.1:{port}"),
    "another path": ("/api/builder/v1/health?key=s3cret", "same host"),
    "nowhere": ("", "same host"),
}
STATUSES = [300, 301, 302, 303, 305, 307, 308]


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("path", [INVOKE, POLL], ids=["invoke", "poll"])
def test_no_call_follows_a_redirect(
    gateway: GatewayProcess,
    session: StdioClient,
    elsewhere: ScriptedServer,
    path: str,
    status: int,
) -> None:
    """A redirect of an invocation or a poll, wherever to, is an error that names only the host; nothing is sent on."""
    for location, named in TARGETS.values():
        gateway.clear()
        if path == POLL:
            gateway.fault(path=INVOKE, body=RUNNING)
        gateway.fault(path=path, status=status, body="", headers={"Location": location.format(port=elsewhere.port)})
        result = session.call("echo", {"text": "a"})
        assert result["isError"] is True
        text = result["content"][0]["text"]
        assert named.format(port=elsewhere.port) in text
        assert str(status) in text
        assert "s3cret" not in text
        asked = [(each["method"], each["path"].rpartition("/")[2]) for each in gateway.seen()]
        assert asked == [("POST", "echo:invoke"), ("GET", "i-1")][: 1 if path == INVOKE else 2]
    assert elsewhere.seen == []


@pytest.mark.parametrize("status", STATUSES)
def test_no_list_follows_a_redirect(
    gateway: GatewayProcess, connect: Connect, elsewhere: ScriptedServer, status: int
) -> None:
    """A redirect of the manifest is an error that names only the host, and nothing is sent there."""
    location, named = list(TARGETS.values())[STATUSES.index(status)]
    headers = {"Location": location.format(port=elsewhere.port)}
    gateway.fault(path=MANIFEST, status=status, body="", headers=headers, times=-1)
    error = connect(gateway).ask("tools/list")["error"]
    assert named.format(port=elsewhere.port) in error["message"]
    assert "s3cret" not in error["message"]
    assert elsewhere.seen == []
    assert {each["path"] for each in gateway.seen()} == {"/api/builder/v1/mcp/manifest"}


def test_links_are_never_followed(gateway: GatewayProcess, session: StdioClient, elsewhere: ScriptedServer) -> None:
    """A link in a result is handed on, and a ``poll_url`` is ignored: neither is ever asked."""
    links = {"artifact_url": f"{elsewhere.url}/a", "image_url": f"{elsewhere.url}/b"}
    gateway.fault(path=INVOKE, body={**RUNNING, "status": "succeeded", "result": links})
    result = session.call("echo", {"text": "a"})
    assert [each["uri"] for each in result["content"] if each["type"] == "resource_link"] == [
        f"{elsewhere.url}/b",
        f"{elsewhere.url}/a",
    ]
    gateway.fault(path=INVOKE, body={**RUNNING, "poll_url": f"{elsewhere.url}/poll"})
    gateway.fault(path=POLL, body={**RUNNING, "status": "succeeded", "result": "done"})
    assert session.call("echo", {"text": "a"})["content"][0]["text"] == "done"
    assert elsewhere.seen == []


# Proxies and certificates


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that vouches for the gateway."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that vouches for somebody else."""
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture
def secure(gateway: GatewayProcess, authority: Authority) -> Iterator[str]:
    """The gateway behind a certificate of the authority: its address."""
    with Forwarder(gateway.port, tls=authority.server) as front:
        yield f"https://127.0.0.1:{front.port}"


@pytest.mark.parametrize("way", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "our option", "our option and the wrong one"])
def test_a_private_authority_can_be_named(
    gateway: GatewayProcess, connect: Connect, secure: str, authority: Authority, stranger: Authority, way: str
) -> None:
    """A private authority is named by the environment or our own option, and our own one wins."""
    environment = {way: authority.bundle} if way.isupper() else {}
    if "wrong" in way:
        environment = {"REQUESTS_CA_BUNDLE": stranger.bundle, "CURL_CA_BUNDLE": "/nowhere"}
    settings = {} if way.isupper() else {"ca_bundle": authority.bundle}
    client = connect(gateway, api_url=secure, environment=environment, **settings)
    assert client.call("echo", {"text": "a"})["isError"] is False


@pytest.mark.parametrize("way", ["nothing", "our option"])
def test_an_unknown_authority_is_refused(
    gateway: GatewayProcess, connect: Connect, secure: str, authority: Authority, stranger: Authority, way: str
) -> None:
    """Who is not vouched for by what was named gets no key, and the words name the setting."""
    settings = {} if way == "nothing" else {"ca_bundle": stranger.bundle}
    environment = {} if way == "nothing" else {"REQUESTS_CA_BUNDLE": authority.bundle}
    error = connect(gateway, api_url=secure, environment=environment, **settings).ask("tools/list")["error"]
    assert "ca_bundle" in error["message"]
    assert gateway.seen() == []


def test_a_bundle_that_is_missing_stops_the_start(run: Run) -> None:
    """A bundle of our own option that is not there is one error at the start, with its path."""
    environment = {"COLABHIVE_API_KEY": KEY, "COLABHIVE_CA_BUNDLE": "/nowhere/ca.pem"}
    ran = run(environment=environment)
    assert ran.returncode == 78
    assert ran.stderr.count("\n") == 1
    assert "/nowhere/ca.pem" in ran.stderr


def test_a_bundle_of_the_environment_that_is_missing_is_named(
    gateway: GatewayProcess, connect: Connect, secure: str
) -> None:
    """A bundle of the environment that is not there is what the list speaks of, and what stderr says."""
    client = connect(gateway, api_url=secure, environment={"REQUESTS_CA_BUNDLE": "/nowhere/ca.pem"})
    error = client.ask("tools/list")["error"]
    assert "/nowhere/ca.pem" in error["message"]
    assert "/nowhere/ca.pem" in client.wait_event("mcp.warning")[0]["message"]


def test_checks_are_off_only_where_asked_and_each_start_says_so(
    gateway: GatewayProcess, connect: Connect, secure: str
) -> None:
    """Without checks the session works, and stderr warns at every start."""
    for _ in range(2):
        client = connect(gateway, api_url=secure, verify_tls="false")
        assert "certificate is not checked" in client.wait_event("mcp.warning")[0]["message"]
        assert client.call("echo", {"text": "a"})["isError"] is False
        assert "InsecureRequestWarning" not in client.stderr


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_used(
    gateway: GatewayProcess, connect: Connect, authority: Authority, secure: str, tmp_path: Path, name: str
) -> None:
    """Requests go through the proxy of the environment, which sees no key, and ``.netrc`` still changes nothing."""
    (tmp_path / ".netrc").write_text("machine localhost login evil password evil\n")
    (tmp_path / ".netrc").chmod(0o600)
    port = int(secure.rpartition(":")[2])
    with Forwarder(port, tunnel=True) as proxy:
        environment = {name: f"http://user:word@127.0.0.1:{proxy.port}"}
        client = connect(gateway, api_url="https://localhost", environment=environment, ca_bundle=authority.bundle)
        assert client.call("echo", {"text": "a"})["isError"] is False
        client.close()
        heads = b"".join(proxy.heads)
    assert heads.startswith(b"CONNECT localhost:443 HTTP/1")
    assert b"Proxy-Authorization: Basic dXNlcjp3b3Jk" in heads
    assert KEY.encode() not in heads
    assert "user:word" not in client.stderr
    assert all("authorization" not in each["headers"] for each in gateway.seen())


@pytest.mark.parametrize("names", [("HTTP_PROXY", "NO_PROXY"), ("http_proxy", "no_proxy")])
def test_no_proxy_is_kept(gateway: GatewayProcess, connect: Connect, names: tuple[str, str]) -> None:
    """A host that the environment excepts is asked without the proxy."""
    client = connect(gateway, environment={names[0]: "http://127.0.0.1:9", names[1]: "127.0.0.1"})
    assert client.call("echo", {"text": "a"})["isError"] is False


def test_a_proxy_that_is_away_is_named(gateway: GatewayProcess, connect: Connect) -> None:
    """When the proxy cannot be reached, it is what the words speak of, and not its password."""
    client = connect(gateway, environment={"HTTP_PROXY": "http://user:w0rd@127.0.0.1:9"})
    error = client.ask("tools/list")["error"]
    assert "HTTP_PROXY" in error["message"]
    assert "w0rd" not in error["message"] + client.stderr


# The start

HEAVY = ("requests", "urllib3", "jsonschema", "referencing", "click", "cachetools", "tomllib")
RELAY = ("waitress", "click", "prometheus_client", "limits", "sqlite3", "asyncio")
GATE = """
import os, sys

HEAVY = {heavy!r}


class Finder:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in HEAVY and Finder in sys.meta_path:
            with open({gate!r}) as gate:
                gate.read()
            if Finder in sys.meta_path:
                sys.meta_path.remove(Finder)


sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize("url", ["alive", "silent", "swallowed", "refused"])
def test_the_first_answer_waits_for_nothing(gateway: GatewayProcess, tmp_path: Path, url: str) -> None:
    """The handshake is answered before any heavy package is imported, at little cost, whatever the gateway does."""
    gate, site = tmp_path / "gate", tmp_path / "site"
    os.mkfifo(gate)
    site.mkdir()
    (site / "sitecustomize.py").write_text(GATE.format(heavy=HEAVY, gate=str(gate)))
    with open_silence() as silent, open_black_hole() as swallowed:
        urls = {
            "alive": gateway.url,
            "silent": f"http://127.0.0.1:{silent}",
            "swallowed": f"http://127.0.0.1:{swallowed}",
            "refused": "http://127.0.0.1:9",
        }
        environment = build_environment(urls[url], tmp_path, connect_timeout=0.5, http_timeout=0.5)
        environment |= {"COLABHIVE_API_KEY": KEY, "PYTHONPATH": str(site)}
        with StdioClient(tmp_path, environment=environment) as client:
            client.open()
            seconds = read_cpu_seconds(client.process.pid)
            gate.write_text("open")  # waits until somebody wants to import
            assert seconds < 0.75  # 3 s on a quarter of a core
            response = client.ask("tools/list")
            assert ("result" in response) is (url == "alive")
            assert client.ask("ping")["result"] == {}
            assert client.close(timeout=3) == 0


def read_cpu_seconds(pid: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("revision", ["2025-11-25", spec.MODERN])
def test_a_session_imports_nothing_of_the_relay(gateway: GatewayProcess, connect: Connect, revision: str) -> None:
    """A whole stdio session imports nothing that only the relay, the commands or the local gateway need."""
    client = connect(gateway, revision=revision, environment={"PYTHONPROFILEIMPORTTIME": "1"})
    client.tools()
    assert client.call("echo", {"text": "a"})["isError"] is False
    assert client.close() == 0
    imported = {
        line.rpartition("|")[2].strip() for line in client.stderr.splitlines() if line.startswith("import time:")
    }
    assert "requests" in imported
    unwanted = [each for each in imported if each.partition(".")[0] in RELAY]
    unwanted += [each for each in imported if each.startswith("colabhive_mcp.localgateway")]
    assert unwanted == []


@pytest.mark.parametrize("case", ["no PATH", "an empty PATH", "no HOME", "a folder that is gone", "isolated"])
def test_a_start_as_desktop_clients_do_it(gateway: GatewayProcess, tmp_path: Path, case: str) -> None:
    """The server starts without PATH or HOME, in a working directory that cannot be read."""
    environment = build_environment(gateway, tmp_path, drain_timeout=20)
    folder = tmp_path / "gone"
    folder.mkdir()
    start = [sys.executable, "-m", "colabhive_mcp"]
    if case == "no PATH":
        del environment["PATH"]
    elif case == "an empty PATH":
        environment["PATH"] = ""
    elif case == "no HOME":
        del environment["HOME"]
    elif case == "a folder that is gone":
        start = ["/bin/sh", "-c", 'rmdir "$PWD"; exec "$0" "$@"', *start]
    else:
        start.insert(1, "-I")
    ran = subprocess.run(
        start,
        env=environment,
        cwd=folder if case == "a folder that is gone" else "/",
        input=INITIALIZE + b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n',
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    names = [tool["name"] for line in ran.stdout.splitlines() for tool in json.loads(line)["result"].get("tools", [])]
    assert "echo" in names


def load_requirements() -> list[Requirement]:
    """What the package asks for at run time."""
    given = [Requirement(text) for text in metadata.requires("colabhive-mcp") or ()]
    return [each for each in given if each.marker is None or each.marker.evaluate({"extra": ""})]


def test_every_requirement_is_bounded() -> None:
    """Each package has a lower bound and stays below the major version after the newest one that was tried."""
    wanted = load_requirements()
    assert {each.name for each in wanted} >= {"requests", "jsonschema", "cachetools", "click", "waitress"}
    for each in wanted:
        bounds = {rule.operator: Version(rule.version) for rule in each.specifier}
        assert set(bounds) == {">=", "<"}, each
        installed = Version(metadata.version(each.name))
        assert installed in each.specifier
        assert bounds["<"] <= Version(str(installed.major + 1)), each


def test_the_installed_metadata_is_that_of_the_source() -> None:
    """What was installed asks for what ``setup.cfg`` says."""
    configuration = ConfigParser()
    configuration.read(Path(__file__).parents[2] / "setup.cfg", encoding="utf-8")
    lines = configuration["options"]["install_requires"].split("\n")
    said = {str(Requirement(line)) for line in lines if line.strip() and not line.startswith("#")}
    assert said == {str(each) for each in load_requirements()}


BROKEN = {
    "urllib3": ("requests", "from urllib3 import no_such_name"),
    "jsonschema": ("jsonschema", "raise ImportError('too new', name='jsonschema')"),
    "cachetools": ("cachetools", ""),
}


@pytest.mark.parametrize("package", BROKEN)
def test_a_package_that_cannot_be_imported_is_named(
    gateway: GatewayProcess, run: Run, tmp_path: Path, package: str
) -> None:
    """A package that fails to import is named with its version on stderr, and to the client of a server."""
    module, code = BROKEN[package]
    (tmp_path / "broken" / module).mkdir(parents=True)
    (tmp_path / "broken" / module / "__init__.py").write_text(code)
    environment = build_environment(gateway, tmp_path) | {"PYTHONPATH": str(tmp_path / "broken")}
    named = f"{package} {metadata.version(package)}"
    with StdioClient(tmp_path, environment=environment) as client:
        client.open()
        for method in ("tools/list", "tools/call"):
            response = client.ask(method, {"name": "echo", "arguments": {"text": "a"}})
            assert method == "tools/list" or named in response["error"]["message"]
        assert client.close() == 0
        assert named in client.stderr
        assert "Traceback" not in client.stderr
    if package != "jsonschema":  # a list of tools can do without
        ran = run("tools", environment=environment)
        assert ran.returncode == 70
        assert ran.stderr.startswith(f"Error: {named} cannot be imported")


def test_a_broken_command_line_is_named(run: Run, tmp_path: Path) -> None:
    """Where the package of the commands itself fails, that is said in one line too."""
    (tmp_path / "click.py").write_text("raise ImportError('too new', name='click')")
    ran = run("version", environment={"PYTHONPATH": str(tmp_path)})
    assert ran.returncode == 70
    assert ran.stderr.startswith(f"Error: click {metadata.version('click')} cannot be imported")
    assert ran.stderr.count("\n") == 1
