"""A real ZooKeeper for the tests of one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.server.ensemble import SIZE, Ensemble
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


@pytest.fixture(scope="session")
def shared_ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    servers = Ensemble(tmp_path_factory.mktemp("ensemble"))
    try:
        servers.start()
        yield servers
    finally:
        servers.kill()


@pytest.fixture
def ensemble(shared_ensemble: Ensemble) -> Ensemble:
    """Three servers that all run; a test may kill them."""
    missing = set(range(1, SIZE + 1)) - shared_ensemble.modes.keys()
    if missing:
        shared_ensemble.start(*missing)
    return shared_ensemble
