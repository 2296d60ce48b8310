"""Gives back what a worker held that could not leave by itself."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.client.client import Penstock
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.connection.settings import Settings

log = logging.getLogger("penstock.worker")

_PATIENCE_S = 5.0


def give_back(settings: Settings, worker: str, how: str = "") -> None:
    """As lost, if it is said `how` the worker has ended; else it was stopped, and what it held goes
    back at no cost.
    """
    try:
        with Penstock(replace(settings, retry_for_s=_PATIENCE_S)) as client:
            client.open()
            returned = client.fail_worker(worker, how) if how else client.release_worker(worker)
    except PenstockError as error:
        log.error("peers give its work back when its lease ends, as this failed: %s", error)
    else:
        log.info("gave its work back id=%s returned=%d dead=%d", worker, *returned)
