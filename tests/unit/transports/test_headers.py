"""Headers that repeat parts of a message: what is refused, with which words, and that nothing else is."""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from colabhive_mcp.errors import HEADER_MISMATCH, ClientError
from colabhive_mcp.protocol.messages import Request
from colabhive_mcp.transports.headers import HeaderParameters, check_headers

VERSION = "2026-07-28"
REGION = "Mcp-Param-Region"
MIRRORED: HeaderParameters = ((REGION, ("region",)), ("Mcp-Param-Where-Zone", ("where", "zone")))
MEMBERS = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}

texts = st.text(st.characters(codec="utf-8"))
integers = st.integers() | st.integers(2**53 - 9, 2**64)
values = texts | integers | st.booleans()


def encode(value: str | int | bool) -> str:
    """*value* as a client writes it: "Value Encoding" of the transport's text."""
    text = json.dumps(value) if isinstance(value, bool) else str(value)
    is_plain = all(each == "\t" or " " <= each <= "~" for each in text) and text == text.strip(" \t")
    if is_plain and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return wrap(text.encode())


def wrap(data: bytes) -> str:
    """*data* in the base64 form."""
    return f"=?base64?{b64encode(data).decode()}?="


def build_headers(method: str, **others: str) -> dict[str, str]:
    """The standard headers of a request, and *others* with hyphens for underscores."""
    named = {name.replace("_", "-"): value for name, value in others.items()}
    return {"mcp-protocol-version": VERSION, "mcp-method": method, **named}


def check_call(headers: Mapping[str, str], arguments: Any) -> None:
    """Check a call of the tool ``t`` with its mirrored *headers*."""
    params = {"name": "t", "arguments": arguments}
    check_headers(
        {**build_headers("tools/call", mcp_name="t"), **headers},
        Request(1, "tools/call", params),
        VERSION,
        lambda: MIRRORED,
    )


def find_refusal(headers: Mapping[str, str], request: Request, parameters: HeaderParameters = MIRRORED) -> str | None:
    """Why *request* is refused, without the words that all refusals begin with."""
    try:
        check_headers(headers, request, VERSION, lambda: parameters)
    except ClientError as error:
        refusal = error
    else:
        return None
    assert refusal.code == HEADER_MISMATCH
    assert refusal.message.startswith("Header mismatch: ")
    return refusal.message.removeprefix("Header mismatch: ")


def find_call_refusal(header: str | None, value: Any) -> str | None:
    """Why a call with *value* for ``region`` is refused, where its header says *header*; None is no header."""
    headers = build_headers("tools/call", mcp_name="t") | ({} if header is None else {REGION.lower(): header})
    return find_refusal(headers, Request(1, "tools/call", {"name": "t", "arguments": {"region": value}}))


def fail() -> HeaderParameters:
    """For requests whose parameters nobody may ask for."""
    raise AssertionError


@pytest.mark.parametrize(
    "method", ["tools/list", "server/discover", "ping", "subscriptions/listen", "completion/complete"]
)
def test_most_requests_need_version_and_method(method: str) -> None:
    """Where the method has no name to repeat, the version and the method are enough, and no tool is looked up."""
    check_headers(build_headers(method), Request(1, method), VERSION, fail)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("mcp-protocol-version", None, "MCP-Protocol-Version header is missing; the body value is '2026-07-28'"),
        ("mcp-protocol-version", "2025-11-25", "value '2025-11-25' does not match body value '2026-07-28'"),
        ("mcp-method", None, "Mcp-Method header is missing; the body value is 'tools/call'"),
        ("mcp-method", "tools/list", "Mcp-Method header value 'tools/list' does not match body value 'tools/call'"),
        ("mcp-method", "TOOLS/CALL", "value 'TOOLS/CALL' does not match"),
        ("mcp-method", "tools/call, tools/call", "does not match"),
        ("mcp-method", wrap(b"tools/call"), "does not match"),
        ("mcp-name", None, "Mcp-Name header is missing; the body value is 't'"),
        ("mcp-name", "T", "Mcp-Name header value 'T' does not match body value 't'"),
        ("mcp-name", "", "Mcp-Name header value '' does not match body value 't'"),
        ("mcp-name", "t\x7f", "has characters other than visible ASCII, space and tab"),
        ("mcp-name", "é", "has characters other than visible ASCII, space and tab"),
        ("mcp-name", "x" * 81, f"value '{'x' * 80}' does not match"),
    ],
)
def test_standard_headers_are_compared(name: str, value: str | None, words: str) -> None:
    """A standard header that is missing, differs in case or cannot be one is refused with both values."""
    headers = {**build_headers("tools/call", mcp_name="t"), name: value}
    given = {name: value for name, value in headers.items() if value is not None}
    request = Request(1, "tools/call", {"name": "t"})
    with pytest.raises(ClientError, match=r"^Header mismatch: ") as caught:
        check_headers(given, request, VERSION, fail)
    assert words in caught.value.message
    assert caught.value.code == HEADER_MISMATCH == -32020


@pytest.mark.parametrize(("method", "member"), MEMBERS.items())
def test_names_are_repeated(method: str, member: str) -> None:
    """Each of the three methods with a name has it in ``Mcp-Name``, plain or encoded, white space around it aside."""
    request = Request(1, method, {member: "größe"})
    header = encode("größe")
    assert find_refusal(build_headers(method, mcp_name=f" \t{header} "), request, ()) is None
    assert find_refusal(build_headers(method), request, ()) == "Mcp-Name header is missing; the body value is 'größe'"
    assert find_refusal(build_headers(method), Request(1, method), ()) == "Mcp-Name header is missing"
    refusal = find_refusal(build_headers(method, mcp_name="x"), Request(1, method), ())
    assert refusal == "Mcp-Name header value 'x' repeats nothing: the body has no such value"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("us-west1", "us-west1"),
        ("=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界"),
        ("=?base64?IHBhZGRlZCA=?=", " padded "),
        ("=?base64?bGluZTEKbGluZTI=?=", "line1\nline2"),
        ("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?base64?=", "=?base64?="),
        ("=?base64??=", ""),
        ("", ""),
        ("  us\twest ", "us\twest"),
        ("42", 42),
        ("42.0", 42),
        ("42", 42.0),
        ("-7", -7),
        ("1e+22", 1e22),
        ("0.1", 0.1),
        ("9007199254740993", 2**53 + 1),
        ("9007199254740993.0", 2**53 + 1),
        ("true", True),
        ("false", False),
    ],
)
def test_parameters_that_say_the_same(header: str, value: Any) -> None:
    """The examples of the transport's text pass, integers by their number and a half-marked value as it is."""
    assert find_call_refusal(header, value) is None


@pytest.mark.parametrize(
    ("header", "value", "words"),
    [
        (None, "eu", "Mcp-Param-Region header is missing; the body value is 'eu'"),
        (None, "", "Mcp-Param-Region header is missing; the body value is ''"),
        (None, False, "Mcp-Param-Region header is missing; the body value is 'false'"),
        ("eu", None, "Mcp-Param-Region header value 'eu' repeats nothing: the body has no such value"),
        ("", None, "Mcp-Param-Region header value '' repeats nothing: the body has no such value"),
        ("eu", ["eu"], "Mcp-Param-Region header value 'eu' repeats nothing: the body has no such value"),
        ("eu", "EU", "Mcp-Param-Region header value 'eu' does not match body value 'EU'"),
        ("é", "é", "has characters other than visible ASCII, space and tab"),
        ("a\x00", "a\x00", "has characters other than visible ASCII, space and tab"),
        ("=?base64?SGVsbG8?=", "Hello", "is not the base64 form of a text in UTF-8"),
        ("=?base64?SGVs!!!bG8=?=", "Hello", "is not the base64 form of a text in UTF-8"),
        ("=?base64?SGVs bG8=?=", "Hello", "is not the base64 form of a text in UTF-8"),
        ("=?base64?SGVsbG9=?=", "Hello", "is not the base64 form of a text in UTF-8"),
        ("=?base64?SGVsbG8=SGVsbG8=?=", "Hello", "is not the base64 form of a text in UTF-8"),
        ("=?base64?7aCA?=", "\ud800", "is not the base64 form of a text in UTF-8"),
        ("=?base64?-_8=?=", "ûÿ", "is not the base64 form of a text in UTF-8"),
        ("9007199254740993", 2**53, "does not match body value '9007199254740992'"),
        ("42.5", 42, "does not match"),
        ("+42", 42, "does not match"),
        ("042", 42, "does not match"),
        ("4_2", 42, "does not match"),
        ("0x2a", 42, "does not match"),
        ("1e9999999", 42, "does not match"),
        ("NaN", 42, "does not match"),
        ("42.0", "42", "does not match"),
        ("True", True, "does not match"),
        ("1", True, "does not match"),
        ("true", 1, "does not match"),
        ("true", False, "does not match"),
    ],
)
def test_parameters_that_differ(header: str | None, value: Any, words: str) -> None:
    """A mirrored header that is missing, repeats nothing, is badly encoded or says another value is refused."""
    refusal = find_call_refusal(header, value)
    assert refusal is not None
    assert words in refusal


@pytest.mark.parametrize("arguments", [None, {}, {"region": None}, {"where": {}}, {"where": None}, {"where": "zone 5"}])
def test_no_value_needs_no_header(arguments: Any) -> None:
    """An argument that is null or not there, at any step of its path, is repeated nowhere."""
    check_call({}, arguments)


def test_inner_values_are_found_by_their_exact_path() -> None:
    """A mirrored member of an object is read from that object, and not from elsewhere."""
    check_call({"mcp-param-where-zone": "a"}, {"where": {"zone": "a"}, "zone": "b", "where.zone": "c"})
    with pytest.raises(ClientError, match="does not match body value 'a'"):
        check_call({"mcp-param-where-zone": "b"}, {"where": {"zone": "a"}, "zone": "b"})


@pytest.mark.parametrize("text", ['{"zone": "a"}', ' \n{"zone": "a"}', '\ufeff{"zone": "a"}'])
def test_no_value_hides_in_a_text(text: str) -> None:
    """An object that would be read out of a text is refused where a member of it has to be repeated."""
    with pytest.raises(ClientError, match="repeats a member of 'where': send that as an object"):
        check_call({}, {"where": text})


@pytest.mark.parametrize("value", [["eu"], {"eu": 1}])
def test_what_no_header_can_say_is_left_to_the_schema(value: Any) -> None:
    """A list or an object in place of a value reaches the tool's schema, which refuses it with words for models."""
    assert find_call_refusal(None, value) is None


@pytest.mark.parametrize("arguments", [[], "region", 5])
def test_arguments_that_are_no_object_are_left_to_the_method(arguments: Any) -> None:
    """The method says what arguments are."""
    check_call({"mcp-param-region": "eu"}, arguments)


def test_unknown_parameters_are_ignored() -> None:
    """A header of a parameter that the tool does not mirror means nothing here, whatever it says."""
    check_call({"mcp-param-other": "é"}, {"other": "x"})


@given(values)
@example("=?base64?=")
@example("\u00a0")
def test_any_encoded_value_is_accepted(value: Any) -> None:
    """Whatever a client encodes by the transport's text is taken for what it was, as a parameter and as a name."""
    assert find_call_refusal(encode(value), value) is None
    if isinstance(value, str):
        headers = build_headers("resources/read", mcp_name=encode(value))
        assert find_refusal(headers, Request(1, "resources/read", {"uri": value})) is None


@given(values, values)
def test_any_other_value_is_refused(told: Any, value: Any) -> None:
    """A header that was encoded from another value is never taken for this one."""
    assume(not isinstance(told, str) or isinstance(value, str))  # a text such as "42" is a number, written out
    assert (find_call_refusal(encode(told), value) is None) == (encode(told) == encode(value))


@given(st.text(st.characters(codec="latin-1")), values)
def test_no_header_crashes(header: str, value: Any) -> None:
    """Any bytes in a header end in an answer: accepted, or a header mismatch."""
    assert find_call_refusal(header, value) is None or header.strip(" \t") != encode(value)


@given(st.binary())
def test_base64_of_what_is_no_text_is_refused(data: bytes) -> None:
    """The encoded form holds UTF-8 alone."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    assert (find_call_refusal(wrap(data), text or "") is None) == (text is not None)
