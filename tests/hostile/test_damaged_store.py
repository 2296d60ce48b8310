"""A store in which another program, or a person with redis-cli, has left something behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.store.keys import NamespaceKeys

if TYPE_CHECKING:
    from tests.hostile.shell import Shell
    from tests.servers import RedisServer


def test_a_queue_is_deleted_though_a_counter_is_one_too_high(
    shell: Shell, server: RedisServer, namespace: str
) -> None:
    shell.json("job", "send", "mail", "send")
    server.client.hincrby(NamespaceKeys(namespace).queue("mail").meta, "rA:", 1)

    deleted = shell.run("queue", "delete", "mail", "--yes")

    assert deleted.returncode == 0, deleted.stderr.decode()
    assert shell.json("queue", "list") == []
