"""A batch is staged, decided once and then moved: all of it gets into the queue, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.client.fsck import check, repair
from penstock.codec.chunks import pack_chunk
from penstock.codec.heads import pack_head
from penstock.codec.ids import id_text
from penstock.connection.staging import (
    decide_batch,
    drop_stages,
    move_batches,
    stage_chunk,
)
from penstock.errors import BatchTooLarge, PayloadTooLarge, QueueFull, StageLost, WrongKind
from penstock.model.job_options import JobSettings, make_options
from penstock.model.staging import NOT_KEPT, STAGE_MS, Keep, Stage, batch_tag
from penstock.store.command import Operation
from penstock.store.commands import job_staging, staging
from penstock.store.commands.jobs import IdTaken
from tests.conftest import EVERY_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Literal, Unpack

    import penstock
    from penstock.model.staging import Moved
    from penstock.store.command import Command
    from penstock.store.keys import QueueKeys
    from tests.contract.conftest import Ear
    from tests.contract.job_workers import Hand
    from tests.stored import Stored

pytestmark = pytest.mark.stores(*EVERY_VERSION)

ROOM = 1_000_000
GIVEN_ID = 10**18


class Batches:
    """Writes batches to the queue "mail" as an executor and a driver do."""

    def __init__(self, ps: penstock.Penstock) -> None:
        self.store = ps.store
        self.keys = ps.keys.queue("mail")
        self._namespace = ps.keys

    def stage(
        self, name: str, *chunks: Sequence[bytes], rows: int | None = None, largest: int = 1
    ) -> Stage:
        packed = [pack_chunk(chunk) for chunk in chunks]
        for index, chunk in enumerate(packed):
            stage_chunk(self.store, self.keys, "batch", name, index, chunk, ROOM)
        counted = sum(map(len, chunks)) if rows is None else rows
        return Stage(name, len(chunks), counted, largest)

    def decide(
        self,
        *stages: Stage,
        batch: str = "b1",
        version: int = 0,
        kind: Literal["tasks", "jobs"] = "tasks",
        keep: Keep = NOT_KEPT,
    ) -> bool:
        return decide_batch(
            self.store, self._namespace, "mail", kind, batch, version, list(stages), keep
        )

    def move(self, kind: Literal["tasks", "jobs"] = "tasks") -> Moved:
        return move_batches(self.store, self.keys, kind)


@pytest.fixture
def batches(ps: penstock.Penstock) -> Batches:
    return Batches(ps)


def jobs_of(*data: bytes, given: bytes = b"", **options: Unpack[JobSettings]) -> list[bytes]:
    """A group of jobs with the same options, as a chunk has it; without ids if none is given."""
    made = make_options("email", options)
    numbers = (made.delay_ms, made.run_at_ms, made.window_ms, len(data))
    head = [pack_head(made), *(str(number).encode() for number in numbers)]
    return head + [part for item in data for part in (given, item)]


def test_a_batch_is_in_the_queue_in_its_order_once_it_was_decided_and_moved(
    ps: penstock.Penstock, batches: Batches
) -> None:
    first = batches.stage("s1", [b"a", b"b"], [b"c"])
    second = batches.stage("s2", [b"d"])

    is_new = batches.decide(first, second)
    moved = batches.move()

    assert is_new
    assert moved == (4, 0, 0, False)
    assert ps.queue("mail").page().tasks == [b"a", b"b", b"c", b"d"]
    assert check(ps).violations == []


def test_before_the_decision_nothing_of_it_is_in_the_queue_and_it_goes_by_itself(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    batches.stage("s1", [b"a"])

    assert batches.move().moved == 0
    assert ps.queues() == []
    for key in (keys.stage("s1"), keys.staging("batch")):
        assert 0 < ps.store.call(key, "PTTL", key) <= STAGE_MS
    assert check(ps).violations == []


def test_what_was_decided_does_not_expire(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    batches.decide(batches.stage("s1", [b"a"]))

    assert ps.store.call(keys.stage("s1"), "PTTL", keys.stage("s1")) == -1


def test_the_same_batch_again_has_no_second_effect_whatever_its_rows(
    ps: penstock.Penstock, batches: Batches, stored: Stored, keys: QueueKeys
) -> None:
    batches.decide(batches.stage("s1", [b"a"]))
    batches.move()

    is_new = batches.decide(batches.stage("s2", [b"other"], [b"rows"]))

    assert not is_new
    assert batches.move().moved == 0
    assert keys.stage("s2") not in stored
    assert ps.queue("mail").page().tasks == [b"a"]


def test_a_decision_that_is_sent_again_keeps_its_own_stages(
    ps: penstock.Penstock, batches: Batches
) -> None:
    stage = batches.stage("s1", [b"a"])
    batches.decide(stage)

    assert not batches.decide(stage)
    assert batches.move().moved == 1


def test_a_stream_decides_each_of_its_versions_once(
    ps: penstock.Penstock, batches: Batches
) -> None:
    for version, expected in ((0, True), (1, True), (1, False), (0, False), (2, True)):
        stage = batches.stage(f"s{version}-{expected}", [b"%d" % version])
        assert batches.decide(stage, batch="query", version=version) is expected
    batches.move()

    assert ps.queue("mail").page().tasks == [b"0", b"1", b"2"]


def test_a_stage_that_is_not_whole_refuses_the_batch(
    ps: penstock.Penstock, batches: Batches
) -> None:
    whole, lost = batches.stage("s1", [b"a"]), Stage("s2", 1, 1, 1)

    with pytest.raises(StageLost, match="nothing of it was sent to queue 'mail'"):
        batches.decide(whole, lost)

    assert batches.move().moved == 0
    assert batches.decide(whole, batches.stage("s2", [b"b"]))


def test_a_batch_that_is_refused_leaves_no_queue_on_the_list(
    ps: penstock.Penstock, batches: Batches
) -> None:
    with pytest.raises(StageLost):
        batches.decide(Stage("s1", 1, 1, 1))

    assert ps.store.call(ps.keys.queues, "HLEN", ps.keys.queues) == 0


def test_a_batch_that_another_driver_decides_meanwhile_leaves_one_queue_on_the_list(
    ps: penstock.Penstock, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs, run = batches.stage("s1", [b"a"]), batches.stage("s2", [b"a"]), ps.store.run

    def register_late(command: Command[Any]) -> Any:
        monkeypatch.undo()
        assert command.script.name.endswith("register_queue")
        assert batches.decide(theirs)
        return run(command)

    monkeypatch.setattr(ps.store, "run", register_late)

    assert not batches.decide(mine)
    assert ps.store.call(ps.keys.queues, "HLEN", ps.keys.queues) == 1


def test_a_batch_without_rows_is_decided_too(ps: penstock.Penstock, batches: Batches) -> None:
    assert batches.decide(batches.stage("s1"))
    assert not batches.decide(batches.stage("s2", [b"a"]))


def test_a_copy_of_a_chunk_that_arrives_after_the_decision_is_never_moved(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    batches.decide(batches.stage("s1", [b"a"], [b"b"]))
    late = staging.stage_chunk(keys, "batch", "s1", 0, pack_chunk([b"a"]), ROOM)
    ps.store.run(staging.move_tasks(keys))

    with pytest.raises(StageLost, match="decided without this chunk"):
        ps.store.run(late)
    batches.move()
    ps.store.run(late)

    assert batches.move().moved == 0
    assert ps.queue("mail").page().tasks == [b"a", b"b"]
    assert ps.store.call(keys.stage("s1"), "PTTL", keys.stage("s1")) > 0


def test_stages_that_are_dropped_are_only_those_that_were_not_decided(
    ps: penstock.Penstock, batches: Batches, stored: Stored, keys: QueueKeys
) -> None:
    batches.decide(batches.stage("s1", [b"a"]))
    batches.stage("s2", [b"b"])

    dropped = drop_stages(batches.store, batches.keys, ["s1", "s2", "s3"])

    assert dropped == 1
    assert keys.stage("s2") not in stored
    assert batches.move().moved == 1


def test_more_than_may_be_staged_refuses_the_batch(batches: Batches) -> None:
    chunk = pack_chunk([b"x" * 600])
    stage_chunk(batches.store, batches.keys, "batch", "s1", 0, chunk, 1000)
    stage_chunk(batches.store, batches.keys, "batch", "s1", 0, chunk, 1000)  # counts once

    with pytest.raises(BatchTooLarge, match=r"more than 1000 bytes.*raise max_staged_bytes"):
        stage_chunk(batches.store, batches.keys, "batch", "s2", 0, chunk, 1000)


def test_a_queue_of_the_other_kind_refuses_the_batch(
    ps: penstock.Penstock, batches: Batches
) -> None:
    ps.jobs("mail").add("email")

    with pytest.raises(WrongKind, match="holds jobs, so it takes no plain tasks"):
        batches.decide(batches.stage("s1", [b"a"]))
    ps.queue("mail").delete()
    ps.queue("mail").enqueue(b"a")
    with pytest.raises(WrongKind, match="holds plain tasks, so it cannot hold jobs"):
        batches.decide(batches.stage("s2", jobs_of(b"1")), kind="jobs")


def test_a_decision_says_what_the_queue_holds_before_anything_is_moved(
    ps: penstock.Penstock, batches: Batches
) -> None:
    batches.decide(batches.stage("s1", [b"a"]))

    with pytest.raises(WrongKind):
        ps.jobs("mail").add("email")


def test_a_chunk_that_is_larger_than_the_room_left_moves_in_part(
    ps: penstock.Penstock, batches: Batches
) -> None:
    queue = ps.queue("mail")
    queue.configure(max_length=3)
    queue.enqueue(b"before")
    batches.decide(batches.stage("s1", [b"a", b"b", b"c", b"d"]))

    first = batches.move()
    with ps.worker() as worker:
        worker.start_work("mail")
        for process in worker.start_tasks("mail", 3):
            process.finish()
    second = batches.move()

    assert first == (2, 0, 2, True)
    assert second == (2, 0, 0, False)
    assert queue.page().tasks == [b"c", b"d"]
    assert check(ps).violations == []


def test_who_moves_can_wait_for_room(ps: penstock.Penstock, batches: Batches) -> None:
    queue = ps.queue("mail")
    queue.configure(max_length=1)
    batches.decide(batches.stage("s1", [b"a", b"b", b"c"]))
    finished: list[bytes] = []
    with ps.worker() as worker:
        worker.start_work("mail")

        def work(_: Moved) -> None:
            for process in worker.start_tasks("mail", 1):
                finished.append(process.task)
                process.finish()

        moved = move_batches(batches.store, batches.keys, "tasks", 20, on_progress=work)

    assert moved.left == 0
    assert finished == [b"a", b"b", b"c"]


def test_moved_tasks_wake_a_worker(
    ps: penstock.Penstock,
    batches: Batches,
    worker: penstock.WorkerSession,
    listen: Callable[[str], Ear],
    keys: QueueKeys,
) -> None:
    ps.store.call(keys.idle, "SADD", keys.idle, worker.id)
    ear = listen(keys.wake + worker.id)
    batches.decide(batches.stage("s1", [b"a"]))

    batches.move()

    assert ear.hear_the_rest() == [b""]


def test_deleting_the_queue_drops_what_was_to_be_moved_and_forgets_the_batch(
    ps: penstock.Penstock, batches: Batches, stored: Stored, keys: QueueKeys
) -> None:
    ps.queue("mail").enqueue(b"before")
    batches.decide(batches.stage("s1", [b"a", b"b"]), batches.stage("s2", [b"c"]))

    deleted = ps.queue("mail").delete()

    assert deleted.removed == 4
    assert {key for key in stored.types() if ":stag" not in key and ":memory:" not in key} == set()
    assert keys.stage("s1") not in stored
    assert batches.decide(batches.stage("s3", [b"a"]))


def test_deleting_a_queue_of_jobs_does_so_too(
    ps: penstock.Penstock, batches: Batches, stored: Stored
) -> None:
    ps.jobs("mail").add("email")
    batches.decide(batches.stage("s1", jobs_of(b"1", b"2"), rows=2), kind="jobs")

    deleted = ps.queue("mail").delete()

    assert deleted.removed == 3
    left = {key.partition("}:")[2].partition(":")[0] for key in stored.types()}
    assert left <= {"memory", "staging"}
    assert batches.decide(batches.stage("s3", jobs_of(b"1"), rows=1), kind="jobs")


def test_a_batch_is_remembered_for_as_long_as_was_said(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    batches.decide(batches.stage("s1", [b"a"]), batch="old")
    ps.store.call(keys.batch_times, "ZADD", keys.batch_times, 1, "old")

    batches.decide(batches.stage("s2", [b"b"]), batch="new")

    assert batches.decide(batches.stage("s3", [b"a"]), batch="old")
    assert not batches.decide(batches.stage("s4", [b"b"]), batch="new")


def test_jobs_of_a_batch_are_like_jobs_that_were_sent(
    ps: penstock.Penstock, batches: Batches
) -> None:
    urgent = jobs_of(b'{"a":1}', priority="high", tenant="acme", tags=["red"])
    stage = batches.stage("s1", jobs_of(b'{"a":2}', b'{"a":3}') + urgent, rows=3)

    batches.decide(stage, kind="jobs")
    moved = batches.move("jobs")

    assert moved == (3, 0, 0, False)
    found = ps.jobs("mail").page("ready").jobs
    assert [job.data for job in found] == [b'{"a":2}', b'{"a":3}', b'{"a":1}']
    assert (found[2].priority, found[2].tenant, found[2].tags) == (-10, "acme", ("red",))
    assert ps.jobs("mail").counts()["ready"] == 3
    assert check(ps).violations == []


def test_jobs_that_are_to_wait_are_scheduled(ps: penstock.Penstock, batches: Batches) -> None:
    batches.decide(batches.stage("s1", jobs_of(b"1", delay=60), rows=1), kind="jobs")

    batches.move("jobs")

    assert ps.jobs("mail").counts()["scheduled"] == 1


def test_a_job_whose_unique_key_is_taken_is_counted_and_not_added(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    ps.jobs("mail").add("email", 0, unique="x")
    stage = batches.stage("s1", jobs_of(b"1", unique="x") + jobs_of(b"2", unique="y"), rows=2)
    batches.decide(stage, kind="jobs")

    moved = batches.move("jobs")

    assert (moved.moved, moved.merged, moved.left) == (2, 1, 0)
    assert [job.data for job in ps.jobs("mail").page("ready").jobs] == [b"0", b"2"]
    assert ps.store.call(keys.meta, "HGET", keys.meta, "merged") == b"1"


def test_a_given_id_that_is_taken_is_counted_and_never_an_error_after_the_decision(
    ps: penstock.Penstock, batches: Batches
) -> None:
    ps.jobs("mail").add("email", "first", id=id_text(GIVEN_ID))
    given, free = str(GIVEN_ID).encode(), str(GIVEN_ID + 1).encode()
    chunk = jobs_of(b"other", given=given) + jobs_of(b"new", given=free)
    batches.decide(batches.stage("s1", chunk, rows=2), kind="jobs")

    moved = batches.move("jobs")

    assert (moved.moved, moved.merged, moved.left) == (2, 1, 0)
    assert ps.job(id_text(GIVEN_ID + 1)).info().data == b"new"
    assert ps.job(id_text(GIVEN_ID)).info().data == b'"first"'


def test_an_id_that_another_client_has_made_is_made_anew(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    ps.jobs("mail").add("email", "first", id=id_text(GIVEN_ID))
    batches.decide(batches.stage("s1", jobs_of(b"1"), rows=1), kind="jobs")

    with pytest.raises(IdTaken):
        ps.store.run(job_staging.move_jobs(keys, Operation("lane", 1), [GIVEN_ID]))

    assert batches.move("jobs").moved == 1
    assert ps.jobs("mail").counts()["ready"] == 2


def test_a_late_copy_of_a_move_gives_no_id_again_of_a_job_that_is_gone(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    batches.decide(batches.stage("s1", jobs_of(b"1"), jobs_of(b"2"), rows=2), kind="jobs")
    move = job_staging.move_jobs(keys, Operation("lane", 1), [GIVEN_ID])
    ps.store.run(move)
    ps.job(id_text(GIVEN_ID)).remove()

    ps.store.run(move)

    assert ps.jobs("mail").counts()["ready"] == 0
    assert batches.move("jobs").moved == 1
    [job] = ps.jobs("mail").page("ready").jobs
    assert job.id != id_text(GIVEN_ID)


@pytest.mark.parametrize("limit", [{"max_length": 3}, {"max_bytes": 6}])
def test_jobs_move_in_part_when_there_is_room_for_some(
    ps: penstock.Penstock, batches: Batches, limit: dict[str, int]
) -> None:
    mail = ps.jobs("mail")
    mail.configure(**limit)
    mail.add("email", 1)
    urgent = jobs_of(b"44", b"55", priority="high")
    batches.decide(batches.stage("s1", jobs_of(b"22", b"33") + urgent, rows=4), kind="jobs")

    first = batches.move("jobs")
    waiting = [job.data for job in mail.page("ready").jobs]
    mail.configure(max_length=None, max_bytes=None)
    second = batches.move("jobs")

    assert (first.moved, first.left, first.is_full) == (2, 2, True)
    assert waiting == [b"1", b"22", b"33"]
    assert second.left == 0
    assert [job.data for job in mail.page("ready").jobs] == [b"1", b"22", b"33", b"44", b"55"]
    assert check(ps).violations == []


def test_a_job_that_is_larger_than_the_queue_takes_refuses_the_batch(
    ps: penstock.Penstock, batches: Batches
) -> None:
    ps.jobs("mail").configure(max_bytes=5)

    with pytest.raises(PayloadTooLarge, match=r"takes 5 bytes of data.*has 60"):
        batches.decide(batches.stage("s1", jobs_of(b"x" * 60), rows=1, largest=60), kind="jobs")


def test_a_limit_that_was_lowered_after_the_decision_holds_no_job_back_for_ever(
    ps: penstock.Penstock, batches: Batches
) -> None:
    batches.decide(batches.stage("s1", jobs_of(b"x" * 60, b"y" * 60), rows=2), kind="jobs")
    ps.jobs("mail").configure(max_bytes=5)

    moved = batches.move("jobs")

    assert (moved.moved, moved.left, moved.is_full) == (1, 1, True)


def test_a_queue_with_a_batch_to_move_is_full_for_others_only_by_what_is_in_it(
    ps: penstock.Penstock, batches: Batches
) -> None:
    queue = ps.queue("mail")
    queue.configure(max_length=1)
    batches.decide(batches.stage("s1", [b"a", b"b"]))
    batches.move()

    with pytest.raises(QueueFull):
        queue.enqueue(b"c")


def test_jobs_of_a_batch_are_kept_until_its_time_is_up_whatever_the_queue_keeps(
    ps: penstock.Penstock, batches: Batches, hand: Hand, keys: QueueKeys
) -> None:
    mail = ps.jobs("mail")
    mail.configure(keep_count=1, keep_bytes=1, keep_s=1)
    tag = batch_tag("b1")
    stage = batches.stage("s1", jobs_of(b"1", b"2", b"3", tags=[tag]), rows=3)
    batches.decide(stage, kind="jobs", keep=Keep(tag, 3_600_000))
    batches.move("jobs")
    others = [mail.add("email", number) for number in range(3)]
    hand.run_all()

    mail.purge()

    assert mail.counts(tag=tag)["done"] == 3
    assert mail.counts()["done"] <= 4
    assert others[0].id not in {job.id for job in mail.page("done").jobs}
    assert check(ps).violations == []


def test_jobs_of_a_batch_go_like_others_when_its_time_is_up(
    ps: penstock.Penstock, batches: Batches, hand: Hand, keys: QueueKeys
) -> None:
    mail = ps.jobs("mail")
    mail.configure(keep_count=1)
    tag = batch_tag("b1")
    stage = batches.stage("s1", jobs_of(b"1", b"2", b"3", tags=[tag]), rows=3)
    batches.decide(stage, kind="jobs", keep=Keep(tag, 3_600_000))
    batches.move("jobs")
    hand.run_all()
    finished = keys.finished
    for job in ps.store.call(finished, "ZRANGE", finished, 0, -1):
        ps.store.call(finished, "ZADD", finished, 1, job)

    mail.purge()

    assert mail.counts(tag=tag)["done"] == 0


def test_a_job_that_was_kept_for_its_batch_can_be_retried_and_removed(
    ps: penstock.Penstock, batches: Batches, hand: Hand
) -> None:
    mail = ps.jobs("mail")
    tag = batch_tag("b1")
    stage = batches.stage("s1", jobs_of(b"1", b"2", tags=[tag]), rows=2)
    batches.decide(stage, kind="jobs", keep=Keep(tag, 3_600_000))
    batches.move("jobs")
    [first, second] = mail.page("ready").jobs
    for job in (first, second):
        ps.job(job.id).cancel()
    assert check(ps).violations == []

    ps.job(first.id).retry()
    ps.job(second.id).remove()

    assert mail.counts(tag=tag)["ready"] == 1
    assert check(ps).violations == []
    hand.run_all()
    assert check(ps).violations == []


def test_a_late_copy_of_a_decision_does_not_bring_a_deleted_queue_back(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    stage = batches.stage("s1", [b"a"])
    decision = staging.decide_batch(keys, Operation("lane", 1), "b1", 0, "tasks", [stage], "i1")
    ps.store.run(decision)
    ps.queue("mail").delete()

    ps.store.run(decision)

    assert batches.move().moved == 0
    assert ps.store.call(keys.meta, "EXISTS", keys.meta) == 0


def test_a_decided_batch_that_nobody_moved_is_found_and_moved_by_a_repair(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    batches.decide(batches.stage("s1", [b"a", b"b"]))
    assert check(ps).violations == []  # its writer may be about to move it
    ps.store.call(keys.meta, "HSET", keys.meta, "moved_at", 1)

    report = check(ps)
    after = repair(ps, report)

    [found] = report.violations
    assert found.is_repairable
    assert "2 rows of a decided batch have not been moved into the queue" in found.message
    assert after.violations == []
    assert ps.queue("mail").page().tasks == [b"a", b"b"]


def test_a_decided_batch_of_jobs_is_moved_by_a_repair_too(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    batches.decide(batches.stage("s1", jobs_of(b"1"), rows=1), kind="jobs")
    ps.store.call(keys.meta, "HSET", keys.meta, "moved_at", 1)

    after = repair(ps, check(ps))

    assert after.violations == []
    assert ps.jobs("mail").counts()["ready"] == 1


def test_a_batch_that_waits_for_room_is_no_finding(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    ps.queue("mail").configure(max_length=1)
    batches.decide(batches.stage("s1", [b"a", b"b"]))
    batches.move()
    ps.store.call(keys.meta, "HSET", keys.meta, "moved_at", 1)

    assert check(ps).violations == []


def test_a_decided_stage_that_is_gone_is_a_loss_that_no_repair_hides(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    batches.decide(batches.stage("s1", [b"a"]))
    ps.store.call(keys.stage("s1"), "DEL", keys.stage("s1"))

    report = check(ps)

    [found] = report.violations
    assert "its rows are lost" in found.message
    assert not found.is_repairable


def test_stages_with_the_wrong_expiry_are_found_and_mended(
    ps: penstock.Penstock, batches: Batches, keys: QueueKeys
) -> None:
    batches.decide(batches.stage("s1", [b"a"]))
    batches.stage("s2", [b"b"])
    ps.store.call(keys.stage("s1"), "PEXPIRE", keys.stage("s1"), 100_000)
    ps.store.call(keys.stage("s2"), "PERSIST", keys.stage("s2"))

    report = check(ps)
    after = repair(ps, report)

    assert {v.kind for v in report.violations} == {"live_state_expires", "stage_of_no_batch"}
    assert after.violations == []
    assert ps.store.call(keys.stage("s1"), "PTTL", keys.stage("s1")) == -1
