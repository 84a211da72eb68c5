"""Versions by SemVer 2.0.0, and the steps between them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from colabhive_mcp.manifest.semver import Step, parse_version, to_step

# The order that SemVer 11 gives as its example.
IN_ORDER = (
    *("1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11"),
    *("1.0.0-rc.1", "1.0.0", "2.0.0", "2.1.0", "2.1.1", "10.0.0"),
)


@pytest.mark.parametrize(("older", "newer"), list(pairwise(IN_ORDER)))
def test_order(older: str, newer: str) -> None:
    """Versions are in the order of the specification, and a step goes only forward."""
    one, other = parse_version(older), parse_version(newer)
    assert one is not None
    assert other is not None
    assert one.precedes(other)
    assert not other.precedes(one)
    assert to_step(other, one) is None
    assert to_step(one, other) is not Step.NONE


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "1.0", "1.0.0.0", "v1.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0+", "1.0.0-a..b", "1.0.0\n"),
        *("\u0661.0.0", None, 1.0, ["1.0.0"], "9" * 5000 + ".0.0"),
    ],
)
def test_what_is_no_version(text: object) -> None:
    """What the grammar does not allow, or is no text, states no version."""
    assert parse_version(text) is None


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        ("1.2.3", "2.0.0", Step.MAJOR),
        ("1.2.3", "1.3.0", Step.MINOR),
        ("1.2.3", "1.2.4", Step.PATCH),
        ("1.2.3", "1.2.3", Step.NONE),
        ("1.2.3+a", "1.2.3+b", Step.NONE),
        ("1.2.3", "1.2.2", None),
        ("1.2.3", "1.2.3-rc.1", None),
        ("1.2.3", "2.0.0-rc.1", Step.MAJOR),
        ("2.0.0-rc.1", "2.0.0-rc.2", Step.MAJOR),
        ("2.1.0-rc.1", "2.1.0", Step.MINOR),
        ("2.1.1-rc.1", "2.1.1-rc.2", Step.PATCH),
        ("0.9.9", "1.0.0", Step.MAJOR),
    ],
)
def test_steps(old: str, new: str, step: Step | None) -> None:
    """A step is that of the first number that rose; pre-releases take the step that their version announces."""
    one, other = parse_version(old), parse_version(new)
    assert one is not None
    assert other is not None
    assert to_step(one, other) is step
