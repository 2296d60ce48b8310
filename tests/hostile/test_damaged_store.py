"""A store in which another program, or a person with redis-cli, has left something behind."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import penstock
from penstock.codec.ids import id_number
from penstock.store.keys import NamespaceKeys
from tests.servers import wait_for

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


def test_a_worker_goes_on_with_all_queues_when_a_record_a_limit_and_a_schedule_are_garbage(
    shell: Shell, server: RedisServer, namespace: str
) -> None:
    shell.write(
        "app",
        """
        import penstock


        @penstock.job(queue="mail")
        def send() -> str:
            return "sent"


        @penstock.job(queue="reports")
        def report() -> str:
            return "made"
        """,
    )
    keys = NamespaceKeys(namespace).queue("mail")
    sent = [shell.json("job", "send", "mail", "send")["id"] for _ in range(2)]
    made = shell.json("job", "send", "reports", "report")["id"]
    damaged = sent.pop(0)
    server.client.hset(keys.jobs, str(id_number(damaged)), "")
    server.client.hset(keys.limits, "", "garbage")
    server.client.hset(keys.schedules, "nightly", "garbage")
    server.client.zadd(keys.slots, {"nightly": 1})

    worker = shell.start("worker", "run", "app")

    with penstock.connect(server.url, namespace=namespace) as ps:
        for queue, id in (("mail", sent[0]), ("reports", made)):
            wait_for(partial(_is_done, ps, queue, id))
    assert worker.poll() is None, shell.output(worker)
    said = shell.output(worker)
    assert "job could not be read and was set aside" in said
    assert f"job={damaged}" in said
    found = json.loads(shell.run("fsck", "--repair", "--json").stdout)
    messages = [violation["message"] for violation in found["violations"]]
    assert [text for text in messages if f"job {damaged} cannot be read and was set aside" in text]
    shell.json("job", "remove", damaged, "-q", "mail")


def test_a_schedule_whose_next_slot_was_lost_is_found_and_fires_again(
    shell: Shell, server: RedisServer, namespace: str
) -> None:
    shell.write(
        "app",
        """
        import penstock


        @penstock.job(queue="mail")
        def send() -> None: ...
        """,
    )
    keys = NamespaceKeys(namespace).queue("mail")
    shell.json("schedule", "add", "often", "send", "-q", "mail", "--every", "1")
    server.client.delete(keys.slots)

    found = shell.run("fsck", "--repair")
    shell.start("worker", "run", "app")

    assert b"0 violations, 1 repaired" in found.stdout, found.stderr.decode()
    wait_for(lambda: shell.json("queue", "show", "mail")["counters"]["finished"] > 0)


def test_fsck_has_a_sentence_for_a_process_that_is_no_number(
    shell: Shell, server: RedisServer, namespace: str
) -> None:
    commands = {"mail": ("job", "send", "mail", "send"), "plain": ("enqueue", "plain", "a")}
    for queue, command in commands.items():
        shell.json(*command)
        server.client.hset(NamespaceKeys(namespace).queue(queue).running("ant"), "nonsense", "a")

    found = shell.run("fsck")

    assert found.returncode == 1
    assert found.stdout.count(b"nonsense") >= 2
    assert b"Traceback" not in found.stderr


def _is_done(ps: penstock.Penstock, queue: str, id: str) -> bool:
    return ps.job(id, queue).state == "done"
