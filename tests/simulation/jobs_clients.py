"""Who sends jobs, fires schedules, and turns knobs. All of them use the real client."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.codec.heads import pack_head
from penstock.codec.ids import id_text
from penstock.errors import (
    IllegalMove,
    JobConflict,
    JobNotFound,
    QueueFull,
    QueueNotFound,
    ScheduleNotFound,
    StoreUnavailable,
)
from penstock.model.history import BEGINNING
from penstock.model.job_options import JobSettings, make_options
from penstock.worker.schedules import fire_schedules
from tests.simulation.batch_writers import BatchWriter, StagedChunk, move_everything
from tests.simulation.jobs_history import GIVEN_IDS
from tests.simulation.jobs_pump import TYPES
from tests.simulation.jobs_workers import work
from tests.simulation.programs import Sleep
from tests.simulation.server import QUEUES, Violated

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from random import Random

    from penstock.client.job import AsyncJob
    from penstock.client.jobs import AsyncJobs
    from tests.simulation.jobs_look import Job
    from tests.simulation.jobs_scheduler import JobScheduler
    from tests.simulation.programs import Program

PRIORITIES = (0, 0, 0, 10, -5, -10, 3)
TENANTS = ("", "", "acme", "zeta", "tiny")
KEYS = ("", "", "host", "api")
UNIQUE = ("red", "green")
SCHEDULES = ("hourly", "nightly")
_EXPECTED = (
    *(IllegalMove, JobNotFound, QueueNotFound, ScheduleNotFound, StoreUnavailable, QueueFull),
)
"""what may be in the way of an operator"""


async def produce(scheduler: JobScheduler, program: Program) -> None:
    """Sends jobs with all kinds of options, one by one and in bulk."""
    random = scheduler.random
    for _ in range(random.randint(3, 8)):
        if scheduler.is_draining:
            return
        jobs = program.client.jobs(random.choice(QUEUES))
        batch = scheduler.new_data(1 if scheduler.is_calm else random.choice((1, 1, 1, 2, 3)))
        settings = draw_options(scheduler)
        if "id" in settings:
            batch = [settings["id"].encode()]  # the same id comes with the same data, mostly
        if random.random() < 0.05:
            batch[0] += b" changed"
        options = make_options(random.choice(TYPES), settings)
        try:
            sent = await jobs.send(options, batch)
            scheduler.history.accepted(jobs.name, batch, sent)
            if not all(job.is_new for job in sent):
                scheduler.happened(f"send met a job that was there: {options.unique_mode or 'id'}")
        except QueueFull:
            scheduler.happened("queue full")
        except JobConflict:
            scheduler.happened("id belongs to another job")
        except StoreUnavailable:
            scheduler.happened("producer gave up")
        await Sleep(random.expovariate(1 / 600))


async def write(scheduler: JobScheduler, program: Program) -> None:
    """Writes a batch of jobs, some of which have unique keys that others have too."""
    random = scheduler.random
    partitions = [
        [_new_chunk(scheduler) for _ in range(random.choice((1, 1, 2, 3)))]
        for _ in range(random.choice((1, 1, 2)))
    ]
    writer = BatchWriter(scheduler, program, "jobs", scheduler.new_batch())
    try:
        await writer.write(partitions)
    except StoreUnavailable:
        scheduler.happened("writer gave up")


def _new_chunk(scheduler: JobScheduler) -> StagedChunk:
    """Jobs in one or two groups, each with the same options."""
    random = scheduler.random
    chunk = StagedChunk([], [])
    for _ in range(random.choice((1, 1, 2))):
        settings = draw_options(scheduler)
        settings.pop("id", None)  # ids are made by the program that moves the chunk
        options = make_options(random.choice(TYPES), settings)
        batch = scheduler.new_data(random.choice((1, 2, 4)))
        numbers = (options.delay_ms, options.run_at_ms, options.window_ms, len(batch))
        chunk.strings.extend([pack_head(options), *(b"%d" % number for number in numbers)])
        chunk.strings.extend(part for data in batch for part in (b"", data))
        chunk.rows.extend(batch)
        if options.unique:
            scheduler.history.unique_rows.update(dict.fromkeys(batch, options.unique))
    return chunk


async def move(scheduler: JobScheduler, program: Program) -> None:
    """Moves what was decided into the queues, as soon as there is room."""
    await move_everything(scheduler, program, "jobs")


def draw_options(scheduler: JobScheduler) -> JobSettings:
    random = scheduler.random
    if scheduler.is_calm or random.random() < 0.3:
        return {"attempts": 3}  # as most are; such a one may be handed over
    options: JobSettings = {
        "priority": random.choice(PRIORITIES),
        "tenant": random.choice(TENANTS),
        "key": random.choice(KEYS),
        "attempts": random.choice((1, 2, 3, 5)),
    }
    if random.random() < 0.3:
        options["delay"] = random.choice((0.001, 0.5, 2, 4))
    if random.random() < 0.15:
        options["expires"] = random.choice((0.5, 2, 6))
    if random.random() < 0.1:
        options["keep"] = False
    if random.random() < 0.1:
        options |= {"at_most_once": True, "attempts": 1}
    if random.random() < 0.1:
        options["tags"] = random.sample(("new", "hot"), random.choice((1, 2)))
    if random.random() < 0.35:
        _draw_unique(random, options)
    elif random.random() < 0.1:
        options["id"] = id_text(random.choice(GIVEN_IDS))
    return options


def _draw_unique(random: Random, options: JobSettings) -> None:
    options["unique"] = random.choice(UNIQUE)
    options["unique_scope"] = random.choice(("type", "queue"))
    mode = random.choice(("queued", "done", "window", "debounce", "debounce"))
    if mode == "debounce":
        if random.random() < 0.7:
            options["unique"] = "blue"  # so that the next one of its kind finds it there
        options.pop("delay", None)
        options["debounce"] = random.choice((0.5, 2))
    elif mode == "window":
        options["unique_for"] = random.choice((1.0, 5.0))
    else:
        options["unique_for"] = mode  # type: ignore[typeddict-item]


async def fire(scheduler: JobScheduler, program: Program) -> None:
    """Adds its schedules, as an application does when it starts, then fires whatever is due, beside
    the workers and any other firer.
    """
    random = scheduler.random
    for _ in range(random.randint(5, 20)):
        if scheduler.is_draining:
            return
        queue = random.choice(QUEUES)
        try:
            if random.random() < 0.25:
                await _add_schedule(scheduler, program, queue, random.choice(SCHEDULES))
            else:
                await fire_schedules(program.client, program.client.keys.queue(queue), [])
        except StoreUnavailable:
            scheduler.happened("firer gave up")
        await Sleep(random.expovariate(1 / 600))


async def _add_schedule(scheduler: JobScheduler, program: Program, queue: str, name: str) -> None:
    random = scheduler.random
    options: JobSettings = {"attempts": 2}
    if random.random() < 0.2:
        options["unique"] = "schedule"
    # What is fired every second and made up for would flood the queue after each jump of the clock.
    misfire: Any = random.choice(("skip", "once")) if name == "hourly" else "all"
    times: dict[str, Any] = {"every": 1 if name == "hourly" else random.choice((8, 20))}
    if random.random() < 0.2:
        times = {"cron": "* * * * *"}
    data = scheduler.new_data(1)[0]
    await program.client.schedules(queue).add(
        name, random.choice(TYPES), data, misfire=misfire, **times, **options
    )
    scheduler.happened("schedule added")


async def operate(scheduler: JobScheduler, program: Program) -> None:
    """Somebody at a keyboard."""
    random = scheduler.random
    for _ in range(random.randint(5, 12)):
        await Sleep(random.expovariate(1 / 250))
        if scheduler.is_draining:
            return
        jobs = program.client.jobs(random.choice(QUEUES))
        try:
            await random.choice(_OPERATIONS)(scheduler, program, jobs)
        except _EXPECTED as error:
            scheduler.happened(f"operator met {type(error).__name__}")


def _may_be_retried(job: Job) -> bool:
    return job.stored.state in ("dead", "cancelled")


async def _change_job(scheduler: JobScheduler, program: Program, jobs: AsyncJobs) -> None:
    random = scheduler.random
    present = scheduler.look.queues[jobs.name].jobs
    known = sorted(present)
    ended = [id for id in known if _may_be_retried(present[id])]
    if not known:
        return
    job: AsyncJob[Any] = await jobs.get(random.choice(known))
    what = random.choice(("cancel", "cancel", "retry", "remove", "promote", "delay", "priority"))
    if what == "retry":
        job = await jobs.get(random.choice(ended or known))
    match what:
        case "cancel":
            scheduler.happened(f"cancelled a job, {await job.cancel()}")
        case "retry":
            await job.retry()
            scheduler.happened("retried a job")
        case "remove":
            await job.remove()
            scheduler.happened("removed a job")
        case "promote":
            await job.promote()
            scheduler.happened("promoted a job")
        case "delay":
            await job.reschedule(random.choice((0.0, 0.7, 3.0)))
            scheduler.happened("rescheduled a job")
        case _:
            await job.reprioritise(random.choice(PRIORITIES))
            scheduler.happened("reprioritised a job")


async def _change_many(scheduler: JobScheduler, program: Program, jobs: AsyncJobs) -> None:
    random = scheduler.random
    match random.choice(("retry", "cancel", "remove", "purge")):
        case "retry":
            scheduler.happened("dead jobs retried" if await jobs.retry() else "none to retry")
        case "cancel":
            await jobs.cancel(random.choice(("ready", "scheduled")), type=random.choice(TYPES))
        case "remove":
            await jobs.remove(random.choice(("done", "dead", "cancelled", "scheduled", "ready")))
        case _:
            scheduler.happened("purged" if await jobs.purge() else "nothing to purge")


async def _pause(scheduler: JobScheduler, program: Program, jobs: AsyncJobs) -> None:
    await jobs.pause()
    await Sleep(scheduler.random.expovariate(1 / 1_500))
    await jobs.resume()


async def _pause_type(scheduler: JobScheduler, program: Program, jobs: AsyncJobs) -> None:
    job_type = scheduler.random.choice(TYPES)
    await jobs.pause_type(job_type)
    await Sleep(scheduler.random.expovariate(1 / 1_500))
    await jobs.resume_type(job_type)


async def _limit(scheduler: JobScheduler, program: Program, jobs: AsyncJobs) -> None:
    random = scheduler.random
    key = random.choice(("", "*", "host", "host", "api", "api"))
    concurrency = random.choice((None, 1, 1, 2))
    rate = random.choice((None, None, 1.0, 3.0))
    burst = random.choice((1.0, 2.0, 4.0)) if rate else None
    await jobs.limit(key, concurrency=concurrency, rate=rate, burst=burst)
    scheduler.happened("limit set" if rate or concurrency else "limit lifted")


async def _configure(scheduler: JobScheduler, program: Program, jobs: AsyncJobs) -> None:
    random = scheduler.random
    match random.choice(("length", "length", "ageing", "keep", "share", "share")):
        case "length":
            await jobs.configure(max_length=random.choice((2, 3, 5, 10, None)))
        case "ageing":
            await jobs.configure(ageing_s=random.choice((0.5, 2.0, None)))
        case "keep":
            await jobs.configure(
                keep_count=random.choice((0, 3, None)), keep_s=random.choice((0.5, 5.0, None))
            )
        case _:
            await jobs.share(random.choice([t for t in TENANTS if t]), random.randint(1, 3))


async def _schedule(scheduler: JobScheduler, program: Program, jobs: AsyncJobs) -> None:
    random = scheduler.random
    schedules = program.client.schedules(jobs.name)
    name = random.choice(SCHEDULES)
    match random.choice(("add", "remove", "pause", "pause", "resume", "run")):
        case "add":
            await _add_schedule(scheduler, program, jobs.name, name)
        case "remove":
            await schedules.remove(name)
        case "pause":
            await schedules.pause(name)
            await Sleep(random.expovariate(1 / 1_500))
            await schedules.resume(name)
            scheduler.happened("schedule resumed")
        case "resume":
            await schedules.resume(name)
        case _:
            await schedules.run(name)


async def _read(scheduler: JobScheduler, program: Program, jobs: AsyncJobs) -> None:
    """Whatever one looks at must be there and make sense."""
    known = sorted(scheduler.look.queues[jobs.name].jobs)
    await jobs.counts()
    await jobs.types()
    await jobs.page("ready", limit=5)
    if known:
        job: AsyncJob[Any] = await jobs.get(scheduler.random.choice(known))
        if not (await job.explain()).reasons:
            raise Violated("nothing is said of why a job waits")
    await _read_history(scheduler, jobs)


async def _read_history(scheduler: JobScheduler, jobs: AsyncJobs) -> None:
    """Reads on from its mark, after which nothing may be lost; or reads no more."""
    bounds = await jobs.history_bounds()
    place = next((mark.place for mark in bounds.marks if mark.reader == "lake"), BEGINNING)
    if not (await jobs.history_bounds(place)).is_whole:
        raise Violated(f"the history of {jobs.name} has lost something after the mark {place}")
    entries = await jobs.history(place, limit=10)
    if await jobs.mark_history("lake", entries[-1].place if entries else ""):
        scheduler.happened("history marked" if entries else "history read to its end")


async def _delete(scheduler: JobScheduler, program: Program, jobs: AsyncJobs) -> None:
    if scheduler.random.random() < 0.4:
        deleted = await jobs.delete()
        scheduler.happened("queue deleted" if not deleted.running else "queue emptied")


async def _fail(scheduler: JobScheduler, program: Program, jobs: AsyncJobs) -> None:
    names = sorted(scheduler.look.leases)
    if names and scheduler.random.random() < 0.5:
        await program.client.fail_worker(scheduler.random.choice(names))
        scheduler.happened("operator failed a worker")


async def _pause_worker(scheduler: JobScheduler, program: Program, jobs: AsyncJobs) -> None:
    names = sorted(scheduler.look.leases)
    if names:
        name = scheduler.random.choice(names)
        await program.client.pause_worker(name)
        await Sleep(scheduler.random.expovariate(1 / 3_000))
        await program.client.resume_worker(name)
        scheduler.happened("worker paused and resumed")


_OPERATIONS = (
    *(_change_job, _change_job, _change_job, _change_job, _change_many),
    *(_pause, _pause_type, _pause_type, _limit, _limit, _limit),
    *(_configure, _configure, _schedule, _schedule, _read, _delete, _delete, _fail),
    _pause_worker,
)


async def heal(scheduler: JobScheduler, program: Program) -> None:
    """What somebody does when everything is over: nothing stays paused."""
    for name in QUEUES:
        jobs = program.client.jobs(name)
        if scheduler.random.random() < 0.7:
            for key in sorted(scheduler.look.queues[name].limits):
                await jobs.limit(key)
        await jobs.resume()
        if scheduler.random.random() < 0.7:
            await jobs.configure(max_length=None)
        for job_type in TYPES:
            await jobs.resume_type(job_type)
    for worker in await program.client.paused_workers():
        await program.client.resume_worker(worker)


async def come_late(scheduler: JobScheduler, program: Program) -> None:
    """Sends jobs when all is quiet, so that nothing but they themselves can wake anybody."""
    for name in QUEUES:
        jobs = program.client.jobs(name)
        for delay, key in ((0.0, "host"), (1.0, ""), (2.5, "api")):
            settings: JobSettings = {"delay": delay, "key": key, "attempts": 2}
            with suppress(QueueFull):
                await jobs.send(make_options("email", settings), scheduler.new_data(1))


async def close(scheduler: JobScheduler, program: Program) -> None:
    """No schedule sends anything any more."""
    for name in QUEUES:
        schedules = program.client.schedules(name)
        for state in await schedules.list():
            await schedules.remove(state.schedule.name)


async def bury(scheduler: JobScheduler, program: Program) -> None:
    """The queues are deleted for good."""
    for name in QUEUES:
        await program.client.jobs(name).delete()


ROUTINES = {
    "producer": produce,
    "worker": work,
    "sweeper": work,
    "writer": write,
    "mover": move,
    "firer": fire,
    "operator": operate,
    "healer": heal,
    "latecomer": come_late,
    "closer": close,
    "undertaker": bury,
}


def routine(scheduler: JobScheduler, program: Program) -> Coroutine[Any, Any, None]:
    return ROUTINES[program.kind](scheduler, program)
