"""Which tools are offered: allow, deny, kinds, side-effects, stability, deprecation, in this order, with the reason.

The order is that of the table below: the first rule that refuses gives the reason. A rule that was not asked for is
absent, not a rule that lets everything through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from colabhive_mcp.manifest.model import Tool

STABILITIES = ("experimental", "beta", "stable")
UNSTATED_STABILITY = "beta"  # a manifest that doesn't say vouches for nothing, and warns of nothing

Rule = Callable[[Tool], str | None]
"""The reason why a tool is refused, None where it may pass."""


def _allow(patterns: Sequence[str]) -> Rule:
    def refuse(tool: Tool) -> str | None:
        matched = any(fnmatchcase(tool.slug, pattern) for pattern in patterns)
        return None if matched else "not matched by allow_tools"

    return refuse


def _deny(patterns: Sequence[str]) -> Rule:
    def refuse(tool: Tool) -> str | None:
        pattern = next((pattern for pattern in patterns if fnmatchcase(tool.slug, pattern)), None)
        return None if pattern is None else f"matched by deny_tools {pattern!r}"

    return refuse


def _allow_kinds(kinds: Sequence[str]) -> Rule:
    def refuse(tool: Tool) -> str | None:
        if tool.kind in kinds:
            return None
        return f"kind {tool.kind!r} is not in allow_kinds" if tool.kind else "allow_kinds is set and it states no kind"

    return refuse


def _deny_side_effects(denied: Sequence[str]) -> Rule:
    def refuse(tool: Tool) -> str | None:
        if tool.side_effects is None:
            return "deny_side_effects is set and it states no side-effects"
        effects = [effect for effect in tool.side_effects if effect in denied]
        return f"side-effect {effects[0]!r} is in deny_side_effects" if effects else None

    return refuse


def _at_least(minimum: str) -> Rule:
    lowest = STABILITIES.index(minimum)

    def refuse(tool: Tool) -> str | None:
        stability = tool.stability or UNSTATED_STABILITY
        if stability not in STABILITIES:
            return f"stability {stability!r} is not one of {', '.join(STABILITIES)}"
        stable_enough = STABILITIES.index(stability) >= lowest
        return None if stable_enough else f"stability {stability!r} is below the minimum {minimum!r}"

    return refuse


def _hide_deprecated(tool: Tool) -> str | None:
    if not tool.deprecated:
        return None
    return "deprecated is hide and it is deprecated" + (f" (use {tool.replaced_by})" if tool.replaced_by else "")


def build_filters(
    *,
    allow_tools: Sequence[str] = (),
    deny_tools: Sequence[str] = (),
    allow_kinds: Sequence[str] = (),
    deny_side_effects: Sequence[str] = (),
    stability: str = "experimental",
    hide_deprecated: bool = False,
) -> tuple[Rule, ...]:
    """The rules that were asked for, in the order in which they are applied."""
    table: tuple[tuple[Sequence[str], Callable[[Sequence[str]], Rule]], ...] = (
        (allow_tools, _allow),
        (deny_tools, _deny),
        (allow_kinds, _allow_kinds),
        (deny_side_effects, _deny_side_effects),
    )
    rules = (*(build(values) for values, build in table if values), _at_least(stability))
    return (*rules, _hide_deprecated) if hide_deprecated else rules


def find_refusal(tool: Tool, rules: Sequence[Rule]) -> str | None:
    """Why *tool* is not offered, None where it is."""
    return next((reason for reason in (rule(tool) for rule in rules) if reason is not None), None)
