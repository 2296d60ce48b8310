"""Jobs that run later or again and again, and a worker that does not look for them in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import penstock
from tests.servers import wait_for
from tests.worker.job_kinds import in_thread, long_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.running_worker import RunningWorker
    from tests.servers import RedisServer

    Serve = Callable[..., RunningWorker]


def test_a_delayed_job_starts_at_its_time_and_until_then_nobody_asks(
    own_server: RedisServer, namespace: str, serve: Serve
) -> None:
    with penstock.connect(own_server.url, namespace=namespace) as ps:
        serve(in_thread, url=own_server.url, heartbeat_ms=20_000, lease_ms=60_000)
        soon = in_thread.on(ps).options(delay=0.1).send("describe itself")
        soon.result(20)  # everything that is only said once has been said
        wait_for(lambda: ps.queue("mail").inspect().idle == 1)
        job = in_thread.on(ps).options(delay=1.5).send("describe itself")
        wait_for(lambda: ps.queue("mail").inspect().idle == 1)
        own_server.command("CONFIG", "RESETSTAT")

        job.result(20)

        # A look at the job by the caller that waits, a start, a report; perhaps a wake-up.
        assert commands_of(own_server)["evalsha"] <= 5
        info = job.info()
        assert 0 <= info.started_at - info.due_at < 1


def test_an_idle_worker_only_renews_its_lease(
    own_server: RedisServer, namespace: str, serve: Serve
) -> None:
    with penstock.connect(own_server.url, namespace=namespace) as ps:
        serve(in_thread, url=own_server.url, heartbeat_ms=100, lease_ms=10_000)
        later = in_thread.on(ps).options(delay=3600).send("describe itself")
        wait_for(lambda: ps.queue("mail").inspect().idle == 1 and later.state == "scheduled")
        own_server.command("CONFIG", "RESETSTAT")

        wait_for(lambda: commands_of(own_server).get("evalsha", 0) >= 8)

        # What a beat does. Nobody has looked at the queue, which would begin with HLEN.
        beat = {"evalsha", "time", "zscore", "zadd", "zrem", "zrangebyscore", "sismember"}
        assert commands_of(own_server).keys() - beat <= {"info", "config|resetstat"}


def commands_of(server: RedisServer) -> dict[str, int]:
    """What the server was asked since its figures were reset, also by scripts."""
    stats = server.client.info("commandstats")
    return {name.removeprefix("cmdstat_"): figures["calls"] for name, figures in stats.items()}


def test_a_sooner_job_is_not_kept_waiting_by_a_later_one(
    ps: penstock.Penstock, serve: Serve
) -> None:
    serve(in_thread)
    later = in_thread.on(ps).options(delay=3600).send("describe itself")
    wait_for(lambda: ps.queue("mail").inspect().idle == 1)

    soon = in_thread.on(ps).options(delay=0.2).send("describe itself")

    soon.result(20)
    assert soon.info().started_at - soon.info().due_at < 1
    assert later.state == "scheduled"


def test_schedules_are_fired_by_whichever_worker_is_there(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Serve
) -> None:
    for _ in range(3):
        serve(in_thread)
    schedules = ps.schedules("mail")
    before = schedules.add("pulse", "thread", [["describe itself"]], every=1, misfire="all")
    assert before.next_at is not None

    wait_for(lambda: mail.counts()["done"] >= 2)

    schedules.remove("pulse")
    # If a slot had been fired twice, later ones would seem to have been fired too early.
    late_s = [
        job.created_at - (before.next_at + number)
        for number, job in enumerate(mail.page("done").jobs)
    ]
    assert min(late_s) >= 0
    assert max(late_s) < 5


def test_no_slot_is_missed_because_everybody_is_busy(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Serve, tmp_path: Path
) -> None:
    serve(long_in_thread, in_thread, concurrency=1)
    flag = tmp_path / "begun"
    ps.schedules("mail").add("pulse", "thread", [["describe itself"]], every=1)
    long = long_in_thread.on(ps).options(priority="high").send(str(flag))
    wait_for(flag.exists)
    before = mail.counts(type="thread")["ready"]

    wait_for(lambda: mail.counts(type="thread")["ready"] >= before + 3)

    assert long.state == "running"
    long.cancel()


def test_a_schedule_fires_also_while_the_worker_has_other_work(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Serve, tmp_path: Path
) -> None:
    serve(long_in_thread, in_thread, concurrency=2)
    flag = tmp_path / "begun"
    long = long_in_thread.on(ps).send(str(flag))
    wait_for(flag.exists)

    ps.schedules("mail").add("pulse", "thread", [["describe itself"]], every=1)

    wait_for(lambda: mail.counts(type="thread")["done"] >= 1)
    assert long.state == "running"
    long.cancel()
