"""The fixtures that pytest finds by itself. Nothing is imported before a test asks for one."""

# ruff: noqa: PLC0415

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import AsyncTestPenstock, TestPenstock


@pytest.fixture(scope="session")
def penstock_server() -> Iterator[str]:
    """The URL of a private Redis, one for each process that runs tests; or `PENSTOCK_TEST_URL`."""
    url = os.environ.get("PENSTOCK_TEST_URL")
    if url:
        yield url
        return
    from penstock.testing.server import private_server

    with private_server() as server:
        yield server.url


@pytest.fixture
def penstock(penstock_server: str, request: pytest.FixtureRequest) -> Iterator[TestPenstock]:
    """A client with a namespace and a clock of its own, to which `.send()` goes meanwhile."""
    from penstock.testing import TestPenstock

    module = request.node.getparent(pytest.Module)
    client = TestPenstock(penstock_server, module=module.obj if module else None)
    with client.open():
        yield client


@pytest.fixture
def apenstock(penstock: TestPenstock) -> AsyncTestPenstock:
    """The same for coroutines, whichever event loop they run on."""
    return penstock.async_client
