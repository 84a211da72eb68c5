"""The rules of the contract as one table; a code never changes its meaning. Those of authorship are in `authoring`."""

from __future__ import annotations

from collections.abc import Mapping

from colabhive_mcp.manifest.findings import ERROR, NOTE, WARNING, Rule

CHECKS: Mapping[str, Rule] = {
    rule.code: rule
    for rule in (
        Rule("not-an-object", ERROR, "A manifest is a JSON object."),
        Rule("not-json", ERROR, "A manifest holds nothing that JSON cannot."),
        Rule("too-deep", ERROR, "A manifest is not nested deeper than clients can read."),
        Rule("repeated-name", ERROR, "No two tools have the same name."),
        Rule("missing-field", ERROR, "Every required field is there."),
        Rule("wrong-type", ERROR, "Every field is of its type."),
        Rule("unknown-value", ERROR, "A field with fixed values has one of them."),
        Rule("too-long", ERROR, "A text is no longer than it may be."),
        Rule("empty-text", ERROR, "A text that must say something does."),
        Rule("wrong-form", ERROR, "A slug, a version, a time has the form that it must have."),
        Rule("repeated-item", ERROR, "A list of distinct words has each once."),
        Rule("missing-effect", ERROR, "An operation's side-effects include creates_job and creates_model_version."),
        Rule("extra-field", ERROR, "lineage and deprecation have exactly their fields."),
        Rule("unsafe-endpoint", ERROR, "An endpoint stays below the gateway's prefix and sets no protected header."),
        Rule("misplaced-argument", ERROR, "An endpoint sends no body or file where its encoding has none."),
        Rule("unusable-endpoint", ERROR, "A request can be made of an operation's endpoint."),
        Rule(
            "unusable-schema", ERROR, "inputSchema and outputSchema are valid JSON Schema that values can be held to."
        ),
        Rule("unusable-header", ERROR, "Each x-mcp-header names a header of its own, on an input of a simple type."),
        Rule("example-input", ERROR, "Each example's input fits inputSchema."),
        Rule("example-output", ERROR, "Each example's output fits outputSchema."),
        Rule("too-expensive", WARNING, "An example can be checked in a moment."),
        Rule("unknown-field", NOTE, "The contract has every field; others are allowed, and ignored."),
        Rule("not-valid", ERROR, "The authoring rules are judged in full only where validation finds no error."),
    )
}
