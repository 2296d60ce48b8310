"""What a client does has one effect, whichever half of a request was lost.

Each script on tasks, queues and workers has a scenario. It runs once undisturbed and once with the
network failing at that very script, each in a namespace of its own; answers and everything left in
Redis must be the same.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import redis

import penstock
from penstock.codec.chunks import pack_chunk
from penstock.codec.elements import task_of
from penstock.connection.staging import decide_batch as decide
from penstock.connection.staging import drop_stages as drop
from penstock.connection.staging import move_batches
from penstock.connection.staging import stage_chunk as stage
from penstock.errors import QueueFull
from penstock.model.staging import Stage
from penstock.store.commands import checks, processes, queues, workers
from penstock.store.keys import NamespaceKeys
from tests.proxy import Fault, FaultProxy, Match, Rule, match_script
from tests.samples import SCRIPTS
from tests.servers import VERSIONS, RedisServer, binary_of, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.client.session import WorkerSession

FAULTS = [
    (Fault.LOSE_REPLY, 1),
    (Fault.LOSE_REPLY, 2),
    (Fault.LOSE_REPLY, 3),
    (Fault.LOSE_REQUEST, 1),
    (Fault.LOSE_REQUEST, 3),
    (Fault.CUT_MID_REPLY, 1),
    (Fault.DUPLICATE, 1),
]
FAULT_NAMES = [f"{fault.name}-{times}" for fault, times in FAULTS]


class World:
    """A namespace, a client whose connection can fail, and what is left in Redis."""

    def __init__(self, ps: penstock.Penstock, server: RedisServer) -> None:
        self.ps = ps
        self.queue = ps.queue("mail")
        self.keys = NamespaceKeys(ps.settings.namespace)
        self.client: Any = server.client
        self._workers: list[str] = []
        self.strike: Callable[[], None] = lambda: None
        """the next call of the scenario's script goes wrong"""

    @contextmanager
    def worker(self) -> Iterator[WorkerSession]:
        """A worker of the queue that never renews its lease by itself."""
        with self.ps.worker(lease_ms=600_000, heartbeat_ms=300_000) as worker:
            self._workers.append(worker.id)
            worker.start_work("mail")
            yield worker

    def look(self) -> dict[str, object]:
        """Everything in this namespace but what is random or remembers requests."""
        client, state = self.client, {}
        for name in client.scan_iter(match=self.keys.tag[:-1] + "*", count=1000):
            label = name.decode().partition("}")[2]
            if not label.startswith(":memory:"):
                state[self._plain(label)] = self._value(name)
        return state

    def _value(self, key: bytes) -> object:
        client = self.client
        match client.type(key):
            case b"list":
                return [task_of(element) for element in client.lrange(key, 0, -1)]
            case b"set":
                return sorted(self._plain(member.decode()) for member in client.smembers(key))
            case b"zset":
                return client.zcard(key)
            case b"string":
                return client.get(key)
            case b"hash":
                values: dict[bytes, bytes] = client.hgetall(key)
                if b"incarnation" not in values:
                    return len(values)
                passing = (b"incarnation", b"process", b"moved_at")
                return {k: v for k, v in values.items() if k not in passing}
        raise AssertionError(f"{key!r} has an unexpected type")

    def _plain(self, text: str) -> str:
        for number, worker in enumerate(self._workers):
            text = text.replace(worker, f"worker {number}")
        return text


def cancel_tasks(world: World) -> object:
    world.queue.enqueue_many([b"a", b"b", b"a"])
    world.queue.enqueue_unique(b"a", "key")
    world.strike()
    return world.queue.cancel(b"a")


def configure_queue(world: World) -> object:
    world.queue.enqueue(b"a")
    world.strike()
    world.queue.configure(max_length=7, max_failures=2)
    return world.look()


def decide_batch(world: World) -> object:
    _stage(world, "s1", [[b"a", b"b"], [b"c"]])
    _stage(world, "s2", [[b"d"]])
    world.strike()
    first = _decide(world, Stage("s1", 2, 3, 1))
    second = _decide(world, Stage("s2", 1, 1, 1))
    return (
        first,
        second,
        world.ps.store.call(world.keys.tag, "TTL", world.keys.queue("mail").moving),
    )


def drop_stages(world: World) -> object:
    _stage(world, "s1", [[b"a"]])
    _stage(world, "s2", [[b"b"]])
    _decide(world, Stage("s1", 1, 1, 1))
    world.strike()
    drop(world.ps.store, world.keys.queue("mail"), ["s1", "s2"])
    return move_batches(world.ps.store, world.keys.queue("mail"), "tasks")


def move_tasks(world: World) -> object:
    _stage(world, "s1", [[b"a", b"b"], [b"c"], [b"d"]])
    _decide(world, Stage("s1", 3, 4, 1))
    world.strike()
    left = move_batches(world.ps.store, world.keys.queue("mail"), "tasks").left
    return left, world.queue.page().tasks


def stage_chunk(world: World) -> object:
    world.strike()
    _stage(world, "s1", [[b"a", b"b"], [b"c"]])
    return _decide(world, Stage("s1", 2, 3, 1))


def delete_queue(world: World) -> object:
    world.queue.enqueue_many([b"a", b"b"])
    world.strike()
    return world.queue.delete(), world.ps.queues()


def describe_key(world: World) -> object:
    world.queue.enqueue(b"a")
    world.strike()
    return world.ps.store.run(checks.describe_key(world.keys.queue("mail").ready))


def enqueue_tasks(world: World) -> object:
    world.queue.enqueue(b"a")
    world.strike()
    return world.queue.enqueue_many([b"b", b"c", b"b"])


def enqueue_unique_task(world: World) -> object:
    world.queue.enqueue(b"a")
    world.strike()
    return world.queue.enqueue_unique(b"b", "key"), world.queue.enqueue_unique(b"c", "key")


def fail_tasks(world: World) -> object:
    world.queue.configure(max_failures=2)
    world.queue.enqueue_many([b"a", b"b"])
    with world.worker() as worker:
        first = _started(worker)
        world.strike()
        return first.fail(), _started(worker).fail(), _started(worker).fail(), world.look()


def fail_worker(world: World) -> object:
    world.queue.enqueue_many([b"a", b"b", b"c"])
    with world.worker() as worker:
        worker.start_tasks("mail", 2)
        world.strike()
        return world.ps.fail_worker(worker.id), world.look()


def read_failures(world: World) -> object:
    world.queue.enqueue_many([b"a", b"b"])
    keys = world.keys.queue("mail")
    with world.worker() as worker:
        _started(worker).fail()
        held = [process.id for process in worker.start_tasks("mail", 2)]
        world.strike()
        return world.ps.store.run(processes.read_failures(keys, worker.id, held))


def find_processes(world: World) -> object:
    world.queue.enqueue_many([b"a", b"a"])
    with world.worker() as worker:
        first = worker.start_tasks("mail", 2)[0].id
        world.strike()
        return [process - first for _, process in world.queue.find(b"a")]


def finish_tasks(world: World) -> object:
    world.queue.enqueue_many([b"a", b"b", b"c", b"d"])
    with world.worker() as worker:
        held = [process.id for process in worker.start_tasks("mail", 2)]
        world.strike()
        started, refused = worker.finish_tasks("mail", [*held, 1], limit=1)
        return [p.task for p in started], [p.id - held[0] for p in started], refused, world.look()


def forget_failures(world: World) -> object:
    keys = world.keys.queue("mail")
    world.client.hset(keys.failures, mapping={"a": 1, "b": 1})
    world.strike()
    world.ps.store.run(checks.forget_failures(keys, "a", 1))
    return world.look()


def forget_worker(world: World) -> object:
    world.queue.enqueue(b"a")
    with world.worker() as worker:
        worker.start_task("mail")
        world.strike()
        return world.ps.fail_worker(worker.id), world.look(), world.ps.workers()


def inspect_queue(world: World) -> object:
    world.queue.enqueue_many([b"a", b"b"])
    world.strike()
    state = world.queue.inspect()
    return state.ready, state.counters


def join_queue(world: World) -> object:
    world.queue.enqueue(b"a")
    world.strike()
    with world.worker() as worker:
        return _started(worker).task, world.look()


def keep_worker_alive(world: World) -> object:
    with world.worker() as worker:
        world.strike()
        command = workers.keep_worker_alive(world.keys, worker.id, 600_000, 10)
        return world.ps.store.run(command), world.look()


def leave_queue(world: World) -> object:
    world.queue.enqueue_many([b"a", b"b", b"c"])
    with world.worker() as worker:
        worker.start_tasks("mail", 2)
        world.strike()
        return world.ps.fail_worker(worker.id), world.look()


def list_queues(world: World) -> object:
    world.queue.enqueue(b"a")
    world.strike()
    return world.ps.queues()


def list_work(world: World) -> object:
    with world.worker() as worker:
        world.strike()
        return world.ps.work_of(worker.id)


def list_workers(world: World) -> object:
    with world.worker() as worker:
        world.strike()
        return [(found.id == worker.id, found.is_alive) for found in world.ps.workers()]


def list_paused_workers(world: World) -> object:
    world.ps.pause_worker("nightly")
    world.strike()
    return world.ps.paused_workers()


def pause_worker(world: World) -> object:
    world.strike()
    world.ps.pause_worker("nightly")
    return world.ps.paused_workers()


def mend_unique_key(world: World) -> object:
    keys = world.keys.queue("mail")
    world.queue.enqueue_unique(b"a", "kept")
    world.client.hset(keys.unique, "=gone", b"12345678a")
    world.strike()
    world.ps.store.run(checks.mend_unique_key(keys, [], b"=gone", b""))
    return world.look()


def page_tasks(world: World) -> object:
    world.queue.enqueue_many([b"a", b"b", b"c"])
    world.strike()
    return world.queue.page(1, 2)


def pass_work(world: World) -> object:
    with world.worker() as worker:
        world.strike()
        world.ps.store.run(queues.pass_work(world.keys.queue("mail"), worker.id))
        return world.look()


def pause_queue(world: World) -> object:
    world.queue.enqueue(b"a")
    world.strike()
    world.queue.pause()
    return world.look()


def read_queue(world: World) -> object:
    world.queue.enqueue_many([b"a", b"b"])
    world.strike()
    return world.ps.store.run(checks.read_queue(world.keys.queue("mail"), [], 10)).waiting


def register_queue(world: World) -> object:
    world.strike()
    world.queue.enqueue(b"a")
    return world.ps.queues()


def resume_queue(world: World) -> object:
    world.queue.enqueue(b"a")
    world.queue.pause()
    world.strike()
    world.queue.resume()
    return world.look()


def retry_dead_tasks(world: World) -> object:
    world.queue.configure(max_failures=1)
    world.queue.enqueue_many([b"a", b"b"])
    with world.worker() as worker:
        assert _started(worker).fail()
    world.strike()
    return world.queue.retry_dead()


def start_tasks(world: World) -> object:
    world.queue.enqueue_many([b"a", b"b", b"c"])
    with world.worker() as worker:
        world.strike()
        started = worker.start_tasks("mail", 2)
        first = started[0].id
        return [(process.id - first, process.task) for process in started], world.look()


def start_work(world: World) -> object:
    world.queue.enqueue(b"a")
    world.strike()
    with world.worker() as worker:
        return _started(worker).task, world.look()


def start_worker(world: World) -> object:
    world.strike()
    with world.worker():
        return world.look()


def stop_tasks(world: World) -> object:
    world.queue.enqueue_many([b"a", b"b"])
    with world.worker() as worker:
        process = _started(worker)
        world.strike()
        process.stop()
        return world.look()


def stop_work(world: World) -> object:
    world.queue.enqueue(b"a")
    with world.worker() as worker:
        worker.start_task("mail")
        world.strike()
        worker.stop_work("mail")
        return world.look()


def unregister_queue(world: World) -> object:
    world.queue.enqueue(b"a")
    world.strike()
    return world.queue.delete(), world.ps.queues()


def _stage(world: World, name: str, chunks: list[list[bytes]]) -> None:
    keys = world.keys.queue("mail")
    for index, tasks in enumerate(chunks):
        stage(world.ps.store, keys, "batch", name, index, pack_chunk(tasks), 1000)


def _decide(world: World, *stages: Stage) -> bool:
    return decide(world.ps.store, world.keys, "mail", "tasks", "b1", 0, stages)


def _started(worker: WorkerSession) -> penstock.Process:
    process = worker.start_task("mail")
    assert process is not None
    return process


@pytest.fixture
def proxy(server: RedisServer, namespace: str) -> Iterator[FaultProxy]:
    with FaultProxy(server.folder, server.socket, record=1000, name=f"{namespace}.sock") as proxy:
        yield proxy


@pytest.fixture
def ps(server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    """A client of the same namespace that nothing disturbs."""
    with penstock.connect(server.url, namespace=namespace) as client:
        yield client


@pytest.fixture
def disturbed(server: RedisServer, proxy: FaultProxy, namespace: str) -> Iterator[World]:
    with penstock.connect(f"unix://{proxy.path}", namespace=namespace) as ps:
        yield World(ps, server)


@pytest.fixture
def twin(server: RedisServer) -> Iterator[World]:
    with penstock.connect(server.url, namespace=f"twin-{uuid.uuid4().hex[:12]}") as ps:
        yield World(ps, server)


def play(name: str, world: World) -> object:
    scenario = globals().get(name)
    assert scenario is not None, f"script {name!r} has no scenario here; write one"
    return scenario(world)


@pytest.mark.parametrize(("fault", "times"), FAULTS, ids=FAULT_NAMES)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_has_one_effect_however_the_network_fails(
    script: str, fault: Fault, times: int, proxy: FaultProxy, disturbed: World, twin: World
) -> None:
    rules: list[Rule] = []
    disturbed.strike = lambda: rules.append(
        proxy.plan(fault, times, match_script(SCRIPTS[script].text()))
    )

    answer = play(script, disturbed)

    assert [rule.hits for rule in rules] == [times]
    assert answer == play(script, twin)
    assert disturbed.look() == twin.look()


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_that_the_server_has_forgotten_is_taught_again(
    script: str, proxy: FaultProxy, disturbed: World, twin: World, server: RedisServer
) -> None:
    disturbed.strike = lambda: server.command("SCRIPT", "FLUSH")

    answer = play(script, disturbed)

    text = SCRIPTS[script].text().encode()
    assert [b"EVAL", text] in [request[:2] for request in proxy.requests]
    assert answer == play(script, twin)
    assert disturbed.look() == twin.look()


@pytest.mark.parametrize("script", ["enqueue_tasks", "start_tasks", "finish_tasks", "cancel_tasks"])
def test_a_script_has_one_effect_when_the_server_stalls_for_longer_than_the_timeout(
    script: str, proxy: FaultProxy, twin: World, server: RedisServer, namespace: str
) -> None:
    matches = match_script(SCRIPTS[script].text())
    url = f"unix://{proxy.path}"
    with penstock.connect(url, namespace=namespace, timeout_s=0.1) as ps:
        stalled = World(ps, server)
        sent_before: list[int] = []

        def stall() -> None:
            sent_before.append(len([r for r in proxy.requests if matches(r)]))
            server.command("CLIENT", "PAUSE", 350)

        stalled.strike = stall
        answer = play(script, stalled)

        assert len([r for r in proxy.requests if matches(r)]) >= sent_before[0] + 2
        assert answer == play(script, twin)
        assert stalled.look() == twin.look()


async def aenqueue_tasks(ps: penstock.AsyncPenstock, strike: Callable[[], None]) -> object:
    await ps.queue("mail").enqueue(b"a")
    strike()
    return await ps.queue("mail").enqueue_many([b"b", b"c", b"b"])


async def aenqueue_unique_task(ps: penstock.AsyncPenstock, strike: Callable[[], None]) -> object:
    queue = ps.queue("mail")
    await queue.enqueue(b"a")
    strike()
    return await queue.enqueue_unique(b"b", "key"), await queue.enqueue_unique(b"c", "key")


async def acancel_tasks(ps: penstock.AsyncPenstock, strike: Callable[[], None]) -> object:
    await ps.queue("mail").enqueue_many([b"a", b"b", b"a"])
    strike()
    return await ps.queue("mail").cancel(b"a")


async def adelete_queue(ps: penstock.AsyncPenstock, strike: Callable[[], None]) -> object:
    await ps.queue("mail").enqueue_many([b"a", b"b"])
    strike()
    return await ps.queue("mail").delete(), await ps.queues()


async def apause_queue(ps: penstock.AsyncPenstock, strike: Callable[[], None]) -> object:
    await ps.queue("mail").enqueue(b"a")
    strike()
    await ps.queue("mail").pause()
    return (await ps.queue("mail").inspect()).is_paused


async def ainspect_queue(ps: penstock.AsyncPenstock, strike: Callable[[], None]) -> object:
    await ps.queue("mail").enqueue_many([b"a", b"b"])
    strike()
    state = await ps.queue("mail").inspect()
    return state.ready, state.counters


async def astart_tasks(ps: penstock.AsyncPenstock, strike: Callable[[], None]) -> object:
    await ps.queue("mail").enqueue_many([b"a", b"b", b"c"])
    async with ps.worker(lease_ms=600_000, heartbeat_ms=300_000) as worker:
        await worker.start_work("mail")
        strike()
        started = await worker.start_tasks("mail", 2)
        return [(process.id - started[0].id, process.task) for process in started]


async def afinish_tasks(ps: penstock.AsyncPenstock, strike: Callable[[], None]) -> object:
    await ps.queue("mail").enqueue_many([b"a", b"b", b"c", b"d"])
    async with ps.worker(lease_ms=600_000, heartbeat_ms=300_000) as worker:
        await worker.start_work("mail")
        held = [process.id for process in await worker.start_tasks("mail", 2)]
        strike()
        started, refused = await worker.finish_tasks("mail", [*held, 1], limit=1)
        return [process.task for process in started], refused


async def aleave_queue(ps: penstock.AsyncPenstock, strike: Callable[[], None]) -> object:
    await ps.queue("mail").enqueue_many([b"a", b"b", b"c"])
    async with ps.worker(lease_ms=600_000, heartbeat_ms=300_000) as worker:
        await worker.start_work("mail")
        await worker.start_tasks("mail", 2)
        strike()
        return await ps.fail_worker(worker.id)


ASYNC_SCENARIOS = {
    "cancel_tasks": acancel_tasks,
    "delete_queue": adelete_queue,
    "enqueue_tasks": aenqueue_tasks,
    "enqueue_unique_task": aenqueue_unique_task,
    "finish_tasks": afinish_tasks,
    "inspect_queue": ainspect_queue,
    "leave_queue": aleave_queue,
    "pause_queue": apause_queue,
    "start_tasks": astart_tasks,
}


@pytest.mark.parametrize(("fault", "times"), FAULTS, ids=FAULT_NAMES)
@pytest.mark.parametrize("script", ASYNC_SCENARIOS)
def test_a_script_has_one_effect_from_an_event_loop_too(
    script: str, fault: Fault, times: int, proxy: FaultProxy, disturbed: World, twin: World
) -> None:
    rules: list[Rule] = []

    async def play_twice() -> list[object]:
        match = match_script(SCRIPTS[script].text())
        settings = disturbed.ps.settings
        async with await penstock.AsyncPenstock(settings).open() as ps:
            strike = partial(_plan, rules, proxy, fault, times, match)
            answer = await ASYNC_SCENARIOS[script](ps, strike)
        async with await penstock.AsyncPenstock(twin.ps.settings).open() as ps:
            return [answer, await ASYNC_SCENARIOS[script](ps, lambda: None)]

    answer, expected = asyncio.run(play_twice())

    assert [rule.hits for rule in rules] == [times]
    assert answer == expected
    assert disturbed.look() == twin.look()


def _plan(rules: list[Rule], proxy: FaultProxy, fault: Fault, times: int, match: Match) -> None:
    rules.append(proxy.plan(fault, times, match))


@contextmanager
def held_back(proxy: FaultProxy, script: str, times: int = 1) -> Iterator[Rule]:
    """The next requests for a script stay on the way until the rule is released."""
    rule = proxy.plan(Fault.DELAY, times, match_script(SCRIPTS[script].text()))
    try:
        yield rule
    finally:
        rule.release()


@pytest.fixture
def hasty(proxy: FaultProxy, namespace: str) -> Iterator[penstock.Penstock]:
    """A client that sends again after a tenth of a second."""
    url = f"unix://{proxy.path}"
    with penstock.connect(url, namespace=namespace, timeout_s=0.1, retry_for_s=20) as client:
        yield client


def scripts_run(server: RedisServer) -> int:
    stats: dict[str, Any] = server.client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


def let_the_late_one_arrive(server: RedisServer, rule: Rule, copies: int = 1) -> None:
    before = scripts_run(server)
    rule.release()
    wait_for(lambda: scripts_run(server) == before + copies)


def test_a_claim_that_arrives_late_starts_nothing(
    hasty: penstock.Penstock, ps: penstock.Penstock, proxy: FaultProxy, server: RedisServer
) -> None:
    with hasty.worker(lease_ms=600_000, heartbeat_ms=300_000) as worker:
        worker.start_work("mail")
        with held_back(proxy, "start_tasks") as rule:
            assert worker.start_task("mail") is None
            ps.queue("mail").enqueue(b"task")

            let_the_late_one_arrive(server, rule)

            assert ps.queue("mail").count() == 1


def test_an_enqueue_that_was_refused_adds_nothing_when_it_arrives_late(
    hasty: penstock.Penstock, ps: penstock.Penstock, proxy: FaultProxy, server: RedisServer
) -> None:
    queue = ps.queue("mail")
    queue.configure(max_length=1)
    queue.enqueue(b"first")
    with held_back(proxy, "enqueue_tasks") as rule:
        with pytest.raises(QueueFull):
            hasty.queue("mail").enqueue(b"second")
        queue.configure(max_length=10)

        let_the_late_one_arrive(server, rule)

        assert queue.page().tasks == [b"first"]


def test_a_unique_enqueue_that_was_refused_adds_nothing_when_it_arrives_late(
    hasty: penstock.Penstock, ps: penstock.Penstock, proxy: FaultProxy, server: RedisServer
) -> None:
    queue = ps.queue("mail")
    queue.configure(max_length=1)
    queue.enqueue(b"first")
    with held_back(proxy, "enqueue_unique_task") as rule:
        with pytest.raises(QueueFull):
            hasty.queue("mail").enqueue_unique(b"second")
        queue.configure(max_length=10)

        let_the_late_one_arrive(server, rule)

        assert queue.page().tasks == [b"first"]


def test_a_delete_of_nothing_deletes_nothing_when_it_arrives_late(
    hasty: penstock.Penstock, ps: penstock.Penstock, proxy: FaultProxy, server: RedisServer
) -> None:
    with held_back(proxy, "delete_queue") as rule:
        hasty.queue("mail").delete()
        ps.queue("mail").enqueue(b"task")

        let_the_late_one_arrive(server, rule)

        assert ps.queue("mail").count() == 1


def test_an_enqueue_before_the_queue_existed_adds_nothing_when_it_arrives_late(
    hasty: penstock.Penstock,
    ps: penstock.Penstock,
    proxy: FaultProxy,
    server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As if other threads took every lane at once: what creates the queue goes on another one.
    monkeypatch.setattr(hasty.store._lanes, "give_back", lambda lane: None)
    with held_back(proxy, "enqueue_tasks") as rule:
        hasty.queue("mail").enqueue(b"task")

        let_the_late_one_arrive(server, rule)

        assert ps.queue("mail").count() == 1


def test_a_request_that_was_given_up_keeps_its_lane_to_itself(
    ps: penstock.Penstock, proxy: FaultProxy, server: RedisServer, namespace: str
) -> None:
    """It may still be under way. Each of them leaves a memory of its own."""
    ps.queue("mail").enqueue(b"task")
    memories = NamespaceKeys(namespace).queue("mail").memory("*")
    before = len(server.client.keys(memories))
    with penstock.connect(f"unix://{proxy.path}", namespace=namespace, retry_for_s=0) as hasty:
        for _ in range(3):
            proxy.plan(Fault.LOSE_REPLY, 2, match_script(SCRIPTS["enqueue_tasks"].text()))
            with pytest.raises(penstock.StoreUnavailable):
                hasty.queue("mail").enqueue(b"task")

    assert len(server.client.keys(memories)) == before + 3


def test_a_stop_of_work_that_arrives_late_takes_nothing_away(
    hasty: penstock.Penstock, ps: penstock.Penstock, proxy: FaultProxy, server: RedisServer
) -> None:
    ps.queue("mail").enqueue(b"task")
    with hasty.worker(lease_ms=600_000, heartbeat_ms=300_000) as worker:
        worker.start_work("mail")
        with held_back(proxy, "leave_queue") as rule:
            worker.stop_work("mail")
            worker.start_work("mail")
            process = _started(worker)

            let_the_late_one_arrive(server, rule)

            process.finish()
    assert ps.queue("mail").inspect().counters.finished == 1


def test_a_request_that_was_given_up_is_applied_once_when_it_arrives_late(
    proxy: FaultProxy, ps: penstock.Penstock, server: RedisServer, namespace: str
) -> None:
    ps.queue("mail").enqueue(b"first")
    url = f"unix://{proxy.path}"
    with (
        penstock.connect(url, namespace=namespace, timeout_s=0.1, retry_for_s=0.0) as client,
        held_back(proxy, "enqueue_tasks", times=2) as rule,
    ):
        with pytest.raises(penstock.StoreUnavailable, match="whether the last request took effect"):
            client.queue("mail").enqueue(b"second")
        assert rule.hits == 2
        client.queue("mail").enqueue(b"third")

        let_the_late_one_arrive(server, rule, copies=2)

        assert sorted(ps.queue("mail").page().tasks) == [b"first", b"second", b"third"]
        sent = [r for r in proxy.requests if match_script(SCRIPTS["enqueue_tasks"].text())(r)]
        assert len({request[3] for request in sent[:2]}) == 1
        assert sent[2][3] != sent[0][3]


def test_a_store_that_cannot_be_reached_is_reported_when_patience_ends(
    server: RedisServer, namespace: str
) -> None:
    with FaultProxy(server.folder, server.socket, name=f"{namespace}.sock") as proxy:
        client = penstock.connect(f"unix://{proxy.path}", namespace=namespace, retry_for_s=0.3)
    with closing(client), pytest.raises(penstock.StoreUnavailable) as caught:
        client.queue("mail").enqueue(b"task")
    said = f"the store at {proxy.path} could not be reached in 0 s (cannot"
    assert str(caught.value).startswith(said)
    assert str(caught.value).endswith("; check that the server runs and can be reached")
    assert caught.value.code == "store_unavailable"


def test_connecting_to_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(penstock.StoreUnavailable, match="No such file"):
        penstock.connect(f"unix://{tmp_path}/nothing.sock", retry_for_s=0.0)


def test_a_silent_store_is_given_up_after_the_timeout(proxy: FaultProxy, namespace: str) -> None:
    url = f"unix://{proxy.path}"
    with penstock.connect(url, namespace=namespace, timeout_s=0.1, retry_for_s=0.0) as client:
        rule = proxy.plan(Fault.BLACKHOLE, 2, match_script(SCRIPTS["page_tasks"].text()))
        with pytest.raises(penstock.StoreUnavailable, match="timed out"):
            client.queue("mail").count()
        rule.release()
        assert rule.hits == 2
        assert client.queue("mail").count() == 0


@pytest.fixture(params=VERSIONS)
def moody_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisServer]:
    """A server of its own, of each version, for tests that change its settings."""
    folder = tmp_path_factory.mktemp("redis")
    server = RedisServer(folder, binary=binary_of(request.param)).start()
    yield server
    server.kill()


@pytest.mark.parametrize("mood", ["READONLY", "NOREPLICAS", "MASTERDOWN", "BUSY"])
def test_a_store_that_cannot_serve_for_a_moment_is_asked_again(
    mood: str, moody_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("proxy")
    with (
        FaultProxy(folder, moody_server.socket, record=1000) as proxy,
        penstock.connect(f"unix://{proxy.path}") as client,
        ThreadPoolExecutor() as threads,
    ):
        client.queue("mail").enqueue(b"first")
        seen = len(proxy.requests)
        with the_store_in_a_bad_mood(mood, moody_server):
            enqueued = threads.submit(client.queue("mail").enqueue, b"second")
            wait_for(lambda: len(proxy.requests) >= seen + 4)
            assert not enqueued.done()
        enqueued.result()

        assert client.queue("mail").page().tasks == [b"first", b"second"]


@contextmanager
def the_store_in_a_bad_mood(mood: str, server: RedisServer) -> Iterator[None]:
    if mood == "BUSY":
        server.command("CONFIG", "SET", "lua-time-limit", 1)
        endless = server.new_client()
        thread = threading.Thread(target=run_for_ever, args=(endless,))
        thread.start()
        wait_for(lambda: is_busy(server))
        yield
        server.command("SCRIPT", "KILL")
        thread.join()
        endless.close()
    elif mood == "NOREPLICAS":
        server.command("CONFIG", "SET", "min-replicas-to-write", 1)
        yield
        server.command("CONFIG", "SET", "min-replicas-to-write", 0)
    else:
        if mood == "MASTERDOWN":
            server.command("CONFIG", "SET", "replica-serve-stale-data", "no")
        server.command("REPLICAOF", "127.0.0.1", "1")
        yield
        server.command("REPLICAOF", "NO", "ONE")


def run_for_ever(client: redis.Redis) -> None:
    with pytest.raises(redis.ResponseError, match="killed"):
        client.eval("while true do end", 0)


def is_busy(server: RedisServer) -> bool:
    try:
        server.client.ping()
    except redis.exceptions.BusyLoadingError:
        return True
    except redis.ResponseError as error:
        return str(error).startswith("BUSY")
    return False
