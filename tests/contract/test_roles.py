"""Users with exactly the rules that `penstock acl` prints do what their role does, and no more."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli.program import program
from penstock.client.fsck import check
from penstock.errors import PermissionMissing, StoreError
from penstock.worker.handlers import collect_handlers
from tests.conftest import EVERY_VERSION
from tests.redis_users import redis_user
from tests.running_worker import RunningWorker, stopped_in_the_end
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.store.permissions import Role
    from tests.servers import RedisCluster, RedisServer
    from tests.stored import Stored


pytestmark = pytest.mark.stores(*EVERY_VERSION)


@pytest.fixture
def as_role(
    any_store: RedisServer | RedisCluster, namespace: str
) -> Iterator[Callable[[Role], penstock.Penstock]]:
    """A client of a user with the printed rules, and no others."""
    with ExitStack() as stack:

        def connect(role: Role) -> penstock.Penstock:
            arguments = ["acl", role, "--url", any_store.url, "--namespace", namespace]
            printed = CliRunner().invoke(program, [*arguments, "--user", "u"]).stdout.split()
            assert printed[:4] == ["ACL", "SETUSER", "u", "on"]
            user = stack.enter_context(redis_user(any_store, *printed[3:]))
            return stack.enter_context(penstock.connect(user.url, namespace=namespace))

        yield connect


@penstock.job(queue="jobs")
def double(number: int) -> int:
    job = penstock.current()
    job.progress(1, 2)
    job.log("half way")
    return 2 * number


@penstock.job(queue="jobs", attempts=1)
def fail() -> None:
    raise ValueError("no")


@pytest.fixture
def working(
    as_role: Callable[[Role], penstock.Penstock], ps: penstock.Penstock
) -> Iterator[penstock.Penstock]:
    """A client of a worker's user, with a worker that serves tasks and jobs."""
    client = as_role("worker")

    def handle(task: bytes, context: penstock.Context) -> bytes | None:
        if task == b"fail":
            raise ValueError("no")
        return b"done"

    handlers = collect_handlers([penstock.handler("plain")(handle), double, fail])
    with stopped_in_the_end() as started:
        started.append(RunningWorker(client.settings, handlers).start())
        yield client


def test_a_producer_sends_and_a_worker_runs(
    as_role: Callable[[Role], penstock.Penstock], working: penstock.Penstock, ps: penstock.Penstock
) -> None:
    producer = as_role("producer")
    plain, jobs = producer.queue("plain"), producer.jobs("jobs")

    plain.enqueue(b"one")
    plain.enqueue_many([b"two", b"three", b"fail"])
    plain.enqueue_unique(b"four", key="four")
    plain.cancel(b"never")
    sent = jobs.add("double", {"number": 21})
    many = jobs.add_many("double", [{"number": 1}, {"number": 2}])
    failing = jobs.add("fail", attempts=1)
    later = jobs.add("double", {"number": 3}, delay=600, unique="later", tags=["red"], tenant="a")
    producer.schedules("jobs").add("nightly", "double", {"number": 4}, cron="0 3 * * *")

    assert sent.result(timeout=20) == 42
    assert many[0].result(timeout=20) == 2
    with pytest.raises(penstock.JobFailed):
        failing.result(timeout=20)
    failing.retry()
    later.reprioritise("high")
    later.promote()
    assert later.result(timeout=20) == 6
    doomed = jobs.add("double", {"number": 5}, delay=600)
    doomed.cancel()
    producer.schedules("jobs").remove("nightly")
    wait_for(lambda: plain.inspect().counters.finished == 4 and plain.inspect().dead == 1)
    assert jobs.counts()["done"] == 4
    assert sent.explain().state == "done"
    assert [line for _, line in sent.log()] == ["half way"]
    assert check(ps).violations == []


def test_an_observer_looks_at_everything(
    as_role: Callable[[Role], penstock.Penstock], working: penstock.Penstock, ps: penstock.Penstock
) -> None:
    sent = ps.jobs("jobs").add("double", {"number": 21})
    assert sent.result(timeout=20) == 42
    observer = as_role("observer")
    jobs = observer.jobs("jobs")

    assert observer.queues() == ["jobs", "plain"]
    assert [state.name for state in observer.inspect()] == ["jobs", "plain"]
    assert [observer.work_of(info.id) for info in observer.workers()] == [["jobs", "plain"]]
    assert observer.paused_workers() == []
    job = observer.job(sent.id)
    assert (job.state, job.result(timeout=20)) == ("done", 42)
    assert job.explain().state == "done"
    assert [info.id for info in jobs.page("done").jobs] == [sent.id]
    assert jobs.counts()["done"] == 1
    assert jobs.types()["double"]["done"] == 1
    assert len(jobs.history()) == 1
    assert jobs.rules() is not None
    assert observer.schedules("jobs").list() == []
    assert observer.queue("plain").page().tasks == []


def test_an_observer_hears_events(
    as_role: Callable[[Role], penstock.Penstock], ps: penstock.Penstock
) -> None:
    ps.jobs("jobs").add("double", {"number": 1})
    events = as_role("observer").jobs("jobs").events(timeout_s=20)
    ps.jobs("jobs").add("double", {"number": 2})

    assert next(iter(events)).kind == "enqueued"
    events.close()


def test_an_observer_changes_nothing(
    as_role: Callable[[Role], penstock.Penstock], ps: penstock.Penstock, stored: Stored
) -> None:
    job = ps.jobs("jobs").add("double", {"number": 1})
    observer = as_role("observer")
    before = stored.everything()

    for act in (
        lambda: observer.jobs("jobs").add("double", {"number": 2}),
        lambda: observer.queue("plain").enqueue(b"task"),
        lambda: observer.job(job.id).cancel(),
        lambda: observer.queue("jobs").pause(),
        lambda: observer.queue("jobs").delete(),
        lambda: observer.worker().start(),
    ):
        with pytest.raises(PermissionMissing, match=r"may not run .* nothing was written"):
            act()

    assert stored.everything() == before


def test_a_producer_is_no_worker(
    as_role: Callable[[Role], penstock.Penstock], stored: Stored
) -> None:
    producer = as_role("producer")

    with pytest.raises(PermissionMissing, match=r"may not run .*RPOP.*, which a worker needs"):
        producer.worker().start()

    assert stored.everything() == {}


@pytest.mark.parametrize("role", ["producer", "worker", "observer"])
def test_a_role_can_use_one_namespace_and_administer_nothing(
    role: Role, as_role: Callable[[Role], penstock.Penstock], ps: penstock.Penstock, stored: Stored
) -> None:
    client = as_role(role)
    other = penstock.Penstock(replace(client.settings, namespace="another"))

    with other.open(), pytest.raises(PermissionMissing, match=r"ACL SETUSER \S+ ~\{another"):
        other.queues()
    for command in (("FLUSHALL",), ("CONFIG", "GET", "*"), ("KEYS", "*"), ("ACL", "LIST")):
        with pytest.raises(StoreError, match="denies a command to this user"):
            client.store.call("{}", *command)
    assert stored.everything() == {}
