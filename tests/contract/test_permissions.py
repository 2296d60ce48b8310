"""A user of Redis who may not do everything is told so before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client.fsck import check
from penstock.connection.known_users import WITHOUT_LACK
from penstock.errors import PermissionMissing, StoreError
from penstock.store.permissions import OPTION_WORDS, WRITES, commands_of, needed_by
from penstock.store.script import scripts
from tests.conftest import EVERY_VERSION
from tests.kinds import SAMPLES, each_kind
from tests.redis_users import redis_user
from tests.servers import OLDEST, RedisCluster

if TYPE_CHECKING:
    from penstock.store.keys import NamespaceKeys
    from tests.servers import RedisServer
    from tests.stored import Stored

USED = frozenset().union(*(commands_of(script) for script in scripts()))
on_servers: pytest.MarkDecorator = pytest.mark.stores("debian", *OLDEST)
on_every_version: pytest.MarkDecorator = pytest.mark.stores(*EVERY_VERSION)


def kept(stored: Stored) -> dict[str, Any]:
    return {key: value for key, value in stored.everything().items() if ":memory:" not in key}


@on_every_version
def test_each_single_command_that_is_denied_is_found(
    any_store: RedisServer | RedisCluster, namespace: str, stored: Stored
) -> None:
    with redis_user(any_store, "allkeys", "allchannels", "+@all") as user:
        for command in sorted(USED - {"PUBLISH"}):
            user.set("+@all", f"-{command.lower()}")

            with penstock.connect(user.url, namespace=namespace) as ps:
                found = ps.store.permissions

            assert found is not None, command
            # Before Redis 7, what only a key of another type tells is not known without SET.
            assert found.denied - {"LPUSH", "RPUSH", "SADD"} == {command} - {
                *("LPUSH", "RPUSH", "SADD")
            }
            assert command in found.denied
        assert stored.everything() == {}


@on_every_version
def test_a_subscription_that_is_denied_is_found_before_anybody_listens(
    any_store: RedisServer | RedisCluster, namespace: str, stored: Stored
) -> None:
    with redis_user(any_store, "allkeys", "allchannels", "+@all", "-subscribe") as user:
        if isinstance(any_store, RedisCluster):
            user.set("-ssubscribe")
        with penstock.connect(user.url, namespace=namespace) as ps:
            with pytest.raises(PermissionMissing, match=r"may not run S?SUBSCRIBE on"):
                ps.worker().start()

            assert stored.everything() == {}


@on_every_version
def test_a_channel_that_is_denied_is_found(
    any_store: RedisServer | RedisCluster, namespace: str, stored: Stored
) -> None:
    with (
        redis_user(any_store, "allkeys", "+@all", "resetchannels") as user,
        penstock.connect(user.url, namespace=namespace) as ps,
    ):
        with pytest.raises(PermissionMissing) as caught:
            ps.queue("mail").enqueue(b"task")

        assert f"&{{{namespace}[:}}]*" in str(caught.value)
        assert f"ACL SETUSER {user.name} +" in str(caught.value)
        assert stored.everything().keys() <= {ps.keys.queues}


@on_every_version
def test_keys_that_are_denied_are_found(
    any_store: RedisServer | RedisCluster, namespace: str, stored: Stored
) -> None:
    with (
        redis_user(any_store, "~{other[:}]*", "+@all", "allchannels") as user,
        penstock.connect(user.url, namespace=namespace) as ps,
    ):
        with pytest.raises(PermissionMissing) as caught:
            ps.queue("mail").enqueue(b"task")

        assert f"`ACL SETUSER {user.name} ~{{{namespace}[:}}]* +" in str(caught.value)
        assert stored.everything() == {}


@pytest.mark.parametrize("command", ["rpush", "hset", "zadd", "publish", "evalsha"])
@on_servers
def test_what_needs_a_denied_command_writes_nothing(
    command: str, any_store: RedisServer, ps: penstock.Penstock, namespace: str, stored: Stored
) -> None:
    """As a script that stops half way would leave a job half written."""
    ps.jobs("mail").add("email")
    before = kept(stored)
    with (
        redis_user(any_store, "allkeys", "allchannels", "+@all", f"-{command}") as user,
        pytest.raises(StoreError, match=rf"(?i)may not run {command}|'{command}'") as caught,
        penstock.connect(user.url, namespace=namespace) as restricted,
    ):
        restricted.jobs("mail").add("email", priority="high")

    assert "penstock acl" in str(caught.value)
    assert kept(stored) == before
    assert check(ps).violations == []


def test_a_worker_is_refused_before_it_registers(
    any_store: RedisServer | RedisCluster, namespace: str, stored: Stored
) -> None:
    with (
        redis_user(any_store, "allkeys", "allchannels", "+@all", "-rpop") as user,
        penstock.connect(user.url, namespace=namespace) as ps,
    ):
        worker = ps.worker()
        with pytest.raises(PermissionMissing) as caught:
            worker.start()

        assert str(caught.value) == (
            f"the Redis user {user.name!r} may not run RPOP on the keys and channels of namespace "
            f"{namespace!r}, which a worker needs, so nothing was written; add the rule with "
            f"`ACL SETUSER {user.name} +rpop`, or all rules of a role with `penstock acl`"
        )
        assert stored.everything() == {}
        ps.queue("mail").enqueue(b"task")  # which needs no RPOP


@on_servers
def test_a_user_who_gets_what_it_lacked_can_go_on(any_store: RedisServer, namespace: str) -> None:
    with redis_user(any_store, "allkeys", "allchannels", "+@all", "-rpush") as user:
        with penstock.connect(user.url, namespace=namespace) as ps:
            assert ps.store.permissions is not None
        user.set("+rpush")

        with penstock.connect(user.url, namespace=namespace) as ps:
            assert ps.store.permissions is None
            ps.jobs("mail").add("email")


@on_servers
def test_a_process_asks_once_if_nothing_is_denied(any_store: RedisServer, namespace: str) -> None:
    def evals() -> int:
        counted = any_store.command("INFO", "commandstats")
        return int(counted.get("cmdstat_eval", {"calls": 0})["calls"])

    before = evals()
    with penstock.connect(any_store.url, namespace=namespace) as ps:
        asked = evals() - before
        penstock.connect(any_store.url, namespace=namespace).close()

        assert (ps.settings.address, namespace) in WITHOUT_LACK
    assert (asked, evals() - before) == (1, 1)


@on_servers
def test_a_full_store_is_asked_too(own_server: RedisServer, namespace: str) -> None:
    own_server.command("CONFIG", "SET", "maxmemory", 1)

    with penstock.connect(own_server.url, namespace=namespace) as ps:
        assert ps.store.permissions is None


@pytest.mark.stores("debian")
def test_what_is_taken_for_a_read_is_one(ps: penstock.Penstock) -> None:
    described = ps.store.call("{}", "COMMAND", "INFO", *sorted(USED))

    writes = {name.decode().upper() for name, _, flags, *_ in described if b"write" in flags}
    assert writes == WRITES
    known = {name.decode().upper() for name in ps.store.call("{}", "COMMAND", "LIST")}
    assert not OPTION_WORDS & known
    assert known >= USED


@each_kind
@on_servers
def test_scripts_run_no_command_that_was_not_derived(
    kind: str, any_store: RedisServer, ps: penstock.Penstock, names: NamespaceKeys
) -> None:
    samples = SAMPLES[kind]
    processes = samples.fill(ps.store, names)
    any_store.command("CONFIG", "RESETSTAT")
    for number, name in enumerate(samples.commands(names, processes), start=100):
        command = samples.commands(names, processes, number)[name]
        ps.store._send(command, 0.0)

    used = {
        name.removeprefix("cmdstat_").partition("|")[0].upper()
        for name in any_store.command("INFO", "commandstats")
    }
    own = {"INFO", "CONFIG", "EVAL", "EVALSHA", "PING"}
    assert used - own <= USED
    assert len(used - own) >= 20


def test_a_command_that_no_role_needs_is_not_allowed() -> None:
    assert not needed_by("worker") & {"FLUSHALL", "KEYS", "CONFIG", "SCAN", "DUMP", "RESTORE"}
