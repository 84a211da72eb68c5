"""Bytes to messages and back: what is read, what is refused and with which id, and what no reader may stumble over."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabhive_mcp.errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, ClientError
from colabhive_mcp.protocol.messages import (
    Answered,
    Batch,
    Encoded,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    Response,
    decode,
    dump_json,
    encode,
    load_json,
    to_error,
)
from tests.harness.client import to_messages

BOM = b"\xef\xbb\xbf"
DEEP = 100_000
MARKS = {"\u2028": b"\\u2028", "\u2029": b"\\u2029", "\x85": b"\\u0085"}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)
ids = st.integers() | texts


def to_frame(**members: Any) -> bytes:
    """A frame as a client writes it."""
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def strict(data: bytes) -> Any:
    """*data* as a parser reads it that takes neither NaN nor a line break within."""
    (message,) = to_messages(data)
    return message


@pytest.mark.parametrize(
    "data",
    [
        BOM + to_frame(id=1, method="ping"),
        to_frame(id=1, method="ping") + b"\r",
        b" \t" + to_frame(id=1, method="ping") + b" ",
        to_frame(id=1, method="ping", params=None),
        to_frame(id=1, method="ping", params={}),
        to_frame(id=1, method="ping", extra=True),
        to_frame(id=1, method="ping", result=None),
    ],
)
def test_a_request_in_any_dress(data: bytes) -> None:
    """A byte order mark, blanks, absent or null params and members of other kinds leave a request what it is."""
    assert decode(data) == Request(1, "ping", {})


@pytest.mark.parametrize("request_id", [0, 1, -1, 2**53 + 1, 10**400, "", "1", "a\u2028b", "🎉"])
def test_ids_keep_their_value_and_type(request_id: Any) -> None:
    """An id of either type comes back exactly as it went in, however large."""
    frame = decode(to_frame(id=request_id, method="ping"))
    assert isinstance(frame, Request)
    answer = strict(encode(Response(frame.id, {})))
    assert (type(answer["id"]), answer["id"]) == (type(request_id), request_id)


@pytest.mark.parametrize("request_id", [None, 1.5, True, False, [], {}, [1]])
def test_what_is_no_id(request_id: Any) -> None:
    """An id of another type cannot be repeated in the answer, so the refusal has none."""
    frame = decode(to_frame(id=request_id, method="ping"))
    assert isinstance(frame, Malformed)
    assert (frame.error.id, frame.error.code) == (None, INVALID_REQUEST)


@pytest.mark.parametrize(
    ("data", "code", "error_id"),
    [
        (b"{", PARSE_ERROR, None),
        (b"", PARSE_ERROR, None),
        (b"\xff", PARSE_ERROR, None),
        (b'"\xed\xa0\xbd"', PARSE_ERROR, None),
        (b"{} {}", PARSE_ERROR, None),
        (b"{'a': 1}", PARSE_ERROR, None),
        (to_frame(id=1, method="x", params={"n": float("nan")}), PARSE_ERROR, None),
        (to_frame(id=1, method="x", params={"n": float("-inf")}), PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":1e999}}', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":' + b"9" * 400 + b".0}}", PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":' + b"9" * 300 + b"e99}}", PARSE_ERROR, None),
        (b"[" * DEEP, PARSE_ERROR, None),
        (b"42", INVALID_REQUEST, None),
        (b"null", INVALID_REQUEST, None),
        (b'"ping"', INVALID_REQUEST, None),
        (b"{}", INVALID_REQUEST, None),
        (b"[]", INVALID_REQUEST, None),
        (b'{"id":7,"method":"ping"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":2.0,"id":"a","method":"ping"}', INVALID_REQUEST, "a"),
        (to_frame(id=9), INVALID_REQUEST, None),
        (to_frame(id=9, method=None), INVALID_REQUEST, None),
        (to_frame(id=9, method=5), INVALID_REQUEST, 9),
        (to_frame(id=9, method="x", params=[]), INVALID_REQUEST, 9),
        (to_frame(id=9, method="x", params="y"), INVALID_REQUEST, 9),
        (to_frame(method=5), INVALID_REQUEST, None),
    ],
)
def test_bad_frames(data: bytes, code: int, error_id: Any) -> None:
    """What is no message is refused with the right code, and with its own id only where that could be read."""
    frame = decode(data)
    assert isinstance(frame, Malformed)
    assert (frame.error.code, frame.error.id) == (code, error_id)
    assert "Traceback" not in frame.error.message
    assert strict(encode(frame.error))["error"]["code"] == code


def test_a_bad_frame_forgets_the_one_before() -> None:
    """The refusal of an unreadable frame never carries the id of an earlier one."""
    assert decode(to_frame(id=41, method="ping")) == Request(41, "ping")
    refused = decode(b"{")
    assert isinstance(refused, Malformed)
    assert refused.error.id is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (to_frame(method="n"), Notification("n")),
        (to_frame(method="n", params={"a": 1}), Notification("n", {"a": 1})),
        (to_frame(method="n", params=None), Notification("n")),
        (to_frame(method="n", params=[1]), Notification("n")),
        (to_frame(id=1, result={}), Answered()),
        (to_frame(id=1, error={"code": 1, "message": "m"}), Answered()),
    ],
)
def test_one_way_messages(data: bytes, expected: Any) -> None:
    """Notifications and the peer's responses are told apart, and neither is ever malformed for its params."""
    assert decode(data) == expected


def test_batches_keep_their_order() -> None:
    """A batch is its messages in order, the malformed ones in their place."""
    frame = decode(b"[" + b",".join([to_frame(id=1, method="a"), b"1", to_frame(method="b"), b"[]"]) + b"]")
    assert isinstance(frame, Batch)
    assert frame.messages[0] == Request(1, "a")
    assert isinstance(frame.messages[1], Malformed)
    assert frame.messages[2] == Notification("b")
    assert isinstance(frame.messages[3], Malformed)


@pytest.mark.parametrize(("mark", "escaped"), MARKS.items())
def test_line_separators_are_escaped(mark: str, escaped: bytes) -> None:
    """The characters that readers with universal line breaks split at leave as escapes, and come in as they are."""
    line = encode(Response(1, {"text": f"a{mark}b"}))
    assert escaped in line
    assert strict(line)["result"] == {"text": f"a{mark}b"}
    frame = decode(f'{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"t":"a{mark}b"}}}}'.encode())
    assert frame == Request(1, "m", {"t": f"a{mark}b"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\ud83d", "\ufffd"),
        ("a\ud83db", "a\ufffdb"),
        ("\ud83d\ude00", "😀"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ufeff\ud83d", "\ufeff\ufffd"),
        ("é漢🎉\ud83d\u2028", "é漢🎉\ufffd\u2028"),
    ],
)
def test_lone_surrogates_become_replacement_characters(text: str, expected: str) -> None:
    """What UTF-8 cannot hold is replaced, and nothing beside it is touched."""
    assert strict(dump_json({"text": text})) == {"text": expected}


def test_an_escaped_lone_surrogate_is_read() -> None:
    """An argument with half a character is no parse error: it is answered like any other."""
    frame = decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"t":"\\ud83d"}}')
    assert frame == Request(1, "m", {"t": "\ud83d"})


@pytest.mark.parametrize("number", [0.1, 2**63 + 1, -(2**80), 10**300, 1.7976931348623157e308, 5e-324, -0.0])
def test_numbers_are_exact(number: float) -> None:
    """Integers of any size and every double pass through unchanged."""
    assert strict(dump_json({"n": number})) == {"n": number}
    assert load_json(dump_json(number)) == number


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_what_is_not_json_is_not_written(value: Any) -> None:
    """NaN and the infinities are refused rather than written in a way that strict parsers refuse."""
    with pytest.raises(ValueError, match="JSON compliant"):
        dump_json(value)


@pytest.mark.parametrize("count", range(5))
@pytest.mark.parametrize("rest", [{}, {"nextCursor": "c"}, {"ttlMs": 5, "_meta": {"a": "é"}}])
def test_an_encoded_member_is_spliced_in(rest: dict[str, Any], count: int) -> None:
    """A list whose entries were encoded before is the same result as one that was not, however many there are."""
    tools = [{"name": "ü" * number} for number in range(count)]
    line = encode(Response("i", Encoded("tools", [dump_json(tool) for tool in tools], rest)))
    assert strict(line) == {"jsonrpc": "2.0", "id": "i", "result": {"tools": tools, **rest}}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorResponse(1, -1, "m"), {"id": 1, "error": {"code": -1, "message": "m"}}),
        (ErrorResponse(1, -1, "m", {"a": 1}), {"id": 1, "error": {"code": -1, "message": "m", "data": {"a": 1}}}),
        (ErrorResponse(None, -1, "m"), {"id": None, "error": {"code": -1, "message": "m"}}),
        (ErrorResponse(None, -1, "m", id_required=False), {"error": {"code": -1, "message": "m"}}),
        (ErrorResponse(0, -1, "m", id_required=False), {"id": 0, "error": {"code": -1, "message": "m"}}),
        (ErrorResponse("", -1, "m", id_required=False), {"id": "", "error": {"code": -1, "message": "m"}}),
    ],
)
def test_errors_on_the_wire(error: ErrorResponse, expected: dict[str, Any]) -> None:
    """An error has its id, null or none as the revision wants it, and data only where there is some."""
    assert strict(encode(error)) == {"jsonrpc": "2.0", **expected}


def test_a_client_error_becomes_its_answer() -> None:
    """The error of a request carries the code and the data that it was raised with."""
    assert to_error(3, ClientError("no", code=-32022, data={"a": 1})) == ErrorResponse(3, -32022, "no", {"a": 1})
    assert to_error("x", ClientError("no")) == ErrorResponse("x", INVALID_PARAMS, "no")


@pytest.mark.parametrize(("params", "wire"), [({}, {}), ({"a": None}, {"params": {"a": None}})])
def test_notifications_on_the_wire(params: dict[str, Any], wire: dict[str, Any]) -> None:
    """A notification without params has no such member."""
    assert strict(encode(Notification("n", params))) == {"jsonrpc": "2.0", "method": "n", **wire}


@settings(max_examples=100, deadline=None)
@given(request_id=ids, result=objects)
def test_responses_survive_the_wire(request_id: Any, result: dict[str, Any]) -> None:
    """Whatever JSON a result holds, one line carries it whole to a strict reader."""
    line = encode(Response(request_id, result))
    assert strict(line) == {"jsonrpc": "2.0", "id": request_id, "result": result}


@settings(max_examples=100, deadline=None)
@given(request_id=ids, method=texts, params=objects)
def test_requests_survive_the_wire(request_id: Any, method: str, params: dict[str, Any]) -> None:
    """What a client writes as JSON is read as it was meant."""
    data = dump_json({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
    assert decode(data) == Request(request_id, method, params)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=40) | st.text('{}[]",:0e1-nul\\ud8', max_size=30).map(str.encode))
def test_any_bytes_are_answered_in_some_way(data: bytes) -> None:
    """Decoding never raises, and what it refuses can be answered."""
    frame = decode(data)
    if isinstance(frame, Malformed):
        strict(encode(frame.error))


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters()))
def test_any_text_can_be_written(text: str) -> None:
    """Whatever a text holds, half characters included, the line is valid UTF-8 and one line."""
    written = strict(dump_json({"t": text}))["t"]
    assert written.replace("\ufffd", "") == "".join(
        each for each in text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if each != "\ufffd"
    )
