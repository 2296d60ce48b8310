"""Writes batches to a log: staged in its partitions by many, decided once, moved by any client.

Partitions lie in slots of their own, so no one step can reach all of them. First every stage is
prepared, and so kept; then one step in the slot of the log decides; then each stage is moved. What
a client that dies leaves is finished by a worker that reads the log, the next write to it, or
`penstock fsck --repair`: the decision says which stages belong to the log.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from penstock.connection._async.queues import in_queue
from penstock.errors import LogNotFound, StageLost
from penstock.model.numbers import whole_number
from penstock.model.staging import STAGE_MS
from penstock.store.commands import log_batches, logs, staging
from penstock.store.commands.logs import NoPartition
from penstock.store.foreign_entries import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.connection._async.store import AsyncStore
    from penstock.model.logs import LogFacts
    from penstock.store.commands.log_batches import Prepared
    from penstock.store.keys import NamespaceKeys, PartitionKeys, QueueKeys

_NEVER_LATE_MS = 10**15
"""For a batch without rows, of which nothing is prepared."""


async def open_log(
    store: AsyncStore, namespace: NamespaceKeys, name: str, partitions: int
) -> LogFacts:
    """What a log says of itself; it is made with so many partitions if there is none."""
    keys = namespace.queue(name)
    try:
        return await store.run(logs.describe_log(keys))
    except LogNotFound:
        return await in_queue(
            store,
            namespace,
            name,
            lambda incarnation: store.run_once(
                lambda operation: logs.put_log(keys, operation, partitions, {}, incarnation)
            ),
        )


async def append_batch(
    store: AsyncStore,
    keys: QueueKeys,
    born: str,
    batch: str,
    version: int,
    stages: Mapping[int, Mapping[str, int]],
) -> bool:
    """Make stages (partition -> stage -> chunks) part of the log, all or none, and move them there,
    with whatever others have left; False if the batch was decided
    before, in which case that is finished. Raises StageLost if the log was made anew meanwhile.
    """
    try:
        facts = await store.run(logs.describe_log(keys))
        if facts.born != born:
            raise NoPartition
        is_new = await _decide(store, keys, facts, batch, version, stages)
        await finish_batches(store, keys, facts)
    except (LogNotFound, NoPartition):
        raise StageLost(
            f"log {keys.queue!r} was deleted while batch {batch!r} was written, and with it what "
            "was staged; write the batch again"
        ) from None
    return is_new


async def drop_stages(
    store: AsyncStore, keys: QueueKeys, stages: Mapping[int, Mapping[str, int]]
) -> None:
    """Drop stages that were not prepared; those that were wait for the decision."""
    for number, names in stages.items():
        await store.run(staging.drop_stages(keys.partition(number), list(names)))


async def finish_batches(store: AsyncStore, keys: QueueKeys, facts: LogFacts) -> None:
    """Move what was decided, and drop what never will be: attempts of batches for which another one
    was decided, and what nobody has decided in a day.
    """
    found = [await list_prepared(store, keys, number) for number in range(facts.partitions)]
    for batch in sorted({stage.batch for stages in found for stage in stages}):
        await _finish(store, keys, facts, batch)


async def list_prepared(store: AsyncStore, keys: QueueKeys, number: int) -> list[Prepared]:
    """The stages of a partition that wait for a decision, or to be moved; the oldest first."""
    key = keys.partition(number).prepared
    flat = await store.call(key, "HGETALL", key)
    found = map(log_batches.open_prepared, flat[::2], flat[1::2])
    return sorted((each for each in found if each), key=lambda each: each.prepared_at)


async def decided_attempt(store: AsyncStore, keys: QueueKeys, batch: str) -> tuple[int, str]:
    """The version of a batch that was decided, or -1, and the token of the attempt.

    In this order: if a next version is decided in between, the token is that of the newer one, and
    of the older one nothing is left to be moved.
    """
    version = await store.call(keys.batches, "HGET", keys.batches, batch)
    token = await store.call(keys.batch_tokens, "HGET", keys.batch_tokens, batch)
    number, text = whole_number(version or b""), text_of(token or b"")
    # Of what cannot be read nothing is moved or dropped; `penstock fsck` names it.
    return (-1, "") if number is None or not text else (number, text)


async def _decide(
    store: AsyncStore,
    keys: QueueKeys,
    facts: LogFacts,
    batch: str,
    version: int,
    stages: Mapping[int, Mapping[str, int]],
) -> bool:
    token = secrets.token_hex(8)
    prepared_ms = await _prepare(store, keys, facts, token, batch, version, stages)
    while True:
        finished = await _finish(store, keys, facts, batch)
        decision = await store.run(
            log_batches.decide_append(
                keys, facts.born, batch, version, token, finished, prepared_ms
            )
        )
        match decision.answer:
            case "ok" | "known":
                return decision.answer == "ok"
            case "no_log":
                raise NoPartition
            case "too_late":
                prepared_ms = await _prepare(store, keys, facts, token, batch, version, stages)


async def _prepare(
    store: AsyncStore,
    keys: QueueKeys,
    facts: LogFacts,
    token: str,
    batch: str,
    version: int,
    stages: Mapping[int, Mapping[str, int]],
) -> int:
    """Keep all stages; returns when that began (ms)."""
    prepared_ms = []
    for number, names in stages.items():
        part = keys.partition(number)
        await store.run(logs.open_partition(part, facts))
        command = log_batches.prepare_stages(part, facts.born, token, batch, version, names)
        prepared_ms.append(await store.run(command))
    return min(prepared_ms, default=_NEVER_LATE_MS)


async def _finish(store: AsyncStore, keys: QueueKeys, facts: LogFacts, batch: str) -> str:
    """Move what was decided for a batch, and drop its other attempts; returns the token of what was
    decided, or nothing.
    """
    version, token = await decided_attempt(store, keys, batch)
    for number in range(facts.partitions):
        part = keys.partition(number)
        for stage in await list_prepared(store, keys, number):
            if stage.batch != batch:
                continue
            if stage.token == token:
                while await store.run(log_batches.move_messages(part, facts.born, stage.stage)):
                    pass
            elif stage.version <= version or await _is_given_up(store, part, stage):
                await store.run(log_batches.drop_prepared(part, stage.stage, stage.entry))
    return token


async def _is_given_up(store: AsyncStore, keys: PartitionKeys, stage: Prepared) -> bool:
    """Whether it is so old, by the server's clock, that it is not decided any more."""
    now = (await store.run(logs.describe_partition(keys))).now
    return now - stage.prepared_at > STAGE_MS / 1000
