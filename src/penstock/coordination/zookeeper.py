"""Coordination through ZooKeeper: who is there, and who is to have what.

    <folder>/penstock/<namespace>/<log>/<group>/
        members/<guid>-<number>   ephemeral   who it is, its weight, the partitions it knows of
        owners/, offsets/         see `ownership.py`

A membership is one session. When that ends, ZooKeeper removes its nodes and takes nothing more from
it, and the member joins again as another one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    NoAuthError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.protocol.states import KazooState, KeeperState

from penstock.coordination.coordinator import Claimed, Coordinator, Membership, is_later
from penstock.coordination.ownership import Ownership
from penstock.coordination.sessions import call, new_session
from penstock.coordination.settling import SETTLE_S, Settling
from penstock.errors import PermissionMissing
from penstock.model.names import key_part
from penstock.model.taken import Deaths
from penstock.model.workers import Lease, lease_clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kazoo.client import KazooClient

    from penstock.coordination.address import ZooKeeperAddress
    from penstock.coordination.coordinator import Group, Positions
    from penstock.coordination.ownership import Claim

log = logging.getLogger("penstock.zookeeper")

_SAFE_PART = 0.8
"""of the session's time-out: a follower that dies takes with it what the leader did not know yet"""
_BEATS = 4
"""in that time"""
_TOGETHER_S = 0.05
"""changes that come one upon the other are read together"""
_TELL_EVERY_S = 10.0
_CLOSE_S = 5.0
_REFUSALS = 3
_REFUSED_S = 0.5
_AWAY = (ConnectionLoss, OperationTimeoutError)
_OVER = (SessionExpiredError, ConnectionClosedError)


class ZooKeeperCoordinator(Coordinator):
    """Members meet below a node of their group."""

    def __init__(
        self,
        address: ZooKeeperAddress,
        namespace: str,
        positions: Callable[[Group], Positions],
        *,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._address = address
        self._root = f"{address.folder}/penstock/{_node(namespace)}"
        self._positions = positions
        self._settle_s = settle_s

    async def join(self, group: Group, member: str, weight: int = 1) -> Membership:
        refusals = 0
        while True:
            try:
                return await self._join(group, member, weight)
            except AuthFailedError:
                # A server that goes away while it looks at a password says no more than one that
                # does not like it.
                refusals += 1
                if refusals == _REFUSALS:
                    raise self._refused("it does not accept the password") from None
                await asyncio.sleep(_REFUSED_S)
            except (NoAuthError, InvalidACLError):
                raise self._refused(f"nodes below '{self._root}' belong to others") from None

    async def _join(self, group: Group, member: str, weight: int) -> Membership:
        # Nodes are named from the root, as kazoo does not make a chroot of several levels.
        session = new_session(replace(self._address, folder=""), self._address.session_s)
        path = f"{self._root}/{_node(group.log)}/{_node(group.name)}"
        membership = ZooKeeperMembership(group, member, session, path, self._positions(group))
        try:
            await membership.begin(weight, self._settle_s, str(self._address))
        except BaseException:
            await membership.leave()
            raise
        return membership

    def _refused(self, why: str) -> PermissionMissing:
        who = (
            f"user '{self._address.username}'"
            if self._address.username
            else "clients without a user"
        )
        return PermissionMissing(
            f"the ZooKeeper at {self._address} refuses {who}: {why}; check user, password and "
            "auth of its address (zookeeper://user:password@host:2181/folder)"
        )


class SessionLease(Lease):
    """A session, as its client counts it."""

    def __init__(self) -> None:
        super().__init__(0)
        self.is_suspended = True
        """not connected: the session goes on, but nothing new may be begun"""

    def lasts(self, session_s: float) -> None:
        self._lease_s = session_s

    @property
    def is_over(self) -> bool:
        """It may have ended, though nobody has said so."""
        return self.is_lost or lease_clock() >= self._ends_at

    @property
    def is_valid(self) -> bool:
        return not self.is_suspended and not self.is_over


class ZooKeeperMembership(Membership):
    """One session, and the nodes that live as long as it does."""

    lease: SessionLease

    def __init__(
        self, group: Group, member: str, session: KazooClient, path: str, positions: Positions
    ) -> None:
        super().__init__(group, member, SessionLease())
        self._session = session
        self._path = path
        self._positions = positions
        self._guid = secrets.token_hex(8)
        self._node = ""
        """the name of the member node"""
        self._ownership = Ownership(session, path, "")
        self._claims: dict[int, Claim] = {}
        self._is_connected = asyncio.Event()
        self._is_stale = asyncio.Event()
        """something has changed, or may have changed while nobody told"""
        self._loop = asyncio.get_running_loop()
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, weight: int, settle_s: float, address: str) -> None:
        """Connect, for as long as it takes, and become a member."""
        self._session.add_listener(self._state_changed)
        self._session.start_async()
        await self._connected(address)
        session_s = self._session._session_timeout / 1000 * _SAFE_PART
        self.lease.lasts(session_s)
        sent_at = lease_clock()
        about = {"member": self.member, "weight": weight, "partitions": self.group.partitions}
        self._node = await self._persist(lambda: self._enter(json.dumps(about).encode()))
        self._ownership = Ownership(self._session, self._path, self._node)
        self.lease.renewed(sent_at)
        beat = asyncio.create_task(self._beat(session_s / _BEATS))
        follow = asyncio.create_task(self._follow(Settling(self._node, settle_s)))
        self._tasks = [beat, follow]

    async def claim(self, partition: int) -> Claimed | None:
        if self.lease.is_lost:
            return None
        try:
            if not await self._persist(lambda: self._ownership.own(partition)):
                return None
            taken = await self._positions.take(partition, self.member)
            claim = await self._persist(lambda: self._ownership.fence(partition, taken))
        except _OVER:
            return None
        if claim is None:
            return None
        self._claims[partition] = claim
        # What was tried is after the offset that the store knew.
        known = Deaths(min(1, taken.deaths.crashes), taken.deaths.how)
        deaths = taken.deaths if claim.offset == taken.offset else known
        return Claimed(claim.epoch, claim.offset, deaths)

    async def commit(self, partition: int, offset: str) -> None:
        claim = self._claims.get(partition)
        if claim is None or self.lease.is_lost:
            raise self._lost(partition)
        if is_later(offset, claim.offset):
            try:
                await self._persist(lambda: self._ownership.commit(partition, claim, offset))
            except (NoNodeError, BadVersionError, *_OVER):
                raise self._lost(partition) from None
        # The copy by which retention and lag go, and from which a wiped ZooKeeper is filled again.
        if not is_later(claim.copied, offset):
            if not await self._positions.commit(partition, claim.epoch, offset):
                raise self._lost(partition)
            claim.copied = offset

    async def release(self, partition: int) -> None:
        self._claims.pop(partition, None)
        if not self.lease.is_lost:
            with suppress(*_OVER):
                await self._persist(lambda: self._ownership.disown(partition))

    async def leave(self) -> None:
        self._lose()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # The end of the session removes all its nodes. kazoo waits for its threads in here.
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(_close, self._session), _CLOSE_S)

    def _grown(self) -> None:
        self._is_stale.set()

    # Who is there.

    async def _enter(self, about: bytes) -> str:
        """Make the member node, unless a try before this one did, whose answer was lost."""
        members = f"{self._path}/members"
        for folder in (members, f"{self._path}/owners", f"{self._path}/offsets"):
            await call(self._session.ensure_path_async, folder)
        for name in await call(self._session.get_children_async, members):
            if name.startswith(self._guid):
                return str(name)
        made = await call(
            self._session.create_async,
            f"{members}/{self._guid}-",
            about,
            ephemeral=True,
            sequence=True,
        )
        return str(made).rpartition("/")[2]

    async def _beat(self, every_s: float) -> None:
        """Count the lease from before each request that was answered, as the answer proves that the
        session lived. So a process that was frozen, or is cut off, knows without being told when
        its session may have ended.
        """
        path = f"{self._path}/members/{self._node}"
        while not self.lease.is_over:
            sent_at = lease_clock()
            asking = asyncio.ensure_future(call(self._session.exists_async, path))
            await asyncio.wait([asking], timeout=every_s)
            if not asking.done():
                asking.cancel()
            elif (error := asking.exception()) is None:
                if asking.result() is None:
                    log.warning("the member node is gone, joining again member=%s", self.member)
                    break
                self.lease.renewed(sent_at)
                await asyncio.sleep(every_s)
            elif isinstance(error, _AWAY):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_connected.wait(), every_s / 2)
            else:
                break
        self._over()

    async def _follow(self, settling: Settling) -> None:
        """Keep `assigned` right, whatever changes."""
        with suppress(*_OVER):
            while not self.lease.is_lost:
                self._is_stale.clear()
                view = await self._persist(self._look)
                settling.seen(view.weights, view.owners, view.partitions, time.monotonic())
                await self._assign_until_stale(settling)
        self._over()

    async def _assign_until_stale(self, settling: Settling) -> None:
        while not self._is_stale.is_set():
            now = time.monotonic()
            self._assign(settling.assigned(now))
            due_at = settling.due_at(now)
            with suppress(TimeoutError):
                async with asyncio.timeout(None if due_at == inf else due_at - now):
                    await self._is_stale.wait()
        await asyncio.sleep(_TOGETHER_S)

    async def _look(self) -> _View:
        """The group, with watches that tell of the next change."""
        members = await self._read_all("members")
        owners = await self._read_all("owners")
        abouts = {name: json.loads(about) for name, about in members.items()}
        return _View(
            {name: max(1, int(about["weight"])) for name, about in abouts.items()},
            {int(name): owner.decode() for name, owner in owners.items()},
            max([self.group.partitions, *(int(about["partitions"]) for about in abouts.values())]),
        )

    async def _read_all(self, folder: str) -> dict[str, bytes]:
        path = f"{self._path}/{folder}"
        names = await call(self._session.get_children_async, path, watch=self._watched)
        found = await asyncio.gather(
            *(call(self._session.get_async, f"{path}/{name}") for name in names),
            return_exceptions=True,
        )
        values: dict[str, bytes] = {}
        for name, value in zip(names, found, strict=True):
            if isinstance(value, NoNodeError):
                continue  # gone since, of which the watch tells
            if isinstance(value, BaseException):
                raise value
            values[name] = value[0]
        return values

    # The session.

    async def _connected(self, address: str) -> None:
        began_at = time.monotonic()
        while not self._is_connected.is_set():
            if self._session.client_state == KeeperState.AUTH_FAILED:
                raise AuthFailedError
            self._is_stale.clear()
            try:
                async with asyncio.timeout(_TELL_EVERY_S):
                    await self._is_stale.wait()
            except TimeoutError:
                waited_s = time.monotonic() - began_at
                log.warning("ZooKeeper does not answer address=%s for_s=%.0f", address, waited_s)

    async def _persist(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Try again for as long as the connection breaks and the session may live."""
        while True:
            try:
                return await act()
            except _AWAY:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_connected.wait(), _TOGETHER_S)
                if self.lease.is_lost:
                    raise SessionExpiredError from None
            except ConnectionClosedError:
                # It was connected for a moment, until the server had looked at the password.
                if self._session.client_state == KeeperState.AUTH_FAILED:
                    raise AuthFailedError from None
                raise

    def _state_changed(self, state: str) -> None:
        # In a thread of kazoo, which must not wait for anything.
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._take_note, state)

    def _take_note(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._is_connected.set()
            self._is_stale.set()  # the watches went with the connection
            self.lease.is_suspended = False  # the same session: of a new one `LOST` tells before
        elif state == KazooState.SUSPENDED:
            self._is_connected.clear()
            self.lease.is_suspended = True
        else:
            self._is_stale.set()  # while joining, this is what is waited for
            if self._node:
                self._over()

    def _watched(self, event: object) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._is_stale.set)

    def _over(self) -> None:
        if not self.lease.is_lost:
            log.warning("the session with ZooKeeper is over member=%s", self.member)
            self._lose()


class _View(NamedTuple):
    weights: dict[str, int]
    owners: dict[int, str]
    partitions: int


def _node(name: str) -> str:
    """Any name as the name of a node; `.` and `..` may not be one."""
    return key_part(name).replace(".", "%2E")


def _close(session: KazooClient) -> None:
    session.stop()
    session.close()
