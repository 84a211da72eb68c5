"""Findings about manifests as text for people, as JSON for scripts, and as SARIF 2.1.0 for code-scanning tools.

Knows how findings are shown, and not how they are found. All three have the same order, and the same every time.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import quote

import click

from colabhive_mcp import __version__
from colabhive_mcp.cli.positions import Position
from colabhive_mcp.cli.terminal import can_print, clean, cut
from colabhive_mcp.manifest.findings import SEVERITIES, Finding, Rule
from colabhive_mcp.manifest.wording import to_count

SHOWN_POINTER = 200
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}
_PLURALS = {"error": "errors", "warning": "warnings", "note": "notes"}


class Told(NamedTuple):
    """A finding about the tool *name*, whose manifest is at the pointer *base* of a document; where in its text."""

    name: str
    base: str
    finding: Finding
    position: Position | None = None

    @property
    def pointer(self) -> str:
        """The place in the document."""
        return self.base + self.finding.pointer


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in a document: its *path* (None where the gateway has it), the number of *tools*, the findings."""

    source: str
    path: str | None
    tools: int
    told: Sequence[Told]

    def count(self) -> dict[str, int]:
        """How many findings there are of each severity."""
        counter = Counter(each.finding.severity for each in self.told)
        return {severity: counter[severity] for severity in SEVERITIES}


def to_text(report: Report) -> str:
    """Grouped by tool: what is wrong in one line, how to mend it in the next, and at the end how many there are."""
    lines = list(_to_lines(report))
    tools = to_count(report.tools, "tool", "tools")
    counts = [to_count(count, severity, _PLURALS[severity]) for severity, count in report.count().items()]
    return "\n".join([*lines, f"{tools} checked: {', '.join(counts)}."])


def _to_lines(report: Report) -> Iterator[str]:
    arrow = "→" if can_print("→") else "->"
    for (_, name), findings in groupby(report.told, key=lambda each: (each.base, each.name)):
        yield click.style(clean(name), bold=True)
        for each in findings:
            yield f"  {_say_place(report, each)}{_say_finding(each.finding)}"
            yield f"      {arrow} {clean(each.finding.mend)}"


def _say_place(report: Report, told: Told) -> str:
    return f"{clean(report.path)}:{told.position.line}:{told.position.column}  " if told.position else ""


def _say_finding(finding: Finding) -> str:
    severity = click.style(finding.severity, fg=_COLOURS[finding.severity])
    pointer = cut(clean(finding.pointer), SHOWN_POINTER) or "(root)"
    loss = "; the server leaves the tool out" if finding.breaks else ""
    return f"{severity}  {finding.code}  {pointer}: {clean(finding.message)}{loss}"


def to_json(report: Report) -> str:
    """One object: the source, how many there are of what, and the findings."""
    document = {
        "source": report.source,
        "tools": report.tools,
        "counts": report.count(),
        "findings": [_to_object(each) for each in report.told],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _to_object(told: Told) -> dict[str, Any]:
    finding, position = told.finding, told.position
    return {
        "tool": told.name,
        "code": finding.code,
        "severity": finding.severity,
        "pointer": told.pointer,
        "line": position.line if position else None,
        "column": position.column if position else None,
        "message": finding.message,
        "mend": finding.mend,
        "breaks": finding.breaks,
    }


def to_sarif(report: Report, rules: Mapping[str, Rule]) -> str:
    """A SARIF 2.1.0 log of one run, whose tool knows *rules*. Its URIs are relative to the working directory."""
    places = {code: place for place, code in enumerate(rules)}
    driver = {
        "name": "colabhive-mcp",
        "version": __version__,
        "rules": [_to_sarif_rule(each) for each in rules.values()],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_to_result(report, each, places) for each in report.told],
    }
    return json.dumps({"version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _to_sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "shortDescription": {"text": rule.summary},
        "defaultConfiguration": {"level": rule.severity},
    }


def _to_result(report: Report, told: Told, places: Mapping[str, int]) -> dict[str, Any]:
    finding = told.finding
    return {
        "ruleId": finding.code,
        "ruleIndex": places[finding.code],
        "level": finding.severity,
        "message": {"text": f"{told.name}: {finding.message}. {finding.mend}"},
        "locations": [
            {
                "physicalLocation": _to_physical(report, told),
                "logicalLocations": [{"name": told.name, "fullyQualifiedName": told.pointer, "kind": "member"}],
            }
        ],
    }


def _to_physical(report: Report, told: Told) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": _to_uri(report.path, told.name)}}
    if told.position is not None:
        location["region"] = {"startLine": told.position.line, "startColumn": told.position.column}
    return location


def _to_uri(path: str | None, name: str) -> str:
    """A file as seen from the working directory; what the gateway has, as seen from its prefix."""
    if path is None:
        return f"mcp/manifest/{quote(name, safe='', errors='replace')}"
    return quote(os.path.relpath(path).replace(os.sep, "/"), errors="replace")
