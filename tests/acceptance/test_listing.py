"""Lists that are made for their readers: deprecated tools, what known clients need, and a search in place of a list."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.conftest import Connect
from tests.harness import spec
from tests.harness.client import META, StdioClient
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.processes import wait_until
from tests.harness.sessions import Sessions

OWN_TOOL = "get_invocation_result"
SEARCHING = ["search_tools", "describe_tool", "call_tool", OWN_TOOL]
ERAS = ["2025-11-25", spec.MODERN]
HIDING = {"deprecated": "hide", "client_profile": "claude-code", "max_result_bytes": 10**6}
HIDDEN = {"listing": "search", "deny_tools": "secret"}
LONG = "a-tool-whose-name-is-just-as-long-as-all-clients-take-it-" + "x" * 7  # 64 characters
COUNTS = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in ("characters", "words", "lines")},
    "required": ["words"],
}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NARROW = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "share": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}},
    "required": ["text"],
    "additionalProperties": False,
}
OLD = {"deprecated_at": "2026-03-01T09:00:00Z", "replaced_by": "text-stats"}
STAGE = (
    manifest("aa-old", inputSchema=TEXT, **OLD),
    manifest("ab-old-counts", action="text-stats", inputSchema=TEXT, outputSchema=COUNTS, replaced_by="text-stats"),
    manifest("ac-old-failing", action="fail", deprecated_at="2026-03-01T09:00:00Z"),
    manifest("plain", inputSchema=TEXT),
    manifest("counts", action="text-stats", inputSchema=TEXT, outputSchema=COUNTS),
    manifest("narrow", inputSchema=NARROW),
    manifest("qwen.2-5", description="Writes sonnets about otters."),
    manifest("secret", description="Writes sonnets about secrets."),
    manifest("search_tools", description="Rummages in the attic.", inputSchema=TEXT),
    manifest(LONG, inputSchema=TEXT),
    manifest("broken", description="Writes sonnets about cogs.", inputSchema={"type": "int"}),
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with the tools above beside its own."""
    with GatewayProcess(tmp_path_factory.mktemp("stage")) as gateway:
        gateway.register(*STAGE)
        yield gateway


@pytest.fixture(scope="module")
def sessions(stage: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Sessions over that gateway."""
    with Sessions(stage, tmp_path_factory.mktemp("sessions")) as sessions:
        yield sessions


def meet(sessions: Sessions, name: str) -> StdioClient:
    """A legacy session of a client that calls itself *name*; all of them one after the other in one process."""
    return sessions(page_size=1000).open(name)


def texts(result: Mapping[str, Any]) -> list[str]:
    """The text of each block."""
    return [block["text"] for block in result["content"]]


# Deprecated tools


@pytest.mark.parametrize("revision", ERAS)
def test_deprecated_tools_are_last(revision: str, sessions: Sessions) -> None:
    """Deprecated tools are listed behind all others, the bridge's own included, and say what replaces them."""
    tools = sessions(revision).tools()
    assert list(tools)[-4:] == [OWN_TOOL, "aa-old", "ab-old-counts", "ac-old-failing"]
    assert "Deprecated since 2026-03-01; use text-stats instead." in tools["aa-old"]["description"]
    assert "Deprecated; use text-stats instead." in tools["ab-old-counts"]["description"]
    assert "Deprecated since 2026-03-01." in tools["ac-old-failing"]["description"]


DEPRECATED_CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a text": ("aa-old", {"text": "x"}, "aa-old: Deprecated since 2026-03-01; use text-stats instead."),
    "structured": ("ab-old-counts", {"text": "x y"}, "ab-old-counts: Deprecated; use text-stats instead."),
    "a failure": ("ac-old-failing", {}, "ac-old-failing: Deprecated since 2026-03-01."),
    "wrong arguments": ("aa-old", {"text": 5}, "aa-old: Deprecated since 2026-03-01; use text-stats instead."),
}
TWINS = {"aa-old": "plain", "ab-old-counts": "counts"}


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("searched", [False, True])
@pytest.mark.parametrize("case", DEPRECATED_CALLS)
def test_a_deprecated_tool_answers_with_a_note(case: str, searched: bool, revision: str, sessions: Sessions) -> None:
    """A call of a deprecated tool answers as that of its twin that is none, and with one note behind it all."""
    name, arguments, note = DEPRECATED_CALLS[case]
    client = sessions(revision, **(HIDDEN if searched else {}))

    def call(tool: str) -> dict[str, Any]:
        if searched:
            return client.call("call_tool", {"name": tool, "arguments": arguments})
        return client.call(tool, arguments)

    result = call(name)
    assert texts(result)[-1] == note
    assert result["isError"] is (case in ("a failure", "wrong arguments"))
    assert len([text for text in texts(result) if "Deprecated" in text]) == 1
    if name in TWINS:
        assert {**result, "content": result["content"][:-1]} == call(TWINS[name])


def test_hidden_deprecated_tools(sessions: Sessions, stage: GatewayProcess) -> None:
    """``deprecated = hide`` leaves them out, a call is refused with what replaces it, and nothing is sent."""
    client = sessions(**HIDING)
    assert not [name for name in client.tools() if "old" in name]
    before = len(stage.seen(":invoke"))
    error = client.ask("tools/call", {"name": "aa-old", "arguments": {"text": "x"}})["error"]
    assert error["code"] == -32602
    assert "text-stats" in error["message"]
    assert len(stage.seen(":invoke")) == before


def test_a_tool_that_left_names_its_replacement(own_gateway: GatewayProcess, connect: Connect) -> None:
    """A call of a tool that was listed and has left is refused with what the manifest said of its replacement."""
    own_gateway.register(manifest("fleeting", replaced_by="echo"), manifest("bare"))
    legacy, modern = connect(own_gateway), connect(own_gateway, revision=spec.MODERN)
    for client in (legacy, modern):
        assert {"fleeting", "bare"} <= set(client.tools())
    own_gateway.remove("fleeting", "bare")
    expected = {"fleeting": "; use echo instead", "bare": "left the manifest"}
    for name, words in expected.items():
        for client in (legacy, modern):
            answer = client.ask("tools/call", {"name": name})
            if "result" in answer:  # the copy at hand still had it, and the gateway's 404 had it looked for
                assert answer["result"]["isError"]
                answer = client.ask("tools/call", {"name": name})
            assert answer["error"]["code"] == -32602
            assert (words in answer["error"]["message"]) is (client is legacy)


# Profiles

CALLING = {  # what a client calls itself -> how long a name may be
    "claude-code": 48,
    "claude-ai": 48,
    "cursor-vscode": 50,
    "Visual Studio Code": 50,
    "codex-mcp-client": 48,
    "gemini-cli-mcp-client-colabhive": 48,
    "windsurf-client": 58,
    "openai-mcp": 64,
    "@n8n/n8n-nodes-langchain.mcpClientTool": 64,
    "somebody": 64,
}


@pytest.mark.parametrize("name", CALLING)
def test_names_are_as_long_as_the_client_takes(name: str, sessions: Sessions) -> None:
    """A session goes by what its client calls itself; both the listed name and the slug can be called."""
    client = meet(sessions, name)
    long = [tool for tool in client.tools() if tool.startswith("a-tool-whose-name")]
    assert [len(tool) for tool in long] == [CALLING[name]]
    assert texts(client.call(long[0], {"text": "x"})) == texts(client.call(LONG, {"text": "x"})) == ["x"]


def test_a_modern_client_is_not_guessed(sessions: Sessions) -> None:
    """In the modern era what a client calls itself changes nothing."""
    client = sessions(spec.MODERN)
    meta = {"_meta": {META + "clientInfo": {"name": "claude-code", "version": "1"}}}
    tools = client.ask("tools/list", meta)["result"]["tools"]
    assert LONG in {tool["name"] for tool in tools}


@pytest.mark.parametrize("revision", ERAS)
def test_a_profile_that_is_set_counts(revision: str, sessions: Sessions) -> None:
    """A profile that was chosen is that of every client in either era, whatever it calls itself."""
    assert LONG not in sessions(revision, client_profile="claude-code").tools()


def test_dropped_keywords_are_held_to_all_the_same(sessions: Sessions) -> None:
    """What Gemini's API refuses is not shown, and a call that breaks it is answered with the reason."""
    client = meet(sessions, "gemini-cli-mcp-client")
    shown = json.dumps(client.tools()["narrow"]["inputSchema"])
    assert not [keyword for keyword in ("exclusiveMinimum", "multipleOf", "additionalProperties") if keyword in shown]
    assert "exclusiveMinimum" in json.dumps(sessions().tools()["narrow"]["inputSchema"])
    for wrong in ({"share": 0}, {"share": 0.75}, {"other": 1}):
        result = client.call("narrow", {"text": "x", **wrong})
        assert result["isError"]
        assert next(iter(wrong)) in texts(result)[0]
    assert texts(client.call("narrow", {"text": "x", "share": 0.5}))[0]


@pytest.mark.parametrize("revision", ERAS)
def test_results_are_as_large_as_the_client_takes(revision: str, sessions: Sessions) -> None:
    """A result is cut where the client's limit is, and read on to its end; a limit that was set wins."""
    text = "0123456789" * 6000
    client = sessions(revision, client_profile="claude-code")
    first, note = texts(client.call("plain", {"text": text}))
    assert len(first) == 48 * 1024
    call = json.loads(note[note.index("{") : note.rindex("}") + 1])
    assert first + texts(client.call(OWN_TOOL, call))[0] == text
    for settings in ({}, HIDING):
        assert texts(sessions(**settings).call("plain", {"text": text})) == [text]


def test_structured_content_once(sessions: Sessions) -> None:
    """Where the model sees both, the text does not say again what is structured."""
    client = meet(sessions, "openai-mcp")
    result, usual = (each.call("counts", {"text": "x y"}) for each in (client, sessions()))
    assert result["structuredContent"] == usual["structuredContent"]
    assert "words" in texts(usual)[0]
    assert texts(result) == ["See the structured content."]
    assert texts(client.call("plain", {"text": "x"})) == ["x"]
    assert texts(client.call("ab-old-counts", {"text": "x"}))[-1].startswith("ab-old-counts: Deprecated")


# Too many tools


def serve(gateway: GatewayProcess, count: int) -> None:
    """Let the gateway's manifest be of so many tools."""
    tools = [manifest(f"tool-{place:03}") for place in range(count)]
    gateway.fault(method="GET", path="*/mcp/manifest", body={"tools": tools}, times=-1)


def warnings(client: StdioClient) -> list[str]:
    """What the operator was told."""
    return [event["message"] for event in client.events("mcp.warning")]


def test_each_client_has_its_hint(gateway: GatewayProcess, connect: Connect) -> None:
    """A process that meets one client after the other tells of each whose limit is exceeded, and of each once."""
    serve(gateway, 200)
    client = connect(gateway, opened=False)
    for name in ("claude-code", "cursor-vscode", "windsurf-client", "cursor-vscode"):
        client.open(name).tools()
    told = warnings(client)
    assert [words.partition(":")[0] for words in told] == [
        "201 tools are listed, and Cursor takes at most 40",
        "201 tools are listed, and Windsurf takes at most 100",
    ]
    assert "allow_tools" in told[0]
    assert "listing = search" in told[0]


def test_auto_goes_by_the_client(gateway: GatewayProcess, connect: Connect) -> None:
    """Under ``listing = auto`` a client that takes fewer tools searches, and another has them all."""
    serve(gateway, 90)
    client = connect(gateway, opened=False, listing="auto")
    assert list(client.open("cursor-vscode").tools()) == SEARCHING
    assert warnings(client) == []
    assert len(client.open("claude-code").tools()) == 91
    assert warnings(client) == []


# Searching


@pytest.mark.parametrize("revision", ["2024-11-05", *ERAS])
def test_four_tools_are_listed(revision: str, sessions: Sessions) -> None:
    """A search listing is four tools in at most 4 KB."""
    result = sessions(revision, **HIDDEN).ask("tools/list")["result"]
    assert [tool["name"] for tool in result["tools"]] == SEARCHING
    assert len(json.dumps(result["tools"], separators=(",", ":"), ensure_ascii=False).encode()) <= 4096


@pytest.mark.parametrize("revision", ["2024-11-05", *ERAS])
def test_search_describe_call(revision: str, sessions: Sessions) -> None:
    """A model finds a tool by words, reads it and calls it by the name that it was given; the log has its own slug."""
    client = sessions(revision, **HIDDEN)
    found = texts(client.call("search_tools", {"query": "sonnets otters"}))[0]
    assert "- qwen_2-5: Writes sonnets about otters." in found
    described = json.loads(texts(client.call("describe_tool", {"name": "qwen_2-5"}))[0])
    assert (described["name"], described["slug"]) == ("qwen_2-5", "qwen.2-5")
    assert texts(client.call("call_tool", {"name": "qwen_2-5", "arguments": {"text": "x"}})) == ["x"]
    wait_until(lambda: client.events("mcp.tool.invoked")[-1]["slug"] == "qwen.2-5")
    assert client.events("mcp.tool.invoked")[-1]["status"] == "succeeded"
    assert "call_tool" not in {event["slug"] for event in client.events("mcp.tool.invoked")}


@pytest.mark.parametrize("revision", ERAS)
def test_results_are_those_of_the_tool_itself(revision: str, sessions: Sessions) -> None:
    """``call_tool`` answers what a direct call does, structured content included; a direct call works as well."""
    client, usual = sessions(revision, **HIDDEN), sessions(revision)
    for name, arguments in (("counts", {"text": "x y"}), ("counts", {"text": 5}), ("sparkline", {"values": [1, 2]})):
        expected = usual.call(name, arguments)
        assert client.call("call_tool", {"name": name, "arguments": arguments}) == expected
        assert client.call(name, arguments) == expected


def test_where_tools_are_searched_all_can_be_read(sessions: Sessions) -> None:
    """Under a search listing the index of the resources still has every tool, and not those that search."""
    client = sessions(**HIDDEN)
    content = client.ask("resources/read", {"uri": "colabhive://manifest"})["result"]["contents"][0]["text"]
    names = {tool["name"] for tool in json.loads(content)["tools"]}
    assert {"echo", "qwen_2-5"} <= names
    assert names.isdisjoint({"secret", *client.tools()})


def test_what_could_not_be_called_is_not_found(sessions: Sessions) -> None:
    """A tool that would be left out of a list is none of the hits, and one warning names it."""
    client = sessions(**HIDDEN)
    for _ in range(2):
        assert "broken" not in texts(client.call("search_tools", {"query": "cogs"}))[0]
    assert [event["tool"] for event in client.wait_event("manifest.tool_left_out")] == ["broken"]
    assert "int" in texts(client.call("describe_tool", {"name": "broken"}))[0]


@pytest.mark.parametrize("revision", ERAS)
def test_filtered_tools_are_not_there(revision: str, sessions: Sessions, stage: GatewayProcess) -> None:
    """A tool that is filtered out is neither found nor described nor called, and nothing is sent."""
    client = sessions(revision, **HIDDEN)
    assert "secret" not in texts(client.call("search_tools", {"query": "secret sonnets"}))[0]
    before = len(stage.seen(":invoke"))
    for tool, arguments in (("describe_tool", {}), ("call_tool", {"arguments": {"text": "x"}})):
        result = client.call(tool, {"name": "secret", **arguments})
        assert result["isError"]
        assert "deny_tools" in texts(result)[0]
        assert "otters" not in texts(result)[0]
    assert len(stage.seen(":invoke")) == before


WRONG_CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown": ("call_tool", {"name": "no-such-tool"}, "Unknown tool: no-such-tool"),
    "unknown, described": ("describe_tool", {"name": "no-such-tool"}, "Unknown tool: no-such-tool"),
    "the lookup": (
        "call_tool",
        {"name": OWN_TOOL, "arguments": {"invocation_id": "x"}},
        f"{OWN_TOOL} is called directly",
    ),
    "itself": ("call_tool", {"name": "call_tool", "arguments": {"name": "echo"}}, "call_tool is called directly"),
    "no name": ("call_tool", {}, '"name" is missing'),
    "arguments beside": ("call_tool", {"name": "echo", "text": "x"}, 'go into "arguments"'),
    "wrong arguments": ("call_tool", {"name": "counts", "arguments": {"words": "x"}}, "text"),
}


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("case", WRONG_CALLS)
def test_wrong_calls_are_told_to_the_model(case: str, revision: str, sessions: Sessions) -> None:
    """What is wrong with such a call is a failed tool with words, since the model can mend it."""
    tool, arguments, words = WRONG_CALLS[case]
    result = sessions(revision, **HIDDEN).call(tool, arguments)
    assert result["isError"]
    assert words in texts(result)[0]


def test_a_tool_of_the_same_name(sessions: Sessions) -> None:
    """A tool of the manifest that is called as one that searches is listed as it is, and found under another name."""
    assert texts(sessions().call("search_tools", {"text": "x"})) == ["x"]
    client = sessions(**HIDDEN)
    found = texts(client.call("search_tools", {"query": "attic"}))[0]
    name = found.splitlines()[1].removeprefix("- ").partition(":")[0]
    assert name.startswith("search_tools_")
    for each in (name, "search_tools"):
        assert json.loads(texts(client.call("describe_tool", {"name": each}))[0])["slug"] == "search_tools"
        assert texts(client.call("call_tool", {"name": each, "arguments": {"text": "x"}})) == ["x"]


@pytest.mark.parametrize("revision", ERAS)
def test_progress_by_way_of_call_tool(revision: str, sessions: Sessions) -> None:
    """A call by way of ``call_tool`` has progress as a direct one."""
    client = sessions(revision, **HIDDEN)
    params = {
        "name": "call_tool",
        "arguments": {"name": "slow-count", "arguments": {"to": 2, "interval": 0.05}},
        "_meta": {"progressToken": 7},
    }
    answer, before = client.wait(client.request("tools/call", params))
    assert answer["result"]["isError"] is False
    assert {message["params"]["progressToken"] for message in before} == {7}
    progress = [message["params"]["progress"] for message in before]
    assert progress == sorted(set(progress))


def test_cancelling_by_way_of_call_tool(sessions: Sessions) -> None:
    """A call by way of ``call_tool`` is cancelled as a direct one: nothing more is written for it."""
    client = sessions(**HIDDEN)
    before = len(client.events("mcp.tool.invoked"))
    params = {"name": "call_tool", "arguments": {"name": "slow-count", "arguments": {"to": 1000}}}
    request_id = client.request("tools/call", {**params, "_meta": {"progressToken": "c"}})
    client.receive()  # the first progress: it has begun
    client.notify("notifications/cancelled", {"requestId": request_id})
    event = client.wait_event("mcp.tool.invoked", at_least=before + 1)[-1]
    assert (event["slug"], event["status"]) == ("slow-count", "cancelled")
    client.ask("ping")
    assert request_id not in [message.get("id") for message in client.drain()]


def test_a_call_is_held_to_what_was_described(own_gateway: GatewayProcess, connect: Connect) -> None:
    """A tool that changes is called as it was described, until it is described again; one that left names another."""
    own_gateway.register(manifest("moving", inputSchema=TEXT), manifest("fleeting", replaced_by="echo"))
    client = connect(own_gateway, listing="search", manifest_ttl=0.1)
    client.tools()

    def describe(name: str) -> Any:
        return json.loads(texts(client.call("describe_tool", {"name": name}))[0])

    assert describe("moving")["inputSchema"] == TEXT
    assert describe("fleeting")["name"] == "fleeting"
    own_gateway.register(manifest("moving", inputSchema={**TEXT, "required": []}))
    own_gateway.remove("fleeting")
    own_gateway.wait_seen("*/mcp/manifest", at_least=len(own_gateway.seen("/mcp/manifest")) + 2)
    assert "text" in texts(client.call("call_tool", {"name": "moving"}))[0]
    assert client.call("call_tool", {"name": "moving"})["isError"]
    assert describe("moving")["inputSchema"]["required"] == []
    assert client.call("call_tool", {"name": "moving"})["isError"] is False
    left = client.call("call_tool", {"name": "fleeting"})
    assert left["isError"]
    assert "use echo instead" in texts(left)[0]
    client.ask("ping")
    assert client.notifications == []  # what is listed has not changed


def test_a_session_keeps_the_listing_that_it_was_shown(own_gateway: GatewayProcess, connect: Connect) -> None:
    """Where a list becomes a search or a search a list, each session goes on with what it was shown, until it lists."""
    own_gateway.register(manifest("search_tools", inputSchema=TEXT))
    count = len(own_gateway.ask("GET", "/api/builder/v1/mcp/manifest")["tools"])
    client = connect(own_gateway, listing="auto", listing_threshold=count, manifest_ttl=0.1)
    assert len(client.tools()) == count + 1
    own_gateway.register(manifest("one-more"))
    client.receive()  # that the list has changed
    assert texts(client.call("search_tools", {"text": "x"})) == ["x"]
    assert list(client.tools()) == SEARCHING
    own_gateway.remove("one-more")
    client.receive()
    assert "echo" in texts(client.call("search_tools", {"query": "echo"}))[0]
    assert texts(client.call("call_tool", {"name": "echo", "arguments": {"text": "x"}})) == ["x"]
    assert len(client.tools()) == count + 1
    assert texts(client.call("search_tools", {"text": "x"})) == ["x"]
