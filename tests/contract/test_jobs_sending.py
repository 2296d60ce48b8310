"""Jobs on their way in: what was sent is what is there, once, however often it was sent."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.codec.ids import id_text
from penstock.errors import (
    InvalidArgument,
    JobConflict,
    PayloadTooLarge,
    QueueFull,
    StoreError,
    Unserialisable,
    WrongKind,
)
from tests.conftest import EVERY_VERSION
from tests.contract.job_workers import Hand, written
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.contract.conftest import Ear
    from tests.servers import RedisCluster, RedisServer
    from tests.stored import Stored

pytestmark = pytest.mark.stores(*EVERY_VERSION)


def test_a_new_job_is_ready_and_has_everything_that_was_said(mail: penstock.Jobs) -> None:
    job = mail.add(
        "email",
        {"to": "ann"},
        priority="high",
        attempts=3,
        timeout=30,
        tenant="acme",
        key="smtp.example",
        tags=["x", "y", "x"],
        unique="k",
    )

    info = job.info()
    assert job.is_new
    assert (info.id, info.queue, info.type, info.state) == (job.id, "mail", "email", "ready")
    assert json.loads(info.data) == {"to": "ann"}
    assert (info.priority, info.attempts, info.timeout_s) == (-10, 3, 30.0)
    assert (info.tenant, info.key, info.tags, info.unique) == (
        *("acme", "smtp.example"),
        ("x", "y"),
        "k",
    )
    assert (info.failures, info.crashes, info.attempts_made) == (0, 0, 0)
    assert info.created_at == info.due_at > 0
    assert (info.started_at, info.finished_at, info.worker, info.reason) == (0, 0, "", "")
    assert (info.progress, info.error, info.outcome) == (None, None, b"")


@pytest.mark.parametrize(
    "data", [b"", b"\x00\xff\xfe", b"j", b"x" * 100_000], ids=["none", "any", "one", "many"]
)
def test_bytes_are_kept_verbatim(mail: penstock.Jobs, hand: Hand, data: bytes) -> None:
    job = mail.add("email", data)

    assert job.info().data == data
    assert hand.take_one().data == data


@pytest.mark.parametrize(
    "data", [None, True, 0, -1.5, "ä\u2028", [1, [2]], {"a": {"b": None}}, 2**70], ids=str
)
def test_anything_that_json_has_comes_back_equal(mail: penstock.Jobs, data: Any) -> None:
    assert json.loads(mail.add("email", data).info().data) == data


def test_names_may_be_any_text(mail: penstock.Jobs, hand: Hand) -> None:
    name = "ä :{}*?[]\u2028" * 9
    job = mail.add(name, 1, tenant=name, key=name, tags=[name], unique=name)

    assert hand.take_one().type == name
    assert job.info().tags == (name,)
    assert mail.counts(tenant=name)["running"] == mail.counts(tag=name)["running"] == 1


def test_many_jobs_are_sent_in_their_order(mail: penstock.Jobs, hand: Hand) -> None:
    jobs = mail.add_many("email", range(2_500), tags=["bulk"])

    assert len({job.id for job in jobs}) == 2_500
    assert mail.counts(tag="bulk")["ready"] == 2_500
    assert [json.loads(job.data) for job in hand.take(1000)] == list(range(1000))


def test_sending_nothing_changes_nothing(mail: penstock.Jobs, stored: Stored) -> None:
    assert mail.add_many("email", []) == []

    assert stored.everything() == {}


def test_a_job_sent_again_under_its_id_is_not_added_twice(mail: penstock.Jobs) -> None:
    id = penstock.new_job_id()

    first = mail.add("email", {"a": 1}, id=id)
    again = mail.add("email", {"a": 1}, id=id)

    assert (first.id, again.id) == (id, id)
    assert (first.is_new, again.is_new) == (True, False)
    assert mail.counts()["ready"] == 1


def test_a_job_sent_again_under_its_id_after_it_was_done_is_not_run_again(
    mail: penstock.Jobs, hand: Hand
) -> None:
    id = penstock.new_job_id()
    mail.add("email", 1, id=id)
    assert hand.run_all() == [1]

    assert not mail.add("email", 1, id=id).is_new

    assert hand.run_all() == []


@pytest.mark.parametrize(
    ("data", "options"), [({"a": 2}, {}), ({"a": 1}, {"priority": "high"})], ids=["data", "options"]
)
def test_an_id_that_belongs_to_another_job_is_refused(
    mail: penstock.Jobs, stored: Stored, data: Any, options: Any
) -> None:
    id = penstock.new_job_id()
    mail.add("email", {"a": 1}, id=id)
    before = written(stored)

    with pytest.raises(JobConflict, match=f"the id '{id}' belongs to another job of queue 'mail'"):
        mail.add("email", data, id=id, **options)

    assert written(stored) == before


def test_ids_grow_so_that_they_sort_as_they_were_made(mail: penstock.Jobs) -> None:
    ids = [mail.add("email").id for _ in range(20)] + [penstock.new_job_id()]

    assert ids == sorted(ids)


def test_a_queue_holds_either_tasks_or_jobs(ps: penstock.Penstock, mail: penstock.Jobs) -> None:
    mail.add("email")
    ps.queue("plain").enqueue(b"a")

    with pytest.raises(WrongKind, match="queue 'plain' holds plain tasks"):
        ps.jobs("plain").add("email")
    with pytest.raises(WrongKind, match="queue 'mail' holds jobs"):
        ps.queue("mail").enqueue(b"a")
    with pytest.raises(WrongKind, match="queue 'plain' holds plain tasks"):
        Hand(ps, "wrong", queue="plain")


def test_a_job_too_large_is_refused_and_those_before_it_are_counted(
    any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    with penstock.connect(any_store.url, namespace=namespace, max_payload=100) as ps:
        mail = ps.jobs("mail")
        with pytest.raises(PayloadTooLarge, match="101 bytes long and 100 is the limit"):
            mail.add("email", b"x" * 101)
        with pytest.raises(PayloadTooLarge) as caught:
            mail.add_many("email", [b"x", b"x", b"x" * 101])

        assert caught.value.accepted == 0  # type: ignore[attr-defined]
        assert ps.queues() == []


@pytest.mark.parametrize("setting", ["max_length", "max_bytes"])
def test_a_full_queue_refuses_a_batch_whole(
    mail: penstock.Jobs, stored: Stored, setting: str
) -> None:
    mail.configure(**{setting: 10})
    mail.add_many("email", [b"x"] * 8)
    before = written(stored)

    with pytest.raises(QueueFull, match=r"8 .*of at most 10 .*raise its limits") as caught:
        mail.add_many("email", [b"x"] * 3)

    assert caught.value.accepted == 0  # type: ignore[attr-defined]
    assert written(stored) == before
    mail.add_many("email", [b"x"] * 2)


def test_running_and_finished_jobs_do_not_count_against_the_length(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.configure(max_length=2, max_bytes=2)
    mail.add_many("email", [b"a", b"b"])
    job = hand.take_one()

    mail.add("email", b"c")
    hand.stop(job)

    with pytest.raises(QueueFull, match="3 of at most 2 jobs and 3 of at most 2 bytes"):
        mail.add("email", b"d")


def test_a_sender_that_can_wait_waits_for_room(mail: penstock.Jobs, hand: Hand) -> None:
    mail.configure(max_length=1)
    mail.add("email", 1)

    with ThreadPoolExecutor(1) as sender:
        sent = sender.submit(mail.add, "email", 2, wait=20)
        assert not sent.done()
        hand.finish(hand.take_one())
        assert sent.result(20).is_new

    assert hand.run_all() == [2]


@pytest.mark.parametrize(("setting", "held"), [("max_length", 10), ("max_bytes", 20)])
def test_more_than_a_queue_takes_is_sent_as_room_comes(
    mail: penstock.Jobs, hand: Hand, setting: str, held: int
) -> None:
    mail.configure(**{setting: held})
    items = [f"{number:02}".encode() for number in range(35)]

    with ThreadPoolExecutor(1) as sender:
        sending = sender.submit(mail.add_many, "email", items, wait=20)
        started: list[tuple[str, bytes]] = []
        while len(started) < len(items):
            started += [(job.id, bytes(job.data)) for job in hand.take(5)]
        sent = sending.result(20)

    assert started == [(job.id, item) for job, item in zip(sent, items, strict=True)]


def test_of_a_batch_that_waits_in_vain_what_had_room_is_counted(mail: penstock.Jobs) -> None:
    mail.configure(max_length=10)

    with pytest.raises(
        QueueFull, match="10 of at most 10 jobs and has no room for this job"
    ) as refused:
        mail.add_many("email", range(25), wait=0.1)

    assert refused.value.accepted == 10  # type: ignore[attr-defined]
    assert [int(job.data) for job in mail.page("ready").jobs] == [*range(10)]


def test_a_batch_that_a_queue_never_takes_whole_is_told_what_there_is_room_for(
    mail: penstock.Jobs,
) -> None:
    mail.configure(max_length=10)

    with pytest.raises(QueueFull) as refused:
        mail.add_many("email", [b"x"] * 11)

    assert str(refused.value) == (
        "queue 'mail' holds 0 of at most 10 jobs, so it has room for 10, and the batch has 11; "
        "send fewer at once, or with wait=... as many at a time as there is room for, or raise "
        "its limits"
    )
    mail.configure(max_bytes=4)
    with pytest.raises(
        QueueFull, match=r"room for 10 \(4 bytes\), and the batch has 5 \(5 bytes\)"
    ):
        mail.add_many("email", [b"x"] * 5)
    mail.configure(max_length=None)
    with pytest.raises(QueueFull, match="room for 4 bytes, and the batch has 5 bytes;"):
        mail.add_many("email", [b"x"] * 5)


def test_a_job_that_can_never_have_room_does_not_wait_for_it(mail: penstock.Jobs) -> None:
    mail.configure(max_bytes=10)
    began_at = time.monotonic()

    with pytest.raises(QueueFull) as refused:
        mail.add("email", b"x" * 11, wait=60)
    with pytest.raises(QueueFull, match="never room for it") as refused_later:
        mail.add_many("email", [b"x", b"x", b"x" * 11], wait=60)

    assert time.monotonic() - began_at < 30
    assert str(refused.value) == (
        "queue 'mail' takes 10 bytes of data (its max_bytes), and this job alone has 11, so there "
        "is never room for it; send less data, or raise max_bytes"
    )
    assert refused_later.value.accepted == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "numbers",
    [
        *([7], [99, 100], [100, 99], [5, 3, 4], [10, 9, 100, 1, 1000, 999]),
        *([10**17, 2 * 10**17, 3 * 10**17 - 1], [2**63 - 1, 1, 2]),
    ],
    ids=str,
)
def test_ids_are_recognised_in_whatever_order_they_came(
    mail: penstock.Jobs, numbers: list[int]
) -> None:
    ids = [id_text(number) for number in numbers]
    assert all(mail.add("email", 1, id=id).is_new for id in ids)

    assert not any(mail.add("email", 1, id=id).is_new for id in ids)

    assert mail.counts()["ready"] == len(ids)


def test_a_given_time_is_kept_to_the_millisecond(mail: penstock.Jobs) -> None:
    at = datetime.now(UTC) + timedelta(days=300)

    job = mail.add("email", run_at=at)

    assert job.state == "scheduled"
    assert abs(job.info().due_at - at.timestamp()) < 0.002


def test_of_many_senders_at_once_each_job_is_there_once(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    start = threading.Barrier(4)

    def send(number: int) -> list[str]:
        start.wait()
        return [ps.jobs("mail").add("email", [number, index]).id for index in range(25)]

    with ThreadPoolExecutor(4) as senders:
        ids = [id for each in senders.map(send, range(4)) for id in each]

    page = mail.page("ready", limit=1000)
    assert page.total == 100
    assert sorted(ids) == sorted(job.id for job in page.jobs)


def test_a_job_function_sends_its_arguments_and_returns_the_job(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    @penstock.job(queue="mail", type="email", attempts=4)
    def send(to: str, *, copies: int = 1) -> str:
        return to * copies

    plain = send.on(ps).send("ann", copies=2)
    urgent = send.options(priority="high").on(ps).send("bob")
    many = send.on(ps).send_many([("cid",), {"to": "dan"}])

    assert send("x", copies=2) == "xx"
    assert json.loads(plain.info().data) == [["ann"], {"copies": 2}]
    assert (plain.info().attempts, urgent.info().attempts) == (4, 4)
    assert urgent.info().priority == -10
    assert [json.loads(job.info().data) for job in many] == [[["cid"]], [[], {"to": "dan"}]]


def test_an_idle_worker_hears_of_a_new_job_at_once(
    mail: penstock.Jobs, hand: Hand, listen: Callable[[str], Ear]
) -> None:
    ear = listen(hand.keys.wake + hand.id)
    assert hand.claim().word == "empty"

    mail.add("email")

    assert ear.hear_the_rest() == [b""]


def test_a_small_limit_of_one_payload_does_not_split_a_batch(
    any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    with penstock.connect(any_store.url, namespace=namespace, max_payload=100) as ps:
        mail = ps.jobs("mail")
        mail.configure(max_length=150)

        with pytest.raises(QueueFull) as refused:
            mail.add_many("email", ["x" * 50] * 200)

        assert refused.value.accepted == 0  # type: ignore[attr-defined]
        assert mail.counts()["ready"] == 0


def test_words_are_those_that_an_item_had_when_it_was_read(mail: penstock.Jobs) -> None:
    def items() -> Iterator[dict[str, str]]:
        item: dict[str, str] = {}
        for name in ("apple", "pear"):
            item["name"] = name
            yield item

    mail.add_many("email", items(), search=True)

    assert [job.data for job in mail.search("apple")] == [b'{"name":"apple"}']
    assert [job.data for job in mail.search("pear")] == [b'{"name":"pear"}']


@pytest.mark.parametrize("item", ["x", "x" * 700_000])
def test_an_id_is_for_one_job(mail: penstock.Jobs, item: str) -> None:
    with pytest.raises(InvalidArgument, match="an id is for one job"):
        mail.add_many("email", [item, item], id=penstock.new_job_id())

    assert mail.counts()["ready"] == 0


def test_the_wait_for_room_begins_when_there_is_none(mail: penstock.Jobs) -> None:
    mail.add_many("email", range(100))
    mail.configure(max_length=300)

    def items() -> Iterator[int]:
        yield from range(250)
        time.sleep(1)  # longer than the wait, while the first batch is under way
        timer.start()
        yield 1

    timer = threading.Timer(0.2, lambda: mail.cancel("ready"))
    jobs = mail.add_many("email", items(), wait=0.7)
    timer.join()

    assert len(jobs) == 251


def test_what_is_wrong_in_a_later_batch_leaves_those_before_it(mail: penstock.Jobs) -> None:
    items: list[object] = [1] * 600
    items[520] = float("nan")

    with pytest.raises(Unserialisable) as refused:
        mail.add_many("email", items)

    assert refused.value.accepted == 62 + 250  # type: ignore[attr-defined]
    assert mail.counts()["ready"] == 62 + 250


def test_options_can_be_given_one_after_the_other(ps: penstock.Penstock) -> None:
    @penstock.job(queue="mail", attempts=2)
    def greet(name: str) -> None: ...

    sent = [
        greet.options(priority="high").on(ps).options(tenant="acme").send("Ann"),
        greet.on(ps).options(priority="high").options(tenant="acme").send("Ann"),
        greet.options(priority="high").options(tenant="acme").on(ps).send("Ann"),
    ]

    for job in sent:
        info = job.info()
        assert (info.attempts, info.priority, info.tenant) == (2, -10, "acme")


@pytest.mark.parametrize("nonsense", ["mail", partial(print, 1)], ids=["text", "partial"])
def test_a_decorator_says_what_it_decorates(nonsense: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"decorates a function, not .*queue='mail'"):
        penstock.job(nonsense)


def test_a_function_has_no_id() -> None:
    with pytest.raises(InvalidArgument, match="an id is for one job"):
        penstock.job(id=penstock.new_job_id())


@pytest.mark.parametrize("items", [1, 2], ids=["one", "many"])
def test_a_script_that_goes_wrong_is_not_begun_again(
    ps: penstock.Penstock, mail: penstock.Jobs, items: int
) -> None:
    """If it had gone half way it would find its own ids taken, and go on with others for ever."""
    mail.add("email", unique="key", debounce=60)
    windows = ps.keys.queue("mail").windows
    ps.store.call(windows, "SET", windows, "nonsense")

    with pytest.raises(StoreError, match="holds a value of another type"):
        mail.add_many("email", range(items), unique="key", debounce=60)

    assert mail.counts()["scheduled"] == 1


@pytest.mark.parametrize("items", [1, 2], ids=["one", "many"])
def test_a_queue_whose_last_turn_is_no_number_takes_no_jobs(
    ps: penstock.Penstock, mail: penstock.Jobs, stored: Stored, items: int
) -> None:
    mail.add("email")
    meta = ps.keys.queue("mail").meta
    ps.store.call(meta, "HSET", meta, "turn", "many")
    before = written(stored)

    message = "'turn' of queue 'mail' is not a number, so it takes no more jobs; `penstock fsck"
    with pytest.raises(StoreError, match=message):
        mail.add("email") if items == 1 else mail.add_many("email", range(items))

    assert written(stored) == before


def test_but_those_that_it_has_go_on(
    ps: penstock.Penstock, mail: penstock.Jobs, stored: Stored, hand: Hand
) -> None:
    mail.add("email", "failing", attempts=2)
    failing = hand.take_one()
    dead = mail.add("email", "dead")
    hand.fail(hand.take_one())
    late, urgent = mail.add("email", "late", delay=60), mail.add("email", "urgent")
    due_at = mail.add("email", "due", delay=0.001).info().due_at
    wait_for(lambda: time.time() > due_at)
    meta = ps.keys.queue("mail").meta
    ps.store.call(meta, "HSET", meta, "turn", "many")

    hand.fail(failing)
    dead.retry()
    late.promote()
    urgent.reprioritise("high")

    assert sorted(hand.run_all()) == ["dead", "due", "failing", "late", "urgent"]
    assert stored.hash(meta)[b"turn"] == b"many"


@pytest.mark.parametrize("figure", ["sent", "rA:", "waiting_bytes", "max_length", "max_bytes"])
def test_a_figure_that_is_no_number_is_left_for_fsck(
    ps: penstock.Penstock, mail: penstock.Jobs, stored: Stored, figure: str
) -> None:
    meta = ps.keys.queue("mail").meta
    mail.add("email", 1)
    ps.store.call(meta, "HSET", meta, figure, "many")

    mail.add("email", 2)
    mail.add_many("email", [3, 4])

    assert stored.hash(meta)[figure.encode()] == b"many"
    assert Hand(ps).take_named(5) == [1, 2, 3, 4]
