"""Which tools are offered, and the reason for each that is not."""

import itertools
from typing import Any

import pytest

from colabhive_mcp.manifest.filters import build_filters, find_refusal
from colabhive_mcp.manifest.model import build_tool

TOOL = {"name": "img-gen", "kind": "generative", "sideEffects": ["network", "cost"], "stability": "beta"}

CASES: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [  # settings, what the tool says else, the reason
    ({}, {}, None),
    ({"allow_tools": ["img*"]}, {}, None),
    ({"allow_tools": ["x", "img-gen"]}, {}, None),
    ({"allow_tools": ["img"]}, {}, "not matched by allow_tools"),
    ({"allow_tools": ["IMG*"]}, {}, "not matched by allow_tools"),
    ({"allow_tools": ["img?gen"]}, {}, None),
    ({"allow_tools": ["[a-i]mg-*"]}, {}, None),
    ({"deny_tools": ["img*"]}, {}, "matched by deny_tools 'img*'"),
    ({"deny_tools": ["x*", "*gen"]}, {}, "matched by deny_tools '*gen'"),
    ({"deny_tools": ["img"]}, {}, None),
    ({"allow_tools": ["img*"], "deny_tools": ["img_beta*"]}, {}, None),
    (
        {"allow_tools": ["img*"], "deny_tools": ["img_beta*"]},
        {"name": "img_beta1"},
        "matched by deny_tools 'img_beta*'",
    ),
    ({"allow_kinds": ["generative"]}, {}, None),
    ({"allow_kinds": ["llm", "tool"]}, {}, "kind 'generative' is not in allow_kinds"),
    ({"allow_kinds": ["llm"]}, {"kind": None}, "allow_kinds is set and it states no kind"),
    ({"allow_kinds": ["llm"]}, {"kind": 5}, "allow_kinds is set and it states no kind"),
    ({"deny_side_effects": ["storage"]}, {}, None),
    ({"deny_side_effects": ["storage", "cost"]}, {}, "side-effect 'cost' is in deny_side_effects"),
    ({"deny_side_effects": ["cost"]}, {"sideEffects": []}, None),
    ({"deny_side_effects": ["cost"]}, {"sideEffects": None}, "deny_side_effects is set and it states no side-effects"),
    ({"deny_side_effects": ["cost"]}, {"sideEffects": [5]}, "deny_side_effects is set and it states no side-effects"),
    (
        {"deny_side_effects": ["cost"]},
        {"sideEffects": "cost"},
        "deny_side_effects is set and it states no side-effects",
    ),
    ({"stability": "experimental"}, {"stability": "experimental"}, None),
    ({"stability": "beta"}, {"stability": "experimental"}, "stability 'experimental' is below the minimum 'beta'"),
    ({"stability": "beta"}, {}, None),
    ({"stability": "beta"}, {"stability": None}, None),
    ({"stability": "stable"}, {"stability": None}, "stability 'beta' is below the minimum 'stable'"),
    ({"stability": "stable"}, {"stability": "stable"}, None),
    ({}, {"stability": "alpha"}, "stability 'alpha' is not one of experimental, beta, stable"),
]


@pytest.mark.parametrize(("asked", "said", "reason"), CASES)
def test_filters(asked: dict[str, Any], said: dict[str, Any], reason: str | None) -> None:
    """Each rule refuses what it is for, in words, and lets everything else through."""
    assert find_refusal(build_tool({**TOOL, **said}), build_filters(**asked)) == reason


ORDER = (  # a setting that refuses the tool, and the word of its reason, in the order in which they are asked
    ("allow_tools", ["x"], "allow_tools"),
    ("deny_tools", ["*"], "deny_tools"),
    ("allow_kinds", ["x"], "allow_kinds"),
    ("deny_side_effects", ["cost"], "deny_side_effects"),
    ("stability", "stable", "minimum"),
)


@pytest.mark.parametrize("chosen", [chosen for size in (2, 3, 5) for chosen in itertools.combinations(ORDER, size)])
def test_the_first_rule_gives_the_reason(chosen: Any) -> None:
    """Where several rules refuse, the reason is that of the first in the written order."""
    rules = build_filters(**{name: value for name, value, _ in reversed(chosen)})
    assert chosen[0][2] in (find_refusal(build_tool(TOOL), rules) or "")


def test_no_filter_is_the_absence_of_one() -> None:
    """A rule that was not asked for is not there, but for the stability, which has always a minimum."""
    assert len(build_filters()) == 1
    assert len(build_filters(**{name: value for name, value, _ in ORDER})) == 5


def test_globs_are_on_the_slug() -> None:
    """Patterns match the slug as it is, dots and all."""
    tool = build_tool({"name": "qwen-2.5-7b"})
    assert find_refusal(tool, build_filters(allow_tools=["qwen-2.5*"])) is None
    assert find_refusal(tool, build_filters(allow_tools=["qwen-2_5*"])) is not None
