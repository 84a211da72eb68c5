"""Two manifests → the tools that were added, removed and changed, and whether each version says so.

Takes any JSON for a manifest. Knows how to judge the fields of a tool and a version's step; what a schema means is for
`compatibility` to say. How far two copies differ, without the reasons, is `pins.build_lag`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from colabhive_mcp.manifest.compatibility import (
    ADDITIVE,
    BREAKING,
    TEXT,
    UNDECIDED,
    Change,
    compare_inputs,
    compare_outputs,
    is_equal,
    sort_changes,
    to_key,
)
from colabhive_mcp.manifest.findings import to_pointer
from colabhive_mcp.manifest.semver import Step, parse_version, to_step
from colabhive_mcp.manifest.wording import to_quoted, to_words

Manifest = Mapping[str, Any]

AGREES = "agrees"
TOO_SMALL = "too small"
UNCERTAIN = "uncertain"
UNKNOWN = "unknown"

STEPS: Mapping[str, Step] = {BREAKING: Step.MAJOR, ADDITIVE: Step.MINOR, TEXT: Step.PATCH, UNDECIDED: Step.PATCH}
"""The step that a change calls for at least, by its level, as the manifest's documentation says."""


class Judgement(NamedTuple):
    """Whether a version says what its changes call for.

    *needed* is the step that they call for at least, more where *undecided*; *taken* the step of the version, None
    where that cannot be told; *verdict* whether the two agree, and *reason* why not, or what is to be known.
    """

    needed: Step
    undecided: bool
    taken: Step | None
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolChange:
    """What changed in one tool, the worst first, between two versions, which may be any JSON or None for absent."""

    name: str
    old_version: Any
    new_version: Any
    changes: tuple[Change, ...]
    judgement: Judgement

    @property
    def agrees(self) -> bool:
        """Whether the version is certain to say what the changes call for."""
        return self.judgement.verdict == AGREES

    @property
    def breaking(self) -> bool:
        """Whether callers have to be changed, or may have to."""
        return any(change.level in (BREAKING, UNDECIDED) for change in self.changes)


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """What changed between two manifests: tools by name, in the order of their names."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[ToolChange, ...]
    unchanged: int


def compare_manifests(old: Mapping[str, Any], new: Mapping[str, Any], *, strict: bool = False) -> ManifestChange:
    """What changed between two manifests, each a tool's manifest by its name; *strict* as for `compare_inputs`."""
    common = sorted(old.keys() & new.keys())
    differing = [name for name in common if not is_equal(old[name], new[name])]
    return ManifestChange(
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed=tuple(compare_tools(name, old[name], new[name], strict=strict) for name in differing),
        unchanged=len(common) - len(differing),
    )


def compare_tools(name: str, old: Any, new: Any, *, strict: bool = False) -> ToolChange:
    """What changed in the tool *name*, and whether its version says so."""
    before, after = _to_object(old), _to_object(new)
    changes = tuple(sort_changes(_compare_fields(before, after, strict=strict)))
    versions = before.get("version"), after.get("version")
    return ToolChange(name, *versions, changes, judge(changes, *versions))


def _to_object(manifest: Any) -> Manifest:
    return manifest if isinstance(manifest, dict) else {}


# The step


def judge(changes: tuple[Change, ...], old: Any, new: Any) -> Judgement:
    """Whether the step from the version *old* to *new* is as large as *changes* call for.

    What is undecided may be breaking, so only a step that suffices for that is certain to be large enough. Below 1.0.0
    "anything may change" (SemVer 4), and a minor step suffices for everything.
    """
    needed = max((STEPS[change.level] for change in changes), default=Step.NONE)
    undecided = any(change.level == UNDECIDED for change in changes)
    before, after = parse_version(old), parse_version(new)
    if before is None or after is None:
        reason = "; ".join(_say_version(which, text) for which, text in (("old", old), ("new", new)))
        return Judgement(needed, undecided, None, UNKNOWN, reason.strip("; "))
    ceiling = Step.MINOR if before.unstable and after.unstable else Step.MAJOR
    needed = min(needed, ceiling)
    taken = to_step(before, after)
    verdict, reason = _compare_steps(needed, taken, ceiling, undecided=undecided)
    return Judgement(needed, undecided and needed < ceiling, taken, verdict, reason)


def _compare_steps(needed: Step, taken: Step | None, ceiling: Step, *, undecided: bool) -> tuple[str, str]:
    if taken is None:
        return TOO_SMALL, "the version went backwards"
    if taken < needed:
        return TOO_SMALL, f"the changes call for a {needed} step"
    if undecided and taken < ceiling:
        return UNCERTAIN, f"what is undecided may call for a {ceiling} step"
    return AGREES, "larger than needed" if taken > needed and not undecided else ""


def _say_version(which: str, text: Any) -> str:
    if parse_version(text) is not None:
        return ""
    if text is None:
        return f"the {which} manifest has no version"
    return f"the {which} version {to_words(text)} is not SemVer"


# The fields

_ABSENT: Any = object()


def _compare_fields(old: Manifest, new: Manifest, *, strict: bool) -> Iterator[Change]:
    for name in dict.fromkeys([*old, *new]):
        before, after = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if name in _IDENTITY or _is_same(before, after):
            continue
        if name == "inputSchema":
            yield from _compare_schemas(name, before, after, lambda one, two: compare_inputs(one, two, strict=strict))
        elif name == "outputSchema":
            yield from _compare_schemas(name, before, after, compare_outputs)
        else:
            compare = _FIELDS.get(name, _compare_text)
            yield from compare(name, before, after)


def _is_same(old: Any, new: Any) -> bool:
    """Whether a field says the same; null says as much as its absence."""
    if _is_missing(old) or _is_missing(new):
        return _is_missing(old) and _is_missing(new)
    return is_equal(old, new)


_IDENTITY = frozenset({"name", "version"})


def _compare_schemas(name: str, old: Any, new: Any, compare: Callable[[Any, Any], list[Change]]) -> Iterator[Change]:
    """A schema that is not there promises nothing, and asks for nothing that is known."""
    pointer = to_pointer([name])
    if _is_missing(old) or _is_missing(new):
        level = UNDECIDED if name == "inputSchema" else BREAKING if _is_missing(new) else ADDITIVE
        yield Change(pointer, _say(name, old, new), level)
        return
    for change in compare(old, new):
        yield Change(pointer + change.pointer, change.words, change.level)


def _is_missing(value: Any) -> bool:
    return value is _ABSENT or value is None


def _say(name: str, old: Any, new: Any) -> str:
    """What became of a field, in short."""
    if _is_missing(old) or _is_missing(new):
        return f"{name} was {'removed' if _is_missing(new) else 'added'}"
    if all(type(value) in (str, int, float, bool) and len(str(value)) <= _SHORT for value in (old, new)):
        return f"{name} was {to_quoted(old)}, is {to_quoted(new)}"
    return f"{name} was changed"


_SHORT = 30  # characters of a value that is told


def _compare_text(name: str, old: Any, new: Any) -> Iterator[Change]:
    """A field that is read, and that no call depends on."""
    yield Change(to_pointer([name]), _say(name, old, new), TEXT)


def _compare_kind(name: str, old: Any, new: Any) -> Iterator[Change]:
    """Tools are chosen by kind, and an operation is called in another way."""
    yield Change(to_pointer([name]), _say(name, old, new), BREAKING)


def _compare_effects(name: str, old: Any, new: Any) -> Iterator[Change]:
    """An effect that a caller was not told of is a promise that was broken, and one less is a promise more."""
    before, after = (_to_set(value) for value in (old, new))
    if before is None or after is None:
        yield Change(to_pointer([name]), _say(name, old, new), UNDECIDED)
        return
    for effect in sorted(after - before):
        yield Change(to_pointer([name]), f"the side-effect {to_quoted(effect)} was added", BREAKING)
    for effect in sorted(before - after):
        yield Change(to_pointer([name]), f"the side-effect {to_quoted(effect)} was removed", ADDITIVE)
    if before == after:
        yield Change(to_pointer([name]), f"{name} was written in another order", TEXT)


def _to_set(value: Any) -> set[str] | None:
    return set(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else None


_PROMISES: Mapping[str, bool] = {"readOnly": True, "idempotent": True, "destructive": False, "openWorld": False}
"""Annotations with the value that promises something, which callers may rely on, for example not to ask first."""


def _compare_annotations(name: str, old: Any, new: Any) -> Iterator[Change]:
    before, after = _to_object(old), _to_object(new)
    for hint in dict.fromkeys([*before, *after]):
        mine, other = before.get(hint), after.get(hint)
        if not _is_same(mine, other):
            lost = hint in _PROMISES and mine is _PROMISES[hint]
            yield Change(to_pointer([name, hint]), _say(hint, mine, other), BREAKING if lost else TEXT)


_MATURITY = ("experimental", "beta", "stable")


def _compare_stability(name: str, old: Any, new: Any) -> Iterator[Change]:
    """A tool that is said to be less mature is one that some users no longer see."""
    known = old in _MATURITY and new in _MATURITY
    risen = known and _MATURITY.index(new) > _MATURITY.index(old)
    yield Change(to_pointer([name]), _say(name, old, new), TEXT if risen else ADDITIVE)


def _compare_deprecation(name: str, old: Any, new: Any) -> Iterator[Change]:
    """To deprecate something takes a minor step (SemVer 7)."""
    yield Change(to_pointer([name]), _say(name, old, new), ADDITIVE if _is_missing(old) else TEXT)


def _compare_endpoint(name: str, old: Any, new: Any) -> Iterator[Change]:
    """The same arguments go elsewhere, and what comes of that is not in the manifest."""
    yield Change(to_pointer([name]), _say(name, old, new), UNDECIDED)


def _compare_examples(name: str, old: Any, new: Any) -> Iterator[Change]:
    before, after = (value if isinstance(value, list) else [] for value in (old, new))
    if len(after) > len(before) and _has_other(before[:_EXAMPLES], after[:_EXAMPLES]):
        yield Change(to_pointer([name]), "an example was added", ADDITIVE)
    else:
        yield from _compare_text(name, old, new)


_EXAMPLES = 100  # that are looked at


def _has_other(before: list[Any], after: list[Any]) -> bool:
    """Whether *after* has a value that *before* has not; where one is too deep to compare, it has."""
    try:
        known = set(map(to_key, before))
        return any(to_key(each) not in known for each in after)
    except RecursionError:
        return True


_FIELDS: Mapping[str, Callable[[str, Any, Any], Iterator[Change]]] = {
    "kind": _compare_kind,
    "sideEffects": _compare_effects,
    "annotations": _compare_annotations,
    "stability": _compare_stability,
    "deprecation": _compare_deprecation,
    "endpoint": _compare_endpoint,
    "examples": _compare_examples,
}
"""Fields of which a change may be more than text; every other one, known or not, is there to be read."""
