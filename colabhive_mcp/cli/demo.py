"""A whole MCP session, told for a person: a gateway of our own, the real stdio server, and a client that tells of it.

Owns the scenes and their words. Each scene raises `PeerError` where something else happens than has to.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from colabhive_mcp import __version__
from colabhive_mcp.cli.hosting import HostedGateway, Plan
from colabhive_mcp.cli.peer import Message, Peer, PeerError
from colabhive_mcp.cli.terminal import can_print, clean, cut, get_mark, get_width, strip, to_size, to_time
from colabhive_mcp.config import build_environ
from colabhive_mcp.errors import EXIT_INTERNAL, EXIT_OK, INVALID_PARAMS
from colabhive_mcp.localgateway.catalogue import ENDPOINTS

COMMAND = (sys.executable, "-m", "colabhive_mcp")
REVISION = "2025-11-25"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
FILTERED = "notes-append"
COLD_START_S = 1.2  # long enough to be seen
COUNT = 3
SHOWN_TOOLS = 4
WIDEST = 120  # of a line, also where the output is no terminal
SETTINGS = {
    "COLABHIVE_DENY_TOOLS": FILTERED,
    "COLABHIVE_SYNC_TIMEOUT": "1",
    "COLABHIVE_POLL_INTERVAL": "0.5",
    "NO_PROXY": "127.0.0.1",
    "no_proxy": "127.0.0.1",
}


class Demo:
    """The session and its narrator."""

    def __init__(self, peer: Peer, started: float) -> None:
        self.peer = peer
        self.started = started
        self.cancelled: int | None = None
        self._out, self._in = ("→", "←") if can_print("→←") else ("->", "<-")

    def ask(self, method: str, params: Message | None = None, *, note: str = "", watch: bool = False) -> Message:
        """Send a request, tell of it, and answer its response; with *watch* progress is told as it comes."""
        self.say_out(method, note)
        return self.peer.request(method, params, listener=self.show_progress if watch else None)

    def call(self, tool: str, arguments: Message, *, watch: bool = False) -> Message:
        """Call a tool and answer its result, which must be one."""
        params: Message = {"name": tool, "arguments": arguments}
        if watch:
            params["_meta"] = {"progressToken": tool}
        words = ", ".join(f"{name}={_shorten(value)}" for name, value in arguments.items())
        return get_result(self.ask("tools/call", params, note=f"{tool}({words})", watch=watch))

    def say_out(self, method: str, note: str = "") -> None:
        """What the client sends."""
        self._tell(click.style(self._out, fg="cyan"), f"{method:<24} {note}".rstrip())

    def say_in(self, text: str) -> None:
        """What the server answers."""
        self._tell(click.style(self._in, fg="magenta"), text)

    def show_progress(self, message: Message) -> None:
        """What the server tells of a call that goes on."""
        if message.get("method") == "notifications/progress":
            self._tell(click.style(self._in, fg="magenta"), f"progress: {message['params'].get('message', '')}")

    def _tell(self, arrow: str, text: str) -> None:
        line = strip(text.replace("\n", " "))
        click.echo(f"   {arrow} {cut(line, min(get_width(), WIDEST) - 7)}")


Scene = Callable[[Demo], str]


def expect(condition: object, words: str) -> None:
    """What has to be so."""
    if not condition:
        raise PeerError(words)


def get_result(answer: Message) -> Message:
    """The result of a response that must not be an error."""
    expect("result" in answer, f"the server answered with an error: {answer.get('error')}")
    result: Message = answer["result"]
    return result


def get_block(result: Message, kind: str) -> Message:
    """The first content block of *kind* in a result that must be no failure."""
    expect(not result.get("isError"), f"the call failed: {result.get('content')}")
    block = next((block for block in result["content"] if block["type"] == kind), None)
    expect(block, f"the result has no {kind}")
    return dict(block or {})


def shake_hands(demo: Demo) -> str:
    """Client and server agree on a revision."""
    client = {"name": "colabhive-demo", "version": __version__}
    params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
    result = get_result(demo.ask("initialize", params, note=f"revision {REVISION}"))
    seconds = time.perf_counter() - demo.started
    demo.peer.notify("notifications/initialized")
    expect(result["protocolVersion"] == REVISION, f"the server chose {result['protocolVersion']}")
    server = result["serverInfo"]
    demo.say_in(f"{server['name']} {server['version']}, revision {result['protocolVersion']}")
    return f"answered {to_time(seconds)} after the server was started"


def list_tools(demo: Demo) -> str:
    """The manifest as MCP tools."""
    tools = get_result(demo.ask("tools/list"))["tools"]
    names = {tool["name"] for tool in tools}
    for tool in tools[:SHOWN_TOOLS]:
        demo.say_in(f"{tool['name']:<15} {tool.get('description', '').partition(chr(10))[0]}")
    expect("echo" in names and FILTERED not in names, f"the list is {names}")
    return f"{len(tools)} tools; {FILTERED} is filtered out by deny_tools"


def call_text(demo: Demo) -> str:
    """A call that answers with text."""
    block = get_block(demo.call("echo", {"text": "Hello, hive!"}), "text")
    demo.say_in(f"text: {block['text']}")
    expect(block["text"] == "Hello, hive!", "the echo is another text")
    return "text"


def call_structured(demo: Demo) -> str:
    """A call that answers with structured data."""
    result = demo.call("text-stats", {"text": "Bees dance.\nHives hum!"})
    data = result.get("structuredContent")
    demo.say_in(f"structuredContent: {_shorten(data)}")
    expect(isinstance(data, dict) and data.get("words") == 4, "the words are not four")
    return "structured data, as the tool's output schema promises"


def call_image(demo: Demo) -> str:
    """A call that answers with an image."""
    block = get_block(demo.call("sparkline", {"values": [1, 3, 2, 5, 4, 6, 8]}), "image")
    data = base64.b64decode(block["data"])
    demo.say_in(f"image: {block['mimeType']}, {to_size(len(data))}")
    expect(data.startswith(b"\x89PNG"), "the image is no PNG")
    return "an image"


def call_audio(demo: Demo) -> str:
    """A call that answers with sound."""
    block = get_block(demo.call("tone", {"frequency": 440, "seconds": 0.5}), "audio")
    data = base64.b64decode(block["data"])
    demo.say_in(f"audio: {block['mimeType']}, {to_size(len(data))}")
    expect(data.startswith(b"RIFF"), "the sound is no WAV")
    return "half a second of sound"


def call_cold(demo: Demo) -> str:
    """A job on a cold model: one call, and progress until it is done."""
    before = len(demo.peer.seen)
    result = demo.call("slow-count", {"to": COUNT}, watch=True)
    demo.say_in(f"structuredContent: {_shorten(result.get('structuredContent'))}")
    messages = [message for message in demo.peer.seen[before:] if message.get("method") == "notifications/progress"]
    numbers = [message["params"]["progress"] for message in messages]
    expect(len(numbers) > 2 and numbers == sorted(set(numbers)), f"the progress was {numbers}")
    expect(result.get("structuredContent") == {"counted": COUNT}, "it did not count to the end")
    return "a job that was started, polled and finished behind one call"


def cancel_call(demo: Demo) -> str:
    """A call that the client gives up."""
    params = {"name": "slow-count", "arguments": {"to": 1000}, "_meta": {"progressToken": "cancelled"}}
    demo.say_out("tools/call", "slow-count(to=1000)")
    demo.cancelled = demo.peer.send("tools/call", params)
    demo.peer.listen(demo.show_progress, until=lambda message: "counted" in str(message))
    demo.say_out("notifications/cancelled", "the client has changed its mind")
    demo.peer.notify("notifications/cancelled", {"requestId": demo.cancelled, "reason": "the demo"})
    asked = time.perf_counter()
    get_result(demo.ask("ping"))
    seconds = time.perf_counter() - asked
    demo.say_in(f"the ping is answered in {to_time(seconds)}")
    return "the client goes on at once"


def call_wrongly(demo: Demo) -> str:
    """Arguments that the tool's schema refuses: words for the model, and nothing is sent to the gateway."""
    result = demo.call("sparkline", {"values": "many", "height": -1})
    expect(result.get("isError") is True, "the call did not fail")
    demo.say_in("isError, and the model reads:")
    for line in result["content"][0]["text"].splitlines():
        demo.say_in(f"  {line}")
    return "a refused call, in words that a model can act on"


def call_filtered(demo: Demo) -> str:
    """A tool that the operator does not offer cannot be called either."""
    answer = demo.ask("tools/call", {"name": FILTERED, "arguments": {"text": "x"}}, note=f"{FILTERED}(text=x)")
    error = answer.get("error", {})
    demo.say_in(f"error {error.get('code')}: {error.get('message')}")
    expect(error.get("code") == INVALID_PARAMS, "the tool was called")
    return "a tool that is not offered cannot be called"


def ask_modern(demo: Demo) -> str:
    """The same process serves the revision without a handshake."""
    meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
    result = get_result(demo.ask("server/discover", {"_meta": meta}, note=f"revision {MODERN}, no handshake"))
    demo.say_in(f"revisions: {', '.join(result['supportedVersions'])}")
    expect(MODERN in result["supportedVersions"], f"{MODERN} is missing")
    return "both eras of the protocol in one process"


def close_session(demo: Demo) -> str:
    """The client closes its end."""
    demo.say_out("end of input")
    code, seconds = demo.peer.close()
    expect(code == EXIT_OK, f"the server ended with exit code {code}")
    expect(demo.cancelled not in [message.get("id") for message in demo.peer.seen], "the cancelled call was answered")
    return f"the cancelled call was never answered; the server has left with exit code {code}, after {to_time(seconds)}"


SCENES: tuple[tuple[str, Scene], ...] = (
    ("The handshake", shake_hands),
    ("The tools", list_tools),
    ("Text", call_text),
    ("Structured data", call_structured),
    ("An image", call_image),
    ("Sound", call_audio),
    ("A cold model and a long job", call_cold),
    ("A cancelled job", cancel_call),
    ("Wrong arguments", call_wrongly),
    ("A tool that is filtered out", call_filtered),
    ("Another revision of the protocol", ask_modern),
    ("The end", close_session),
)


def run_demo() -> int:
    """Tell the whole session; answers the exit code."""
    began = time.perf_counter()
    click.echo(click.style(f"colabhive-mcp {__version__}: a whole MCP session on this machine", bold=True))
    with tempfile.TemporaryDirectory(prefix="colabhive-demo-") as folder, _host(folder) as gateway:
        click.echo(f"A gateway of our own listens at {gateway.address}.")
        click.echo("The client starts the server as any client does: python -m colabhive_mcp")
        log = os.path.join(folder, "server.log")
        sound = _play(_build_environ(gateway, folder, log))
        if not sound:
            _show_log(log)
    if sound:
        click.echo(f"\n{get_mark(good=True)} All went as it has to, in {to_time(time.perf_counter() - began)}.")
    return EXIT_OK if sound else EXIT_INTERNAL


@contextlib.contextmanager
def _host(folder: str) -> Iterator[HostedGateway]:
    """A gateway whose slow tool is cold for long enough."""
    with HostedGateway(Plan(path=os.path.join(folder, "gateway.db"))) as gateway:
        slow = next(entry for entry in ENDPOINTS if entry["name"] == "slow-count")
        gateway.store.register_endpoint({**slow, "cold_start_s": COLD_START_S})
        yield gateway


def _build_environ(gateway: HostedGateway, folder: str, log: str) -> dict[str, str]:
    """The server's environment: nothing of this user's own settings gets in."""
    own = {
        "COLABHIVE_API_URL": gateway.address,
        "COLABHIVE_API_KEY": gateway.key or "",
        "COLABHIVE_LOG_FILE": log,
        "XDG_CONFIG_HOME": folder,
    }
    return build_environ({**SETTINGS, **own})


def _play(environ: Mapping[str, str]) -> bool:
    """Every scene in order; whether all of them went as they have to."""
    started = time.perf_counter()
    with Peer(COMMAND, environ=environ, clock=time.monotonic) as peer:
        demo = Demo(peer, started)
        for number, (title, scene) in enumerate(SCENES, 1):
            click.echo(click.style(f"\n{number:>2} {title}", bold=True))
            try:
                summary, good = scene(demo), True
            except (PeerError, LookupError, TypeError, ValueError) as error:
                summary, good = str(error) if isinstance(error, PeerError) else repr(error), False
            click.echo(f"   {get_mark(good=good)} {clean(summary)}")
            if not good:
                return False
    return True


def _show_log(path: str) -> None:
    """What the server logged, for whoever looks for the cause."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as stream:
        click.echo("\nThe server's log:\n" + stream.read(), err=True)


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"
