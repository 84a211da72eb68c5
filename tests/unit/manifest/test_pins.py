"""A frozen manifest: its text, and a fetch that always answers the same and knows how far it is behind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.errors import BadAnswer, ConfigError, GatewayUnreachable
from colabhive_mcp.manifest.cache import Fetched, NotModified
from colabhive_mcp.manifest.model import Tools, build_manifest
from colabhive_mcp.manifest.pins import Lag, Pin, build_lag, build_pin, parse_pin
from colabhive_mcp.telemetry.events import Event

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def document(**versions: str) -> dict[str, Any]:
    """A discovery response with a tool for each version."""
    return {"tools": [{"name": name, "version": version} for name, version in versions.items()]}


def tools(**versions: str) -> Tools:
    """The tools in it."""
    return build_manifest(document(**versions), etag=None).tools


# The text


@given(
    envelope=st.dictionaries(st.text(max_size=5), JSON, max_size=3),
    entries=st.lists(JSON, max_size=3),
    etag=st.none() | st.text(max_size=5),
    pages=st.integers(1, 9),
)
def test_a_pin_is_read_as_it_was_written(
    envelope: dict[str, Any], entries: list[Any], etag: str | None, pages: int
) -> None:
    """All of a manifest comes back from its pin, but for what belonged to the answer and not to the manifest."""
    passing = {"hasMore": False, "nextCursor": None, "etag": "old"}
    text = build_pin({**envelope, **passing, "tools": entries}, etag=etag, pages=pages)
    text.encode("utf-8")
    pin = parse_pin(text, "pin.json")
    own = {key: value for key, value in envelope.items() if key not in {*passing, "pages", "tools"}}
    expected = {**own, "tools": entries, "etag": etag, **({"pages": pages} if pages > 1 else {})}
    assert pin.document == expected
    assert (pin.etag, pin.pages, pin.size) == (etag, pages, len(text.encode("utf-8")))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no JSON"),
        ('{"tools": [', "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("null", "holds no manifest"),
        ("[]", "holds no manifest"),
        ('"x"', "holds no manifest"),
        ("{}", "holds no manifest"),
        ('{"tools": {}}', "holds no manifest"),
        ('{"name": "a-single-manifest"}', "holds no manifest"),
    ],
)
def test_what_is_no_pin(text: str, words: str) -> None:
    """A file that is none is refused by its name, with how to make one."""
    with pytest.raises(ConfigError, match=f"pin.json {words}.*manifest pin"):
        parse_pin(text, "pin.json")


def test_a_pin_made_by_hand() -> None:
    """A discovery response that was saved by other means is a pin; what is of the wrong type is missing."""
    pin = parse_pin('{"tools": [], "etag": 5, "pages": "3"}', "pin.json")
    assert (pin.etag, pin.pages) == (None, 1)


# How far it is behind


@pytest.mark.parametrize(
    ("served", "expected", "words"),
    [
        ({"a": "1", "b": "1"}, Lag(), "the same as the gateway's"),
        ({"a": "1", "b": "1", "c": "1"}, Lag(added=1), "behind the gateway by 1 added"),
        ({"a": "1"}, Lag(removed=1), "behind the gateway by 1 removed"),
        ({"a": "2", "b": "2"}, Lag(changed=2), "behind the gateway by 2 changed"),
        ({"a": "2", "c": "1"}, Lag(1, 1, 1), "behind the gateway by 1 added, 1 removed, 1 changed"),
        ({}, Lag(removed=2), "behind the gateway by 2 removed"),
    ],
)
def test_lags(served: dict[str, str], expected: Lag, words: str) -> None:
    """What was added, removed and changed since is counted, and said."""
    lag = build_lag(tools(a="1", b="1"), tools(**served))
    assert lag == expected
    assert str(lag) == words
    assert lag.counts() == {"added": expected.added, "removed": expected.removed, "changed": expected.changed}


def test_a_lag_that_is_not_known() -> None:
    """Why it cannot be told is said, with one full stop at most."""
    assert str(Lag(error="It is away.")) == "how far it is behind cannot be told: It is away"


# The fetch


class Gateway:
    """What a pin asks, and what it is told: each answer of *answers* in turn, the last one for ever."""

    def __init__(self, *answers: Fetched | NotModified | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str | None] = []
        self.told: list[Any] = []

    def fetch(self, etag: str | None) -> Fetched | NotModified:
        """The next answer."""
        self.asked.append(etag)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def note(self, event: Event) -> None:
        """Remember how far the pin was said to be behind."""
        fields = event._asdict()
        self.told.append((fields["added"], fields["removed"], fields["changed"], fields["error"]))

    def pin(self, name: str = "pin.json", file: Fetched | None = None) -> Pin:
        """A pin over this gateway."""
        return Pin(name, file, fetch=self.fetch, peek=self.fetch, record=self.note)


def fetched(etag: str | None = '"e"', pages: int = 1, **versions: str) -> Fetched:
    """An answer with these tools."""
    return Fetched(document(**versions), etag, 10, pages)


FILE = fetched(a="1")
AWAY = GatewayUnreachable("away")


def test_a_file_is_always_the_same() -> None:
    """The file is served first and then not modified, whatever the gateway has; only what is news is told."""
    gateway = Gateway(NotModified(), NotModified(), fetched(a="1", b="1"), AWAY, AWAY, NotModified())
    pin = gateway.pin(file=FILE)
    assert pin(None) is FILE
    assert [pin("x") for _ in range(5)] == [NotModified()] * 5
    assert gateway.asked == ['"e"'] * 6
    assert gateway.told == [(0, 0, 0, None), (1, 0, 0, None), (None, None, None, "away"), (0, 0, 0, None)]


def test_a_file_needs_no_gateway() -> None:
    """With a gateway that is away, or has no manifest, the file is served all the same."""
    for failure in (AWAY, Fetched({"tools": {}}, None, 1, 1)):
        gateway = Gateway(failure)
        assert gateway.pin(file=FILE)(None) is FILE
        assert gateway.told[0][0] is None
        assert gateway.told[0][3]


def test_pages_are_compared_whole() -> None:
    """The ETag of several pages covers the first alone, so it is not asked with."""
    gateway = Gateway(fetched(a="1", b="1"))
    gateway.pin(file=fetched(pages=2, a="1"))(None)
    assert (gateway.asked, gateway.told) == ([None], [(1, 0, 0, None)])


def test_an_etag_that_is_served() -> None:
    """What is served under the ETag is kept from then on; before, a look tells whether it is served at all."""
    served = fetched('"e"', a="1")
    gateway = Gateway(NotModified(), fetched('"f"', a="2"), served, NotModified(), fetched('"f"', a="2"))
    pin = gateway.pin('"e"')
    assert pin.measure() == Lag()
    assert "no longer served" in str(pin.measure())
    assert pin(None) is served
    assert [pin(None), pin(None)] == [NotModified()] * 2
    assert gateway.asked == ['"e"', '"e"', None, '"e"', '"e"']
    assert gateway.told == [(0, 0, 0, None), (0, 0, 1, None)]


@pytest.mark.parametrize("answer", [fetched('"f"', a="1"), fetched(None, a="1"), NotModified()])
def test_an_etag_that_has_gone(answer: Fetched | NotModified) -> None:
    """An ETag that is not served is an error that names it, at each try, until it is served."""
    gateway = Gateway(answer, answer, fetched('"e"', a="1"))
    pin = gateway.pin('"e"')
    for _ in range(2):
        with pytest.raises(BadAnswer, match=r'"e" (is no longer served.*manifest_pin|cannot be had)'):
            pin(None)
    assert isinstance(pin(None), Fetched)


def test_measuring_a_file_that_was_not_served() -> None:
    """How far a file is behind can be told before it is served, also where it is empty."""
    assert Gateway(fetched(a="2")).pin(file=FILE).measure() == Lag(changed=1)
    assert Gateway(fetched(a="2")).pin(file=fetched()).measure() == Lag(added=1)
