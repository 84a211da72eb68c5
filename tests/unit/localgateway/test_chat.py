"""Who answers a chat: an OpenAI-compatible server, or the rule."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from colabhive_mcp.localgateway.chat import ChatError, ChatServer, complete_chat

from .conftest import Gateway

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello there"}]
COMPLETION = {
    "id": "x",
    "model": "tiny",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6},
}
Answers = dict[str, tuple[int, dict[str, str], bytes]]


class Model(HTTPServer):
    """A stand-in for an OpenAI-compatible server: fixed answers by path, and what it was sent."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(("127.0.0.1", 0), ModelHandler)
        self.answers = answers
        self.seen: list[tuple[str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        """The address up to and with /v1."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class ModelHandler(BaseHTTPRequestHandler):
    """Answers from the table of its server."""

    server: Model

    def do_GET(self) -> None:
        """Answer, and remember the request."""
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        self.server.seen.append((self.path, dict(self.headers), body))
        status, headers, content = self.server.answers.get(self.path, (404, {}, b""))
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        """Answer a POST in the same way."""
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature of http.server
        """Say nothing."""


@pytest.fixture
def serve_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answers], Model]]:
    """Starts stand-in servers that stop when the test ends; no proxy stands in between."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running: list[tuple[Model, threading.Thread]] = []

    def serve(answers: Answers) -> Model:
        server = Model(answers)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))
        return server

    yield serve
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


def answers(**by_path: Any) -> Answers:
    """Answers of JSON for /v1/models and /v1/chat/completions."""
    paths = {"models": "/v1/models", "chat": "/v1/chat/completions"}
    return {paths[name]: (200, {}, json.dumps(value).encode()) for name, value in by_path.items()}


def test_the_rule_says_that_it_is_one() -> None:
    """Without a server the rule answers what the user said last, under its own name, and counts words."""
    answer = complete_chat(None, MESSAGES)
    assert answer["model"] == "local-rule"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "You said: Hello there"}
    assert answer["usage"] == {"prompt_tokens": 4, "completion_tokens": 4, "total_tokens": 8}


@pytest.mark.parametrize("content", [None, "", [{"type": "image"}], 5])
def test_the_rule_without_words(content: Any) -> None:
    """A conversation without words gets an answer too."""
    assert (
        "Say something"
        in complete_chat(None, [{"role": "user", "content": content}])["choices"][0]["message"]["content"]
    )


def test_the_rule_reads_parts() -> None:
    """Content that comes in parts is read like a text."""
    content = [{"type": "text", "text": "Hello"}, {"type": "text", "text": "you"}]
    assert (
        complete_chat(None, [{"role": "user", "content": content}])["choices"][0]["message"]["content"]
        == "You said: Hello you"
    )


def test_server_is_asked(serve_model: Callable[[Answers], Model]) -> None:
    """With a server, its first model gets the conversation and the options, and its answer is the answer."""
    model = serve_model(answers(models={"data": [{"id": "tiny"}, {"id": "big"}]}, chat=COMPLETION))
    answer = complete_chat(ChatServer(model.url, key="sk-x"), MESSAGES, max_tokens=5)
    assert answer == {key: COMPLETION[key] for key in ("model", "choices", "usage")}
    path, headers, body = model.seen[-1]
    assert (path, body) == ("/v1/chat/completions", {"model": "tiny", "messages": MESSAGES, "max_tokens": 5})
    assert headers["Authorization"] == "Bearer sk-x"


def test_named_model(serve_model: Callable[[Answers], Model]) -> None:
    """A named model is asked without looking at the list."""
    model = serve_model(answers(chat=COMPLETION))
    complete_chat(ChatServer(model.url + "/", model="big"), MESSAGES)
    assert [(path, body["model"]) for path, _, body in model.seen] == [("/v1/chat/completions", "big")]


@pytest.mark.parametrize(
    "reply",
    [
        (500, {}, b"{}"),
        (200, {}, b"<html>"),
        (200, {}, b'{"choices": NaN}'),
        (200, {}, b"[]"),
        (200, {}, b"{}"),
        (204, {}, b""),
        (302, {"Location": "/v1/models"}, b""),
    ],
)
def test_bad_answers(serve_model: Callable[[Answers], Model], reply: tuple[int, dict[str, str], bytes]) -> None:
    """An error, an answer of another shape and a redirect all end in a chat error; no redirect is followed."""
    model = serve_model({"/v1/chat/completions": reply})
    with pytest.raises(ChatError):
        complete_chat(ChatServer(model.url, model="tiny"), MESSAGES)
    assert len(model.seen) == 1


@pytest.mark.parametrize("models", [{}, {"data": []}, {"data": ["tiny"]}])
def test_no_model(serve_model: Callable[[Answers], Model], models: Any) -> None:
    """A server that lists no model cannot be asked."""
    model = serve_model(answers(models=models, chat=COMPLETION))
    with pytest.raises(ChatError, match="no model"):
        complete_chat(ChatServer(model.url), MESSAGES)


def test_server_that_is_gone(serve_model: Callable[[Answers], Model]) -> None:
    """A server that cannot be reached is a chat error."""
    with pytest.raises(ChatError, match="reached"):
        complete_chat(ChatServer("http://127.0.0.1:1/v1", model="tiny"), MESSAGES)


@pytest.mark.parametrize("url", ["", "localhost:8000", "file:///etc/passwd", "http://"])
def test_bad_address(url: str) -> None:
    """An address that is none is refused before it is used."""
    with pytest.raises(ValueError, match="http"):
        ChatServer(url)


def test_key_is_not_shown() -> None:
    """The repr of a server has no key."""
    assert "sk-x" not in repr(ChatServer("http://127.0.0.1/v1", key="sk-x"))


def test_action_says_who_answered(
    start_gateway: Callable[..., Gateway], serve_model: Callable[[Answers], Model]
) -> None:
    """The action's metrics name the backend, and its answer the model."""
    by_rule = start_gateway().invoke("chat", {"messages": MESSAGES}).json
    assert (by_rule["metrics"]["backend"], by_rule["result"]["model"]) == ("rule", "local-rule")
    model = serve_model(answers(models={"data": [{"id": "tiny"}]}, chat=COMPLETION))
    by_server = start_gateway(chat=ChatServer(model.url)).invoke("chat", {"messages": MESSAGES, "temperature": 0}).json
    assert (by_server["metrics"]["backend"], by_server["result"]["model"]) == ("openai", "tiny")
    assert model.seen[-1][2]["temperature"] == 0


def test_action_without_its_server(
    start_gateway: Callable[..., Gateway], serve_model: Callable[[Answers], Model]
) -> None:
    """A server that fails makes the invocation fail, and the rule does not step in for it."""
    model = serve_model({"/v1/models": (503, {}, b"")})
    answer = start_gateway(chat=ChatServer(model.url)).invoke("chat", {"messages": MESSAGES}).json
    assert (answer["status"], answer["error"]["code"]) == ("failed", "chat_server")
    assert "503" in answer["error"]["message"]
