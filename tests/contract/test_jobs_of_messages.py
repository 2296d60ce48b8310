"""Jobs that a consumer sends: the same job for the same message is sent once, however often the
message comes.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import sending_for
from penstock.client.causes import Delivery
from penstock.codec.ids import id_number
from penstock.connection.job_ids import age_of
from penstock.errors import InvalidArgument, QueueFull
from tests.job_invariants import check_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.contract.job_workers import Hand
    from tests.servers import RedisCluster, RedisServer

pytestmark = pytest.mark.stores("debian")

FIRST, SECOND = "1763500000000-0", "1763500000000-1"


def message(id: str = FIRST, partition: int = 0) -> penstock.Message:
    return penstock.Message(partition, id.encode(), [b"body", b"x"])


def given(*ids: str, log: str = "clicks", group: str = "g", partition: int = 0) -> Delivery:
    """Messages as a consumer is given them, once more with each call."""
    return Delivery(log, group, [message(id, partition) for id in ids or (FIRST,)])


@penstock.job(queue="mail", type="email")
def email(number: int) -> int:
    return number


WAYS: dict[str, Callable[[penstock.Penstock], Any]] = {
    "one": lambda ps: [ps.jobs("mail").add("email", {"a": 1})],
    "many": lambda ps: ps.jobs("mail").add_many("email", range(300)),
    "a function": lambda ps: [email.on(ps).send(1)],
    "a function often": lambda ps: email.on(ps).send_many([(1,), (2,)]),
    "a function with options": lambda ps: [email.options(priority="high").on(ps).send(1)],
    "later": lambda ps: [ps.jobs("mail").add("email", 1, delay=60)],
    "at a time": lambda ps: [
        ps.jobs("mail").add("email", 1, run_at=datetime.now(UTC) + timedelta(hours=1))
    ],
    "with words": lambda ps: [ps.jobs("mail").add("email", {"to": "ann"}, search=True)],
    "as room comes": lambda ps: ps.jobs("mail").add_many("email", [1, 2], wait=1),
}


@pytest.mark.parametrize("send", WAYS.values(), ids=WAYS)
def test_what_a_message_sends_is_not_sent_again_when_the_message_comes_again(
    ps: penstock.Penstock, send: Callable[[penstock.Penstock], Any]
) -> None:
    with given():
        first = send(ps)
    with given():
        again = send(ps)

    assert [job.id for job in first] == [job.id for job in again]
    assert {job.is_new for job in first} == {True}
    assert {job.is_new for job in again} == {False}
    assert sum(ps.jobs("mail").counts().values()) == len(first)
    check_jobs(ps.store, ps.keys.queue("mail"))


def test_an_async_client_sends_for_a_message_too(
    ps: penstock.Penstock, any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    async def send(number: int) -> list[str]:
        async with await penstock.aconnect(any_store.url, namespace=namespace) as client:
            mail = client.jobs("mail")
            with given(FIRST, SECOND):
                # Each task has a copy of the context, and counts with the others.
                same = [asyncio.create_task(mail.add("email", 1)) for _ in range(number)]
                apart = await asyncio.to_thread(lambda: ps.jobs("mail").add("sms", 1).id)
            return [*sorted([(await job).id for job in same]), apart]

    first, again = asyncio.run(send(3)), asyncio.run(send(3))

    assert first == again
    assert len(set(first)) == 4
    assert ps.jobs("mail").counts()["ready"] == 4


def test_a_pool_knows_the_message_only_if_it_is_given_the_context(mail: penstock.Jobs) -> None:
    def send() -> bool:
        return mail.add("email", 1).is_new

    with given(), ThreadPoolExecutor(1) as pool:
        assert [pool.submit(send).result() for _ in range(2)] == [True, True]
        assert pool.submit(copy_context().run, send).result()
    with given():
        assert not send()


def test_ids_begin_with_the_time_of_the_message(mail: penstock.Jobs) -> None:
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    with given(f"{now_ms}-5"):
        job = mail.add("email")

    assert 0 <= age_of(id_number(job.id)) < 60
    with given("0-1"):
        assert mail.add("email").id < job.id


@pytest.mark.parametrize(
    "other",
    [
        given(SECOND), given(log="views"), given(group="h"), given(partition=1),
    ],
    ids=["offset", "log", "group", "partition"],
)  # fmt: skip
def test_equal_jobs_of_different_messages_are_all_sent(
    mail: penstock.Jobs, other: Delivery
) -> None:
    with given():
        mail.add("email", 1)
    with other:
        assert mail.add("email", 1).is_new


def test_what_differs_in_more_than_its_time_is_sent(ps: penstock.Penstock) -> None:
    with given():
        ps.jobs("mail").add("email", 1, tags=["a", "b"])
    with given():
        mail = ps.jobs("mail")
        assert not mail.add("email", 1, tags=["b", "a"], delay=5, timeout=3).is_new
        others: list[tuple[str, int, dict[str, Any]]] = [
            ("sms", 1, {}), ("email", 2, {}), ("email", 1, {"priority": "high"}),
            ("email", 1, {"tenant": "acme"}), ("email", 1, {"key": "host"}), ("email", 1, {}),
        ]  # fmt: skip
        assert all(mail.add(type, data, **options).is_new for type, data, options in others)
        assert ps.jobs("post").add("email", 1, tags=["a", "b"]).is_new


def test_in_another_order_nothing_is_lost_and_nothing_sent_twice(mail: penstock.Jobs) -> None:
    with given():
        mail.add("email", "a")
        mail.add("email", "b")
    with given():
        sent = [mail.add("email", data).is_new for data in ("c", "b", "a")]

    assert sent == [True, False, False]


def test_equal_jobs_of_one_message_are_counted(mail: penstock.Jobs) -> None:
    with given():
        mail.add_many("email", [1, 1])
    with given():
        sent = [mail.add("email", 1).is_new for _ in range(3)]

    assert sent == [False, False, True]


def test_a_job_that_was_done_is_not_run_again_and_one_that_was_removed_is(
    mail: penstock.Jobs, hand: Hand
) -> None:
    with given():
        done, removed = mail.add("email", 1), mail.add("email", 2)
    assert hand.run_all() == [1, 2]
    removed.remove()

    with given():
        again = [mail.add("email", number) for number in (1, 2)]

    assert [(job.id, job.is_new) for job in again] == [(done.id, False), (removed.id, True)]
    assert hand.run_all() == [2]


def test_what_there_was_no_room_for_is_not_counted(mail: penstock.Jobs) -> None:
    mail.configure(max_length=1)
    with given():
        mail.add("sms")
        for _ in range(2):
            with pytest.raises(QueueFull):
                mail.add("email")
        with pytest.raises(QueueFull):
            mail.add_many("email", [None, None, None])
        mail.configure(max_length=2)
        sent = mail.add("email")

    mail.configure(max_length=10)
    with given():
        again = mail.add("email")
    assert (again.id, again.is_new) == (sent.id, False)


def test_an_id_or_a_unique_key_of_the_user_is_kept(mail: penstock.Jobs, hand: Hand) -> None:
    id = penstock.new_job_id()
    with given():
        assert mail.add("email", 1, id=id).id == id
        mail.add("email", 2, unique="two")
        assert not mail.add("email", 2, unique="two").is_new
    hand.run_all()

    with given():
        assert not mail.add("email", 1, id=id).is_new
        assert mail.add("email", 2, unique="two").is_new


def test_only_the_same_batch_sends_nothing_twice_if_it_names_no_message(
    mail: penstock.Jobs,
) -> None:
    with given(FIRST, SECOND):
        mail.add_many("email", ["a", "b"])
    with given(FIRST, SECOND):
        assert not mail.add("email", "b").is_new
    # What is told of more messages, or of fewer, may be told in the same words.
    with given(FIRST, SECOND, "1763500000000-2"):
        assert mail.add("email", "a").is_new
    with given(FIRST):
        assert mail.add("email", "a").is_new


def test_a_consumer_of_batches_can_name_the_message(mail: penstock.Jobs) -> None:
    first, second = message(FIRST), message(SECOND)
    with given(FIRST, SECOND):
        for one in (first, second, first):
            with sending_for(one):
                mail.add("email")
        mail.add("sms")
    with given(SECOND), sending_for(second):
        again = [mail.add("email").is_new, mail.add("email").is_new]

    assert again == [False, True]
    with given(FIRST):
        assert [mail.add(type).is_new for type in ("email", "email")] == [False] * 2
    with given(FIRST, SECOND):
        assert not mail.add("sms").is_new


def test_many_jobs_can_be_sent_at_once_each_for_its_message(mail: penstock.Jobs) -> None:
    messages = [message(f"1763500000000-{number}") for number in range(250)]

    def items() -> Iterator[bytes]:
        for one in messages:
            with sending_for(one):
                yield one.body

    with given(*(one.id for one in messages)):
        mail.add_many("email", items())
    with given(messages[-1].id):
        assert not mail.add("email", b"x").is_new

    assert mail.counts()["ready"] == 250


def test_a_message_that_the_consumer_was_not_given_is_refused(mail: penstock.Jobs) -> None:
    with (
        given(FIRST),
        pytest.raises(InvalidArgument, match=r"message '1763500000000-1' of partition 0 is not"),
        sending_for(message(SECOND)),
    ):
        pass
    # Outside of a consumer, as when a test calls its function, nothing is known of messages.
    with sending_for(message(SECOND)):
        assert mail.add("email", 1).is_new
        assert mail.add("email", 1).is_new
