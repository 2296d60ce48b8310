"""Random operations on a partition, beside a model that predicts what is there.

The clock is virtual: the scripts ask a key for the time.
"""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from penstock.client.fsck import read_log
from penstock.connection.address import parse_url
from penstock.connection.store import Store
from penstock.connection.wire import pack_ahead
from penstock.errors import OffsetRefused
from penstock.model.log_invariants import log_violations
from penstock.model.logs import Message, id_key
from penstock.model.snapshot import Snapshot
from penstock.store.command import Operation
from penstock.store.commands import log_groups, logs, queues
from penstock.store.keys import KeyName, NamespaceKeys
from penstock.store.script import SIMULATED
from tests.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator

EPOCH_MS = 1_700_000_000_000
EXPIRE_MS = 100_000
a_group = st.sampled_from(["g1", "g2"])
some_message = st.integers(0, 1000)
bounds = st.fixed_dictionaries(
    {
        "keep_count": st.sampled_from([None, None, 50, 300]),
        "keep_ms": st.sampled_from([None, None, 20_000, 90_000]),
        "max_bytes": st.sampled_from([None, None, None, 20_000]),
    }
)


class LogMachine(RuleBasedStateMachine):
    """Everything that producers, readers and operators can do, one request at a time."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.names = NamespaceKeys("model")
        self.log = self.names.queue("clicks")
        self.part = self.log.partition(0)
        self.operations = (Operation("lane", number) for number in count(1))
        self.now_ms = EPOCH_MS
        self.messages: list[Message] = []
        """all that were ever appended"""
        self.trimmed = 0
        self.may_be_lost = 0
        """up to where messages may be gone that a reader has not read"""
        self.offsets: dict[str, tuple[int, tuple[int, int], int]] = {}
        """reader -> epoch, offset, when it was seen"""
        self.errors: dict[str, int] = {"g1": 0, "g2": 0}
        self.settings: dict[str, int] = {}
        self.born = ""

    @initialize()
    def begin(self) -> None:
        self.store.call("{model}", "FLUSHALL")
        self.advance(0)
        self.run(queues.register_queue(self.names, "clicks", "i1"))
        self.configure({"keep_count": None, "keep_ms": None, "max_bytes": None}, "i1")

    @rule(ms=st.sampled_from([1, 1000, 30_000, 70_000]))
    def advance(self, ms: int) -> None:
        self.now_ms += ms
        key = self.names.simulated_clock
        self.store.call(key, "SET", key, self.now_ms)

    @rule(size=st.integers(1, 300), is_repeated=st.booleans())
    def append(self, size: int, is_repeated: bool) -> None:
        first = len(self.messages)
        bodies = [b"%d" % number for number in range(first, first + size)]
        operation = next(self.operations)
        command = logs.append_messages(self.part, operation, self.born, 1, pack_ahead([*bodies]))
        # What the settings keep no longer may go at once, so what came in is told by its ids.
        answers = {self.run(command) for _ in range(2 if is_repeated else 1)}
        [(id, added)] = answers
        assert added == size
        ms, number = id_key(id)
        self.messages += [
            Message(0, b"%d-%d" % (ms, number + index), [b"b", body])
            for index, body in enumerate(bodies)
        ]
        self.see_what_was_trimmed()

    @rule(given=bounds)
    def configure(self, given: dict[str, int | None], incarnation: str = "") -> None:
        changed: dict[str, int | None] = {**given, "expire_ms": EXPIRE_MS}
        facts = self.run(logs.put_log(self.log, next(self.operations), 1, changed, incarnation))
        self.run(logs.open_partition(self.part, facts))
        self.born, self.settings = facts.born, facts.settings

    @rule(group=a_group, start=st.sampled_from(["earliest", "latest"]))
    def take(self, group: str, start: str) -> None:
        command = log_groups.take_partition(
            self.part, next(self.operations), self.born, group, "w1", 0, start
        )
        epoch, offset, *_ = self.run(command)
        known = self.offsets.get(group)
        if known is not None:
            assert (epoch > known[0], id_key(offset)) == (True, known[1])
        elif start == "latest" and self.messages:
            assert id_key(offset) == id_key(self.messages[-1].id)
        else:
            assert id_key(offset) == self.trimmed_to()
        self.offsets[group] = (epoch, id_key(offset), self.now_ms)

    @rule(group=a_group, index=some_message, is_stale=st.booleans())
    def commit(self, group: str, index: int, is_stale: bool) -> None:
        if not self.messages:
            return
        id = self.messages[index % len(self.messages)].id
        epoch, offset, _ = self.offsets.get(group, (0, (0, 0), 0))
        asked = epoch - 1 if is_stale else epoch
        command = log_groups.commit_offset(self.part, group, asked, id)
        if epoch == 0 or is_stale or id_key(id) < offset:
            with pytest.raises(OffsetRefused):
                self.run(command)
            return
        self.run(command)
        self.offsets[group] = (epoch, id_key(id), self.now_ms)
        self.see_what_was_trimmed()

    @rule(group=a_group, index=some_message)
    def seek(self, group: str, index: int) -> None:
        if not self.messages:
            return
        id = self.messages[index % len(self.messages)].id
        before = self.offsets.get(group, (0, (0, 0), 0))[0]
        epoch = self.run(
            log_groups.seek_group(self.part, next(self.operations), self.born, group, id)
        )
        assert epoch > before
        self.offsets[group] = (epoch, id_key(id), self.now_ms)

    @rule(index=some_message, is_over=st.booleans())
    def mark(self, index: int, is_over: bool) -> None:
        id = self.messages[index % len(self.messages)].id if self.messages else "0-0"
        self.run(log_groups.mark_partition(self.part, self.born, "archive", "" if is_over else id))
        self.offsets.pop("archive", None)
        if not is_over:
            self.offsets["archive"] = (0, id_key(id), self.now_ms)

    @rule(group=a_group)
    def forget(self, group: str) -> None:
        known = self.run(log_groups.forget_group(self.part, next(self.operations), group))
        assert known == (self.offsets.pop(group, None) is not None)
        self.errors[group] = 0

    @rule(index=some_message, force=st.booleans(), by_settings=st.booleans())
    def trim(self, index: int, force: bool, by_settings: bool) -> None:
        before = "" if by_settings or not self.messages else self.message(index).id
        if force and before:
            self.may_be_lost = max(self.may_be_lost, index % len(self.messages))
        gone, _ = self.run(
            logs.trim_partition(self.part, next(self.operations), before, force and before != "")
        )
        was = self.trimmed
        for name, (_, _, seen) in list(self.offsets.items()):
            if seen <= self.now_ms - EXPIRE_MS:
                del self.offsets[name]
        self.see_what_was_trimmed()
        assert gone.messages == self.trimmed - was

    @rule(group=a_group, index=some_message)
    def give_up(self, group: str, index: int) -> None:
        if group not in self.offsets or self.offsets[group][0] == 0 or not self.messages:
            return
        epoch = self.offsets[group][0]
        message = self.message(index)
        self.run(
            log_groups.note_error(self.part, next(self.operations), group, epoch, message, "no", 1)
        )
        self.errors[group] += 1

    @rule(group=a_group)
    def replay(self, group: str) -> None:
        key = self.part.errors(group)
        kept = log_groups.open_errors(0, self.store.call(key, "XRANGE", key, "-", "+"))
        last = self.messages[-1].id if self.messages else "0-0"
        replayed = self.run(
            log_groups.replay_errors(
                *(self.part, next(self.operations), self.born, group),
                [error.id for error in kept] or ["1-1"],
            )
        )
        assert replayed == self.errors[group]
        key = self.part.messages
        again = logs.open_entries(0, self.store.call(key, "XRANGE", key, f"({last}", "+"))
        assert [(m.body, m.only_for) for m in again] == [(e.message.body, group) for e in kept]
        self.messages += again
        self.errors[group] = 0

    @invariant()
    def everything_is_as_predicted(self) -> None:
        if not self.born:
            return
        key = self.part.messages
        found = logs.open_entries(0, self.store.call(key, "XRANGE", key, "-", "+"))
        assert found == self.messages[self.trimmed :]
        info = self.run(logs.describe_partition(self.part))
        assert (info.added, info.trimmed) == (len(self.messages), self.trimmed)
        assert {r.name: (r.epoch, id_key(r.offset)) for r in info.readers} == {
            name: entry[:2] for name, entry in self.offsets.items()
        }
        for lag in self.run(log_groups.count_lag(self.part)):
            offset = self.offsets[lag.reader][1]
            behind = [m for m in self.messages[self.trimmed :] if id_key(m.id) > offset]
            assert lag.messages == len(behind)
        names = [KeyName("clicks", "state", "", 0)]
        snapshot = read_log(self.store, self.log, names)
        assert log_violations(Snapshot(logs={"clicks": snapshot})) == []

    def see_what_was_trimmed(self) -> None:
        """Never less than before, and nothing that a reader needs unless it was said so."""
        info = self.run(logs.describe_partition(self.part))
        assert info.trimmed >= self.trimmed
        is_capped = "max_bytes" in self.settings
        for epoch, offset, seen in self.offsets.values():
            if seen > self.now_ms - EXPIRE_MS and not is_capped:
                needed = sum(id_key(m.id) <= offset for m in self.messages)
                assert info.trimmed <= max(needed, self.may_be_lost, self.trimmed), epoch
        self.trimmed = info.trimmed
        assert id_key(info.trimmed_to or "0-0") == self.trimmed_to()

    def trimmed_to(self) -> tuple[int, int]:
        return id_key(self.messages[self.trimmed - 1].id) if self.trimmed else (0, 0)

    def message(self, index: int) -> Message:
        return self.messages[index % len(self.messages)]

    def run(self, command: Any) -> Any:
        return self.store.run(command)


@pytest.fixture
def simulated_store() -> Iterator[Store]:
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder)).start()
        store = Store(parse_url(server.url), dialect=SIMULATED)
        yield store
        store.close()
        server.kill()


@pytest.mark.timeout(900)  # a failure takes its time to be made small
def test_random_operations_do_what_the_model_says(simulated_store: Store) -> None:
    run_state_machine_as_test(
        lambda: LogMachine(simulated_store),  # type: ignore[arg-type]
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
