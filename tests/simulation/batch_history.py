"""What writers of batches were told, held against what is staged and what gets into the queues."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.model.batch_invariants import batch_violations
from penstock.model.snapshot import Snapshot
from tests.simulation.server import Violated

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.simulation.arguments import Arguments
    from tests.simulation.batches_look import RowsOf, Staging

_MOVES = ("move_tasks", "move_jobs")
_DELETES = ("delete_queue", "delete_jobs")


class BatchStep(NamedTuple):
    """What one command did to the batches of one queue."""

    name: str
    arguments: Arguments
    reply: list[Any]
    is_repetition: bool
    queue: str
    old: Staging
    new: Staging


class Decided(NamedTuple):
    """A stage that was decided to be in a queue."""

    stage: str
    rows: deque[bytes]
    """what is still to be moved, the next one first"""


class BatchHistory:
    """Every batch that was written: what of it has to get into which queue, and what must not."""

    def __init__(self, sometimes: Counter[str], rows_of: RowsOf) -> None:
        self.sometimes = sometimes
        self._rows_of = rows_of
        self._offered: dict[str, list[bytes]] = {}
        """stage -> its rows in order, as its writer made them"""
        self._rows: set[bytes] = set()
        """every row of every batch"""
        self._moving: defaultdict[str, deque[Decided]] = defaultdict(deque)
        """queue -> its decided stages, the next to be moved first"""
        self._versions: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """queue -> the batches that it should remember"""
        self._ever_decided: set[str] = set()
        """stages"""
        self._orphans: set[str] = set()
        """decided stages whose writer crashed before all was moved"""

    # What writers do and were told.

    def offer(self, stage: str, rows: Iterable[bytes]) -> None:
        """A writer is about to stage these rows under this name."""
        self._offered.setdefault(stage, []).extend(rows)
        self._rows.update(rows)

    def told(self, stages: Sequence[str], is_new: bool) -> None:
        """A driver that asked once was told whether its batch was decided with these stages."""
        decided = [stage for stage in stages if stage in self._ever_decided]
        if decided != (list(stages) if is_new else []):
            word = "decided" if is_new else "known"
            raise Violated(f"a batch with {stages} was said to be {word}, and {decided} are in it")

    def writer_crashed(self, stages: Iterable[str]) -> None:
        """The program that wrote these stages is gone."""
        left = {decided.stage for moving in self._moving.values() for decided in moving}
        if self._ever_decided.isdisjoint(stages):
            self.sometimes["writer crashed before the decision"] += 1
        elif not left.isdisjoint(stages):
            self._orphans |= left.intersection(stages)
            self.sometimes["writer crashed after the decision"] += 1

    # What happened.

    def observe(self, step: BatchStep, came: list[bytes], merged: int = 0) -> list[bytes]:
        """One command has run, by which these rows came into the queue, in this order; `merged`
        jobs of a batch were not added, as others had their unique key: returns those.
        """
        skipped: list[bytes] = []
        if not step.is_repetition:
            if step.name == "decide_batch":
                self._decided(step)
            elif step.name in _DELETES:
                self._deleted(step)
        if step.name in _MOVES and not step.is_repetition:
            skipped = self._moved(step, came, merged)
        else:
            for row in self._rows.intersection(came):
                raise Violated(f"{row!r} of a batch came into {step.queue} by {step.name}")
        if step.new is not step.old or came:
            self._check(step)
        return skipped

    def left(self) -> list[bytes]:
        """Rows that were decided to be in a queue and did not get there."""
        return [row for queue in self._moving for row in self.left_in(queue)]

    def left_in(self, queue: str) -> list[bytes]:
        return [row for decided in self._moving[queue] for row in decided.rows]

    def _decided(self, step: BatchStep) -> None:
        queue, versions = step.queue, self._versions[step.queue]
        batch, version = step.arguments["batch"], step.arguments["version"]
        stages = [key.partition(":stage:")[2] for key in step.arguments["stage"]]
        is_known = versions.get(batch, -1) >= version
        match step.reply[0]:
            case b"ok":
                if is_known:
                    raise Violated(f"version {version} of {batch!r} was decided twice in {queue}")
                versions[batch] = version
                for stage in stages:
                    self._moving[queue].append(Decided(stage, deque(self._offered[stage])))
                self._ever_decided.update(stages)
                self.sometimes["batch decided"] += 1
            case b"known":
                if not is_known:
                    raise Violated(f"{batch!r} was said to be known in {queue}, and is not")
                self.sometimes["batch known"] += 1
            case b"stage_lost":
                self.sometimes["stage lost"] += 1

    def _deleted(self, step: BatchStep) -> None:
        if step.reply[0] != b"ok":
            return
        if self._moving[step.queue]:
            self.sometimes["queue deleted with a batch on its way"] += 1
        self._moving[step.queue].clear()
        if not step.new.batches:
            self._versions[step.queue].clear()

    def _moved(self, step: BatchStep, came: list[bytes], merged: int) -> list[bytes]:
        """Rows come in their order, those of a stage after those of the stage before."""
        wanted = deque(came)
        skipped: list[bytes] = []
        for _ in range(len(came) + merged):
            row = self._next_row(step, wanted)
            if wanted and wanted[0] == row:
                wanted.popleft()
            else:
                skipped.append(row)
            if len(skipped) > merged:
                raise Violated(f"{list(wanted)} came into {step.queue}, and {row!r} is next")
        if step.reply[0] == b"ok" and step.old.chunks == step.new.chunks:
            self.sometimes["chunk moved in part"] += 1
        elif step.reply[0] == b"taken":
            self.sometimes["ids of a move were taken"] += 1
        return skipped

    def _next_row(self, step: BatchStep, wanted: deque[bytes]) -> bytes:
        moving = self._moving[step.queue]
        if not moving:
            raise Violated(f"{list(wanted)} came into {step.queue}, and nothing was to be moved")
        stage, rows = moving[0]
        if stage in self._orphans:
            self.sometimes["batch of a crashed writer moved"] += 1
        row = rows.popleft()
        if not rows:
            moving.popleft()
        return row

    def _check(self, step: BatchStep) -> None:
        """What is stored for batches that were decided is what is still to be moved."""
        queue, new = step.queue, step.new
        found = batch_violations(Snapshot(batches={queue: new.snapshot}))
        if found:
            raise Violated("\n".join(f"{v.invariant} {v.queue}: {v.message}" for v in found))
        expiring = new.expiring.intersection(new.decided)
        if expiring:
            raise Violated(f"{sorted(expiring)} are decided to be in {queue} and will expire")
        should = [(stage, list(rows)) for stage, rows in self._moving[queue]]
        stored = [(stage, self._stored_rows(new, stage)) for stage in new.decided]
        if stored != should:
            raise Violated(f"{should} are to be moved into {queue}, and {stored} are stored")
        rows = sum(len(rows) for _, rows in should)
        if new.staged != rows:
            raise Violated(f"{rows} rows are to be moved into {queue}, and {new.staged} counted")

    def _stored_rows(self, staging: Staging, stage: str) -> list[bytes]:
        chunks = staging.stages[stage]
        return [row for index in sorted(chunks) for row in self._rows_of(chunks[index])]
