# Generated from _async/store.py by tools/generate_sync.py. Edit that file instead.

"""Runs commands: the one place where scripts are sent, and sent again."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.connection._sync.permissions import find_permissions
from penstock.connection._sync.router import router
from penstock.connection._sync.transport import pause, run_blocking
from penstock.connection.answers import is_passing, store_error, unavailable
from penstock.connection.lanes import Lanes
from penstock.connection.retry import REPEATABLE_S, Patience
from penstock.connection.wire import (
    ConnectionLost,
    NotSent,
    ReplyError,
    check_store,
    pack,
    pack_with,
    parse_info,
    version_of,
)
from penstock.errors import PenstockError, StoreError, StoreUnavailable
from penstock.store.command import Command, Operation, Page
from penstock.store.script import CLUSTER, STANDALONE, Dialect, Script

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connection.address import Address
    from penstock.connection.lanes import Lane
    from penstock.connection.settings import PrivateServer
    from penstock.connection.wire import Meanwhile
    from penstock.store.keys import NamespaceKeys
    from penstock.store.permissions import Permissions

R = TypeVar("R")

log = logging.getLogger("penstock.client")

_SOON_S = 1.0
"""Enough to replace connections that a restart of the server has broken."""
_TELL_AFTER = 5  # tries, half a second or so; shorter outages are not logged


class Store:
    """The Redis that holds the queues.

    A request whose reply was lost is sent again with the same number, for up to `retry_for_s`
    (None: for as long as the store remembers the number, which is most of an hour; reads for ever);
    the scripts see to it that it has one effect. A private `server` that is gone is started again.
    """

    def __init__(
        self,
        address: Address,
        retry_for_s: float | None = 30.0,
        timeout_s: float = 5.0,
        dialect: Dialect | None = None,
        server: PrivateServer | None = None,
    ) -> None:
        self.address = address
        self.server = server
        self.router = router(address, timeout_s)
        self.retry_for_s = retry_for_s
        self._repeat_for_s = min(REPEATABLE_S if retry_for_s is None else retry_for_s, REPEATABLE_S)
        self._is_given_up = False
        self._lanes = Lanes()
        self._dialect = dialect
        self._digests: dict[Script, str] = {}
        self.permissions: Permissions | None = None
        """what is denied to the user, if anything is"""

    def open(self, keys: NamespaceKeys | None = None) -> dict[str, str]:
        """Look at the server before it is trusted with tasks, and learn which scripts it needs; and
        what its user may not do with these keys.

        Raises UnsafeStore, PermissionMissing.
        """
        info = parse_info(self.call("{}", "INFO"))
        check_store(info, self.address)
        if self.address.topology == "cluster":
            self._check_nodes()
        if self._dialect is None:
            is_sharded = self.address.topology == "cluster" and version_of(info) >= (7, 0)
            self._dialect = CLUSTER if is_sharded else STANDALONE
        if keys is not None:
            self.permissions = find_permissions(self, keys, version_of(info))
            if self.permissions is not None:
                self.permissions.check_connection()
        return info

    @property
    def dialect(self) -> Dialect:
        assert self._dialect is not None, "the store is not open"
        return self._dialect

    def run(self, command: Command[R] | Page[R]) -> R:
        """Run a command that may be repeated as it is."""
        if isinstance(command, Page):
            read = self.call(command.key, *command.parts)
            answer: R = command.decode(read, self.run(command.check))
            return answer
        return command.decode(self._send(command, self.retry_for_s))

    def run_soon(self, command: Command[R]) -> R:
        """The same for a caller that cannot wait: it is repeated for a second at most."""
        return command.decode(self._send(command, _SOON_S))

    def run_once(
        self,
        build: Callable[[Operation], Command[R]],
        meanwhile: Meanwhile = None,
    ) -> R:
        """Run a command that has one effect however often it is sent, because it carries a
        number. `meanwhile` is called while it is under way, if it gets so far.
        """
        lane = self._lanes.take()
        command = build(Operation(lane.name, lane.number))
        try:
            reply = self._send(command, self._repeat_for_s, meanwhile)
        except StoreError as error:
            self._give_back_refused(lane, error)
            raise
        self._lanes.give_back(lane)
        return command.decode(reply)

    def call(self, key: str, *parts: bytes | str | int) -> Any:
        """Run one command of Redis that only reads."""
        return self._persist(key, [pack(*parts)], self.retry_for_s)

    def close(self) -> None:
        self.router.close()

    def give_up(self) -> None:
        """Repeat no request any more that is under way: no caller waits for its reply."""
        self._is_given_up = True

    def _send(
        self,
        command: Command[R],
        retry_for_s: float | None,
        meanwhile: Meanwhile = None,
    ) -> list[Any]:
        script, keys, args, _, more = command
        digest = self._digests.get(script) or self._learn(script)
        packed = pack_with(("EVALSHA", digest, len(keys), *keys, *args), more)
        sent_at = time.monotonic() if meanwhile is not None else 0.0
        is_unanswered = False
        try:
            reply = self.router.exchange(
                keys[0], packed, meanwhile, others_first=script.tells_others
            )
            if type(reply) is list:
                return reply
            self._check(reply)
        except ConnectionLost as error:
            is_unanswered = not isinstance(error, NotSent)
            if meanwhile is not None:
                # What was done meanwhile may have taken longer than the store remembers numbers.
                took_s = time.monotonic() - sent_at
                if took_s > REPEATABLE_S:
                    raise unavailable(
                        self.address, took_s, error, is_unanswered, self.server
                    ) from error
                retry_for_s = min(retry_for_s or 0.0, REPEATABLE_S - took_s)
            self.router.forget()
        return self._repeat(command, packed, retry_for_s, is_unanswered)

    def _repeat(
        self,
        command: Command[R],
        packed: bytes,
        retry_for_s: float | None,
        is_unanswered: bool,
    ) -> list[Any]:
        """Send a command again that was not answered as it should be."""
        script, keys, args, _, more = command
        # EVAL runs the script and teaches it to the server, in case that is what was missing.
        text = script.text(self.dialect)
        tries = [pack_with(("EVAL", text, len(keys), *keys, *args), more), packed]
        return self._persist(  # type: ignore[no-any-return]
            keys[0], tries, retry_for_s, is_unanswered
        )

    def _persist(
        self,
        key: str,
        tries: list[bytes],
        retry_for_s: float | None,
        is_unanswered: bool = False,
    ) -> Any:
        """Send the forms of one request one after the other until one is answered.
        `is_unanswered` says that it was sent before, and no answer came.
        """
        patience = Patience(retry_for_s)
        answered = failed = 0
        while True:
            reason: Exception
            try:
                reply = self.router.exchange(key, tries[answered % len(tries)])
                if not isinstance(reply, ReplyError):
                    return reply
                self._check(reply)
                reason = reply
                # Only after an answer: otherwise EVAL, which teaches the script, could be the one
                # that meets a connection which was cut while it was not in use, and never arrive.
                answered += 1
            except ConnectionLost as error:
                reason = error
                is_unanswered = is_unanswered or not isinstance(error, NotSent)
                if self.server is not None and isinstance(error, NotSent):
                    reason = self._revive(self.server, error)
            self.router.forget()
            failed += 1
            if failed == _TELL_AFTER:
                log.warning("not done, trying again store=%s error=%s", self.address, reason)
            wait_s = patience.next_wait_s()
            if wait_s is not None:
                pause(wait_s)
            if wait_s is None or self._is_given_up:
                waited_s = patience.waited_s()
                raise unavailable(
                    self.address, waited_s, reason, is_unanswered, self.server
                ) from reason

    def _revive(self, server: PrivateServer, error: NotSent) -> NotSent:
        """Start the private server again; returns what is to be said if it does not come."""
        try:
            run_blocking(server.revive)
        except PenstockError as failure:
            return NotSent(f"{error}; it could not be started again: {failure}")
        return error

    def _check(self, reply: Any) -> None:
        """Raise an error that would be the same another time. A script that went wrong half way
        must not be begun again: it would take its own writes for those of another request.
        """
        if isinstance(reply, ReplyError):
            is_unknown = str(reply).startswith("NOSCRIPT")
            if not is_unknown and not is_passing(reply):
                raise store_error(reply, self.address)

    def _give_back_refused(self, lane: Lane, error: StoreError) -> None:
        """The lane is free if the server has answered, also with an error, or was never asked;
        without an answer the request may still be under way.
        """
        if not (isinstance(error, StoreUnavailable) and error.may_have_taken_effect):
            self._lanes.give_back(lane)

    def _check_nodes(self) -> None:
        """Check every node, as tasks can be lost on any. One that is down is not checked."""
        try:
            nodes = self.router.every_node()
        except ConnectionLost:
            return
        for node in nodes:
            try:
                reply = node.exchange(pack("INFO"))
            except ConnectionLost:
                continue
            if not isinstance(reply, ReplyError):
                check_store(parse_info(reply), self.address)

    def _learn(self, script: Script) -> str:
        if self.permissions is not None:
            self.permissions.check_script(script)
        self._digests[script] = digest = script.digest(self.dialect)
        return digest
