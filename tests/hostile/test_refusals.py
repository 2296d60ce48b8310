"""A server that answers, but does not do what it is asked, and one that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.hostile.shell import Shell
    from tests.servers import RedisServer


def test_a_replica_and_a_server_that_is_not_there_are_said_to_have_changed_nothing(
    own_shell: Shell, own_server: RedisServer
) -> None:
    own_shell.json("enqueue", "mail", "first")

    own_server.command("REPLICAOF", "127.0.0.1", 1)
    replica = own_shell.run("enqueue", "mail", "task")
    own_server.kill()
    absent = own_shell.run("enqueue", "mail", "task")

    assert (replica.returncode, absent.returncode) == (1, 1)
    assert b"nothing was changed; it is a replica; give the URL of the primary" in replica.stderr
    assert b"the request was not sent" in absent.stderr
