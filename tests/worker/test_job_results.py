"""Waiting for results while connections come and go."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import penstock
from penstock.client.results import watch
from penstock.errors import ResultTimeout, StoreUnavailable
from tests.servers import wait_for
from tests.worker.job_kinds import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.running_worker import RunningWorker
    from tests.servers import RedisServer

    Serve = Callable[..., RunningWorker]


def test_no_result_is_missed_while_connections_are_cut_all_the_time(
    own_server: RedisServer, namespace: str, serve: Serve
) -> None:
    is_over = threading.Event()

    def cut() -> None:
        # Long enough for a request to get through on a busy machine, or nothing could ever happen.
        while not is_over.wait(0.1):
            for kind in ("normal", "pubsub"):
                own_server.command("CLIENT", "KILL", "TYPE", kind)

    with penstock.connect(own_server.url, namespace=namespace) as ps:
        serve(in_thread, url=own_server.url)
        thread = threading.Thread(target=cut)
        thread.start()
        jobs = [in_thread.on(ps).send("describe itself") for _ in range(60)]
        found = [job.result(60)["job"] for job in jobs]
        is_over.set()
        thread.join()

    assert found == [job.id for job in jobs]


def test_a_client_that_waited_for_nothing_for_long_can_still_wait(
    ps: penstock.Penstock, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_SILENCE_S", 0.1)
    serve(in_thread)
    in_thread.on(ps).send("describe itself").result(20)

    # So long that the client has asked several times whether the server is still there.
    later = in_thread.on(ps).options(delay=0.5).send("describe itself")
    wait_for(lambda: later.state == "done")

    assert in_thread.on(ps).send("describe itself").result(20)


def test_a_caller_that_waits_is_told_when_the_client_is_closed(
    server: RedisServer, namespace: str
) -> None:
    errors: list[BaseException] = []
    ps = penstock.connect(server.url, namespace=namespace)
    job = ps.jobs("mail").add("never")

    def wait() -> None:
        try:
            job.result()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    channel = ps.keys.queue("mail").ending_channel(job._number)
    wait_for(lambda: dict(server.client.pubsub_numsub(channel))[channel.encode()])
    ps.close()
    thread.join(20)

    [error] = errors
    assert isinstance(error, StoreUnavailable)
    assert "the client was closed while somebody waited" in str(error)


def test_a_connection_that_has_gone_silent_is_given_up_also_while_others_begin_to_wait(
    own_server: RedisServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_SILENCE_S", 0.3)
    with penstock.connect(own_server.url, namespace=namespace) as ps:
        with suppress(ResultTimeout):
            ps.jobs("mail").add("never").result(0.2)
        [opened] = ps.results._mine().by_place.values()
        # Made while the channel is open, so that nothing is asked about it.
        job = ps.jobs("mail").add("never")
        listener = opened._listener
        os.kill(own_server.pid, signal.SIGSTOP)
        try:

            def is_given_up() -> bool:
                with suppress(ResultTimeout):
                    job.result(0.05)
                return opened._listener is not listener

            wait_for(is_given_up)
        finally:
            os.kill(own_server.pid, signal.SIGCONT)
