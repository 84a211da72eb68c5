"""Manifests as resources: the index, each tool's own manifest, and the completion of slugs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.conftest import Connect
from tests.harness import spec
from tests.harness.client import StdioClient
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.sessions import Sessions

INDEX = "colabhive://manifest"
TEMPLATE = "colabhive://manifest/{slug}"
OWN_TOOL = "get_invocation_result"
ODD = ("a/b", "50% off?", "naïve 🐝", "a+b#c", "...", "%2F", "qwen.2-5")
HIDDEN = {"deny_tools": "hidden"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with tools of odd names, one that is deprecated, one to be filtered out, and one that is unusable."""
    with GatewayProcess(tmp_path_factory.mktemp("library")) as gateway:
        gateway.register(*(manifest(slug, longDescription=f"All of {slug}.") for slug in ODD))
        gateway.register(manifest("hidden"), manifest("broken", inputSchema=5))
        gateway.register(manifest("a-first", deprecated_at="2026-03-01T00:00:00Z", replaced_by="qwen.2-5"))
        yield gateway


@pytest.fixture(scope="module")
def sessions(library: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Sessions over the library."""
    with Sessions(library, tmp_path_factory.mktemp("sessions")) as sessions:
        yield sessions


def read(client: StdioClient, uri: str) -> Any:
    """What the resource holds, decoded."""
    response = client.ask("resources/read", {"uri": uri})
    assert "result" in response, response
    (content,) = response["result"]["contents"]
    assert (content["uri"], content["mimeType"]) == (uri, "application/json")
    return json.loads(content["text"])


def complete(client: StdioClient, value: str) -> dict[str, Any]:
    """What the slug that begins with *value* may be."""
    params = {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "slug", "value": value}}
    response = client.ask("completion/complete", params)
    assert "result" in response, response
    completion: dict[str, Any] = response["result"]["completion"]
    return completion


# Reading


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_the_index_is_the_list(revision: str, sessions: Sessions) -> None:
    """The index has just the tools that are listed, by their listed names, and the deprecated ones last."""
    client = sessions(revision, **HIDDEN)
    index = read(client, INDEX)
    listed = [name for name in client.tools() if name != OWN_TOOL]
    assert [tool["name"] for tool in index["tools"]] == listed
    assert index["tools"][-1] == {
        "name": "a-first",
        "slug": "a-first",
        "uri": f"{INDEX}/a-first",
        "kind": "tool",
        "description": "What a-first does.",
        "replacedBy": "qwen.2-5",
    }
    assert index["etag"] == client.events("manifest.fetched")[0]["etag"]


@pytest.mark.parametrize("revision", spec.REVISIONS)
def test_each_manifest_is_whole(revision: str, sessions: Sessions, library: GatewayProcess) -> None:
    """At each address of the index is the very manifest that the gateway has, whatever characters its slug has."""
    client = sessions(revision, **HIDDEN)
    index = read(client, INDEX)["tools"]
    assert {*ODD, "a-first", "echo"} <= {entry["slug"] for entry in index}
    for entry in index:
        assert entry["uri"].isascii()
        assert read(client, entry["uri"]) == library.ask(
            "GET", f"/api/builder/v1/mcp/manifest/{quote(entry['slug'], '')}"
        )


@pytest.mark.parametrize("name", ["qwen.2-5", "qwen_2-5", "%71wen%2E2-5"])
def test_either_name_is_an_address(name: str, sessions: Sessions) -> None:
    """The advertised name and the slug lead to the same manifest, escaped more than needed or not."""
    assert read(sessions(**HIDDEN), f"{INDEX}/{name}")["name"] == "qwen.2-5"


MISSING = [
    *(f"{INDEX}/{slug}" for slug in ("hidden", "broken", "no-such", "a/b", OWN_TOOL, "echo/", "", "%ff")),
    *("colabhive://manifests", "colabhive://manifest?x", "COLABHIVE", "", "file:///etc/passwd", f"{INDEX}/{{slug}}"),
]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", spec.MODERN])
@pytest.mark.parametrize("uri", MISSING)
def test_what_is_not_there(uri: str, revision: str, sessions: Sessions) -> None:
    """A tool that is unknown, filtered out or unusable, and any other address, is no resource."""
    error = sessions(revision, **HIDDEN).ask("resources/read", {"uri": uri})["error"]
    assert error["code"] == (-32602 if revision == spec.MODERN else -32002)
    assert "not found" in error["message"]


@pytest.mark.parametrize("params", [{}, {"uri": None}, {"uri": 5}, {"uri": ["x"]}])
def test_an_address_is_a_string(params: dict[str, Any], sessions: Sessions) -> None:
    """A request to read nothing is invalid."""
    assert sessions(**HIDDEN).ask("resources/read", params)["error"]["code"] == -32602


def test_modern_results_say_how_long_they_keep(sessions: Sessions) -> None:
    """Manifests keep as long as the manifest is fresh and for one client; what there is to read is the same for all."""
    client = sessions(spec.MODERN, **HIDDEN)
    for uri in (INDEX, f"{INDEX}/echo"):
        result = client.ask("resources/read", {"uri": uri})["result"]
        assert (result["ttlMs"], result["cacheScope"], result["resultType"]) == (300_000, "private", "complete")
    for method in ("resources/list", "resources/templates/list"):
        result = client.ask(method)["result"]
        assert (result["ttlMs"] > 0, result["cacheScope"]) == (True, "public")


def test_an_address_with_half_a_character(sessions: Sessions) -> None:
    """A lone surrogate, which JSON can spell and UTF-8 cannot hold, is in no address."""
    client = sessions(**HIDDEN)
    request = {"jsonrpc": "2.0", "id": "half", "method": "resources/read", "params": {"uri": f"{INDEX}/\ud800"}}
    client.send_raw(json.dumps(request).encode() + b"\n")
    assert client.wait("half")[0]["error"]["code"] == -32002


# Completion

COMPLETIONS = {
    "ec": ["echo"],
    "EC": ["echo"],
    "WEN.": ["qwen.2-5"],
    "50%": ["50% off?"],
    "🐝": ["naïve 🐝"],
    "hidden": [],
    "broken": [],
    OWN_TOOL: [],
    "no-such": [],
}


@pytest.mark.parametrize("value", COMPLETIONS)
def test_slugs_are_completed(value: str, sessions: Sessions) -> None:
    """A part of a slug in either case is completed to those that are offered."""
    expected = COMPLETIONS[value]
    completion = complete(sessions(**HIDDEN), value)
    assert completion == {"values": expected, "total": len(expected), "hasMore": False}


def test_a_beginning_comes_before_a_middle(sessions: Sessions) -> None:
    """Slugs that begin with the value are first, and each slug is there once."""
    values = complete(sessions(**HIDDEN), "t")["values"]
    begins = [value.startswith("t") for value in values]
    assert begins == sorted(begins, reverse=True)
    assert {True, False} <= set(begins)
    assert len(set(values)) == len(values)


def test_a_hundred_completions_at_most(gateway: GatewayProcess, connect: Connect) -> None:
    """Of three hundred slugs a hundred are told, and how many there are."""
    tools = [manifest(f"tool-{place:03}") for place in range(300)]
    gateway.fault(method="GET", path="*/mcp/manifest", body={"tools": tools})
    completion = complete(connect(gateway), "")
    assert completion["values"] == [f"tool-{place:03}" for place in range(100)]
    assert (completion["total"], completion["hasMore"]) == (300, True)


@pytest.mark.parametrize(
    ("ref", "argument"),
    [
        ({"type": "ref/resource", "uri": INDEX}, {"name": "slug", "value": ""}),
        ({"type": "ref/resource", "uri": TEMPLATE}, {"name": "name", "value": ""}),
        ({"type": "ref/resource", "uri": TEMPLATE}, {"name": "slug"}),
        ({"type": "ref/resource"}, {"name": "slug", "value": ""}),
        ({"type": "ref/prompt"}, {"name": "slug", "value": ""}),
        (None, {"name": "slug", "value": ""}),
        ({"type": "ref/resource", "uri": TEMPLATE}, None),
    ],
)
def test_nothing_else_is_completed(ref: Any, argument: Any, sessions: Sessions) -> None:
    """Only the slug of the one template is completed; all else is invalid."""
    error = sessions(**HIDDEN).ask("completion/complete", {"ref": ref, "argument": argument})["error"]
    assert error["code"] == -32602


# Changes and failures


def test_a_session_reads_what_its_calls_are_held_to(own_gateway: GatewayProcess, connect: Connect) -> None:
    """A tool that changes is read as it was listed until the session lists again; another session reads it as it is."""
    own_gateway.register(manifest("moving", version="1.0.0"))
    client = connect(own_gateway, manifest_ttl=0.1)
    client.tools()
    own_gateway.register(manifest("moving", version="2.0.0"))
    client.receive()  # that the list has changed
    assert read(client, f"{INDEX}/moving")["version"] == "1.0.0"
    assert read(connect(own_gateway), f"{INDEX}/moving")["version"] == "2.0.0"
    client.tools()
    assert read(client, f"{INDEX}/moving")["version"] == "2.0.0"


def test_a_gateway_that_is_away(gateway: GatewayProcess, connect: Connect) -> None:
    """Without any copy of the manifest it is said why; with one, it is read."""
    gateway.fault(method="GET", path="*/mcp/manifest", status=500, body="boom", times=-1)
    client = connect(gateway)
    for uri in (INDEX, f"{INDEX}/echo"):
        error = client.ask("resources/read", {"uri": uri})["error"]
        assert error["code"] == -32603
        assert "500" in error["message"]
    params = {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "slug", "value": ""}}
    assert client.ask("completion/complete", params)["error"]["code"] == -32603
    gateway.clear()
    gateway.fault(method="GET", path="*/mcp/manifest")  # the first request passes
    gateway.fault(method="GET", path="*/mcp/manifest", status=500, body="boom", times=-1)
    served = connect(gateway, manifest_ttl=0.1)
    served.tools()
    served.wait_event("manifest.failed")
    assert read(served, f"{INDEX}/echo")["name"] == "echo"
    assert read(served, INDEX)["tools"]
