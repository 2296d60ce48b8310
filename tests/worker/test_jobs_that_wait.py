"""A job that waits for the result of another keeps its slot; what that leads to is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import ResultTimeout
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.running_worker import RunningWorker

    Serve = Callable[..., RunningWorker]


def test_a_job_that_waits_for_one_that_only_it_could_make_room_for_is_told_so(
    ps: penstock.Penstock, serve: Serve
) -> None:
    said: list[str] = []
    children: list[penstock.Job[Any]] = []
    explained: list[str] = []

    @penstock.job(queue="mail", type="child")
    def child() -> str:
        return "grown"

    @penstock.job(queue="mail", type="parent")
    def parent() -> None:
        children.append(child.on(ps).send())
        with pytest.raises(ResultTimeout) as caught:
            children[0].result(1)
        said.append(str(caught.value))
        explained.append(str(children[0].explain()))

    serve(parent, child, concurrency=1)
    job = parent.on(ps).send()

    job.result(20)
    taken = f"is taken by job {job.id}; if one of them waits for the result of this one, neither"
    assert f"has not ended within 1 s; job {job.id} waits for it and keeps a slot" in said[0]
    assert taken in said[0]
    assert taken in explained[0]
    assert children[0].result(20) == "grown"


def test_a_wait_outside_of_a_job_says_where_to_look(ps: penstock.Penstock) -> None:
    job = ps.jobs("mail").add("email")

    with pytest.raises(ResultTimeout, match=rf"`penstock job explain {job.id}` says what it wait"):
        job.result(0.05)


def test_a_job_that_waits_in_vain_for_one_that_nobody_handles_is_told_that(
    ps: penstock.Penstock, serve: Serve
) -> None:
    said: list[str] = []

    @penstock.job(queue="mail", type="parent")
    def parent() -> None:
        other = ps.jobs("other").add("stranger")
        with pytest.raises(ResultTimeout) as caught:
            other.result(0.05)
        said.append(str(caught.value))

    serve(parent)
    parent.on(ps).send()

    wait_for(lambda: said != [])
    assert "no worker serves queue 'other'" in said[0]


def test_a_coroutine_that_waits_is_told_too(
    server: Any, namespace: str, ps: penstock.Penstock, serve: Serve
) -> None:
    said: list[str] = []

    @penstock.job(queue="mail", type="child")
    async def child() -> None: ...

    @penstock.job(queue="mail", type="parent")
    async def parent() -> None:
        async with await penstock.aconnect(server.url, namespace=namespace) as aps:
            waiting = await child.on(aps).send()
            with pytest.raises(ResultTimeout) as caught:
                await waiting.result(1)
            said.append(str(caught.value))

    serve(parent, child, concurrency=1)
    job = parent.on(ps).send()

    job.result(20)
    assert f"job {job.id} waits for it and keeps a slot" in said[0]
    assert f"taken by job {job.id}" in said[0]
