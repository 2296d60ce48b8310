# Generated from _async/log_batches.py by tools/generate_sync.py. Edit that file instead.

"""Writes batches to a log: staged in its partitions by many, decided once, moved by any client.

Partitions lie in slots of their own, so no one step can reach all of them. First every stage is
prepared, and so kept; then one step in the slot of the log decides; then each stage is moved. What
a client that dies leaves is finished by a worker that reads the log, the next write to it, or
`penstock fsck --repair`: the decision says which stages belong to the log.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from penstock.connection._sync.queues import in_queue
from penstock.errors import LogNotFound, StageLost
from penstock.model.numbers import whole_number
from penstock.model.staging import STAGE_MS
from penstock.store.commands import log_batches, logs, staging
from penstock.store.commands.logs import NoPartition
from penstock.store.foreign_entries import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.connection._sync.store import Store
    from penstock.model.logs import LogFacts
    from penstock.store.commands.log_batches import Prepared
    from penstock.store.keys import NamespaceKeys, PartitionKeys, QueueKeys

_NEVER_LATE_MS = 10**15
"""For a batch without rows, of which nothing is prepared."""


def open_log(store: Store, namespace: NamespaceKeys, name: str, partitions: int) -> LogFacts:
    """What a log says of itself; it is made with so many partitions if there is none."""
    keys = namespace.queue(name)
    try:
        return store.run(logs.describe_log(keys))
    except LogNotFound:
        return in_queue(
            store,
            namespace,
            name,
            lambda incarnation: store.run_once(
                lambda operation: logs.put_log(keys, operation, partitions, {}, incarnation)
            ),
        )


def append_batch(
    store: Store,
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
        facts = store.run(logs.describe_log(keys))
        if facts.born != born:
            raise NoPartition
        is_new = _decide(store, keys, facts, batch, version, stages)
        finish_batches(store, keys, facts)
    except (LogNotFound, NoPartition):
        raise StageLost(
            f"log {keys.queue!r} was deleted while batch {batch!r} was written, and with it what "
            "was staged; write the batch again"
        ) from None
    return is_new


def drop_stages(store: Store, keys: QueueKeys, stages: Mapping[int, Mapping[str, int]]) -> None:
    """Drop stages that were not prepared; those that were wait for the decision."""
    for number, names in stages.items():
        store.run(staging.drop_stages(keys.partition(number), list(names)))


def finish_batches(store: Store, keys: QueueKeys, facts: LogFacts) -> None:
    """Move what was decided, and drop what never will be: attempts of batches for which another one
    was decided, and what nobody has decided in a day.
    """
    found = [list_prepared(store, keys, number) for number in range(facts.partitions)]
    for batch in sorted({stage.batch for stages in found for stage in stages}):
        _finish(store, keys, facts, batch)


def list_prepared(store: Store, keys: QueueKeys, number: int) -> list[Prepared]:
    """The stages of a partition that wait for a decision, or to be moved; the oldest first."""
    key = keys.partition(number).prepared
    flat = store.call(key, "HGETALL", key)
    found = map(log_batches.open_prepared, flat[::2], flat[1::2])
    return sorted((each for each in found if each), key=lambda each: each.prepared_at)


def decided_attempt(store: Store, keys: QueueKeys, batch: str) -> tuple[int, str]:
    """The version of a batch that was decided, or -1, and the token of the attempt.

    In this order: if a next version is decided in between, the token is that of the newer one, and
    of the older one nothing is left to be moved.
    """
    version = store.call(keys.batches, "HGET", keys.batches, batch)
    token = store.call(keys.batch_tokens, "HGET", keys.batch_tokens, batch)
    number, text = whole_number(version or b""), text_of(token or b"")
    # Of what cannot be read nothing is moved or dropped; `penstock fsck` names it.
    return (-1, "") if number is None or not text else (number, text)


def _decide(
    store: Store,
    keys: QueueKeys,
    facts: LogFacts,
    batch: str,
    version: int,
    stages: Mapping[int, Mapping[str, int]],
) -> bool:
    token = secrets.token_hex(8)
    prepared_ms = _prepare(store, keys, facts, token, batch, version, stages)
    while True:
        finished = _finish(store, keys, facts, batch)
        decision = store.run(
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
                prepared_ms = _prepare(store, keys, facts, token, batch, version, stages)


def _prepare(
    store: Store,
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
        store.run(logs.open_partition(part, facts))
        command = log_batches.prepare_stages(part, facts.born, token, batch, version, names)
        prepared_ms.append(store.run(command))
    return min(prepared_ms, default=_NEVER_LATE_MS)


def _finish(store: Store, keys: QueueKeys, facts: LogFacts, batch: str) -> str:
    """Move what was decided for a batch, and drop its other attempts; returns the token of what was
    decided, or nothing.
    """
    version, token = decided_attempt(store, keys, batch)
    for number in range(facts.partitions):
        part = keys.partition(number)
        for stage in list_prepared(store, keys, number):
            if stage.batch != batch:
                continue
            if stage.token == token:
                while store.run(log_batches.move_messages(part, facts.born, stage.stage)):
                    pass
            elif stage.version <= version or _is_given_up(store, part, stage):
                store.run(log_batches.drop_prepared(part, stage.stage, stage.entry))
    return token


def _is_given_up(store: Store, keys: PartitionKeys, stage: Prepared) -> bool:
    """Whether it is so old, by the server's clock, that it is not decided any more."""
    now = (store.run(logs.describe_partition(keys))).now
    return now - stage.prepared_at > STAGE_MS / 1000
