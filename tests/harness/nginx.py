"""The real nginx with the file that operators install, in front of relays: `examples/deploy/nginx.conf`.

What is another machine's in that file (ports, paths, the user, the relays) is replaced, and nothing else.
"""

from __future__ import annotations

import getpass
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.harness.gateway import KEY
from tests.harness.network import Authority
from tests.harness.processes import wait_until
from tests.harness.relay import RelayProcess

CONFIGURATION = Path(__file__).parents[2] / "examples" / "deploy" / "nginx.conf"
PATIENCE = 20.0
ATTEMPTS = 3  # to get a free port that nobody else takes meanwhile
LISTED = "        server 127.0.0.1:{port} max_fails=0;\n"  # how the file lists a relay
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def find_nginx() -> str | None:
    """The program, where it is installed; packages put it into a folder that not every PATH has."""
    return shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


class NginxProcess(RelayProcess):
    """nginx on a free port of 127.0.0.1 in front of *relays* (host:port each), asked as a relay itself is.

    *key* is the one that requests carry. *replaced* are more words of the file and what stands for them. It speaks TLS
    for ``localhost`` and 127.0.0.1 with a certificate that *bundle* holds.
    """

    def __init__(
        self, folder: Path, relays: Sequence[str], *, key: str = KEY, replaced: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder / f"nginx-{id(self):x}"
        self.folder.mkdir()
        self.key, self.path, self.address = key, "/mcp", ""
        self.log = self.folder / "error.log"
        self.bundle = Authority(self.folder).bundle
        self.process: subprocess.Popen[str] | None = None
        self._relays, self._replaced = relays, dict(replaced or {})
        self._trust = ssl.create_default_context(cafile=self.bundle)
        self._trust.set_alpn_protocols(["http/1.1"])

    def __enter__(self) -> Self:
        for _ in range(ATTEMPTS):
            port, plain = find_ports(2)
            self.address, self.plain_address = f"localhost:{port}", f"127.0.0.1:{plain}"
            if self._start(port, plain):
                return self
        raise AssertionError(self.log.read_text())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, by its own process id: its workers end with it."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(PATIENCE)

    @property
    def url(self) -> str:
        """The MCP endpoint."""
        return f"https://{self.address}{self.path}"

    def find_served(self, agent: str) -> dict[str, Any]:
        """What the access log says of the one request whose User-Agent is *agent*, as soon as it is there."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            lines = (self.folder / "access.log").read_text().splitlines()
            found[:] = [entry for entry in map(json.loads, lines) if entry["agent"] == agent]
            return bool(found)

        wait_until(look)
        (entry,) = found
        return entry

    def connect(self, timeout: float = 60) -> http.client.HTTPSConnection:
        """A connection of its own."""
        return http.client.HTTPSConnection(self.address, timeout=timeout, context=self._trust)

    def _start(self, port: int, plain: int) -> bool:
        """Start it; False where it has ended at once, since somebody else has the port."""
        program = find_nginx()
        assert program, "these tests need nginx"
        configuration = self.folder / "nginx.conf"
        configuration.write_text(self._render(port, plain))
        command = [program, "-c", str(configuration), "-p", str(self.folder), "-e", str(self.log), "-g", "daemon off;"]
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL)
        return _is_listening(port, self.process)

    def _render(self, port: int, plain: int) -> str:
        """The file with what is this machine's. Each of its words has to be there."""
        text = CONFIGURATION.read_text()
        certificate = "/etc/letsencrypt/live/mcp.example.org"
        temporary = "".join(f"    {name}_temp_path {self.folder}/{name};\n" for name in _TEMPORARY)
        replaced = {
            "user www-data;": f"user {getpass.getuser()};",
            "/run/nginx.pid": f"{self.folder}/pid",
            "/var/log/nginx": str(self.folder),
            f"{certificate}/fullchain.pem": self.bundle,
            f"{certificate}/privkey.pem": str(self.folder / "key.pem"),
            "listen 443": f"listen 127.0.0.1:{port}",
            "        listen [::]:443 ssl http2;\n": "",
            "listen 80": f"listen 127.0.0.1:{plain}",
            "        listen [::]:80;\n": "",
            LISTED.format(port=8765): "".join(f"        server {relay} max_fails=0;\n" for relay in self._relays),
            LISTED.format(port=8766): "",
            "http {\n": f"http {{\n{temporary}",
        }
        for word, other in (replaced | self._replaced).items():
            assert word in text, f"{CONFIGURATION.name} does not have {word!r} any more"
            text = text.replace(word, other)
        return text


def find_ports(count: int) -> list[int]:
    """So many ports that are free now, for what cannot be told to find one by itself."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]


def _is_listening(port: int, process: subprocess.Popen[str]) -> bool:
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "nginx does not listen"
            pause.wait(0.02)
        else:
            return True
    return False
