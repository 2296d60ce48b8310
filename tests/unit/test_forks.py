"""A child process can send, whatever other threads of its parent were doing at the fork."""

from __future__ import annotations

import os
import signal

import pytest

from penstock.client import default
from penstock.connection import job_ids


@pytest.mark.parametrize("lock", [job_ids._numbers, default._default], ids=["ids", "client"])
def test_a_lock_that_was_held_is_free_in_the_child(lock: job_ids._Numbers) -> None:
    with lock._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            os._exit(0 if lock._lock.acquire(timeout=5) else 1)

    assert os.waitpid(child, 0)[1] == 0
