"""A real ZooKeeper for the tests of one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.server.zookeeper import EmbeddedZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one that all tests of this process share."""
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    try:
        yield server.start().address
    finally:
        server.stop()
