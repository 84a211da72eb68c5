"""Every error that crosses from one room to another, under one root.

The type says whose fault it is, and carries what each boundary needs: the protocol server a code, the command line an
exit code, the retry loop whether a repeat can help. Messages are sentences for people and models: what is wrong and
what to do. No message ever holds an API key.
"""

from __future__ import annotations

from typing import Any, ClassVar

EXIT_OK = 0
EXIT_TOOL_FAILED = 1
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 69
EXIT_INTERNAL = 70
EXIT_PROTOCOL = 76
EXIT_REFUSED = 77
EXIT_CONFIG = 78

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022


class BridgeError(Exception):
    """The root. Never raised itself: a subclass says whose fault it is."""

    exit_code: ClassVar[int] = EXIT_INTERNAL

    @property
    def message(self) -> str:
        """The sentence for people."""
        return str(self)


class ConfigError(BridgeError):
    """Settings are wrong, contradict each other, or the key is missing: the operator's to mend."""

    exit_code = EXIT_CONFIG


class BrokenInstallation(BridgeError):
    """A package that this program needs cannot be imported, of which a release that nobody tried is the likely cause.

    The words name the package and its version.
    """

    def __init__(self, error: ImportError) -> None:
        package = _name_package(error)
        super().__init__(
            f"{package} cannot be imported: {error}. Install again: pip install --force-reinstall colabhive-mcp"
        )


def _name_package(error: ImportError) -> str:
    """The package at fault with its version."""
    from importlib import metadata  # noqa: PLC0415 - only for a broken installation

    module = (error.name or "a package").partition(".")[0]
    name = next(iter(metadata.packages_distributions().get(module, ())), module)
    try:
        return f"{name} {metadata.version(name)}"
    except (metadata.PackageNotFoundError, ValueError):
        return f"{name} (not installed)"


class ClientError(BridgeError):
    """A message of the client cannot be served; answered as a JSON-RPC error with *code* and *data*."""

    def __init__(self, message: str, *, code: int = INVALID_PARAMS, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Cancelled(BridgeError):
    """The client no longer wants the answer; nothing is written for it."""


class GatewayError(BridgeError):
    """The gateway refused, failed or answered nonsense.

    *status* is the HTTP status (None where there was no answer), *retry_after* the seconds that the gateway asked to
    wait, *code* the gateway's own error code.
    """

    exit_code = EXIT_TOOL_FAILED

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.code = code


class GatewayUnreachable(GatewayError):
    """No answer could be had: no connection, a time-out, or a passing fault that outlasted the retries."""

    exit_code = EXIT_UNREACHABLE


class KeyRefused(GatewayError):
    """The gateway does not know the key (401) or does not let it do this (403). Never retried."""

    exit_code = EXIT_REFUSED


class BadAnswer(GatewayError):
    """The gateway answered something that is not what GATEWAY's contract says: no manifest, no JSON, too large."""

    exit_code = EXIT_PROTOCOL


class ToolError(BridgeError):
    """A tool call failed in a way that a model can act on: its words become an ``isError`` result."""

    exit_code = EXIT_TOOL_FAILED
