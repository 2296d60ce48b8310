"""Which jobs a worker starts first: over several queues, by priority, by type."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import InvalidArgument
from penstock.worker.handlers import choose_handlers, collect_handlers
from tests.job_invariants import check_jobs
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.client.functions import JobFunction
    from penstock.worker.handlers import Handlers
    from tests.running_worker import RunningWorker

    Serve = Callable[..., RunningWorker]


class Order:
    """Job functions for several queues, each noting when its turn came."""

    def __init__(self, *queues: str, lasts_s: float = 0.0) -> None:
        self.came: list[str] = []
        self._lasts_s = lasts_s
        self.functions: dict[str, JobFunction[..., Any]] = {
            queue: penstock.job(queue=queue, type="note")(self._note) for queue in queues
        }

    def fill(self, ps: penstock.Penstock, count: int, **options: Any) -> None:
        for queue, function in self.functions.items():
            function.on(ps).options(**options).send_many([(queue,)] * count)

    def handler(self) -> Callable[..., None]:
        """The same for plain tasks, in the queue `tasks`."""
        return penstock.handler("tasks")(lambda task, _: self._note(task.decode()))

    def mixed(self) -> Handlers:
        return collect_handlers([self.handler(), *self.functions.values()])

    def _note(self, name: str) -> None:
        self.came.append(name)
        threading.Event().wait(self._lasts_s)


@pytest.mark.parametrize("lasts_s", [0.0, 0.003])
def test_strictly_in_order_a_queue_waits_until_those_before_it_are_empty(
    ps: penstock.Penstock, serve: Serve, lasts_s: float
) -> None:
    order = Order("urgent", "normal", "bulk", lasts_s=lasts_s)
    order.fill(ps, 100)

    serve(*order.functions.values(), strict=True)

    wait_for(lambda: len(order.came) == 300)
    assert order.came == ["urgent"] * 100 + ["normal"] * 100 + ["bulk"] * 100


def test_strictly_in_order_a_new_job_of_an_earlier_queue_goes_next(
    ps: penstock.Penstock, serve: Serve
) -> None:
    order = Order("urgent", "bulk", lasts_s=0.06)  # too long to be held ahead
    order.functions["bulk"].on(ps).send_many([("bulk",)] * 20)
    serve(*order.functions.values(), strict=True)
    wait_for(lambda: len(order.came) >= 3)

    order.functions["urgent"].on(ps).send("urgent")
    seen = len(order.came)

    wait_for(lambda: "urgent" in order.came)
    assert order.came.index("urgent") <= seen + 2


@pytest.mark.parametrize("lasts_s", [0.0, 0.003])
@pytest.mark.parametrize("queues", [["jobs", "tasks"], ["tasks", "jobs"]])
def test_strictly_in_order_it_is_the_same_which_queue_holds_plain_tasks(
    ps: penstock.Penstock,
    start_worker: Callable[..., RunningWorker],
    queues: list[str],
    lasts_s: float,
) -> None:
    order = Order("jobs", lasts_s=lasts_s)
    order.fill(ps, 100)
    ps.queue("tasks").enqueue_many([b"tasks"] * 100)

    start_worker(choose_handlers(order.mixed(), queues, "app"), strict=True)

    wait_for(lambda: len(order.came) == 200)
    assert order.came == [queues[0]] * 100 + [queues[1]] * 100


@pytest.mark.parametrize("queues", [["jobs", "tasks"], ["tasks", "jobs"]])
def test_a_worker_serves_queues_in_the_order_in_which_their_functions_are_given(
    ps: penstock.Penstock, start_worker: Callable[..., RunningWorker], queues: list[str]
) -> None:
    order = Order("jobs")
    order.fill(ps, 100)
    ps.queue("tasks").enqueue_many([b"tasks"] * 100)
    functions: dict[str, Any] = {"jobs": order.functions["jobs"], "tasks": order.handler()}

    start_worker([functions[queue] for queue in queues], strict=True)

    wait_for(lambda: len(order.came) == 200)
    assert order.came == [queues[0]] * 100 + [queues[1]] * 100


@pytest.mark.parametrize("queues", [["jobs", "tasks"], ["tasks", "jobs"]])
def test_weights_hold_between_jobs_and_plain_tasks(
    ps: penstock.Penstock, start_worker: Callable[..., RunningWorker], queues: list[str]
) -> None:
    order = Order("jobs", lasts_s=0.004)
    order.fill(ps, 120)
    ps.queue("tasks").enqueue_many([b"tasks"] * 120)

    start_worker(
        choose_handlers(order.mixed(), queues, "app"), weights={queues[0]: 5, queues[1]: 1}
    )

    wait_for(lambda: len(order.came) >= 120)
    assert Counter(order.came[:120])[queues[0]] == pytest.approx(100, abs=12)


def test_what_is_started_keeps_to_the_weights_while_all_queues_have_work(
    ps: penstock.Penstock, serve: Serve
) -> None:
    order = Order("a", "b", "c", lasts_s=0.004)
    order.fill(ps, 120)

    serve(*order.functions.values(), weights={"a": 6, "b": 3, "c": 1})

    wait_for(lambda: len(order.came) >= 180)
    shares = Counter(order.came[:180])
    assert shares["a"] == pytest.approx(108, abs=20)
    assert shares["b"] == pytest.approx(54, abs=20)
    assert shares["c"] == pytest.approx(18, abs=12)


def test_a_queue_with_weight_takes_everything_while_the_others_are_empty(
    ps: penstock.Penstock, serve: Serve
) -> None:
    order = Order("a", "b")
    order.functions["b"].on(ps).send_many([("b",)] * 200)

    serve(*order.functions.values(), weights={"a": 100, "b": 1})

    wait_for(lambda: len(order.came) == 200)


def test_a_queue_that_was_empty_for_long_does_not_take_all_turns_afterwards(
    ps: penstock.Penstock, serve: Serve
) -> None:
    order = Order("a", "b", lasts_s=0.004)
    serve(*order.functions.values(), weights={"a": 1, "b": 1})
    order.functions["a"].on(ps).send_many([("a",)] * 100)
    wait_for(lambda: len(order.came) >= 90)

    order.fill(ps, 100)

    wait_for(lambda: order.came.count("b") >= 30)
    first = order.came.index("b")
    assert order.came[first : first + 60].count("a") >= 15


def test_by_turns_no_queue_waits_for_another(ps: penstock.Penstock, serve: Serve) -> None:
    order = Order("a", "b", lasts_s=0.004)
    order.fill(ps, 100)

    serve(*order.functions.values())

    wait_for(lambda: len(order.came) >= 100)
    assert Counter(order.came[:100])["a"] == pytest.approx(50, abs=20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strict": True, "weights": {"mail": 1}}, "strictly in order or by weights; give one"),
        ({"weights": {"other": 1}}, "a weight for queue 'other', which is not served"),
        ({"weights": {"mail": 0}}, "weight of queue 'mail' is 0; give a whole number from 1 to"),
        ({"weights": {"mail": 1.5}}, "weight of queue 'mail' is 1.5; give a whole number from 1"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(
    ps: penstock.Penstock, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        penstock.Worker(ps.settings, Order("mail").functions.values(), **options)


def test_within_a_queue_the_most_urgent_goes_first_and_equals_in_the_order_sent(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Serve
) -> None:
    order = Order("mail")
    for priority in ("low", "high", "normal", "critical", 3, "medium"):
        for number in range(10):
            mail.add("note", {"name": f"{priority} {number}"}, priority=priority)

    serve(*order.functions.values())

    wait_for(lambda: len(order.came) == 60)
    levels = ("critical", "high", "medium", "normal", "3", "low")
    assert order.came == [f"{level} {number}" for level in levels for number in range(10)]


def test_each_worker_gets_the_types_it_handles(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Serve
) -> None:
    @penstock.job(queue="mail")
    def letter() -> None:
        pass

    @penstock.job(queue="mail")
    def parcel() -> None:
        pass

    postman, driver = serve(letter), serve(parcel)
    jobs = [mail.add(("letter", "parcel")[number % 2]) for number in range(200)]

    ps.wait(jobs, 20)

    who = {(job.info().type, job.info().worker) for job in jobs}
    assert who == {("letter", postman.id), ("parcel", driver.id)}
    check_jobs(ps.store, ps.keys.queue("mail"))


def test_jobs_of_a_type_that_nobody_handles_wait_and_are_in_nobodys_way(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Serve
) -> None:
    strangers = mail.add_many("stranger", [None] * 50, priority="high")
    order = Order("mail")
    known = mail.add_many("note", [{"name": str(number)} for number in range(50)])

    serve(*order.functions.values())
    ps.wait(known, 20)

    assert order.came == [str(number) for number in range(50)]
    assert "worker" in str(strangers[0].explain())

    @penstock.job(queue="mail", type="stranger")
    def greet() -> None:
        order.came.append("stranger")

    serve(greet)
    ps.wait(strangers, 20)
    assert order.came.count("stranger") == 50
    check_jobs(ps.store, ps.keys.queue("mail"))


def test_a_limit_holds_over_several_workers_and_threads(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Serve
) -> None:
    lock, inside, most = threading.Lock(), [], [0]

    @penstock.job(queue="mail")
    def visit(name: int) -> None:
        with lock:
            inside.append(name)
            most[0] = max(most[0], len(inside))
        threading.Event().wait(0.002)
        with lock:
            inside.remove(name)

    mail.configure()
    mail.limit("host", concurrency=3)
    jobs = visit.on(ps).options(key="host").send_many([(number,) for number in range(100)])
    for _ in range(3):
        serve(visit, concurrency=4)

    assert len(ps.wait(jobs, 20)[0]) == 100
    assert 1 < most[0] <= 3
    check_jobs(ps.store, ps.keys.queue("mail"))


def test_a_worker_of_several_queues_says_that_it_is_handed_no_jobs(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    @penstock.job(queue="mail")
    def one() -> None: ...

    @penstock.job(queue="video")
    def other() -> None: ...

    caplog.set_level("INFO", "penstock.worker")
    serve(one)
    assert "none is handed over" not in caplog.text

    serve(one, other, name="peer")

    assert "several queues, so jobs are asked for and none is handed over" in caplog.text
