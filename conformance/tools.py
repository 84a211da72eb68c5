"""The tools that the scenarios call, by the names that they call them by: manifests, and what each does.

A tool with stages begins cold and rests between them, so that its caller is told of each. Knows nothing of how the
gateway is run.
"""

import base64
from collections.abc import Mapping
from typing import Any

from colabhive_mcp.localgateway.actions import Action, ActionError, Context, Input, Pause, Steps
from colabhive_mcp.localgateway.media import encode_sparkline, encode_tone
from colabhive_mcp.localgateway.store import Store

_TEXT = {"type": "text", "text": "This is a simple text response for testing."}
_PICTURE = base64.b64encode(encode_sparkline([0, 1], width=2, height=2)).decode()
_SOUND = base64.b64encode(encode_tone(440, 0.01)).decode()
_IMAGE = {"type": "image", "data": _PICTURE, "mimeType": "image/png"}
_AUDIO = {"type": "audio", "data": _SOUND, "mimeType": "audio/wav"}
_PLAIN = {"uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content."}
_JSON = {"uri": "test://mixed-content-resource", "mimeType": "application/json", "text": '{"test":"data","value":123}'}
_ANSWERS: dict[str, list[dict[str, Any]]] = {
    "test_simple_text": [_TEXT],
    "test_image_content": [_IMAGE],
    "test_audio_content": [_AUDIO],
    "test_embedded_resource": [{"type": "resource", "resource": _PLAIN}],
    "test_multiple_content_types": [_TEXT, _IMAGE, {"type": "resource", "resource": _JSON}],
    "test_logging_tool": [_TEXT],
    "test_streaming_elicitation": [_TEXT],
    "test_header_parameters": [_TEXT],
    "json_schema_2020_12_tool": [_TEXT],
}
_COLD_S = 0.15
_STAGES = ("Tool execution started", "Tool processing data", "Tool execution completed")
_STAGE_S = 0.3  # a quick machine meets each with a poll: they come 0.1, 0.25, 0.5 and 0.8 s after the start
_CHANGING = "test_changing_tool"
_NO_ARGUMENTS = {"type": "object", "properties": {}}
_MIRRORED = {"type": "string", "description": "It travels in a header, too.", "x-mcp-header": "Region"}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "test_header_parameters": {"type": "object", "properties": {"region": _MIRRORED}, "required": ["region"]},
    # The schema that the scenario json-schema-2020-12 wants to read again, keyword by keyword.
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
}


def build_actions(store: Store) -> Mapping[str, Action]:
    """What each tool does, by its name; *store* is what a change of the list is written to."""
    return {
        **{name: _build_answer(content) for name, content in _ANSWERS.items()},
        "test_error_handling": _fail,
        "test_tool_with_logging": _go_through_stages,
        "test_tool_with_progress": _go_through_stages,
        "test_trigger_tool_change": lambda *_: _change_list(store),
    }


def register_tools(store: Store) -> None:
    """Offer every tool that has an action."""
    for name, action in build_actions(store).items():
        cold = {"cold_start_s": _COLD_S} if action is _go_through_stages else {}
        store.register_endpoint(_build_entry(name, **cold))


def _build_entry(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "action": name,
        "displayName": name.replace("_", " ").capitalize(),
        "version": "1.0.0",
        "stability": "beta",
        "description": f"What the conformance suite calls as {name}.",
        "inputSchema": _SCHEMAS.get(name, _NO_ARGUMENTS),
        "sideEffects": [],
        "costHint": "free",
        "latencyClass": "instant",
        "annotations": {"readOnly": True, "idempotent": True, "destructive": False, "openWorld": False},
        **more,
    }


def _build_answer(content: list[dict[str, Any]]) -> Action:
    return lambda *_: {"content": content}


def _fail(_: Input, __: Context) -> Any:
    raise ActionError("failed", "This tool intentionally returns an error for testing.")


def _go_through_stages(_: Input, __: Context) -> Steps:
    for stage in _STAGES:
        yield Pause(_STAGE_S, stage)
    return {"content": [_TEXT]}


def _change_list(store: Store) -> str:
    """A tool that comes with one call and goes with the next, so that each call changes the list."""
    if store.remove_endpoint(_CHANGING):
        return "The tool is gone."
    store.register_endpoint(_build_entry(_CHANGING))
    return "The tool is there."
