"""Each race and defect of Kue (seed-systems 2.2, K1 to K16), shown not to be ours."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.codec.heads import pack_head
from penstock.errors import IllegalMove, InvalidArgument, JobConflict
from penstock.model.job_options import make_options
from penstock.store.commands import workers
from penstock.store.commands.jobs import Group, send_jobs
from penstock.store.script import CLUSTER, STANDALONE, scripts
from tests.contract.job_workers import MINUTE_MS, Hand, age_job, written
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.store.command import Operation
    from penstock.store.keys import NamespaceKeys
    from tests.running_worker import RunningWorker
    from tests.servers import RedisCluster, RedisServer
    from tests.stored import Stored


def test_k01_a_lost_wake_up_leaves_no_job_behind_and_no_change_makes_a_second_copy(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    assert hand.claim().word == "empty"
    ps.store.call(hand.keys.idle, "DEL", hand.keys.idle)
    job = mail.add("email", 1)
    for priority in (5, -5, 0):
        job.reprioritise(priority)
    job.reschedule(60)
    job.reschedule(0)

    assert hand.run_all() == [1]


def test_k02_a_crash_right_after_the_claim_loses_nothing(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", 1)
    crashing = Hand(ps, "crashing")

    crashing.claim()
    assert (job.state, job.info().worker) == ("running", "crashing")
    assert [found.id for found in mail.page("running").jobs] == [job.id]
    assert crashing.die() == (1, 0)

    assert hand.run_all() == [1]


def test_k03_there_is_no_half_a_job(
    ps: penstock.Penstock,
    mail: penstock.Jobs,
    hand: Hand,
    operations: Iterator[Operation],
    stored: Stored,
) -> None:
    taken = mail.add("email", "taken")
    options = make_options("email", {"tags": ["x"], "tenant": "t", "delay": 60, "unique": "k"})
    head = pack_head(options)
    before = written(stored)

    with pytest.raises(JobConflict):
        groups = [Group(head, 60_000, 0, 0, [(5, b"1"), (taken._number, b"2")])]
        ps.store.run(send_jobs(hand.keys, next(operations), groups, origin="given"))
    assert written(stored) == before
    groups = [Group(head, 60_000, 0, 0, [(5, b"1")])]
    operation = next(operations)
    for _ in range(2):  # as a client does that got no answer
        ps.store.run(send_jobs(hand.keys, operation, groups))

    assert mail.counts()["scheduled"] == mail.counts(tag="x")["scheduled"] == 1


def test_k04_jobs_of_a_dead_worker_are_found_by_any_peer(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, names: NamespaceKeys
) -> None:
    mail.add("email", 1)
    dead = Hand(ps, "dead")
    dead.take_one()
    ps.store.run(workers.keep_worker_alive(names, "dead", 1))

    wait_for(
        lambda: ps.store.run(workers.keep_worker_alive(names, hand.id, MINUTE_MS, 10)) == ["dead"]
    )
    ps.fail_worker("dead")

    assert hand.run_all() == [1]


def test_k05_a_late_finish_is_refused_and_attempts_stay_within_bounds(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", attempts=1)
    slow = Hand(ps, "slow")
    late = slow.take_one()
    slow.die()
    now = hand.take_one()

    assert not slow.finish(late, "late")
    assert not slow.fail(late)
    assert hand.fail(now)
    assert not slow.finish(late, "late")
    assert not hand.finish(now, "too late")

    info = job.info()
    assert (info.state, info.failures, info.crashes) == ("dead", 1, 1)


def test_k06_only_what_is_still_scheduled_is_promoted_and_only_once(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    other = Hand(ps, "other")
    due, running, cancelled = (mail.add("email", name, delay=60) for name in "drc")
    running.promote()
    held = hand.take_one()
    cancelled.cancel()
    key = f"{hand.keys.tag}:due"
    for job in (due, running, cancelled):
        ps.store.call(key, "ZADD", key, 1, str(job._number))

    assert [other.take_named(9), hand.take_named(9)] == [["d"], []]

    assert hand.finish(held)
    assert (running.state, cancelled.state) == ("done", "cancelled")


def test_k06_promoters_at_once_promote_each_job_once(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    mail.add_many("email", range(400), delay=0.001)

    def take_all(name: str) -> list[int]:
        hand = Hand(ps, name)
        taken: list[int] = []
        wait_for(lambda: not mail.counts()["scheduled"] or taken.extend(hand.take_named(10)))  # type: ignore[func-returns-value]
        while names := hand.take_named(10):
            taken += names
        return taken

    with ThreadPoolExecutor(3) as promoters:
        taken = list(promoters.map(take_all, ["a", "b", "c"]))

    assert sorted(number for each in taken for number in each) == list(range(400))


def test_k07_namespaces_share_nothing(
    any_store: RedisServer | RedisCluster,
    namespace: str,
    mail: penstock.Jobs,
    hand: Hand,
    stored: Stored,
) -> None:
    mail.add("email", 1, delay=60, unique="k")
    before = written(stored)

    with penstock.connect(any_store.url, namespace=f"other-{namespace}") as other:
        elsewhere = other.jobs("mail")
        assert elsewhere.add("email", 2, unique="k").is_new
        elsewhere.limit(concurrency=1)
        elsewhere.pause_type("email")
        assert Hand(other).claim().word == "empty"
        elsewhere.delete()

    assert written(stored) == before


def test_k08_a_backoff_is_data_and_never_run(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    @penstock.job(queue="mail", type="fail", attempts=2)
    def fail() -> None:
        raise ValueError

    with pytest.raises(InvalidArgument, match="is not known; give 'exponential', 'fixed'"):
        mail.add("fail", backoff="function(attempts) { return 1 }")
    serve(fail)
    job = fail.options(backoff="named:__import__('os')._exit(1)").on(ps).send()

    wait_for(lambda: job.state == "scheduled")  # after the usual time, as nobody knows the name


def test_k09_a_stale_worker_cannot_bring_a_finished_job_back(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, stored: Stored
) -> None:
    job = mail.add("email")
    stale = Hand(ps, "stale")
    old = stale.take_one()
    stale.die()
    hand.finish(hand.take_one(), "done")
    before = written(stored)

    assert not stale.note(old, 50, b"still here")
    assert not stale.stop(old)
    with pytest.raises(IllegalMove):
        job.promote()

    assert job.result(5) == "done"
    after = written(stored)
    del before[hand.keys.meta], after[hand.keys.meta]  # where refusals are counted
    assert after == before


def test_k10_what_happened_while_nobody_listened_is_in_the_history(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email", 1)
    hand.run_all()

    assert [attempt.outcome for attempt in mail.history()] == ["done"]


def test_k11_no_script_walks_the_keys_of_the_store() -> None:
    texts = [
        script.text(dialect) for script in scripts("jobs") for dialect in (STANDALONE, CLUSTER)
    ]

    assert texts
    assert not [text for text in texts if "'KEYS'" in text or "'SCAN'" in text]


def test_k12_finished_jobs_go_by_themselves_without_a_setting(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    hand.finish(hand.take_one())
    age_job(ps, job, by_ms=25 * 3_600_000)

    wait_for(lambda: hand.claim().word == "empty" and mail.counts()["done"] == 0)


def test_k13_a_state_that_does_not_exist_is_refused_everywhere(
    mail: penstock.Jobs, stored: Stored
) -> None:
    mail.add("email")
    before = stored.everything()

    acts: list[Callable[..., object]] = [mail.page, mail.cancel, mail.remove]
    for act in acts:
        with pytest.raises(InvalidArgument, match="there is no job state 'bogus'; there are sch"):
            act("bogus")

    assert stored.everything() == before


@pytest.mark.parametrize("newest_first", [False, True])
def test_k14_pages_are_in_true_order_both_ways_while_jobs_go(
    mail: penstock.Jobs, newest_first: bool
) -> None:
    jobs = mail.add_many("email", range(1100))
    jobs[600].reprioritise("high")
    cursor, found = "", []

    while page := mail.page("ready", after=cursor, limit=300, newest_first=newest_first):
        found += [json.loads(job.data) for job in page.jobs]
        mail.get(page.jobs[0].id).remove()
        if not (cursor := page.cursor):
            break

    assert found == sorted(range(1100), reverse=newest_first)


def test_k15_each_queue_has_a_hash_tag_of_its_own(
    ps: penstock.Penstock, namespace: str, stored: Stored
) -> None:
    for queue in ("a", "b"):
        ps.jobs(queue).add("email")

    tags = {key.partition("}")[0] for key in stored.everything()}

    assert tags == {f"{{{namespace}", f"{{{namespace}:a", f"{{{namespace}:b"}


def test_k16_clients_in_one_process_know_nothing_of_each_other(
    any_store: RedisServer | RedisCluster, namespace: str, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    with penstock.connect(any_store.url, namespace=namespace) as second:
        with penstock.connect(any_store.url, namespace=f"{namespace}-x") as third:
            assert third.queues() == []
            with ThreadPoolExecutor(1) as thread:
                waiting = thread.submit(second.job(job.id).result, 20)
                third.close()
                hand.finish(hand.take_one(), 7)
                assert waiting.result(20) == 7
        assert second.job(job.id).result(5) == 7
    assert job.result(5) == 7
