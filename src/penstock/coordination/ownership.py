"""The nodes of ZooKeeper that say who owns a partition, and how far its owners have come.

    owners/<partition>    ephemeral   the name of the owner's member node
    offsets/<partition>   kept        epoch and offset

An offset is written on condition that there is an owner and that nobody has written the offset
since, and each claim writes it first. So an owner that lost its partition is refused, whatever it
believes.

Each method may be repeated after a lost connection: it first sees what became of the try before.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from penstock.coordination.coordinator import is_later
from penstock.coordination.sessions import call, transact

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from penstock.model.taken import Taken


@dataclass(slots=True)
class Claim:
    """A partition, as its owner knows it."""

    epoch: int
    offset: str
    version: int
    """of the node with the offset: the one that this owner wrote last"""
    is_unsure: bool = False
    """a write was not answered"""
    copied: str = ""
    """how far the store knows of it"""


class Ownership:
    """What one member owns, in one session."""

    def __init__(self, session: KazooClient, path: str, member: str) -> None:
        """`path` is the node of the group, `member` the name of the member node."""
        self._session = session
        self._path = path
        self._member = member.encode()

    async def own(self, partition: int) -> bool:
        """False if another member has it."""
        path = f"{self._path}/owners/{partition}"
        try:
            await call(self._session.create_async, path, self._member, ephemeral=True)
        except NodeExistsError:
            with suppress(NoNodeError):
                owner, _ = await call(self._session.get_async, path)
                return bool(owner == self._member)
            return False
        return True

    async def fence(self, partition: int, taken: Taken) -> Claim | None:
        """Write the new epoch beside the offset, after which no owner of before can write there.
        None if the partition is not owned any more.
        """
        path = f"{self._path}/offsets/{partition}"
        while True:
            record = await self._read(path)
            if record is None:
                with suppress(NodeExistsError):
                    await call(self._session.create_async, path, b"0 ")
                continue
            if record.epoch == taken.epoch:
                return Claim(taken.epoch, record.offset, record.version)
            offset = _newer(record, taken)
            try:
                version = await self._write(partition, taken.epoch, offset, record.version)
            except BadVersionError:
                continue
            except NoNodeError:
                return None
            return Claim(taken.epoch, offset, version)

    async def commit(self, partition: int, claim: Claim, offset: str) -> None:
        """Raises BadVersionError or NoNodeError if the partition is another member's."""
        record = None
        if claim.is_unsure:
            record = await self._read(f"{self._path}/offsets/{partition}")
            if record is not None and record.epoch == claim.epoch:
                claim.version = record.version
        if record is None or (record.epoch, record.offset) != (claim.epoch, offset):
            claim.is_unsure = True
            claim.version = await self._write(partition, claim.epoch, offset, claim.version)
        claim.is_unsure = False
        claim.offset = offset

    async def disown(self, partition: int) -> None:
        """Harmless if another member has it by now."""
        path = f"{self._path}/owners/{partition}"
        with suppress(NoNodeError):
            owner, _ = await call(self._session.get_async, path)
            if owner == self._member:
                await call(self._session.delete_async, path)

    async def _write(self, partition: int, epoch: int, offset: str, version: int) -> int:
        value = f"{epoch} {offset}".encode()
        _, stat = await transact(
            self._session,
            ("check", f"{self._path}/owners/{partition}", -1),
            ("set_data", f"{self._path}/offsets/{partition}", value, version),
        )
        return int(stat.version)

    async def _read(self, path: str) -> _Record | None:
        try:
            value, stat = await call(self._session.get_async, path)
        except NoNodeError:
            return None
        epoch, _, offset = value.decode().partition(" ")
        return _Record(int(epoch), offset, stat.version)


class _Record(NamedTuple):
    epoch: int
    offset: str
    version: int


def _newer(record: _Record, taken: Taken) -> str:
    """Both ZooKeeper and the store have an offset, and either may have lost some. That of the newer
    epoch counts, as an offset that was set from outside begins one; within an epoch, the later.
    """
    if record.epoch != taken.before:
        return record.offset if record.epoch > taken.before else taken.offset
    return record.offset if is_later(record.offset, taken.offset) else taken.offset
