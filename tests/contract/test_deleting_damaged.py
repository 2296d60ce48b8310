"""A queue of jobs is deleted whatever its counters and listings say: each step takes something away
or is the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client import fsck
from penstock.codec.ids import id_number
from tests.contract.job_workers import Hand
from tests.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.store.keys import QueueKeys
    from tests.servers import RedisServer

    Damage = Callable[[Any, QueueKeys, int], object]

DAMAGES: dict[str, Damage] = {
    "a count is one too high": lambda r, at, id: r.hincrby(at.meta, "rA:", 1),
    "a count is too low": lambda r, at, id: r.hincrby(at.meta, "rA:", -5),
    "a count is no number": lambda r, at, id: r.hset(at.meta, "rA:", "many"),
    "the count of what runs is too high": lambda r, at, id: r.hincrby(at.meta, "uA:", 1),
    "all counts are gone": lambda r, at, id: r.hdel(at.meta, "rA:", "uA:", "dA:"),
    "the rows to be moved are no number": lambda r, at, id: r.hset(at.meta, "staged", "many"),
    "what is to be moved is no stage": lambda r, at, id: r.rpush(at.moving, "", "nonsense"),
    "a directory is gone": lambda r, at, id: r.delete(at.pages("rA:")),
    "a page is gone": lambda r, at, id: r.delete(at.page("0:rA:")),
    "a page that is no number is listed": lambda r, at, id: r.zadd(at.pages("rA:"), {"x": 1}),
    "a page that is not there is listed": lambda r, at, id: r.zadd(at.pages("dA:"), {"7": 7}),
    "jobs that are not there are listed": lambda r, at, id: r.sadd(
        at.page("0:rA:"), *range(1000, 1300)
    ),
    "a job is listed in two states": lambda r, at, id: (
        r.sadd(at.page("0:dA:"), id),
        r.zadd(at.pages("dA:"), {"0": 0}),
    ),
    "a record is empty": lambda r, at, id: r.hset(at.jobs, id, ""),
    "a record is garbage": lambda r, at, id: r.hset(at.jobs, id, b"\xff" * 40),
    "facts are garbage": lambda r, at, id: r.hset(at.facts, id, b"\2u\xff"),
    "a level has no ring": lambda r, at, id: r.zadd(at.levels, {"x": 7}),
}


@pytest.fixture
def ps(server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    """On one kind of store: what is damaged here is damaged by hand."""
    with penstock.connect(server.url, namespace=namespace) as client:
        yield client


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_queue_of_jobs_is_deleted_and_nothing_is_left(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys, name: str
) -> None:
    first, *_ = ps.jobs("mail").add_many("email", range(5))
    hand = Hand(ps)
    [job] = hand.take(1)
    hand.finish(job, "result")
    hand.leave()
    last = ps.jobs("mail").add("email", 6)
    DAMAGES[name](server.client, keys, id_number(last.id))
    assert first.id != last.id

    deleted = ps.queue("mail").delete()

    assert (deleted.removed, deleted.running) == (6, 0)
    # By its type, tenant and tags what cannot be read is listed still: nobody knows what they were.
    fsck.repair(ps, fsck.check(ps))
    left = Stored(server, ps.keys.namespace).everything()
    assert [key for key in left if ":memory:" not in key and ":mail}" in key] == []
    assert ps.queues() == []


def test_jobs_that_run_are_left_though_no_counter_knows_of_them(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys
) -> None:
    ps.jobs("mail").add_many("email", range(5))
    hand = Hand(ps)
    [job] = hand.take(1)
    server.client.hdel(keys.meta, "uA:", "uT:email")
    server.client.sadd(keys.page("0:rA:"), id_number(job.id))

    deleted = ps.queue("mail").delete()

    assert (deleted.removed, deleted.running) == (4, 1)
    hand.finish(job, "result")
    assert ps.job(job.id, "mail").state == "done"
    assert fsck.repair(ps, fsck.check(ps)).violations == []
