"""One command of every script on logs, and a log in which each of them has something to do."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from penstock.codec.chunks import pack_chunk
from penstock.connection.wire import pack_ahead
from penstock.model.logs import LogFacts, Message
from penstock.store.command import Command, Operation
from penstock.store.commands import log_batches, log_groups, log_members, logs, queues, staging
from penstock.store.script import scripts

if TYPE_CHECKING:
    from penstock.connection.store import Store
    from penstock.store.keys import NamespaceKeys

LOG = "mail"
SCRIPTS = {script.name: script for script in scripts("logs")}
"""Every script on logs, by name."""
LANE = "sample"
GROUP = "sessions"
NO_LOG = {
    "entry": "t1 0 1 2 b1",
    "born": "1",
    "epoch": 1,
    "error": "1-0",
    "old": "1-0",
    "last": "2-0",
    "read": "1-0",
}
"""What a sample that is never sent is about."""


def sample_log_world(store: Store, keys: NamespaceKeys) -> dict[str, Any]:
    """A log with one partition and every kind of key in use: 300 messages, of which the first 128
    are trimmed; a group that has read 10 of the others and has given one up, and an archive. The
    lane of the samples has been in use in both slots.
    """
    log, part = keys.queue(LOG), keys.queue(LOG).partition(0)
    operations = (Operation(LANE, number) for number in count(1))
    run = store.run
    run(queues.register_queue(keys, LOG, "i1"))
    facts = run(logs.put_log(log, next(operations), 1, {"keep_count": 100}, "i1"))
    run(logs.open_partition(part, facts))
    run(log_groups.note_group(log, GROUP))
    bodies = pack_ahead([b"%d" % index for index in range(300)])
    run(logs.append_messages(part, next(operations), facts.born, 1, bodies))
    entries = store.call(part.messages, "XRANGE", part.messages, "-", "+", "COUNT", 20)
    found = logs.open_entries(0, entries)
    taken = run(log_groups.take_partition(part, next(operations), facts.born, GROUP, "w1"))
    run(log_groups.commit_offset(part, GROUP, taken.epoch, found[9].id))
    run(log_groups.note_death(part, "w1", "signal 11"))
    run(log_members.try_message(part, GROUP, taken.epoch, found[9].id))
    run(log_groups.mark_partition(part, facts.born, "archive", found[5].id))
    error = run(
        log_groups.note_error(part, next(operations), GROUP, taken.epoch, found[3], "no", 5)
    )
    run(log_members.keep_member(log, GROUP, "w1", 60_000, 1, 1, joins=True))
    run(log_members.own_partition(log, GROUP, "w1", 0))
    run(log_members.pause_reading(part, facts.born, "others", is_paused=True))
    chunk = pack_chunk([b"a", b"", b"", b"", b"b", b"k", b"", b""])
    run(staging.stage_chunk(part, "b1", "s1", 0, chunk, 10**6))
    run(staging.stage_chunk(part, "b2", "s2", 0, chunk, 10**6))
    run(log_batches.prepare_stages(part, facts.born, "t1", "b1", 0, {"s1": 1}))
    run(log_batches.decide_append(log, facts.born, "b1", 0, "t1", "", 10**13))
    return {
        "entry": store.call(part.prepared, "HGET", part.prepared, "s1").decode(),
        "born": facts.born,
        "epoch": taken.epoch,
        "error": error,
        "old": found[2].id,
        "last": found[15].id,
        "read": found[9].id,
    }


def sample_log_commands(
    keys: NamespaceKeys, world: dict[str, Any], number: int = 100
) -> dict[str, Command[Any]]:
    """Script -> a command of it, with two of whatever it takes any number of."""
    log, part = keys.queue(LOG), keys.queue(LOG).partition(0)
    operation = Operation(LANE, number)
    born, epoch = world["born"], world["epoch"]
    facts = LogFacts(LOG, born, 1, 2, {"keep_count": 50}, {})
    two = pack_ahead([b"x", b"y"])
    commands: list[Command[Any]] = [
        logs.put_log(log, operation, 2, {"keep_count": 50}),
        logs.describe_log(log),
        logs.open_partition(part, facts),
        logs.append_messages(part, operation, born, 1, two),
        logs.describe_partition(part),
        logs.describe_range(part, world["old"], world["last"], 5, 2),
        logs.trim_partition(part, operation, world["last"], force=True),
        logs.delete_log(log, operation),
        logs.delete_partition(part, born, [GROUP, "others"]),
        log_batches.prepare_stages(part, born, "t2", "b2", 0, {"s2": 1, "s1": 1}),
        log_batches.decide_append(log, born, "b1", 1, "t2", "t1", 10**13),
        log_batches.move_messages(part, born, "s1"),
        log_batches.drop_prepared(part, "s1", world["entry"]),
        log_groups.note_group(log, "others"),
        log_groups.take_partition(part, operation, born, GROUP, "w2"),
        log_groups.commit_offset(part, GROUP, epoch, world["last"]),
        log_groups.seek_group(part, operation, born, GROUP, world["old"]),
        log_groups.mark_partition(part, born, "archive", world["last"]),
        log_groups.forget_group(part, operation, GROUP),
        log_groups.note_error(part, operation, GROUP, epoch, MESSAGE, "no", 5),
        log_groups.note_death(part, "w1", "signal 9"),
        log_groups.replay_errors(part, operation, born, GROUP, [world["error"], "1-1"]),
        log_groups.count_lag(part),
        log_members.keep_member(log, GROUP, "w1", 60_000, 1, 1),
        log_members.own_partition(log, GROUP, "w1", 0),
        log_members.disown_partitions(log, GROUP, "w1", 0),
        log_members.check_reading(part, GROUP, epoch, world["old"]),
        log_members.try_message(part, GROUP, epoch, world["read"]),
        log_members.pause_reading(part, born, "others", is_paused=False),
    ]
    return {command.script.name: command for command in commands}


def more_log_commands(
    keys: NamespaceKeys, world: dict[str, Any], number: int = 100
) -> dict[str, Command[Any]]:
    """What the same scripts also do -> a command that makes them do it."""
    log, part = keys.queue(LOG), keys.queue(LOG).partition(0)
    operation = Operation(LANE, number)
    born = world["born"]
    newer = LogFacts(LOG, f"{born}9", 1, 1, {}, {})
    keyed, full = pack_ahead([b"x", b"k"]), pack_ahead([b"x", b"k", b'{"a":"b"}', b"5"])
    return {
        "append with a key": logs.append_messages(part, operation, born, 2, keyed),
        "append with all": logs.append_messages(part, operation, born, 4, full),
        "open for a newer log": logs.open_partition(part, newer),
        "trim by the settings": logs.trim_partition(part, operation),
        "trim what was read": logs.trim_partition(part, operation, world["last"]),
        "lift a bound": logs.put_log(log, operation, 1, {"keep_count": None}),
        "take as another group": log_groups.take_partition(
            part, operation, born, "others", "w2", 0, "latest"
        ),
        "end a mark": log_groups.mark_partition(part, born, "archive", ""),
        "take a group off": log_groups.note_group(log, GROUP, reads=False),
        "join a group": log_members.keep_member(log, GROUP, "w2", 60_000, 2, 1, joins=True),
        "leave a group": log_members.disown_partitions(log, GROUP, "w1"),
        "pause a group": log_members.pause_reading(part, born, GROUP, is_paused=True),
    }


MESSAGE = Message(0, b"5-0", [b"b", b"body"])
