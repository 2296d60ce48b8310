"""A feed with the source of a log: one batch at a time, in order, whatever happens to it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import penstock
from penstock.model.logs import Message
from penstock.model.workers import Lease
from penstock.store.command import Page
from penstock.store.commands.log_members import Read
from penstock.store.keys import NamespaceKeys
from penstock.worker.consumers import CONSUMER_MARK
from penstock.worker.feed import Feed
from penstock.worker.source import Begin, Request
from penstock.worker.sources.logs import LogSource
from tests.unit.test_feed import Slots

if TYPE_CHECKING:
    from penstock.executors.batch_context import BatchContext
    from penstock.worker.consumers import Consumer

KEYS = NamespaceKeys("ns").queue("clicks").partition(0)


def consumer_of(**options: Any) -> Consumer:
    def read(messages: list[Message]) -> None: ...

    [made] = getattr(penstock.consumer("clicks", "g", **options)(read), CONSUMER_MARK)
    assert not isinstance(made, str)
    return made  # type: ignore[no-any-return]


class World:
    """A feed of a partition, and what its driver would do with its steps."""

    def __init__(self, **options: Any) -> None:
        self.lease = Lease(3000)
        self.lease.renewed(math.inf)
        self.advanced: list[str] = []
        self.source = LogSource(
            *(KEYS, "ant", self.lease, consumer_of(**options), 7, "0-0", 1000),
            self.advanced.append,
        )
        self.feed = Feed(self.source, Slots(4), prefetches=False)
        self.now = 100.0
        self.asked: list[Request] = []
        self.begun: list[BatchContext] = []

    def steps(self) -> list[str]:
        said = []
        while (step := self.feed.next(self.now)) is not None:
            if isinstance(step, Request):
                self.asked.append(step)
                said.append(f"{step.purpose} after {self.source.position}")
            else:
                assert isinstance(step, Begin)
                self.begun += step.contexts  # type: ignore[arg-type]
                said.append("begin")
        return said

    @property
    def asked_for(self) -> int:
        """How many messages it has asked for at once."""
        assert isinstance(self.asked[-1].command, Page)
        return int(self.asked[-1].command.parts[-1])

    def answer(self, word: str, *ids: str, size: int = 4, **more: Any) -> list[str]:
        messages = [Message(0, id.encode(), [b"b", bytes(size)]) for id in ids]
        self.feed.answered(self.asked[-1], Read(word, messages, **more), self.now)
        return self.steps()

    def end(self, done: int | None = None, error: Exception | None = None) -> list[str]:
        """The batch that runs has ended, after so many messages."""
        context = self.begun[-1]
        context.done = len(context.messages) if done is None else done
        if error is not None:
            context.outcome, context.error = "failed", error
        self.feed.outcomes.append(context)
        self.feed.report(self.now)
        return self.steps()


def test_a_second_batch_is_asked_for_when_the_first_is_done() -> None:
    world = World(batch=10)
    assert world.steps() == ["claim after 0-0"]
    assert world.answer("ok", "1-0", "2-0") == ["begin"]
    world.feed.woken(world.now)
    assert world.steps() == []

    assert world.end() == ["claim after 2-0"]
    assert world.advanced == ["2-0"]
    assert world.feed.totals.finished == 2


def test_a_batch_is_as_large_as_a_page_of_a_few_megabytes_can_be() -> None:
    world = World(batch=10_000)
    world.steps()
    assert world.asked_for == 100, "nobody knows yet how large messages are"

    world.answer("ok", "1-0", "2-0")
    world.end()
    assert world.asked_for == 10_000
    world.answer("ok", "3-0", size=1024 * 1024)
    world.end()
    assert world.asked_for == 3
    world.answer("ok", "4-0", size=100 * 1024 * 1024)
    world.end()
    assert world.asked_for == 1


def test_with_nothing_there_it_waits_to_be_woken_and_tells_nobody() -> None:
    world = World(batch=10)
    world.steps()
    assert world.answer("empty") == []
    assert world.steps() == []

    world.feed.woken(world.now)

    assert world.steps() == ["claim after 0-0"]


def test_a_worker_that_stops_has_nothing_to_pass_on_or_give_back() -> None:
    world = World(batch=10)
    world.steps()

    assert world.feed.stopping() is None
    assert world.answer("ok", "1-0") == []
    assert world.feed.is_done


def test_after_a_failure_it_waits_and_then_reads_the_same_again() -> None:
    world = World(batch=10, attempts=3, backoff=5.0)
    world.now = world.source.holds_until
    world.steps()
    world.answer("ok", "1-0", "2-0")
    world.now = 0.0

    assert world.end(done=0, error=ValueError("no")) == []
    assert world.feed.wake_at == world.source.holds_until > 0
    world.feed.woken(world.now)
    assert world.steps() == []
    world.now = world.feed.wake_at

    assert world.steps() == ["claim after 0-0"]
    assert world.feed.totals.failed == 1


def test_a_batch_that_failed_for_good_comes_message_by_message() -> None:
    world = World(batch=10, attempts=1)
    world.steps()
    world.answer("ok", "1-0", "2-0", "3-0")

    assert world.end(done=0, error=ValueError("no")) == ["claim after 0-0"]
    world.answer("ok", "1-0")
    assert world.end() == ["claim after 1-0"]
    world.answer("ok", "2-0")
    assert world.end(done=0, error=ValueError("no")) == ["report after 1-0"]
    world.feed.answered(world.asked[-1], True, world.now)
    assert world.steps() == ["claim after 2-0"]
    assert world.source.position == "2-0"


def test_an_error_that_is_refused_says_that_the_partition_is_lost() -> None:
    world = World(batch=1, attempts=1)
    world.steps()
    world.answer("ok", "1-0")
    assert world.end(done=0, error=ValueError("no")) == ["report after 0-0"]

    world.feed.answered(world.asked[-1], False, world.now)

    assert world.steps() == []
    assert world.lease.is_lost
    assert world.advanced == []


def test_a_single_consumer_that_failed_goes_on_with_the_message_that_failed() -> None:
    world = World(attempts=2, backoff="none")
    world.steps()
    world.answer("ok", "1-0", "2-0", "3-0")
    world.now = 1e12

    assert world.end(done=1, error=ValueError("no")) == ["claim after 1-0"]
    assert world.advanced == ["1-0"]


def test_what_has_another_owner_is_lost() -> None:
    world = World(batch=10)
    world.steps()

    assert world.answer("lost") == []
    assert world.lease.is_lost


def test_a_gap_stops_the_partition_unless_told_otherwise() -> None:
    world = World(batch=10)
    world.steps()
    assert world.answer("trimmed", trimmed_to="5-0") == []
    assert "messages up to 5-0 are gone" in world.source.problem
    world.feed.woken(world.now)
    assert world.steps() == []

    other = World(batch=10, on_gap="skip")
    other.steps()
    assert other.answer("trimmed", trimmed_to="5-0") == []
    other.now = other.feed.wake_at
    assert other.steps() == ["claim after 5-0"]


def test_nothing_is_begun_before_the_last_batch_is_committed() -> None:
    world = World(batch=10, commit="each")
    world.steps()
    world.answer("ok", "1-0")

    assert world.end() == []
    world.source.committed()
    world.feed.look(world.now)

    assert world.steps() == ["claim after 1-0"]


def test_messages_for_another_group_are_passed_over() -> None:
    world = World(batch=10)
    world.steps()
    own = [b"b", b"body", b"k", b"", b"h", b"", b"t", b""]
    message = Message(0, b"1-0", [*own, b"g", b"another"])
    world.feed.answered(world.asked[-1], Read("ok", [message]), world.now)

    assert world.steps() == []
    assert world.advanced == ["1-0"]
    world.now = world.feed.wake_at
    assert world.steps() == ["claim after 1-0"]


def test_what_is_appended_and_what_other_groups_do_does_not_end_a_standstill() -> None:
    world = World(batch=1, attempts=2, backoff=5.0, on_failure="stop")
    world.steps()
    world.answer("ok", "1-0")
    world.end(done=0, error=ValueError("no"))
    retry_at = world.source.holds_until

    for message in (b"1700000000000-0", b"@other"):
        world.source.hear(KEYS.appended, message)
    assert world.source.holds_until == retry_at

    world.now = retry_at
    world.feed.look(world.now)
    world.steps()
    world.answer("ok", "1-0")
    world.end(done=0, error=ValueError("no"))
    for message in (b"1700000000000-0", b"@other"):
        world.source.hear(KEYS.appended, message)
    assert "failed 2 times" in world.source.problem

    world.source.hear(KEYS.appended, b"@g")
    assert not world.source.problem


def test_a_standstill_ends_with_a_new_subscription_as_the_message_may_be_missed() -> None:
    world = World(batch=1, attempts=1, on_failure="stop")
    world.steps()
    world.answer("ok", "1-0")
    world.end(done=0, error=ValueError("no"))
    assert world.source.problem

    world.feed.resubscribed(world.now)

    assert world.steps() == ["claim after 0-0"]
