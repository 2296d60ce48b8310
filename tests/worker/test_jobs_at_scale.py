"""What a script does is bounded, however many jobs there are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from penstock.store.commands import job_records, jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from penstock.model.claims import Claim
    from penstock.model.jobs import HandedOut
    from tests.servers import RedisServer

MANY = 3000
AT_ONCE = 25


def test_jobs_that_fall_due_together_join_their_lines_a_few_at_a_time(
    server: RedisServer, ps: penstock.Penstock, worker: penstock.WorkerSession
) -> None:
    queue = ps.jobs("mail")
    queue.add_many("email", [{}] * MANY, delay=0.001)
    _wait_until_due(server, ps)

    promoted = [len(_start(ps, worker, 1000).found) for _ in range(5)]

    assert promoted == [AT_ONCE] * 5
    assert queue.counts()["scheduled"] == MANY - 5 * AT_ONCE


def test_every_job_that_fell_due_is_started_once(
    server: RedisServer, ps: penstock.Penstock, worker: penstock.WorkerSession
) -> None:
    sent = ps.jobs("mail").add_many("email", [{}] * MANY, delay=0.001)
    _wait_until_due(server, ps)

    started = [job.id for _ in range(MANY // AT_ONCE) for job in _start(ps, worker, 1000).found]

    assert started == [job.id for job in sent]


def test_a_purge_goes_in_steps(ps: penstock.Penstock) -> None:
    queue = ps.jobs("mail")
    queue.add_many("email", [{}] * MANY)
    queue.cancel("ready")
    queue.configure(keep_s=0)
    keys = ps.keys.queue("mail")

    purged, left = ps.store.run_once(lambda o: job_records.purge_jobs(keys, o, 500))

    assert (purged, left) == (500, MANY - 500)
    assert queue.purge() == MANY - 500
    assert queue.counts()["cancelled"] == 0


def test_a_page_costs_the_same_wherever_it_is(server: RedisServer, ps: penstock.Penstock) -> None:
    queue = ps.jobs("mail")
    queue.add_many("email", [{}] * MANY, tags=["a"])
    first = queue.page("ready", tag="a", limit=100)
    cursor = first.cursor
    for _ in range(20):
        cursor = queue.page("ready", tag="a", limit=100, after=cursor).cursor

    at_the_start = _commands(server, lambda: queue.page("ready", tag="a"))
    far_behind = _commands(server, lambda: queue.page("ready", tag="a", after=cursor))

    assert abs(at_the_start - far_behind) <= 2


def test_reading_all_pages_finds_every_job_once_in_order(ps: penstock.Penstock) -> None:
    queue = ps.jobs("mail")
    sent = [job.id for job in queue.add_many("email", [{}] * MANY)]

    found: list[str] = []
    cursor = ""
    while True:
        page = queue.page("ready", after=cursor, limit=700, newest_first=True)
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if not cursor:
            break

    assert found == sent[::-1]


@pytest.fixture
def worker(ps: penstock.Penstock) -> Iterator[penstock.WorkerSession]:
    with ps.worker(lease_ms=600_000) as session:
        session.start_job_work("mail")
        yield session


def _start(ps: penstock.Penstock, worker: penstock.WorkerSession, limit: int) -> Claim[HandedOut]:
    return ps.store.run_once(lambda o: jobs.start_jobs(ps.keys.queue("mail"), o, worker.id, limit))


def _wait_until_due(server: RedisServer, ps: penstock.Penstock) -> None:
    """The server's clock decides."""
    last = ps.jobs("mail").page("scheduled", newest_first=True, limit=1).jobs[0].due_at
    while True:
        seconds, micros = server.client.time()
        if seconds + micros / 1e6 > last:
            return
        time.sleep(0.001)


def _commands(server: RedisServer, act: Callable[[], object]) -> int:
    """How many commands the server ran, those inside scripts too."""

    def count() -> int:
        stats = server.client.info("commandstats")
        return sum(entry["calls"] for name, entry in stats.items() if name != "cmdstat_info")

    before = count()
    act()
    return count() - before
