"""Random operations on a queue of jobs, beside a model that predicts every answer.

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
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.codec.heads import pack_head, with_cause
from penstock.codec.ids import id_number, id_text
from penstock.connection.address import parse_url
from penstock.connection.store import Store
from penstock.model.job_options import JobOptions
from penstock.model.jobs import JOB_STATES, STATE_CODES, Report
from penstock.store.command import Operation
from penstock.store.commands import job_records, job_rules, jobs, queues
from penstock.store.commands.jobs import Group
from penstock.store.keys import NamespaceKeys
from penstock.store.script import SIMULATED
from tests.job_invariants import check_jobs
from tests.job_lines import Job, Limit
from tests.job_model import Claim, Model
from tests.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.model import claims
    from penstock.model.jobs import HandedOut

EPOCH_MS = 1_700_000_000_000
FIRST_ID = 2 * 10**18
DERIVED_ID = 10**18
KEEP_MS = 60_000
KEEP_COUNT = 3
WINDOW_MS = 1500
TYPES = ("email", "report")
WORKERS = {"w1": None, "w2": ("email",), "w3": ("email", "report"), "w4": None}

numbers = st.integers(1, 3)
causes = st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f"]), min_size=1, max_size=4)
heads = st.fixed_dictionaries(
    {
        "type": st.sampled_from(TYPES),
        "priority": st.sampled_from([0, 0, -5, 10]),
        "attempts": st.integers(1, 2),
        "expires_ms": st.sampled_from([0, 0, 0, 300, 2000]),
        "is_kept": st.sampled_from([True, True, False]),
        "is_at_most_once": st.sampled_from([False, False, True]),
        "tenant": st.sampled_from(["", "", "acme"]),
        "key": st.sampled_from(["", "", "host"]),
        "tags": st.sampled_from([(), ("red",), ("red", "blue")]),
        "words": st.sampled_from([(), ("hello",), ("hello", "world")]),
    }
)
some_job = st.integers(0, 40)
priorities = st.sampled_from([0, 0, -5, 10])
delays = st.sampled_from([0, 0, 0, 1, 400, 2500])
a_worker = st.sampled_from(sorted(WORKERS))
a_type = st.sampled_from(TYPES)
outcomes = st.sampled_from(
    ["failed", "done", "failed", "final", "crashed", "stopped", "not begun", "cancelled"]
)
limits = st.one_of(
    st.none(),
    st.builds(Limit, st.integers(1, 2), st.just(0.0), st.just(1000), st.just(0.0)),
    st.builds(
        Limit,
        st.sampled_from([0, 0, 1]),
        st.sampled_from([1.0, 3.0]),
        st.sampled_from([1000, 700]),
        st.sampled_from([1.0, 2.0]),
    ),
)

changes = st.one_of(
    st.tuples(st.just("cancel")),
    st.tuples(st.just("remove")),
    st.tuples(st.just("retry")),
    st.tuples(st.just("reschedule"), st.sampled_from([0, 400, 2500])),
    st.tuples(st.just("reprioritise"), priorities),
)
rules = st.one_of(
    st.tuples(st.just("join"), a_worker),
    st.tuples(st.just("leave"), a_worker, st.sampled_from(["", "lost", "lapsed"])),
    st.tuples(st.just("pause_queue"), st.sampled_from([False, False, True])),
    st.tuples(st.just("pause_type"), a_type, st.booleans()),
    st.tuples(st.just("set_limit"), st.sampled_from(["", "*", "host", "api"]), limits),
    st.tuples(st.just("share"), st.sampled_from(["acme", "zeta"]), st.integers(1, 3)),
    st.tuples(st.just("age"), st.sampled_from([None, None, 100, 1000])),
    st.tuples(st.just("purge"), st.integers(1, 5)),
)


def _has(*states: str) -> Callable[[JobMachine], bool]:
    return lambda machine: any(job.state in states for job in machine.model.jobs.values())


class JobMachine(RuleBasedStateMachine):
    """Everything that clients and workers can do, one request at a time."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.names = NamespaceKeys("model")
        self.keys = self.names.queue("mail")
        self.model = Model(EPOCH_MS)
        self.is_sound = False
        """whether everything was as predicted after the last request"""
        self.ids = count(FIRST_ID)
        # Every 16th request of a worker purges by itself, and one that reports more than 8 jobs;
        # here only one that finds nothing to do, and `purge`.
        self.operations = (Operation("lane", number) for number in count(1, 2))

    @initialize()
    def begin(self) -> None:
        self.store.call("", "FLUSHALL")
        self.advance(0)
        for worker, types in WORKERS.items():
            self.run(jobs.join_jobs(self.keys, self.next(), worker, types, "i1"))
        self.model.members.update(WORKERS)
        kept = {"keep_ms": KEEP_MS, "keep_dead_ms": KEEP_MS, "keep_count": KEEP_COUNT}
        self.run(queues.configure_queue(self.keys, self.next(), kept))

    def run(self, command: Any) -> Any:
        self.is_sound = False
        return self.store.run(command)

    def next(self) -> Operation:
        return next(self.operations)

    def pick(self, index: int, *states: str) -> int:
        """A job in one of these states, or in any; one that there is none of if there is none."""
        known = [job.id for job in self.model.jobs.values() if job.state in (states or JOB_STATES)]
        return known[index % len(known)] if known else FIRST_ID - 1

    @rule(ms=st.sampled_from([1, 99, 400, 1000, 2500, 70_000]))
    def advance(self, ms: int) -> None:
        self.model.now += ms
        self.store.call("", "SET", self.names.simulated_clock, self.model.now)

    @rule(number=numbers, head=heads, delay_ms=delays)
    def send(self, number: int, head: dict[str, Any], delay_ms: int = 0) -> None:
        new = [Job(id=next(self.ids), **head) for _ in range(number)]
        data = [(job.id, b"x" * (job.id % 7)) for job in new]
        group = Group(_head(new[0]), delay_ms, 0, WINDOW_MS, data)

        found = self.run(jobs.send_jobs(self.keys, self.next(), [group]))

        existing = {at: job.number for at, job in found.items()}
        assert existing == self.model.send(new, delay_ms, WINDOW_MS)

    @rule(number=numbers, head=heads, tenant=st.sampled_from(["acme", "zeta", "kilo"]))
    def send_for_a_tenant(self, number: int, head: dict[str, Any], tenant: str) -> None:
        self.send(number, head | {"tenant": tenant})

    @rule(number=numbers, head=heads, key=st.sampled_from(["host", "api"]))
    def send_with_a_limit(self, number: int, head: dict[str, Any], key: str) -> None:
        self.send(number, head | {"key": key})

    @rule(
        number=numbers,
        head=heads,
        unique=st.sampled_from(["a", "b"]),
        mode=st.sampled_from(["queued", "done", "window", "scheduled"]),
    )
    def send_once(self, number: int, head: dict[str, Any], unique: str, mode: str) -> None:
        head |= {"unique": unique, "mode": mode}
        self.send(number, head, delay_ms=400 if mode == "scheduled" else 0)

    @rule(causes=causes, head=heads, delay_ms=delays)
    def send_for_causes(self, causes: list[bytes], head: dict[str, Any], delay_ms: int = 0) -> None:
        """Jobs whose ids are all derived to be the same."""
        new = [Job(id=DERIVED_ID, cause=cause, **head) for cause in causes]
        groups = [Group(_head(job), delay_ms, 0, 0, [(job.id, b"x")]) for job in new]

        found = self.run(jobs.send_jobs(self.keys, self.next(), groups, origin="derived"))

        sent = [found.get(at, (DERIVED_ID, True)) for at in range(len(new))]
        assert sent == self.model.send_caused(new, delay_ms)

    def join(self, worker: str) -> None:
        self.run(jobs.join_jobs(self.keys, self.next(), worker, WORKERS[worker]))
        self.model.members[worker] = WORKERS[worker]

    @rule(worker=a_worker, limit=st.integers(1, 4))
    def start(self, worker: str, limit: int) -> None:
        self.ask(worker, limit)

    def ask(self, worker: str, limit: int) -> claims.Claim[HandedOut]:
        command = jobs.start_jobs(self.keys, self.next(), worker, limit, wait=True)
        claim: claims.Claim[HandedOut] = self.run(command)
        if claim.word == "empty":
            # What comes to its end in this very request is not purged with it.
            self.model.purge(KEEP_MS, KEEP_COUNT, 100)
        self.compare(claim, self.model.start(worker, limit))
        return claim

    @rule(limit=st.sampled_from([*range(1, 9), 32, 50]))
    def start_many(self, limit: int) -> None:
        self.start("w1", limit)

    @precondition(_has("running"))
    @rule(
        index=some_job,
        said=st.lists(st.tuples(some_job, outcomes, delays), min_size=1, max_size=3),
        limit=st.integers(0, 3),
    )
    def report(self, index: int, said: list[tuple[int, str, int]], limit: int) -> None:
        worker = self.model.jobs[self.pick(index, "running")].worker
        held = self.model.held(worker)
        chosen = {held[index % len(held)].id: (o, d) for index, o, d in said}
        reports = [
            _report(self.process_of(id), outcome, delay_ms)
            for id, (outcome, delay_ms) in chosen.items()
        ]
        command = jobs.report_jobs(self.keys, self.next(), worker, reports, limit, wait=True)

        claim = self.run(command)

        assert claim.refused == []
        listed = [(id, outcome, delay_ms) for id, (outcome, delay_ms) in chosen.items()]
        self.compare(claim, self.model.report(worker, listed, limit))

    @precondition(_has("running"))
    @rule(index=some_job, outcome=st.sampled_from(["done", "crashed"]), limit=st.integers(0, 8))
    def report_all(self, index: int, outcome: str, limit: int) -> None:
        self.report(index, [(place, outcome, 0) for place in range(8)], limit)

    @precondition(_has("running"))
    @rule(index=some_job)
    def note_and_report_what_is_not_held(self, index: int) -> None:
        job = self.model.jobs[self.pick(index, "running")]
        process = self.process_of(job.id)
        noted = jobs.note_job(self.keys, self.next(), job.worker, process, b"[5, null]", [b"line"])
        report = Report(EPOCH_MS * 1000, "done")

        assert self.run(noted)
        claim = self.run(jobs.report_jobs(self.keys, self.next(), job.worker, [report]))

        assert claim.refused == [report.process]

    def leave(self, worker: str, loss: str) -> None:
        if worker in self.model.members:
            has_died = loss == "lost"
            command = jobs.leave_jobs(self.keys, self.next(), worker, bool(loss), b"", has_died)
            self.run(command)
            self.model.leave(worker, loss)

    @precondition(lambda self: bool(self.model.jobs))
    @rule(index=some_job, change=changes)
    def change(self, index: int, change: tuple[Any, ...]) -> None:
        name, *arguments = change
        getattr(self, name)(index, *arguments)

    @rule(what=rules)
    def manage(self, what: tuple[Any, ...]) -> None:
        name, *arguments = what
        getattr(self, name)(*arguments)

    def cancel(self, index: int) -> None:
        id = self.pick(index)
        [word] = self.run(job_records.cancel_jobs(self.keys, self.next(), [id]))

        assert word == self.model.cancel(id)

    def remove(self, index: int) -> None:
        id = self.pick(index)
        [word] = self.run(job_records.remove_jobs(self.keys, self.next(), [id]))

        assert word == self.model.remove(id)

    def retry(self, index: int) -> None:
        id = self.pick(index, "dead", "cancelled", "done")
        [word] = self.run(job_records.retry_jobs(self.keys, self.next(), [id]))

        assert word == self.model.retry(id)

    def reschedule(self, index: int, delay_ms: int) -> None:
        id = self.pick(index, "ready", "scheduled", "done")
        command = job_records.change_job(self.keys, self.next(), id, "delay", delay_ms)

        assert self.run(command) == self.model.reschedule(id, delay_ms)

    def reprioritise(self, index: int, priority: int) -> None:
        id = self.pick(index, "ready", "scheduled", "running")
        command = job_records.change_job(self.keys, self.next(), id, "priority", priority)

        assert self.run(command) == self.model.reprioritise(id, priority)

    def pause_queue(self, is_paused: bool) -> None:
        if is_paused:
            self.run(queues.pause_queue(self.keys, self.next()))
        else:
            self.run(queues.resume_queue(self.keys))
        self.model.is_paused = is_paused

    def pause_type(self, type: str, is_paused: bool) -> None:
        self.run(job_rules.pause_type(self.keys, self.next(), type, is_paused))
        (self.model.paused_types.add if is_paused else self.model.paused_types.discard)(type)

    def set_limit(self, key: str, limit: Limit | None) -> None:
        said = limit or Limit(0, 0.0, 0, 0.0)
        command = job_rules.set_limit(
            self.keys, self.next(), key, said.slots, said.rate, said.per_ms, said.burst
        )
        self.run(command)
        self.model.set_limit(key, limit)

    def share(self, tenant: str, share: int) -> None:
        self.run(job_rules.set_share(self.keys, self.next(), tenant, share))
        self.model.shares[tenant] = share

    def age(self, ageing_ms: int | None) -> None:
        self.run(queues.configure_queue(self.keys, self.next(), {"ageing_ms": ageing_ms}))
        self.model.ageing_ms = ageing_ms or 0

    def purge(self, limit: int) -> None:
        gone, _ = self.run(job_records.purge_jobs(self.keys, self.next(), limit))

        assert gone == self.model.purge(KEEP_MS, KEEP_COUNT, limit)

    @invariant()
    def all_is_as_predicted(self) -> None:
        self.stored = check_jobs(self.store, self.keys)
        found = {
            id_number(job.id): (job.state, job.failures, job.crashes, job.lapses)
            for job in self.stored.jobs.values()
        }
        predicted = {
            job.id: (job.state, job.failures, job.crashes, job.lapses)
            for job in self.model.jobs.values()
        }
        assert found == predicted
        assert self.stored.running == {
            worker: {self.process_of(job.id): id_text(job.id) for job in held}
            for worker in self.model.members
            if (held := self.model.held(worker))
        }
        listings = [f"{STATE_CODES[state]}A:" for state in JOB_STATES]
        counted = self.run(job_records.count_jobs(self.keys, listings))
        states = [job.state for job in self.model.jobs.values()]
        assert counted == [states.count(state) for state in JOB_STATES]
        self.is_sound = True

    def compare(self, claim: claims.Claim[HandedOut], predicted: Claim) -> None:
        ids = [id_number(job.id) for job in claim.found]
        assert (claim.word, ids, claim.wait_ms) == (
            predicted.word,
            predicted.ids,
            predicted.wait_ms,
        )

    def process_of(self, id: int) -> int:
        return self.stored.jobs[id_text(id)].process

    def teardown(self) -> None:
        """Whatever has happened, once nothing is paused every job comes to its end, though workers
        sleep for as long as they are told.
        """
        if not self.is_sound:
            return
        self.pause_queue(False)
        for type in TYPES:
            self.pause_type(type, False)
        for worker in list(self.model.members):
            self.leave(worker, "")
        self.join("w1")
        for _ in range(300):
            claim = self.ask("w1", 8)
            self.all_is_as_predicted()
            held = [(job.id, "done", 0) for job in self.model.held("w1")]
            if held:
                reports = [Report(self.process_of(id), "done") for id, _, _ in held]
                self.run(jobs.report_jobs(self.keys, self.next(), "w1", reports))
                self.model.report("w1", held, 0)
                self.all_is_as_predicted()
            elif claim.wait_ms < 0:
                break
            else:
                self.advance(max(1, claim.wait_ms))
        states = {job.state for job in self.model.jobs.values()}
        assert states <= {"done", "dead", "cancelled"}


def _head(job: Job) -> bytes:
    head = pack_head(
        JobOptions(
            type=job.type,
            priority=job.priority,
            attempts=job.attempts,
            expires_ms=job.expires_ms,
            tenant=job.tenant,
            key=job.key,
            unique=job.unique.encode(),
            unique_mode=job.mode,  # type: ignore[arg-type]
            is_kept=job.is_kept,
            is_at_most_once=job.is_at_most_once,
            tags=job.tags,
        ),
        job.words,
    )
    return with_cause(head, job.cause) if job.cause else head


def _report(process: int, outcome: Any, delay_ms: int) -> Report:
    if outcome == "not begun":
        return Report(process, "stopped")
    return Report(process, outcome, 1, 1, delay_ms, "", _payload(outcome))


def _payload(outcome: str) -> bytes:
    return b"j1" if outcome == "done" else b'["E", "", ""]' if outcome in ("failed",) else b""


@pytest.fixture
def simulated_store() -> Iterator[Store]:
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder)).start()
        store = Store(parse_url(server.url), dialect=SIMULATED)
        store.open()
        yield store
        store.close()
        server.kill()


@pytest.mark.timeout(900)  # a failure takes its time to be made small
def test_random_operations_do_what_the_model_says(simulated_store: Store) -> None:
    run_state_machine_as_test(
        lambda: JobMachine(simulated_store),  # type: ignore[arg-type]
        settings=settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
