"""What every test may ask for: a local gateway, and clients of real server processes over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import StdioClient
from tests.harness.gateway import GatewayProcess

Connect = Callable[..., StdioClient]


@pytest.fixture(scope="session")
def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One gateway for all tests of a worker that leave its tools as they are."""
    with GatewayProcess(tmp_path_factory.mktemp("shared-gateway")) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared_gateway: GatewayProcess) -> GatewayProcess:
    """The shared gateway without faults, nothing seen."""
    shared_gateway.clear()
    return shared_gateway


@pytest.fixture
def own_gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway of this test's own, to add tools to, change or stop."""
    folder = tmp_path / "gateway"
    folder.mkdir()
    with GatewayProcess(folder) as gateway:
        yield gateway


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """Starts server processes over a gateway; each is closed at the end, and must have ended well.

    ``connect(gateway, revision=…, arguments=…, **settings)``; a setting is named as in the configuration file.
    """
    with ExitStack() as stack:

        def start(
            gateway: GatewayProcess,
            *,
            revision: str = "2025-11-25",
            arguments: tuple[str, ...] = (),
            environment: dict[str, str] | None = None,
            opened: bool = True,
            **settings: Any,
        ) -> StdioClient:
            given = {f"COLABHIVE_{name.upper()}": str(value) for name, value in settings.items()}
            client = StdioClient(
                tmp_path,
                environment={
                    "COLABHIVE_API_URL": gateway.url,
                    "COLABHIVE_API_KEY": gateway.key,
                    **given,
                    **(environment or {}),
                },
                arguments=arguments,
                revision=revision,
            )
            stack.enter_context(client)
            return client.open() if opened else client

        yield start
