"""The contract over real processes: the documentation's example can be called, what breaks a tool is not offered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.conftest import Connect
from tests.harness.gateway import GatewayProcess
from tests.unit.manifest.samples import GOOD, SEED, change

NAME = "qwen-2_5-7b-instruct-public"
QUESTION = {"messages": [{"role": "user", "content": "Hello"}]}
REGISTERED = {"action": "chat", "model_config": {"framework": "vllm", "generates": "text"}}


def register(gateway: GatewayProcess, *manifests: dict[str, Any]) -> None:
    """Register manifests as their authors would."""
    gateway.register(*({**REGISTERED, **manifest, "deprecation": None} for manifest in manifests))


@pytest.mark.parametrize("schemas", ["compatible", "exact"])
def test_the_documentation_s_example(own_gateway: GatewayProcess, connect: Connect, schemas: str) -> None:
    """A tool that refers to shared definitions is listed with them, checked by them, and answers in their shape."""
    register(own_gateway, SEED)
    client = connect(own_gateway, schemas=schemas)
    tool = client.tools()[NAME]
    for schema in (tool["inputSchema"], tool["outputSchema"]):
        Draft202012Validator.check_schema(schema)
        assert ("$ref" in str(schema)) is ("$defs" in schema) is (schemas == "exact")
    Draft202012Validator(tool["inputSchema"]).validate(QUESTION)
    answer = client.call(NAME, QUESTION)
    Draft202012Validator(tool["outputSchema"]).validate(answer["structuredContent"])
    refused = client.call(NAME, {"messages": [{"role": "king", "content": "Hello"}]})
    assert refused["isError"]
    assert "messages[0].role" in refused["content"][0]["text"]
    assert client.events("manifest.tool_left_out") == []


def test_arguments_are_mended_by_shared_definitions(own_gateway: GatewayProcess, connect: Connect) -> None:
    """A message that comes as JSON text is decoded, as it is where a tool defines its messages itself."""
    register(own_gateway, SEED)
    client = connect(own_gateway)
    answer = client.call(NAME, {"messages": [json.dumps(QUESTION["messages"][0])]})
    assert not answer["isError"]


def test_what_validate_says_is_what_the_server_does(own_gateway: GatewayProcess, connect: Connect) -> None:
    """The command tells of the very tools that the server leaves out, and of untidy ones that it offers."""
    broken = change(change(GOOD, "/name", "broken"), "/inputSchema/properties/text/type", "int")
    untidy = change(change(GOOD, "/name", "untidy"), "/costHint", "cheap")
    register(own_gateway, broken, untidy)
    environment = {"COLABHIVE_API_URL": own_gateway.url, "COLABHIVE_API_KEY": own_gateway.key, "HOME": "/nonexistent"}
    command = [sys.executable, "-m", "colabhive_mcp", "manifest", "validate", "--all", "--json"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (1, "")
    findings = {each["tool"]: each["breaks"] for each in json.loads(ran.stdout)["findings"]}
    assert findings == {"broken": True, "untidy": False}
    listed = connect(own_gateway).tools()
    assert "broken" not in listed
    assert "untidy" in listed


def test_the_package_has_the_schema() -> None:
    """An installation brings the schema along."""
    from colabhive_mcp.manifest import canonical

    assert json.loads(Path(canonical.SCHEMA_FILE).read_text("utf-8"))["$defs"]
    setup = (Path(__file__).parents[2] / "setup.cfg").read_text("utf-8")
    assert "colabhive_mcp.manifest = *.json" in setup
