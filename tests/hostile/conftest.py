"""What hostile cases ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.hostile.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import RedisServer


@pytest.fixture
def shell(server: RedisServer, namespace: str, tmp_path: Path) -> Iterator[Shell]:
    """On the server that tests share."""
    shell = Shell(tmp_path, PENSTOCK_URL=server.url, PENSTOCK_NAMESPACE=namespace)
    yield shell
    shell.close()


@pytest.fixture
def own_shell(own_server: RedisServer, namespace: str, tmp_path: Path) -> Iterator[Shell]:
    """On a server that the test may maltreat."""
    shell = Shell(tmp_path, PENSTOCK_URL=own_server.url, PENSTOCK_NAMESPACE=namespace)
    yield shell
    shell.close()
