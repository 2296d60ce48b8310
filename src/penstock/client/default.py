"""The client that `.send()` uses when none is named: made on first use, from the settings."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from penstock.client.connect import aconnect, connect

if TYPE_CHECKING:
    from penstock.client._async.client import AsyncPenstock
    from penstock.client._sync.client import Penstock


class _Default:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: Penstock | None = None
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncPenstock] = (
            WeakKeyDictionary()
        )
        self._pid = os.getpid()

    def client(self) -> Penstock:
        with self._lock:
            if self._client is None or self._pid != os.getpid():
                self._client, self._pid = connect(), os.getpid()
            return self._client

    async def async_client(self) -> AsyncPenstock:
        loop = asyncio.get_running_loop()
        client = self._loops.get(loop)
        if client is None:
            client = self._loops[loop] = await aconnect()
        return client

    def replace(self, client: Penstock | None) -> Penstock | None:
        """Use another client from now on; returns the one used until now, which is not closed."""
        with self._lock:
            old, self._client, self._pid = self._client, client, os.getpid()
            return old


_default = _Default()
default_client = _default.client
default_async_client = _default.async_client
replace_default_client = _default.replace
