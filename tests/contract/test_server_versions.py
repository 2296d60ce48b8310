"""Every kind of store knows the commands that the scripts use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.servers import RedisCluster
from tests.unit.test_scripts import BOUNDED_BY_KEY, PERMITTED

if TYPE_CHECKING:
    from tests.servers import RedisServer


def test_the_server_knows_every_command_that_the_scripts_use(
    any_store: RedisServer | RedisCluster,
) -> None:
    server = any_store.nodes[0] if isinstance(any_store, RedisCluster) else any_store
    used = PERMITTED | {command for pairs in BOUNDED_BY_KEY.values() for command, _ in pairs}

    known = server.command("COMMAND", "INFO", *sorted(used))

    assert {name.upper() for name in known} == used
