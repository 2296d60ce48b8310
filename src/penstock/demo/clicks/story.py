"""The act about a log, told in the order in which it happens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.client import fsck
from penstock.demo.clicks.outcome import Outcome, find_disagreements
from penstock.demo.clicks.records import examine
from penstock.demo.clicks.stage import PARTITIONS
from penstock.errors import DemoFailed

if TYPE_CHECKING:
    from penstock.demo.clicks.stage import Stage
    from penstock.demo.processes import WorkerProcess


def tell_story(stage: Stage) -> Outcome:
    """The second worker is killed, then the leader of the ensemble; then the last worker is frozen
    past its session and woken.
    """
    began_at = time.monotonic()
    _share_out(stage)
    moved_s = _kill_worker(stage, stage.workers[1])
    led_s = _kill_leader(stage)
    _freeze(stage, stage.workers[-1])

    stage.stop_producers()
    appended = sum(stage.appended.values())
    stage.view.tell(f"the producers stop after {appended:,} messages; the workers catch up")
    stage.until(lambda: stage.handled >= appended)
    stage.view.tell("all messages handled; stopping the workers and counting")
    stage.stop_workers()
    return _count(stage, moved_s, led_s, began_at)


def _share_out(stage: Stage) -> None:
    for producer in stage.producers:
        producer.start()
    stage.until(lambda: stage.is_shared_out)
    for worker in stage.workers:
        worker.state = "alive"
    stage.view.tell(
        f"{len(stage.workers)} workers share {PARTITIONS} partitions, "
        f"{len(stage.owned(stage.workers[0]))} each; {len(stage.producers)} producers append"
    )
    stage.linger(1.0)


def _kill_worker(stage: Stage, worker: WorkerProcess) -> float:
    """Returns how long it took until its partitions had other owners."""
    worker.kill()
    killed_at = time.monotonic()
    stage.look()
    lost = stage.owned(worker)
    stage.view.tell(f"{worker} killed with SIGKILL, the owner of {_names(lost)}")
    stage.until(lambda: not stage.owned(worker))
    moved_s = time.monotonic() - killed_at
    stage.view.tell(
        f"{_names(lost)} moved to {_owners(stage, lost)} after {moved_s:.1f} s: "
        f"{stage.session_s:g} s until ZooKeeper gave {worker} up, and the rest to claim them"
    )
    stage.linger(1.0)
    return moved_s


def _kill_leader(stage: Stage) -> float:
    """Returns how long it took until every partition was committed again."""
    leader = stage.ensemble.leader
    if leader is None:
        raise DemoFailed("the ensemble of ZooKeeper has no leader; run the demo again")
    epochs = {share.epoch for share in stage.shares}
    stage.ensemble.kill(leader)
    killed_at = time.monotonic()
    stage.look()
    before = {share.partition: share.offset for share in stage.shares}
    stage.view.tell(f"server {leader} of ZooKeeper, the leader of the three, killed with SIGKILL")
    stage.until(lambda: stage.ensemble.leader is not None)
    stage.view.tell(
        f"server {stage.ensemble.leader} leads after {time.monotonic() - killed_at:.1f} s"
    )
    stage.until(lambda: all(s.offset != before[s.partition] for s in stage.shares))
    led_s = time.monotonic() - killed_at
    moved = sum(share.epoch not in epochs for share in stage.shares)
    stage.view.tell(
        f"every partition is committed again after {led_s:.1f} s; "
        + (f"{moved} have new owners" if moved else "each has the owner that it had")
    )
    stage.linger(1.0)
    return led_s


def _freeze(stage: Stage, worker: WorkerProcess) -> None:
    """In mid-batch, until others have what it owned; its commit then comes too late."""
    stage.until(lambda: bool(stage.owned(worker)))
    _freeze_at_work(stage, worker)
    frozen_at = time.monotonic()
    lost = stage.owned(worker)
    refused = stage.ledger.refused[worker.number]
    stage.view.tell(f"{worker} frozen with SIGSTOP in mid-batch, the owner of {_names(lost)}")
    stage.until(lambda: not stage.owned(worker))
    took_s = time.monotonic() - frozen_at
    stage.view.tell(
        f"{_names(lost)} moved to {_owners(stage, lost)} after {took_s:.1f} s; "
        f"{worker} does not know"
    )
    stage.linger(0.5)
    worker.thaw()
    stage.until(lambda: stage.ledger.refused[worker.number] > refused)
    stage.linger(0.2)
    refused = stage.ledger.refused[worker.number] - refused
    stage.view.tell(f"{worker} woke up and ended its batches: {refused} commits refused")
    stage.until(lambda: stage.is_shared_out)
    worker.state = "recovered"
    stage.view.tell(f"{worker} joined again, and has {_names(stage.owned(worker))}")
    stage.linger(1.0)


def _freeze_at_work(stage: Stage, worker: WorkerProcess) -> None:
    """Until it is caught with a batch that has begun and not ended."""
    while True:
        worker.freeze()
        # What it sent before it froze is still carried out.
        stage.linger(0.05)
        owned = stage.owned(worker)
        if any(batch.partition in owned for batch in stage.ledger.under_way[worker.number]):
            return
        worker.thaw()
        worker.state = "alive"
        stage.linger(0.05)


def _names(partitions: list[int]) -> str:
    many = len(partitions) != 1
    return f"partition{'s' if many else ''} {', '.join(map(str, partitions)) or 'none'}"


def _owners(stage: Stage, partitions: list[int]) -> str:
    owners = sorted({s.owner for s in stage.shares if s.partition in partitions and s.owner})
    return f"worker{'s' if len(owners) > 1 else ''} {' and '.join(map(str, owners))}"


def _count(stage: Stage, moved_s: float, led_s: float, began_at: float) -> Outcome:
    frozen = stage.workers[-1].number
    appended = stage.appended
    readings = {p: examine(stage.ledger.records[p], n, frozen) for p, n in appended.items()}
    return Outcome(
        appended=sum(appended.values()),
        handled=sum(reading.handled for reading in readings.values()),
        skipped=sum(reading.skipped for reading in readings.values()),
        handled_more_than_once=sum(reading.repeated for reading in readings.values()),
        refused=sum(stage.ledger.refused.values()),
        moved_s=round(moved_s, 2),
        led_s=round(led_s, 2),
        seconds=round(time.monotonic() - began_at, 1),
        disagreements=find_disagreements(
            appended, readings, stage.log.info(), fsck.check(stage.client)
        ),
    )
