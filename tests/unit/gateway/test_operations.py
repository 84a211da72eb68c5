"""Endpoint blocks and arguments → requests: where each argument goes, and what is refused."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.errors import BadAnswer, ToolError
from colabhive_mcp.gateway.operations import FilePart, OperationRequest, build_request, check_endpoint

MERGE = {
    "method": "POST",
    "path": "/training/merges/{merge_id}/parts/{part:path}",
    "encoding": "json",
    "args": {
        "merge": {"in": "path", "name": "merge_id"},
        "dry": {"in": "query", "name": "dry_run"},
        "trace": {"in": "header", "name": "X-Trace"},
        "note": {"in": "body", "name": "comment"},
    },
}


def build(method: str = "POST", path: str = "/jobs", *, arguments: Any = None, **endpoint: Any) -> OperationRequest:
    """The request of a small endpoint."""
    return build_request({"method": method, "path": path, **endpoint}, arguments or {})


def test_each_argument_goes_where_it_is_declared() -> None:
    """Path, query, header and body take their arguments under the wire's names; the rest goes to the body."""
    given = {"merge": "a/b", "part": "x/y z", "dry": True, "trace": "t-1", "note": None, "weights": [0.5, 1]}
    assert build_request(MERGE, given) == OperationRequest(
        "POST",
        "/training/merges/a%2Fb/parts/x/y%20z",
        (("dry_run", "true"),),
        {"X-Trace": "t-1"},
        json={"comment": None, "weights": [0.5, 1]},
        has_body=True,
    )


@pytest.mark.parametrize(
    ("method", "encoding", "expected"),
    [
        ("POST", None, OperationRequest("POST", "/jobs", json={"a": 1}, has_body=True)),
        ("PUT", "json", OperationRequest("PUT", "/jobs", json={"a": 1}, has_body=True)),
        ("PATCH", "json", OperationRequest("PATCH", "/jobs", json={"a": 1}, has_body=True)),
        ("GET", "json", OperationRequest("GET", "/jobs", (("a", "1"),))),
        ("DELETE", None, OperationRequest("DELETE", "/jobs", (("a", "1"),))),
        ("POST", "none", OperationRequest("POST", "/jobs", (("a", "1"),))),
        ("POST", "multipart", OperationRequest("POST", "/jobs", fields=(("a", "1"),))),
        ("get", "json", OperationRequest("GET", "/jobs", (("a", "1"),))),
    ],
)
def test_an_argument_without_an_entry(method: str, encoding: str | None, expected: OperationRequest) -> None:
    """What is not declared goes to the body where the method has one, else to the query."""
    assert build(method, encoding=encoding, arguments={"a": 1}) == expected


@pytest.mark.parametrize(
    ("method", "encoding", "has_body"),
    [
        ("POST", "json", True),
        ("PUT", "json", True),
        ("GET", "json", False),
        ("DELETE", "json", False),
        ("POST", "none", False),
    ],
)
def test_a_body_is_sent_even_if_it_is_empty(method: str, encoding: str, has_body: bool) -> None:
    """A POST of JSON without arguments sends ``{}``, since a gateway may insist on an object."""
    request = build(method, encoding=encoding)
    assert (request.has_body, request.json) == (has_body, {} if has_body else None)


def test_a_declared_body_is_sent_with_any_method() -> None:
    """An argument declared for the body goes there, whatever the method."""
    request = build("DELETE", args={"ids": {"in": "body"}}, arguments={"ids": [1], "force": False})
    assert (request.json, request.query) == ({"ids": [1]}, (("force", "false"),))


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        ("x y", (("q", "x y"),)),
        (["a", 2, None, True], (("q", "a"), ("q", "2"), ("q", "true"))),
        (None, ()),
        ([], ()),
        (1.5, (("q", "1.5"),)),
        (2**64, (("q", "18446744073709551616"),)),
        ({"a": "ä"}, (("q", '{"a": "ä"}'),)),
    ],
    ids=repr,
)
def test_values_in_a_query(value: Any, pairs: tuple[tuple[str, str], ...]) -> None:
    """A list repeats the name, null is left out, text is itself and everything else is JSON."""
    assert build("GET", arguments={"q": value}).query == pairs


@pytest.mark.parametrize(
    ("path", "args", "arguments", "expected"),
    [
        ("/a/{id}", {}, {"id": "x"}, "/a/x"),
        ("a/{id}", {}, {"id": "x"}, "/a/x"),
        ("/a/{id}", {}, {"id": 7}, "/a/7"),
        ("/a/{id}", {}, {"id": False}, "/a/false"),
        ("/a/{id}", {}, {"id": "../b?c#d"}, "/a/..%2Fb%3Fc%23d"),
        ("/a/{id}", {}, {"id": "ä \ud83d%2F"}, "/a/%C3%A4%20%3F%252F"),
        ("/a/{id:path}", {}, {"id": "b/c d"}, "/a/b/c%20d"),
        ("/a/{id}", {"id": {"in": "path", "pathType": "path"}}, {"id": "b/c"}, "/a/b/c"),
        ("/a/{id}/{id}", {}, {"id": "x"}, "/a/x/x"),
        ("/a/{id}.json", {}, {"id": "x"}, "/a/x.json"),
        ("/a:run/ä/%20%3F", {}, {}, "/a:run/%C3%A4/%20%3F"),
    ],
)
def test_paths(path: str, args: Any, arguments: Any, expected: str) -> None:
    """Placeholders are replaced percent-encoded, slashes kept only where the endpoint says so."""
    assert build("GET", path, args=args, arguments=arguments).path == expected


@pytest.mark.parametrize("value", [{}, {"id": None}, {"id": ""}])
def test_a_leftover_placeholder_is_a_missing_argument(value: Any) -> None:
    """The error names the argument as the caller knows it, not as the wire does."""
    with pytest.raises(ToolError, match="'id' is missing"):
        build("GET", "/a/{id}", arguments=value)
    named = {"merge": value["id"]} if value else {}
    with pytest.raises(ToolError, match="'merge' is missing"):
        build("GET", "/a/{id}", args={"merge": {"in": "path", "name": "id"}}, arguments=named)


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("/a/{id}", {"id": ".."}),
        ("/a/{id}", {"id": "."}),
        ("/a/{id:path}", {"id": "b/../../c"}),
        ("/a/{id:path}", {"id": ".."}),
        ("/a/{x}{y}", {"x": ".", "y": "."}),
        ("/a/.{x}", {"x": "."}),
    ],
)
def test_no_argument_steps_out_of_the_path(path: str, arguments: Any) -> None:
    """An argument that would make a step of a segment is refused."""
    with pytest.raises(ToolError, match="step"):
        build("DELETE", path, arguments=arguments)


@given(st.text(min_size=1).filter(lambda text: text not in {".", ".."}))
def test_any_argument_stays_in_its_segment(text: str) -> None:
    """Whatever a plain path argument holds, it is one segment that decodes to itself."""
    path = build("GET", "/a/{id}/z", arguments={"id": text}).path
    head, segment, tail = path[1:].split("/")
    assert (head, unquote(segment), tail) == ("a", text, "z")
    assert path.isascii()
    assert not set(path) & set("?#\\ \r\n")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "한", {"a": "\n한"}])
def test_headers_hold_no_line_breaks(value: Any) -> None:
    """A header argument that would break its header is refused by name."""
    with pytest.raises(ToolError, match="'h'"):
        build(args={"h": {"in": "header", "name": "X-H"}}, arguments={"h": value})


def test_a_header_of_null_is_not_sent() -> None:
    """Null leaves a header out."""
    assert build(args={"h": {"in": "header"}}, arguments={"h": None}).headers == {}


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("plain ä", (FilePart("data", "data", "plain ä".encode(), "text/plain; charset=utf-8"),)),
        (
            [1, {"a": 2}],
            tuple(FilePart("data", "data", body, "text/plain; charset=utf-8") for body in (b"1", b'{"a": 2}')),
        ),
        ("data:text/csv;name=a%20b.csv;base64,MTsy", (FilePart("data", "a b.csv", b"1;2", "text/csv"),)),
        ("data:,a%20b", (FilePart("data", "data", b"a b", "text/plain"),)),
        (
            "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode(),
            (FilePart("data", "data", b"\x89PNG", "image/png"),),
        ),
        ("data:a/b\r\nX: y,z", (FilePart("data", "data", b"z", "text/plain"),)),
        ("/etc/passwd", (FilePart("data", "data", b"/etc/passwd", "text/plain; charset=utf-8"),)),
        ("file:///etc/passwd", (FilePart("data", "data", b"file:///etc/passwd", "text/plain; charset=utf-8"),)),
        (None, ()),
    ],
    ids=repr,
)
def test_files_carry_their_content(value: Any, parts: tuple[FilePart, ...]) -> None:
    """A file argument is content, as text or as a data: URL; it never names a file of this machine."""
    request = build(
        encoding="multipart", args={"file": {"in": "file", "name": "data"}}, arguments={"file": value, "n": 1}
    )
    assert request.files == parts
    assert (request.fields, request.has_body) == ((("n", "1"),), False)


def test_a_data_url_that_cannot_be_decoded() -> None:
    """Broken base64 is the caller's to mend."""
    with pytest.raises(ToolError, match="'f'"):
        build(encoding="multipart", args={"f": {"in": "file"}}, arguments={"f": "data:;base64,@@@"})


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], 10**5000], ids=lambda value: str(type(value)))
def test_values_that_json_cannot_carry(value: Any) -> None:
    """A number that has no form in JSON is the caller's to mend, wherever it would go."""
    with pytest.raises(ToolError):
        build("GET", "/a/{id}", arguments={"id": value})


def test_halves_of_surrogate_pairs_are_sent_as_question_marks() -> None:
    """What no encoding can carry breaks neither a query nor a form."""
    half = "a\ud83d"
    assert build("GET", arguments={half: half}).query == (("a?", "a?"),)
    request = build(
        encoding="multipart", args={"f": {"in": "file"}}, arguments={half: half, "f": f"data:;name={half},x"}
    )
    assert request.fields == (("a?", "a?"),)
    assert request.files == (FilePart("f", "a?", b"x", "text/plain"),)


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
        {"method": "GET", "path": "/a", "args": {"x": {"in": "header", "name": name}}}
        for name in ("X Y", "X\r\nY", *BAD_HEADERS.split())
    ),
]


@pytest.mark.parametrize("endpoint", BAD, ids=lambda endpoint: json.dumps(endpoint)[:60])
def test_endpoints_that_cannot_be_used(endpoint: Any) -> None:
    """An endpoint that could leave the prefix, replace a header of ours or makes no sense is refused early."""
    with pytest.raises(ValueError, match=r"\w") as caught:
        check_endpoint(endpoint)
    assert type(caught.value) is ValueError
    with pytest.raises(BadAnswer, match="describes this operation"):
        build_request(endpoint, {"x": "v"})


@pytest.mark.parametrize(
    "endpoint", [MERGE, {"method": "GET", "path": "/a"}, {"method": "post", "path": "a/b:run", "args": None}]
)
def test_endpoints_that_can(endpoint: Any) -> None:
    """A good endpoint passes without a word."""
    check_endpoint(endpoint)
