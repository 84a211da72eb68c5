"""Endpoint blocks and arguments → requests: where each argument goes, and what is refused."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.errors import ToolError
from colabhive_mcp.gateway.operations import FilePart, OperationRequest, build_request
from colabhive_mcp.gateway.parts import MAX_UPLOAD, File

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
    """The request of a small endpoint that is not idempotent."""
    return build_request({"method": method, "path": path, **endpoint}, arguments or {}, idempotent=False)


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
        ("/a/%2E{x}", {"x": "."}),
        ("/a/{x}%2e/b", {"x": "."}),
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


UPLOAD = {"encoding": "multipart", "args": {"file": {"in": "file", "name": "data"}}}


def test_files_are_parts_and_the_rest_are_fields() -> None:
    """A part has the wire's name, the file's own or that of the part, and a list is several parts."""
    request = build(
        **UPLOAD, arguments={"file": ["data:text/csv;name=a.csv,1", "two words"], "n": 1, "tags": ["x", "y"]}
    )
    assert request.files == (
        FilePart("data", "a.csv", b"1", "text/csv"),
        FilePart("data", "data", b"two words", "text/plain; charset=utf-8"),
    )
    assert (request.fields, request.has_body) == ((("n", "1"), ("tags", "x"), ("tags", "y")), False)
    assert build(**UPLOAD, arguments={"file": None}).files == ()


@pytest.mark.parametrize("value", ["data:;base64,@@@", "/etc/passwd", "file:a", {"path": "a"}, ["ok then", "a/b"]])
def test_a_file_that_cannot_be_sent_is_named(value: Any) -> None:
    """What is wrong with a file is told with the argument's name."""
    with pytest.raises(ToolError, match=r"The argument 'file' [a-z]"):
        build(**UPLOAD, arguments={"file": value})


BASE64 = {"type": "string", "contentEncoding": "base64"}


@pytest.mark.parametrize(
    ("schema", "content"),
    [
        (BASE64, b"1;2"),
        ({"type": "string", "format": "byte"}, b"1;2"),
        ({"type": "array", "items": BASE64}, b"1;2"),
        ({"anyOf": [BASE64, {"type": "null"}]}, b"1;2"),
        ({"oneOf": [{"type": "array", "items": BASE64}, BASE64]}, b"1;2"),
        ({"type": "string", "contentEncoding": "7bit"}, b"MTsy"),
        ({"anyOf": 5, "items": True}, b"MTsy"),
        (True, b"MTsy"),
        (None, b"MTsy"),
    ],
)
def test_a_schema_may_say_that_text_is_base64(schema: Any, content: bytes) -> None:
    """The schema of the argument, of the items of its list or of an alternative decides how its text is read."""
    endpoint = {"method": "POST", "path": "/x", **UPLOAD}
    properties = {"properties": {"file": schema, "other": BASE64}}
    assert build_request(endpoint, {"file": "MTsy"}, schema=properties).files[0].content == content


@pytest.mark.parametrize("schema", [None, True, [], {"properties": []}])
def test_a_schema_may_say_nothing(schema: Any) -> None:
    """Without properties text is text."""
    assert build_request({"method": "POST", "path": "/x", **UPLOAD}, {"file": "MTsy"}, schema=schema).files[0].content


def test_a_path_is_read_by_the_loader() -> None:
    """The request carries what the loader gives for the path."""
    request = build_request(
        {"method": "POST", "path": "/x", **UPLOAD},
        {"file": ["file:a.csv", {"path": "b", "name": "c"}]},
        load_file=lambda path: File(path, path.encode(), "text/csv"),
    )
    assert request.files == (FilePart("data", "a.csv", b"a.csv", "text/csv"), FilePart("data", "c", b"b", "text/csv"))


def test_the_files_of_a_call_are_bounded() -> None:
    """Reading stops as soon as there is more than may be sent."""
    asked: list[str] = []

    def load_file(path: str) -> File:
        asked.append(path)
        return File(path, bytes(MAX_UPLOAD // 2), "x/y")

    endpoint = {"method": "POST", "path": "/x", **UPLOAD}
    with pytest.raises(ToolError, match="64 MiB"):
        build_request(endpoint, {"file": [f"file:{n}" for n in range(9)]}, load_file=load_file)
    assert asked == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"note": 1, "comment": 2}, "'note' and 'comment'"),
        ({"merge": "a", "merge_id": "b"}, "'merge' and 'merge_id'"),
        ({"comment": 2, "note": 1}, "'comment' and 'note'"),
    ],
)
def test_two_arguments_that_meet_are_refused(arguments: Any, words: str) -> None:
    """Neither is lost in silence where only one can be sent."""
    with pytest.raises(ToolError, match=words):
        build_request(MERGE, {"part": "p", "merge": "m", **arguments})


@pytest.mark.parametrize(
    ("method", "said", "expected"),
    [
        ("GET", None, True),
        ("PUT", None, True),
        ("DELETE", None, True),
        ("POST", None, False),
        ("PATCH", None, False),
        ("POST", True, True),
        ("PATCH", True, True),
        ("PUT", False, False),
        ("DELETE", False, False),
    ],
)
def test_what_is_idempotent(method: str, said: bool | None, expected: bool) -> None:
    """The manifest's word counts, and where it says nothing that of RFC 9110 about the method."""
    endpoint = {"method": method, "path": "/x"}
    assert build_request(endpoint, {}, idempotent=said, idempotency_key="k").idempotent is expected


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_every_request_but_a_get_carries_a_key(method: str) -> None:
    """The key of the call goes along, and by itself makes nothing safe to repeat."""
    request = build_request({"method": method, "path": "/x"}, {}, idempotent=False, idempotency_key="k")
    assert request.headers == ({} if method == "GET" else {"Idempotency-Key": "k"})
    assert request.idempotent is False


def test_an_operation_may_declare_the_key_itself() -> None:
    """A declared key wins over ours and makes the request safe to repeat; one that is not given changes nothing."""
    endpoint = {"method": "POST", "path": "/x", "args": {"key": {"in": "header", "name": "idempotency-key"}}}
    own = build_request(endpoint, {"key": "mine"}, idempotent=False, idempotency_key="k")
    assert (own.headers, own.idempotent) == ({"idempotency-key": "mine"}, True)
    none = build_request(endpoint, {"key": None}, idempotent=False, idempotency_key="k")
    assert (none.headers, none.idempotent) == ({"Idempotency-Key": "k"}, False)


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
