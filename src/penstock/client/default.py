"""The client that `.send()` uses when none is named: made on first use, from the settings."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from penstock.client.connect import aconnect, connect
from penstock.client.environment import limits_of_environment

if TYPE_CHECKING:
    from penstock.client._async.client import AsyncPenstock
    from penstock.client._sync.client import Penstock


class _Default:
    def __init__(self) -> None:
        self.new_lock()
        self._client: Penstock | None = None
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncPenstock] = (
            WeakKeyDictionary()
        )
        self._pid = os.getpid()
        self._given: tuple[Penstock, AsyncPenstock] | None = None

    def new_lock(self) -> None:
        """Also called in a child process: if another thread held the lock at the fork, no thread of
        the child would release it.
        """
        self._lock = threading.Lock()

    def client(self) -> Penstock:
        if self._given is not None:
            return self._given[0]
        with self._lock:
            if self._client is None or self._pid != os.getpid():
                self._client = connect(**limits_of_environment())
                self._pid = os.getpid()
            return self._client

    async def async_client(self) -> AsyncPenstock:
        if self._given is not None:
            return self._given[1]
        loop = asyncio.get_running_loop()
        client = self._loops.get(loop)
        if client is None:
            client = self._loops[loop] = await aconnect(**limits_of_environment())
        return client

    def replace(
        self, clients: tuple[Penstock, AsyncPenstock] | None
    ) -> tuple[Penstock, AsyncPenstock] | None:
        """Use these from now on, the second on every event loop; None: those made here. Returns
        what was given before.
        """
        old, self._given = self._given, clients
        return old


_default = _Default()
os.register_at_fork(after_in_child=_default.new_lock)
default_client = _default.client
default_async_client = _default.async_client
replace_default_clients = _default.replace
