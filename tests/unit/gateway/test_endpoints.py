"""Endpoint blocks: which can be used, and which reason is given for those that cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.errors import BadAnswer
from colabhive_mcp.gateway.endpoints import METHODS, Place, find_endpoint_fault, parse_endpoint
from colabhive_mcp.gateway.operations import build_request

BAD_PATHS = """
    /../keys /a/.. /a/./b /%2e%2e/keys /a/%2E%2e/b /a%2f..%2fb .. //evil.example/a /a//b https://evil.example/a
    file:/etc/passwd evil:a /a?b=c /a#b /a\\b /a%5c.. /a%0d%0aX /a%00 /100% /a/{ /a/} /a/{} /a/{x:int} /a/{x/y}
"""
BAD_HEADERS = """
    X-API-Key x-api-key Authorization HOST Content-Length content-type Cookie Connection Keep-Alive
    Proxy-Authorization TE Trailer Transfer-Encoding Upgrade X:Y ä
"""
BAD: list[Any] = [
    None,
    [],
    {},
    {"method": "TRACE", "path": "/a"},
    {"method": "CONNECT", "path": "/a"},
    {"method": "GET /x HTTP/1.1\r\nX: y", "path": "/a"},
    {"method": 7, "path": "/a"},
    {"path": "/a"},
    {"method": "GET"},
    *({"method": "GET", "path": path} for path in ("", "/", 7, "/a b", "/a\r\nX: y", "/a\x00", *BAD_PATHS.split())),
    {"method": "GET", "path": "/a", "encoding": "xml"},
    {"method": "GET", "path": "/a", "encoding": ["json"]},
    {"method": "GET", "path": "/a", "args": ["x"]},
    {"method": "GET", "path": "/a", "args": {"x": "query"}},
    {"method": "GET", "path": "/a", "args": {"x": {}}},
    {"method": "GET", "path": "/a", "args": {"x": {"in": "cookie"}}},
    {"method": "GET", "path": "/a", "args": {"x": {"in": ["query"]}}},
    {"method": "GET", "path": "/a", "args": {"x": {"in": "query", "name": 7}}},
    {"method": "GET", "path": "/a", "args": {"x": {"in": "query", "name": "a\ud83d"}}},
    {"method": "GET", "path": "/a", "args": {"x": {"in": "path"}}},
    {"method": "POST", "path": "/a", "args": {"x": {"in": "file"}}},
    {"method": "POST", "path": "/a", "encoding": "none", "args": {"x": {"in": "body"}}},
    *(
        {"method": "POST", "path": "/{z}", "args": {"x": {"in": place, "name": "z"}, "y": {"in": place, "name": "z"}}}
        for place in ("path", "body", "header")
    ),
    {"method": "GET", "path": "/a", "args": {"x": {"in": "header", "name": "X-A"}, "X-a": {"in": "header"}}},
    *(
        {"method": "GET", "path": "/a", "args": {"x": {"in": "header", "name": name}}}
        for name in ("X Y", "X\r\nY", *BAD_HEADERS.split())
    ),
]


@pytest.mark.parametrize("endpoint", BAD, ids=lambda endpoint: json.dumps(endpoint)[:60])
def test_endpoints_that_cannot_be_used(endpoint: Any) -> None:
    """An endpoint that could leave the prefix, replace a header of ours or makes no sense is refused before a call."""
    fault = find_endpoint_fault(endpoint)
    assert fault is not None
    assert fault.startswith(("it", "two"))
    with pytest.raises(BadAnswer, match="describes this operation") as caught:
        build_request(endpoint, {"x": "v"})
    assert fault in caught.value.message


@pytest.mark.parametrize(
    "endpoint",
    [
        {"method": "GET", "path": "/a"},
        {"method": "post", "path": "a/b:run", "args": None},
        {"method": "PUT", "path": "/a/{b}/{c:path}", "encoding": "json", "args": {"x": {"in": "path", "name": "b"}}},
        {
            "method": "POST",
            "path": "/a",
            "encoding": "multipart",
            "args": {
                name: {"in": place, "name": "z"} for name, place in zip("abc", ("body", "body", "file"), strict=True)
            },
        },
    ],
)
def test_endpoints_that_can(endpoint: Any) -> None:
    """A good endpoint passes without a word."""
    assert find_endpoint_fault(endpoint) is None


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ({"method": "TRACE", "path": "/a"}, "its method is none of DELETE, GET, PATCH, POST, PUT"),
        ({"method": "GET", "path": "/a?b"}, "its path holds a scheme, a host, a query"),
        ({"method": "GET", "path": "/a", "args": {"k": {"in": "header", "name": "Host"}}}, "'k' would set the header"),
        ({"method": "GET", "path": "/a", "args": {"k": {"in": "cookie"}}}, "'k' goes to none of body, file, header"),
        ({"method": "GET", "path": "/a", "args": {"k": {"in": "path"}}}, "'k' has no placeholder"),
    ],
)
def test_the_reason_names_the_part(endpoint: Any, words: str) -> None:
    """An author is told which part of the block is at fault."""
    assert words in str(find_endpoint_fault(endpoint))


def test_a_reason_is_short() -> None:
    """Whatever a manifest names its arguments, the reason fits a line of a log."""
    for place in ({}, {"in": "header"}, [], {"in": "path"}, {"name": 5}):
        assert len(str(find_endpoint_fault({"method": "GET", "path": "/a", "args": {"x" * 10**5 + "\n": place}}))) < 400


def test_an_argument_without_an_entry_has_a_place() -> None:
    """Declared, else a placeholder, else by the method and the encoding."""
    endpoint = parse_endpoint({"method": "POST", "path": "/{id}", "args": {"q": {"in": "query", "name": "query"}}})
    assert [endpoint.find_place(name) for name in ("q", "id", "rest")] == [
        Place("query", "query"),
        Place("path", "id"),
        Place("body", "rest"),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([*METHODS, "path", "file", "/{a}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
BLOCKS = st.fixed_dictionaries(
    {},
    optional={
        "method": JSON,
        "path": JSON,
        "encoding": JSON,
        "args": JSON
        | st.dictionaries(st.text(max_size=3), st.fixed_dictionaries({}, optional={"in": JSON, "name": JSON})),
    },
)


@given(JSON | BLOCKS)
def test_no_block_breaks_the_check(block: Any) -> None:
    """Whatever a manifest says, there is a reason or a request, and never another error."""
    fault = find_endpoint_fault(block)
    assert fault is None or len(fault) > 5
