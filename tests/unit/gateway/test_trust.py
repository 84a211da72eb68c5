"""Where the key may go: certificates, proxies, redirects, ``.netrc``, and no log, error or repr."""

from __future__ import annotations

import io
import logging
import shutil
import ssl
import subprocess
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from colabhive_mcp.errors import BadAnswer, BridgeError, ConfigError, GatewayUnreachable, KeyRefused
from colabhive_mcp.gateway.client import GatewayClient
from colabhive_mcp.gateway.operations import OperationRequest
from colabhive_mcp.gateway.trust import build_context
from tests.unit.gateway.conftest import KEY, Bench, MakeBench, build_options
from tests.unit.gateway.scripted import HANG_UP, ScriptedServer, Step, answer

DONE = {"invocation_id": "i-1", "status": "succeeded"}
MANIFEST = {"tools": []}
ENVIRONMENT = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC")
POST = OperationRequest("POST", "/jobs", json={}, has_body=True)
ASKS: list[Callable[[Bench], Any]] = [
    Bench.fetch_manifest,
    Bench.invoke,
    Bench.fetch_invocation,
    lambda run: run.perform(POST),
]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment in which nothing speaks of proxies, certificates or logins."""
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


class Authority:
    """A certificate that signs itself, for 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        self.bundle = str(folder / "ca.pem")
        command = shutil.which("openssl")
        assert command, "these tests need the openssl command"
        request = f"{command} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
        options = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "key.pem"), "-out", self.bundle]
        subprocess.run([*request.split(), *options], check=True, capture_output=True)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(self.bundle, str(folder / "key.pem"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of the gateway."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Another authority, of whom the gateway knows nothing."""
    return Authority(tmp_path_factory.mktemp("stranger"))


class TestCertificates:
    """Whom the client believes."""

    def test_an_unknown_authority_is_refused(self, bench: MakeBench, authority: Authority) -> None:
        """A certificate of an unknown authority stops the call at once, and the words say what to set."""
        run = bench(answer(DONE), tls=authority.server)
        with pytest.raises(GatewayUnreachable, match="ca_bundle") as caught:
            run.invoke()
        assert isinstance(caught.value.__cause__, Exception)
        assert (run.server.seen, run.time.waits) == ([], [])

    @pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
    def test_the_environment_can_name_the_authority(
        self, bench: MakeBench, authority: Authority, environment: pytest.MonkeyPatch, name: str
    ) -> None:
        """The variables that other tools know are honoured."""
        environment.setenv(name, authority.bundle)
        assert bench(answer(DONE), tls=authority.server).invoke() == DONE

    def test_our_option_wins_over_the_environment(
        self, bench: MakeBench, authority: Authority, stranger: Authority, environment: pytest.MonkeyPatch
    ) -> None:
        """The bundle of the options counts, for good and for ill, whatever the environment names."""
        environment.setenv("REQUESTS_CA_BUNDLE", stranger.bundle)
        assert bench(answer(DONE), tls=authority.server, ca_bundle=authority.bundle).invoke() == DONE
        environment.setenv("REQUESTS_CA_BUNDLE", authority.bundle)
        with pytest.raises(GatewayUnreachable):
            bench(answer(DONE), tls=authority.server, ca_bundle=stranger.bundle).invoke()

    def test_checks_are_off_only_when_asked_and_with_a_warning(
        self, bench: MakeBench, authority: Authority, environment: pytest.MonkeyPatch
    ) -> None:
        """``verify=False`` holds against an environment that names a bundle, and is warned of once a start."""
        environment.setenv("REQUESTS_CA_BUNDLE", authority.bundle)
        run = bench(answer(DONE), tls=authority.server, verify=False)
        run.invoke()
        run.invoke()
        assert [event.name for event in run.events] == ["mcp.warning"]

    def test_a_missing_bundle_stops_the_start(self, environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A bundle that is not there is one error with its path, from the options and from the environment."""
        missing = str(tmp_path / "none.pem")
        for scheme in ("http", "https"):
            with pytest.raises(ConfigError, match=r"none\.pem does not exist"):
                GatewayClient(build_options(f"{scheme}://127.0.0.1", ca_bundle=missing))
        environment.setenv("REQUESTS_CA_BUNDLE", missing)
        with pytest.raises(ConfigError, match=r"none\.pem does not exist"):
            GatewayClient(build_options("https://127.0.0.1"))
        GatewayClient(build_options("http://127.0.0.1")).close()

    def test_a_bundle_without_certificates_stops_the_start(self, tmp_path: Path) -> None:
        """A file that holds no certificate is found at the start, not with the first call."""
        empty = tmp_path / "empty.pem"
        empty.write_text("nothing")
        with pytest.raises(ConfigError, match=r"empty\.pem"):
            GatewayClient(build_options("https://127.0.0.1", ca_bundle=str(empty)))

    def test_a_bundle_is_read_once_while_it_stays_as_it_is(self, authority: Authority, tmp_path: Path) -> None:
        """All clients of one bundle share a context; one that was written anew is read anew."""
        bundle = tmp_path / "bundle.pem"
        shutil.copy(authority.bundle, bundle)
        first = build_context(str(bundle))
        assert build_context(str(bundle)) is first
        bundle.write_text(bundle.read_text() + "\n")
        assert build_context(str(bundle)) is not first

    def test_a_folder_of_certificates_is_a_bundle(self, bench: MakeBench, authority: Authority, tmp_path: Path) -> None:
        """Certificates may be given as a folder that is hashed as OpenSSL does."""
        hashed = subprocess.run(
            ["openssl", "x509", "-hash", "-noout", "-in", authority.bundle], capture_output=True, check=True
        )
        shutil.copy(authority.bundle, tmp_path / f"{hashed.stdout.decode().strip()}.0")
        assert bench(answer(DONE), tls=authority.server, ca_bundle=str(tmp_path)).invoke() == DONE

    def test_the_name_on_the_certificate_counts(self, bench: MakeBench, authority: Authority) -> None:
        """A certificate of a known authority for another name is not believed."""
        run = bench(answer(DONE), tls=authority.server)
        other = bench(
            answer(DONE), api_url=run.server.url.replace("127.0.0.1", "localhost"), ca_bundle=authority.bundle
        )
        with pytest.raises(GatewayUnreachable, match="certificate"):
            other.invoke()

    def test_a_proxy_over_tls_is_believed_as_the_gateway_is(
        self, bench: MakeBench, authority: Authority, environment: pytest.MonkeyPatch
    ) -> None:
        """A proxy that is asked over TLS shows a certificate of the same authorities."""
        proxy = bench(answer(DONE), answer(b"", 400), tls=authority.server).server
        environment.setenv("HTTP_PROXY", proxy.url)
        assert bench(answer(DONE), api_url="http://gateway.invalid", ca_bundle=authority.bundle).invoke() == DONE
        with pytest.raises(GatewayUnreachable):
            bench(answer(DONE), api_url="http://gateway.invalid").invoke()
        environment.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises(GatewayUnreachable):
            bench(answer(DONE), api_url="https://gateway.invalid", ca_bundle=authority.bundle).invoke()
        assert {seen.method for seen in proxy.seen[1:]} == {"CONNECT"}

    def test_tls_where_none_is_spoken(self, bench: MakeBench) -> None:
        """https to a port that speaks http is said in plain words."""
        run = bench(answer(DONE))
        other = bench(answer(DONE), api_url=run.server.url.replace("http:", "https:"))
        with pytest.raises(GatewayUnreachable, match="TLS"):
            other.invoke()


class TestProxies:
    """Proxies of the environment."""

    def test_a_proxy_is_used(self, bench: MakeBench, environment: pytest.MonkeyPatch) -> None:
        """HTTP_PROXY carries each kind of request, whole address and key included, with its own login."""
        proxy = bench(answer({**DONE, **MANIFEST})).server
        environment.setenv("HTTP_PROXY", f"http://user:pa%20ss@127.0.0.1:{proxy.port}")
        run = bench(answer(DONE), api_url="http://gateway.invalid/base")
        for ask in ASKS:
            ask(run)
        prefix = "http://gateway.invalid/base/api/builder/v1"
        assert proxy.targets == [
            f"{prefix}/mcp/manifest",
            f"{prefix}/actions/echo:invoke",
            f"{prefix}/invocations/i-1",
            f"{prefix}/jobs",
        ]
        assert {seen.headers["Proxy-Authorization"] for seen in proxy.seen} == {"Basic dXNlcjpwYSBzcw=="}
        assert {seen.headers["Host"] for seen in proxy.seen} == {"gateway.invalid"}

    def test_no_proxy_is_kept(self, bench: MakeBench, environment: pytest.MonkeyPatch) -> None:
        """A host in NO_PROXY is asked directly."""
        environment.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        environment.setenv("NO_PROXY", "127.0.0.1")
        assert bench(answer(DONE)).invoke() == DONE

    def test_a_tunnel_never_shows_the_key_to_the_proxy(self, bench: MakeBench, environment: pytest.MonkeyPatch) -> None:
        """HTTPS_PROXY gets a CONNECT without the key; where it refuses, the words name the proxy."""
        proxy = bench(answer(b"", 403)).server
        environment.setenv("HTTPS_PROXY", f"http://user:secret@127.0.0.1:{proxy.port}")
        with pytest.raises(GatewayUnreachable, match="proxy") as caught:
            bench(answer(DONE), api_url="https://gateway.invalid").invoke()
        assert "secret" not in str(caught.value)
        assert {(seen.method, seen.target) for seen in proxy.seen} == {("CONNECT", "gateway.invalid:443")}
        assert all(KEY not in str(seen.headers) for seen in proxy.seen)

    def test_a_proxy_that_is_away_is_named(self, bench: MakeBench, environment: pytest.MonkeyPatch) -> None:
        """A proxy that cannot be reached is what the words speak of."""
        with ScriptedServer([HANG_UP]) as gone:
            port = gone.port
        environment.setenv("HTTP_PROXY", f"http://user:secret@127.0.0.1:{port}")
        with pytest.raises(GatewayUnreachable, match="proxy") as caught:
            bench(answer(DONE), api_url="http://gateway.invalid").invoke()
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize("proxy", ["http://", "socks5://127.0.0.1:9", "ftp://127.0.0.1:9"])
    def test_a_proxy_that_cannot_be_used_stops_the_start(self, environment: pytest.MonkeyPatch, proxy: str) -> None:
        """A proxy of an unknown kind is an error of the settings."""
        environment.setenv("HTTP_PROXY", proxy)
        with pytest.raises(ConfigError, match="HTTP_PROXY"):
            GatewayClient(build_options("http://gateway.invalid"))


class TestRedirects:
    """The key never travels where the gateway points."""

    @pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
    @pytest.mark.parametrize(
        ("location", "named"),
        [
            ("{other}/x?token=s3cret", "127.0.0.1:{port}"),
            ("https://user:s3cret@elsewhere.example/?a=s3cret", "elsewhere.example"),
            ("//elsewhere.example:81/s3cret", "elsewhere.example:81"),
            ("/moved?token=s3cret", "the same host"),
            ("http://[bad", "unreadable"),
            (None, "the same host"),
        ],
    )
    def test_no_redirect_is_followed(self, bench: MakeBench, status: int, location: str | None, named: str) -> None:
        """A redirect is an error that names only the target's host; nothing is sent there, and nothing sent again."""
        other = bench(answer(DONE)).server
        target = (location or "").format(other=other.url)
        for ask in ASKS:
            run = bench(answer(b"", status, headers={"Location": target} if location else {}))
            with pytest.raises(BadAnswer) as caught:
                ask(run)
            assert named.format(port=other.port) in str(caught.value)
            assert "s3cret" not in str(caught.value)
            assert caught.value.status == status
            assert len(run.server.seen) == 1
        assert other.seen == []


class TestLogins:
    """What else could replace the key."""

    def test_netrc_is_never_read(self, bench: MakeBench, environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A login for the gateway's host in ``.netrc`` changes nothing."""
        for name in (".netrc", "_netrc"):
            (tmp_path / name).write_text("machine 127.0.0.1 login evil password evil\n")
            (tmp_path / name).chmod(0o600)
        environment.setenv("HOME", str(tmp_path))
        environment.setenv("NETRC", str(tmp_path / ".netrc"))
        run = bench(answer({**DONE, **MANIFEST}))
        for ask in ASKS:
            ask(run)
        for seen in run.server.seen:
            assert seen.headers["Authorization"] is None
            assert seen.headers.get_all("X-API-Key") == [KEY]

    def test_cookies_are_not_kept(self, bench: MakeBench) -> None:
        """A cookie that the gateway sets is not sent back."""
        run = bench(answer(DONE, headers={"Set-Cookie": "a=b; Path=/"}))
        run.invoke()
        run.invoke()
        assert run.server.seen[1].headers["Cookie"] is None

    @pytest.mark.parametrize("name", ["X-API-Key", "x-api-key"])
    def test_an_operation_cannot_replace_the_key(self, bench: MakeBench, name: str) -> None:
        """Even a request that was not built from a checked endpoint goes out with our key alone."""
        run = bench(answer({}))
        run.perform(OperationRequest("GET", "/x", headers={name: "other"}))
        assert run.server.seen[0].headers.get_all("X-API-Key") == [KEY]


@pytest.fixture
def everything_logged() -> Iterator[io.StringIO]:
    """All records of all libraries, as text."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


class TestSecrets:
    """The key is in no text that leaves the client."""

    @pytest.mark.parametrize(
        "step",
        [
            answer({"detail": f"unknown key {KEY}"}, 401),
            answer({"error": {"code": KEY, "message": f"key={KEY}"}}, 403),
            answer(f"<html><title>{KEY}</title>".encode(), 403, content_type="text/html"),
            answer(("x" * 290 + KEY).encode(), 400, content_type="text/plain"),
            answer(b"", 302, headers={"Location": f"https://{KEY}.example/{KEY}"}),
            answer(f"<html><title>{KEY}</title>".encode(), content_type="text/html"),
            answer(KEY.encode()),
            HANG_UP,
            Step(b"garbage\r\n\r\n", "close"),
        ],
    )
    def test_errors_logs_and_tracebacks_hold_no_key(
        self, bench: MakeBench, everything_logged: io.StringIO, step: Step
    ) -> None:
        """Whatever the gateway echoes, no message, traceback, repr or debug log has six characters of the key."""
        for ask in ASKS:
            run = bench(step)
            with pytest.raises(BridgeError) as caught:
                ask(run)
            texts = [
                str(caught.value),
                repr(caught.value),
                repr(run.client),
                str(run.events),
                repr(build_options("http://x")),
            ]
            texts += [str(getattr(caught.value, "code", "")), *traceback.format_exception(caught.value)]
            assert _find_parts_of_key("\n".join([*texts, everything_logged.getvalue()])) == []

    def test_a_refused_key_names_the_setting(self, bench: MakeBench) -> None:
        """Who gets 401 or 403 reads which setting to look at."""
        for status in (401, 403):
            with pytest.raises(KeyRefused, match="`api_key`"):
                bench(answer({"detail": "no"}, status)).invoke()


def _find_parts_of_key(text: str) -> list[str]:
    return [KEY[start : start + 6] for start in range(len(KEY) - 5) if KEY[start : start + 6] in text]
