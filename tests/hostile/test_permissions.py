"""A user of Redis who lacks one command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.hostile.shell import Shell
from tests.redis_users import redis_user

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import RedisServer


def test_a_user_who_lacks_one_command_leaves_no_job_half_written(
    shell: Shell, server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    shell.json("job", "send", "mail", "email", "{}")
    with redis_user(server, "allkeys", "allchannels", "+@all", "-rpush") as user:
        restricted = Shell(tmp_path, PENSTOCK_URL=user.url, PENSTOCK_NAMESPACE=namespace)
        doctor = restricted.run("doctor")
        sent = restricted.run("job", "send", "mail", "email", "{}", "--priority", "high")

    assert doctor.returncode == 1
    assert b"may not run RPUSH" in doctor.stdout
    assert sent.returncode == 1
    assert f"`ACL SETUSER {user.name} +rpush`".encode() in sent.stderr
    assert shell.json("fsck")["violations"] == []
    assert shell.json("queue", "show", "mail")["ready"] == 1
