"""Every kind of store knows the commands that the scripts use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import EVERY_VERSION
from tests.kinds import each_kind
from tests.script_commands import BOUNDED, BOUNDED_BY_SCRIPT, PERMITTED
from tests.servers import RedisCluster

if TYPE_CHECKING:
    from tests.servers import RedisServer

pytestmark = pytest.mark.stores(*EVERY_VERSION)


@each_kind
def test_the_server_knows_every_command_that_the_scripts_use(
    any_store: RedisServer | RedisCluster, kind: str
) -> None:
    server = any_store.nodes[0] if isinstance(any_store, RedisCluster) else any_store
    bounded = BOUNDED[kind].union(*BOUNDED_BY_SCRIPT[kind].values())
    used = PERMITTED[kind] | {command for command, _ in bounded}

    known = server.command("COMMAND", "INFO", *sorted(used))

    assert {name.upper() for name in known} == used
