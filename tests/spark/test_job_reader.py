"""What the reader of jobs returns, without Spark: partitions are read one after the other here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from penstock.codec.attempts import pack_error
from penstock.errors import InvalidArgument, InvalidName, QueueNotFound, UnknownLayout, WrongKind
from penstock.model.jobs import JOB_STATES, JobError, Report
from penstock.spark.clients import find_connection
from penstock.spark.job_reader import JobReader
from penstock.spark.kinds import READ_JOBS
from penstock.spark.options import parse_request
from penstock.spark.schemas import JOBS, arrow_schema
from tests.contract.job_workers import Hand

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import RedisCluster, RedisServer

    Read = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def mail(ps: penstock.Penstock) -> penstock.Jobs:
    return ps.jobs("mail")


@pytest.fixture
def reader(server: RedisServer, namespace: str) -> Callable[..., JobReader]:
    return lambda **options: make_reader(server.url, namespace, options)


@pytest.fixture
def read(reader: Callable[..., JobReader]) -> Read:
    return lambda **options: rows_of(reader(**options))


def make_reader(url: str, namespace: str, options: dict[str, str]) -> JobReader:
    request = parse_request([READ_JOBS], {"jobs": "mail", **options})
    return JobReader(request, find_connection(url, namespace))


def rows_of(reader: JobReader) -> list[dict[str, Any]]:
    schema = arrow_schema(JOBS)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    rows: list[dict[str, Any]] = pa.Table.from_batches(batches, schema).to_pylist()
    return rows


def instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_a_waiting_job_has_what_was_sent(mail: penstock.Jobs, read: Read) -> None:
    job = mail.add(
        "email",
        {"to": "é"},
        priority="high",
        tenant="acme",
        tags=["a", "b"],
        key="smtp",
        unique="u1",
        attempts=3,
    )

    [row] = read(state="ready")

    assert row == {
        **dict.fromkeys(JOBS.names),
        "id": job.id,
        "queue": "mail",
        "type": "email",
        "state": "ready",
        "data": '{"to":"é"}',
        "priority": -10,
        "tenant": "acme",
        "tags": ["a", "b"],
        "limit_key": "smtp",
        "unique": "u1",
        "attempts": 3,
        "failures": 0,
        "crashes": 0,
        "lapses": 0,
        "created_at": instant(job.info().created_at),
        "due_at": instant(job.info().due_at),
    }


def test_a_job_that_is_done_has_its_result_and_times(
    mail: penstock.Jobs, ps: penstock.Penstock, read: Read
) -> None:
    job = mail.add("email")
    hand = Hand(ps)
    hand.finish(hand.take_one(), {"size": 7})

    [row] = read(state="done")

    info = job.info()
    assert (row["result"], row["result_bytes"]) == ('{"size":7}', None)
    assert row["started_at"] == instant(info.started_at)
    assert row["finished_at"] == instant(info.finished_at)
    assert (row["worker"], row["error_type"]) == (info.worker or None, None)


def test_data_and_results_that_are_no_text_are_bytes(
    mail: penstock.Jobs, ps: penstock.Penstock, read: Read
) -> None:
    mail.add_many("email", [b"\xff\x00", b"plain"])
    hand = Hand(ps)
    first, second = hand.take(2)
    hand.finish(first, b"\xfe")
    hand.finish(second)

    rows = read(state="done")

    columns = ("data", "data_bytes", "result", "result_bytes")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        (None, b"\xff\x00", None, b"\xfe"),
        ("plain", None, None, None),
    ]


def test_a_dead_job_has_its_reason_and_error(
    mail: penstock.Jobs, ps: penstock.Penstock, read: Read
) -> None:
    mail.add("email")
    hand = Hand(ps)
    error = pack_error(JobError("OSError", "no file \udcff", "Traceback"))
    hand.report(Report(hand.take_one().process, "failed", payload=error))

    [row] = read(state="dead")

    assert (row["reason"], row["failures"], row["result"]) == ("failed", 1, None)
    assert row["error_type"] == "OSError"
    assert row["error_message"] == "no file ?"
    assert row["error_traceback"] == "Traceback"


def test_jobs_are_read_in_every_state(
    mail: penstock.Jobs, ps: penstock.Penstock, read: Read
) -> None:
    hand = Hand(ps)
    for number, state in enumerate(("done", "dead", "cancelled")):
        mail.add("email", number)
        job = hand.take_one()
        if state == "cancelled":
            mail.get(job.id).cancel()
        hand.end_as(job, state)
    mail.add("email", 3)
    hand.take_one()
    mail.add("email", 4, delay=60)
    mail.add("email", 5)

    rows = read(state=" , ".join(JOB_STATES))

    assert sorted((row["data"], row["state"]) for row in rows) == [
        *(("0", "done"), ("1", "dead"), ("2", "cancelled")),
        *(("3", "running"), ("4", "scheduled"), ("5", "ready")),
    ]
    assert [row["worker"] for row in rows if row["state"] == "running"] == ["hand"]


def test_many_jobs_are_read_once_each_however_they_are_split(
    mail: penstock.Jobs, reader: Callable[..., JobReader]
) -> None:
    jobs = mail.add_many("email", range(3000))

    for pages, splits in ((1, 6), (2, 3), (64, 1)):
        chosen = reader(state="ready", pagesPerPartition=str(pages))

        assert len(chosen.partitions()) == splits
        assert sorted(row["id"] for row in rows_of(chosen)) == sorted(job.id for job in jobs)


def test_only_jobs_of_a_type_and_tenant_are_read(mail: penstock.Jobs, read: Read) -> None:
    for type_ in ("email", "sms"):
        for tenant in ("", "acme"):
            mail.add(type_, [type_, tenant], tenant=tenant)

    assert [row["data"] for row in read(state="ready", type="sms")] == [
        '["sms",""]',
        '["sms","acme"]',
    ]
    assert len(read(state="ready", tenant="acme")) == 2
    assert [row["data"] for row in read(state="ready", type="email", tenant="acme")] == [
        '["email","acme"]'
    ]


def test_only_jobs_created_in_a_time_are_read(mail: penstock.Jobs, read: Read) -> None:
    created = mail.add("email").info().created_at
    at, later = (instant(created + seconds).isoformat() for seconds in (0, 1))

    assert len(read(state="ready", since=at, until=later)) == 1
    assert read(state="ready", until=at) == []
    assert read(state="ready", since=later) == []


def test_a_queue_without_jobs_in_the_state_has_no_rows(mail: penstock.Jobs, read: Read) -> None:
    mail.add("email")

    assert read(state="dead,running") == []


def test_what_is_no_queue_of_jobs_is_refused(ps: penstock.Penstock, read: Read) -> None:
    with pytest.raises(QueueNotFound, match="there is no queue 'mail'"):
        read(state="ready")
    ps.queue("mail").enqueue(b"a")
    with pytest.raises(WrongKind, match="holds plain tasks, not jobs; read it with the option 'qu"):
        read(state="ready")
    with pytest.raises(InvalidName, match=r"queue name .* holds a control character"):
        read(jobs="a\n", state="ready")


def test_jobs_of_a_newer_layout_are_refused(
    mail: penstock.Jobs, ps: penstock.Penstock, read: Read
) -> None:
    mail.add("email")
    meta = ps.keys.queue("mail").meta
    ps.store.call(meta, "HSET", meta, "layout", "99")

    with pytest.raises(UnknownLayout, match="written by a newer penstock"):
        read(state="ready")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            "option 'state' is missing, which is needed to read jobs; give one or several of "
            "scheduled, blocked, ready, running, done, dead, cancelled, with commas between them",
        ),
        ({"state": "waiting"}, "option 'state' is 'waiting'; give one or several of scheduled"),
        ({"state": ""}, "option 'state' is ''; give one or several of"),
        (
            {"state": "dead", "since": "2026-11-15T09:30:00"},
            "option 'since' is '2026-11-15T09:30:00'; give an instant in ISO 8601 with its offset",
        ),
        ({"state": "dead", "until": "soon"}, "option 'until' is 'soon'; give an instant"),
        (
            {"state": "dead", "pages_per_partition": "0"},
            "option 'pages_per_partition' is '0'; give a whole number from 1 to 100000",
        ),
    ],
)
def test_wrong_options_are_refused(read: Read, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read(**options)


def test_jobs_are_read_from_any_store(
    any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    with penstock.connect(any_store.url, namespace=namespace) as ps:
        sent = ps.jobs("mail").add_many("email", range(600))

    rows = rows_of(make_reader(any_store.url, namespace, {"state": "ready"}))

    assert [row["id"] for row in rows] == [job.id for job in sent]
