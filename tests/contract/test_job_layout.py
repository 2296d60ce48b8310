"""What another version has written is left alone, and said to be so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.codec.ids import id_text
from penstock.errors import ProtocolError, UnknownLayout
from penstock.model.jobs import LAYOUT
from penstock.store.keys import NamespaceKeys
from tests.job_samples import (
    HELD,
    JOB_IDS,
    QUEUE,
    SCRIPTS,
    more_job_commands,
    sample_job_commands,
    sample_job_world,
)
from tests.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import RedisServer
    from tests.stored import Value

NEWER = LAYOUT + 1
REFUSAL = (
    rf"these jobs were written by a newer penstock \(layout {NEWER}; this version knows "
    rf"{LAYOUT}\); upgrade this program before it touches them"
)
OLDER = LAYOUT - 1
OLD_REFUSAL = (
    rf"these jobs were written by an older penstock \(layout {OLDER}; this version knows "
    rf"{LAYOUT}\); let workers of that version empty it"
)
EITHER = pytest.mark.parametrize(
    ("layout", "refusal"), [(NEWER, REFUSAL), (OLDER, OLD_REFUSAL)], ids=["newer", "older"]
)
MORE = list(more_job_commands(NamespaceKeys("ns"), dict.fromkeys(HELD, 0)))


@pytest.fixture
def ps(server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    with penstock.connect(server.url, namespace=namespace) as client:
        yield client


@pytest.fixture
def client(server: RedisServer) -> Any:
    return server.client


def everything_but_memory(server: RedisServer, namespace: str) -> dict[str, Value]:
    """A refusal may be remembered, as any answer."""
    stored = Stored(server, namespace).everything()
    return {key: value for key, value in stored.items() if ":memory:" not in key}


@EITHER
@pytest.mark.parametrize("name", [*SCRIPTS, *MORE])
def test_a_queue_of_another_version_is_refused_and_nothing_is_written(
    name: str, ps: penstock.Penstock, server: RedisServer, client: Any, layout: int, refusal: str
) -> None:
    processes = sample_job_world(ps.store, ps.keys)
    samples = sample_job_commands(ps.keys, processes) | more_job_commands(ps.keys, processes)
    client.hset(ps.keys.queue(QUEUE).meta, "layout", layout)
    before = everything_but_memory(server, ps.keys.namespace)

    with pytest.raises(ProtocolError, match=refusal):
        ps.store.run(samples[name])

    assert everything_but_memory(server, ps.keys.namespace) == before


@pytest.mark.parametrize("name", [*SCRIPTS, *MORE])
def test_so_is_one_whose_layout_is_no_number(
    name: str, ps: penstock.Penstock, server: RedisServer, client: Any
) -> None:
    processes = sample_job_world(ps.store, ps.keys)
    samples = sample_job_commands(ps.keys, processes) | more_job_commands(ps.keys, processes)
    client.hset(ps.keys.queue(QUEUE).meta, "layout", "new")
    before = everything_but_memory(server, ps.keys.namespace)

    with pytest.raises(UnknownLayout, match=r"layout of these jobs is b'new', which is no number"):
        ps.store.run(samples[name])

    assert everything_but_memory(server, ps.keys.namespace) == before


@pytest.mark.parametrize(
    "act",
    ["add", "page", "counts", "types", "retry", "purge", "delete", "configure", "pause", "resume"],
)
def test_a_client_says_that_the_queue_is_of_a_newer_version(
    act: str, ps: penstock.Penstock, server: RedisServer, client: Any
) -> None:
    mail = ps.jobs(QUEUE)
    mail.add("email", {})
    client.hset(ps.keys.queue(QUEUE).meta, "layout", NEWER)
    before = everything_but_memory(server, ps.keys.namespace)
    arguments: dict[str, list[object]] = {"add": ["email", {}], "page": ["ready"]}

    with pytest.raises(ProtocolError, match=REFUSAL):
        getattr(mail, act)(*arguments.get(act, []))

    assert everything_but_memory(server, ps.keys.namespace) == before


def test_a_queue_of_a_newer_version_is_not_configured_as_one_of_tasks(
    ps: penstock.Penstock, server: RedisServer, client: Any
) -> None:
    ps.jobs(QUEUE).add("email", {})
    client.hset(ps.keys.queue(QUEUE).meta, "layout", NEWER)
    before = everything_but_memory(server, ps.keys.namespace)

    with pytest.raises(ProtocolError, match=REFUSAL):
        ps.queue(QUEUE).configure(max_length=1)

    assert everything_but_memory(server, ps.keys.namespace) == before


@pytest.mark.parametrize("start", ["start_work", "start_job_work"])
def test_a_worker_that_a_newer_queue_does_not_let_in_leaves_nothing_behind(
    start: str, ps: penstock.Penstock, server: RedisServer, client: Any
) -> None:
    ps.jobs(QUEUE).add("email", {})
    client.hset(ps.keys.queue(QUEUE).meta, "layout", NEWER)
    before = everything_but_memory(server, ps.keys.namespace)

    with ps.worker() as worker, pytest.raises(ProtocolError, match=REFUSAL):
        getattr(worker, start)(QUEUE)

    assert everything_but_memory(server, ps.keys.namespace) == before


@EITHER
@pytest.mark.parametrize(
    ("kind", "name"), [("jobs", "urgent"), ("jobs", "held"), ("facts", "held")]
)
def test_a_record_of_another_version_is_not_read(
    kind: str, name: str, ps: penstock.Penstock, client: Any, layout: int, refusal: str
) -> None:
    sample_job_world(ps.store, ps.keys)
    key, number = f"{ps.keys.queue(QUEUE).tag}:{kind}", JOB_IDS[name]
    client.hset(key, number, bytes([layout]) + client.hget(key, number)[1:])

    with pytest.raises(ProtocolError, match=refusal):
        ps.job(id_text(number), queue=QUEUE).info()


def test_a_job_is_found_though_another_queue_cannot_be_read(
    ps: penstock.Penstock, client: Any
) -> None:
    ps.jobs("a newer one").add("email", {})
    client.hset(ps.keys.queue("a newer one").meta, "layout", NEWER)
    job = ps.jobs(QUEUE).add("email", {})

    assert ps.job(job.id) == job
    with pytest.raises(UnknownLayout, match=f"no queue that can be read, .* one': {REFUSAL}"):
        ps.job(penstock.new_job_id())


def test_a_queue_has_the_layout_of_its_records(ps: penstock.Penstock, client: Any) -> None:
    ps.jobs(QUEUE).add("email", {})
    keys = ps.keys.queue(QUEUE)

    assert client.hget(keys.meta, "layout") == str(LAYOUT).encode()
    [record] = client.hvals(f"{keys.tag}:jobs")
    assert record[0] == LAYOUT
