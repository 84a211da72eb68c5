"""Names that every client accepts: distinct, portable, and no other for any order of the slugs."""

import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colabhive_mcp.manifest.names import build_names, is_portable

ANY_SLUG = st.text(max_size=80) | st.from_regex(r"[a-z.:/_-]{0,6}", fullmatch=True)
SLUGS = st.lists(ANY_SLUG, max_size=12)
RESERVED = st.sets(st.sampled_from(["a", "a_b", "get_invocation_result", "", "a.b"]), max_size=3)


def to_digest(slug: str) -> str:
    return hashlib.sha256(slug.encode(errors="surrogatepass")).hexdigest()[:6]


@pytest.mark.parametrize(
    ("name", "portable"),
    [
        ("chat", True),
        ("Qwen_2-5", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ("a.b", False),
        ("a b", False),
        ("a\n", False),
        ("é", False),
        ("²", False),
    ],
)
def test_portable(name: str, portable: bool) -> None:
    """A portable name is 1 to 64 ASCII letters, digits, underscores and hyphens."""
    assert is_portable(name) is portable


@pytest.mark.parametrize(
    ("slugs", "reserved", "names"),
    [
        (["chat"], (), ["chat"]),
        (["qwen-2.5-7b"], (), ["qwen-2_5-7b"]),
        (["training.merge", "a/b c"], (), ["training_merge", "a_b_c"]),
        (["a.b", "a_b"], (), [f"a_b_{to_digest('a.b')}", "a_b"]),
        (["a.b", "a/b"], (), [f"a_b_{to_digest('a.b')}", f"a_b_{to_digest('a/b')}"]),
        (["chat", "a.b"], ("chat", "a_b"), [f"chat_{to_digest('chat')}", f"a_b_{to_digest('a.b')}"]),
        (["x" * 70], (), [f"{'x' * 57}_{to_digest('x' * 70)}"]),
        ([""], (), [f"tool_{to_digest('')}"]),
        (["日本"], (), ["__"]),
        (["\ud800."], (), ["__"]),
        (["a", "a"], (), ["a"]),
    ],
)
def test_names(slugs: list[str], reserved: tuple[str, ...], names: list[str]) -> None:
    """A portable slug keeps its name; another is rewritten, and what collides or is too long ends in its own digest."""
    assert list(build_names(slugs, reserved=reserved).values()) == names


def test_digest_that_is_taken() -> None:
    """A slug whose name with its digest is the portable slug of another gets a further digest."""
    rival = f"a_b_{to_digest('a.b')}"
    names = build_names(["a.b", "a/b", rival])
    assert names[rival] == rival
    assert len(set(names.values())) == 3
    assert is_portable(names["a.b"])


@given(SLUGS, RESERVED)
def test_distinct_and_portable(slugs: list[str], reserved: set[str]) -> None:
    """Any slugs get portable names, each its own and none that is reserved."""
    names = build_names(slugs, reserved=reserved)
    assert names.keys() == set(slugs)
    assert all(map(is_portable, names.values()))
    assert len(set(names.values())) == len(names)
    assert reserved.isdisjoint(names.values())


@given(SLUGS, RESERVED, st.randoms(use_true_random=False))
def test_order(slugs: list[str], reserved: set[str], chance: random.Random) -> None:
    """The names do not depend on the order of the slugs."""
    shuffled = chance.sample(slugs, len(slugs))
    assert build_names(shuffled, reserved=reserved) == build_names(slugs, reserved=reserved)


@given(SLUGS)
def test_portable_slugs_stay(slugs: list[str]) -> None:
    """A portable slug is its own name, whatever the others are."""
    names = build_names(slugs)
    assert all(names[slug] == slug for slug in slugs if is_portable(slug))
