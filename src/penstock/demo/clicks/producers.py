"""What fills the log: two producers, each with partitions of its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.client.connect import connect
from penstock.demo.clicks.consumers import LOG, NAMESPACE
from penstock.errors import PenstockError
from penstock.model.logs import NewMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.client.log import Log

_AT_ONCE = 20
_EVERY_S = 0.05


class Producer:
    """Appends to its partitions until it is stopped; a message is its number in its partition."""

    def __init__(self, url: str, partitions: Sequence[int]) -> None:
        self.appended = dict.fromkeys(partitions, 0)
        """partition -> messages whose append was acknowledged"""
        self.error: PenstockError | None = None
        self._client = connect(url, namespace=NAMESPACE)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Again is harmless."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._client.close()

    def _run(self) -> None:
        log = self._client.log(LOG)
        try:
            while not self._is_over.wait(_EVERY_S):
                self._append(log)
        except PenstockError as error:
            self.error = error

    def _append(self, log: Log) -> None:
        for partition, count in self.appended.items():
            numbers = range(count, count + _AT_ONCE)
            log.append_many(NewMessage(b"%d" % n, partition=partition) for n in numbers)
            self.appended[partition] = count + _AT_ONCE
