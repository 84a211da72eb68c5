"""The words of the chat action: from an OpenAI-compatible server, or from a small rule where there is none.

Owns the one outgoing connection of the gateway. Must not know invocations or the store.
"""

import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from colabhive_mcp.localgateway.wire import parse_text, to_text

RULE_MODEL = "local-rule"
MAX_ANSWER = 16 * 1024 * 1024
TIMEOUT_S = 120.0


class ChatError(Exception):
    """The OpenAI-compatible server could not be reached, or answered something that is no chat completion."""


@dataclass(frozen=True, slots=True)
class ChatServer:
    """An OpenAI-compatible server: *url* up to and with ``/v1``; without *model*, the first one that it lists."""

    url: str
    model: str | None = None
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"the chat server's address is no http(s) URL: {self.url!r}")


def complete_chat(server: ChatServer | None, messages: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
    """Answer *messages* as a chat completion whose ``model`` says who answered. Raises ChatError."""
    if server is None:
        return _answer_by_rule(messages)
    body = {"model": server.model or _first_model(server), "messages": list(messages), **options}
    answer = _fetch(server, "/chat/completions", to_text(body).encode())
    if not isinstance(answer.get("choices"), list):
        raise ChatError("the chat server's answer has no choices")
    return {key: answer[key] for key in ("model", "choices", "usage") if answer.get(key) is not None}


def _answer_by_rule(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    asked = next(
        (_to_words(message.get("content")) for message in reversed(messages) if message.get("role") == "user"), ""
    )
    text = f"You said: {asked}" if asked.strip() else "Say something, and it will be said back."
    prompt = sum(len(_to_words(message.get("content")).split()) for message in messages)
    answer = len(text.split())
    return {
        "model": RULE_MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer},
    }


def _to_words(content: Any) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, list):
        return " ".join(str(part["text"]) for part in content if isinstance(part, dict) and "text" in part)
    return content if isinstance(content, str) else ""


def _first_model(server: ChatServer) -> str:
    models = _fetch(server, "/models").get("data")
    if not isinstance(models, list) or not models or not isinstance(models[0], dict):
        raise ChatError("the chat server lists no model")
    return str(models[0].get("id"))


def _fetch(server: ChatServer, path: str, body: bytes | None = None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if server.key:
        headers["Authorization"] = f"Bearer {server.key}"
    request = urllib.request.Request(server.url.rstrip("/") + path, data=body, headers=headers)  # noqa: S310 - checked at birth
    try:
        with _build_opener().open(request, timeout=TIMEOUT_S) as reply:
            answer = parse_text(reply.read(MAX_ANSWER))
    except urllib.error.HTTPError as error:
        error.close()
        raise ChatError(f"the chat server answered {error.code}") from None
    except (OSError, HTTPException) as error:
        raise ChatError(f"the chat server cannot be reached: {error}") from error
    except ValueError as error:
        raise ChatError("the chat server's answer is no JSON") from error
    if not isinstance(answer, dict):
        raise ChatError("the chat server's answer is no JSON object")
    return answer


def _build_opener() -> urllib.request.OpenerDirector:
    """An opener that follows no redirect: the key would travel to a host that nobody named."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener
