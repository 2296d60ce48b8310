"""Writes batches as Spark does: executors stage, a driver decides, then anybody moves."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

from penstock.codec.chunks import pack_chunk
from penstock.connection.staging import adecide_batch, adrop_stages, amove_batches, astage_chunk
from penstock.errors import BatchTooLarge, StageLost, StoreUnavailable
from penstock.model.staging import Stage
from tests.simulation.programs import Sleep
from tests.simulation.server import QUEUES

if TYPE_CHECKING:
    from tests.simulation.engine import Engine
    from tests.simulation.programs import Program

_ROOM, _LITTLE_ROOM = 100_000, 150
"""how many bytes may be staged for a batch"""
_PACE_MS = 150
_MOST_MOVES = 5
"""how often a writer tries to move what is left before it leaves that to others"""


class StagedChunk(NamedTuple):
    """A chunk of a partition: the strings it is made of, and the rows that are in them."""

    strings: list[bytes]
    rows: list[bytes]


class BatchName(NamedTuple):
    """What is written at most once."""

    queue: str
    batch: str
    version: int


class BatchWriter:
    """The executors and the driver of one batch, in one program."""

    def __init__(
        self, scheduler: Engine, program: Program, kind: Literal["tasks", "jobs"], name: BatchName
    ) -> None:
        self._scheduler = scheduler
        self._program = program
        self._kind = kind
        self._name = name
        self._store = program.client.store
        self._keys = program.client.keys.queue(name.queue)
        self._max_bytes = _LITTLE_ROOM if scheduler.random.random() < 0.05 else _ROOM

    async def write(self, partitions: list[list[StagedChunk]]) -> None:
        """All there is to a batch. Raises StoreUnavailable if it gives up."""
        random = self._scheduler.random
        try:
            stages = [await self._attempt(chunks) for chunks in partitions]
            if random.random() < 0.1:
                await self._give_up("batch given up")
                return
            await self._decide(stages)
        except StageLost:
            await self._give_up("stage lost, as its writer was told")
            return
        except BatchTooLarge:
            await self._give_up("batch too large")
            return
        if random.random() < 0.2:
            with suppress(BatchTooLarge):  # an executor that nobody waits for
                await self.stage(random.choice(partitions))
        if random.random() < 0.1:
            await self._give_up("batch given up after the decision")
        elif random.random() < 0.7:
            await self._move()

    async def stage(self, chunks: list[StagedChunk]) -> Stage:
        """One attempt at one partition, under a name that no other attempt has."""
        name = self._scheduler.new_stage()
        self._program.stages.append(name)
        batch = f"{self._name.batch}.{self._name.version}"
        for index, chunk in enumerate(chunks):
            self._scheduler.batches.offer(name, chunk.rows)
            packed = pack_chunk(chunk.strings)
            await astage_chunk(self._store, self._keys, batch, name, index, packed, self._max_bytes)
            await self._pause()
        rows = [row for chunk in chunks for row in chunk.rows]
        return Stage(name, len(chunks), len(rows), max(map(len, rows)))

    async def _attempt(self, chunks: list[StagedChunk]) -> Stage:
        """Sometimes two executors write the same partition, and one of them is committed."""
        first = await self.stage(chunks)
        if self._scheduler.random.random() < 0.75:
            return first
        self._scheduler.happened("partition written twice")
        return self._scheduler.random.choice((first, await self.stage(chunks)))

    async def _decide(self, stages: list[Stage]) -> None:
        names = [stage.name for stage in stages]
        try:
            is_new = await self._ask(stages)
        except StoreUnavailable:
            if self._scheduler.random.random() < 0.3:
                await self._give_up("batch given up, outcome unknown")
                raise
            self._scheduler.happened("batch committed again, outcome unknown")
            await self._ask(stages)
            return
        self._scheduler.batches.told(names, is_new)
        if self._scheduler.random.random() < 0.15:
            # A driver that starts again does not know that it has committed these stages before.
            self._scheduler.happened("batch committed again")
            await self._ask(stages)

    async def _ask(self, stages: list[Stage]) -> bool:
        queue, batch, version = self._name
        namespace = self._program.client.keys
        return await adecide_batch(
            self._store, namespace, queue, self._kind, batch, version, stages
        )

    async def _give_up(self, why: str) -> None:
        self._scheduler.happened(why)
        await adrop_stages(self._store, self._keys, self._program.stages)

    async def _move(self) -> None:
        for _ in range(_MOST_MOVES):
            moved = await amove_batches(self._store, self._keys, self._kind)
            if not moved.left or self._scheduler.is_draining:
                return
            self._scheduler.happened("batch waits for room")
            await self._pause()

    async def _pause(self) -> None:
        await Sleep(self._scheduler.random.expovariate(1 / _PACE_MS))


async def move_everything(
    scheduler: Engine, program: Program, kind: Literal["tasks", "jobs"]
) -> None:
    """Moves what was decided, as `penstock fsck --repair` does, until nothing is left."""
    client = program.client
    for name in QUEUES:
        while (await amove_batches(client.store, client.keys.queue(name), kind)).left:
            await Sleep(_PACE_MS)
