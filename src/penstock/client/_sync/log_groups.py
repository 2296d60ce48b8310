# Generated from _async/log_groups.py by tools/generate_sync.py. Edit that file instead.

"""A group of consumers of a log: who owns which partition, how far it has come, what it gave up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client._sync.log_reading import check_numbers
from penstock.errors import InvalidArgument
from penstock.model.instants import instant_ms
from penstock.model.logs import START, check_id, id_key
from penstock.model.names import check_name, shown
from penstock.store.commands import log_groups, log_members

if TYPE_CHECKING:
    from penstock.client._sync.log import Log
    from penstock.model.instants import Instant
    from penstock.model.logs import FailedMessage, Lag, Message
    from penstock.model.taken import Taken

_ERRORS_AT_ONCE = 100
_MAX_REASON = 4000
_MAX_EPOCH = 2**53


class LogGroup:
    """One group. Several groups read a log independently of each other."""

    def __init__(self, log: Log, name: str) -> None:
        self.log = log
        self.name = check_name("group", name)
        self._store = log._store
        self._keys = log._keys

    def join(self) -> None:
        """Be on the list of groups that read the log. Raises LogNotFound."""
        self._store.run(log_groups.note_group(self._keys, self.name))

    def take(self, partition: int, owner: str, *, epoch: int = 0, start: str = "earliest") -> Taken:
        """Make `owner` the owner of a partition; the answer is its epoch and the message after
        which it goes on. What owners with older epochs commit is refused from now on.

        `epoch` is one that another coordinator gave; it must be greater than all before (0: the
        next). `start` is "earliest" or "latest" for a group that is new here, or an id: the group
        goes on after it if it has not come so far.

        Raises OffsetRefused if `epoch` is too small, QueueFull if there are too many groups.
        """
        if type(epoch) is not int or not 0 <= epoch < _MAX_EPOCH:
            raise InvalidArgument(f"epoch is {shown(epoch)}; give a whole number from 0 up")
        if start not in ("earliest", "latest"):
            check_id(start)
        return self.log._in_partition(
            partition,
            lambda keys, born: self._store.run_once(
                lambda operation: log_groups.take_partition(
                    keys, operation, born, self.name, owner, epoch, start
                )
            ),
        )

    def commit(self, partition: int, epoch: int, offset: str) -> None:
        """Everything up to message `offset` is handled. The same offset may be committed again,
        which says that the group is alive. Raises OffsetRefused.
        """
        keys = self._keys.partition(partition)
        self._store.run(log_groups.commit_offset(keys, self.name, epoch, check_id(offset)))

    def seek(
        self, to: Instant | None = None, *, id: str | None = None, partition: int | None = None
    ) -> None:
        """Let the group go on with the first message that was appended at a time or later, or
        after the message `id` of a partition; with neither, from the oldest that is there.

        It may go back as well as ahead; a time or id that is yet to come stands for the end of
        what is there. The owners of now are refused, and take their partitions
        again.
        """
        if id is not None and (to is not None or partition is None):
            raise InvalidArgument("an id belongs to one partition; give the partition and no time")
        offset = START if to is None else _offset_before(instant_ms("to", to))
        facts = self.log.facts()
        numbers = range(facts.partitions) if partition is None else [partition]
        for number in numbers:
            place = offset if id is None else check_id(id)
            if id is None and to is None:
                place = (self.log.partition_info(number)).trimmed_to or START
            self._seek(number, place)

    def pause(self, partition: int | None = None) -> None:
        """Read nothing for now, of one partition or of all. Who owns what stays as it is; batches
        that run come to their end.
        """
        self._pause(partition, is_paused=True)

    def resume(self, partition: int | None = None) -> None:
        """Go on reading; also where a partition stands still, as a message failed for good."""
        self._pause(partition, is_paused=False)

    def paused(self) -> list[int]:
        """The partitions that are paused."""
        facts = self.log.facts()
        found = []
        for number in range(facts.partitions):
            key = self._keys.partition(number).paused
            if self._store.call(key, "SISMEMBER", key, self.name):
                found.append(number)
        return found

    def lag(self) -> list[Lag]:
        """How far it is behind, by partition; those that it has never read are left out."""
        facts = self.log.facts()
        return [
            lag
            for number in range(facts.partitions)
            for lag in self._store.run(log_groups.count_lag(self._keys.partition(number)))
            if lag.reader == self.name
        ]

    def note_error(
        self, partition: int, epoch: int, message: Message, reason: str, attempts: int
    ) -> str:
        """Keep a message that is given up, with the reason; returns the id under which it is kept.
        Raises OffsetRefused if the partition has a newer owner.
        """
        keys = self._keys.partition(partition)
        return self._store.run_once(
            lambda operation: log_groups.note_error(
                keys, operation, self.name, epoch, message, reason[:_MAX_REASON], attempts
            )
        )

    def errors(
        self, partition: int, after: str = START, limit: int = _ERRORS_AT_ONCE
    ) -> list[FailedMessage]:
        """Messages of a partition that were given up, oldest first."""
        keys = self._keys.partition(partition)
        key = keys.errors(self.name)
        start = f"({check_id(after)}"
        entries = self._store.call(key, "XRANGE", key, start, "+", "COUNT", limit)
        if not entries:
            self.log._check_partition(partition)
        return log_groups.open_errors(partition, entries)

    def count_errors(self, partition: int | None = None) -> int:
        """How many messages were given up and not replayed, of one partition or of all."""
        facts = self.log.facts()
        found = 0
        for number in check_numbers(partition, facts):
            key = self._keys.partition(number).errors(self.name)
            found += self._store.call(key, "XLEN", key)
        return found

    def replay(self, partition: int | None = None) -> int:
        """Append what was given up to its partition again, for this group alone; returns how many.
        Each is either among the errors or among the messages, at every instant. What is given up
        anew meanwhile stays among the errors.
        """
        facts = self.log.facts()
        replayed = 0
        for number in check_numbers(partition, facts):
            key = self._keys.partition(number).errors(self.name)
            newest = self._store.call(key, "XREVRANGE", key, "+", "-", "COUNT", 1)
            last = id_key(newest[0][0].decode()) if newest else id_key(START)
            while found := [e.id for e in self.errors(number) if id_key(e.id) <= last]:
                replayed += self._replay(number, found)
        return replayed

    def forget(self) -> None:
        """Forget how far the group has come, and its errors: it holds nothing back any more."""
        facts = self.log.facts()
        for number in range(facts.partitions):
            self._forget(number)
        self._store.run(log_groups.note_group(self._keys, self.name, reads=False))

    def _pause(self, partition: int | None, is_paused: bool) -> None:
        facts = self.log.facts()
        for number in range(facts.partitions) if partition is None else [partition]:
            self.log._in_partition(
                number,
                lambda keys, born: self._store.run(
                    log_members.pause_reading(keys, born, self.name, is_paused)
                ),
            )

    def _seek(self, partition: int, offset: str) -> None:
        self.log._in_partition(
            partition,
            lambda keys, born: self._store.run_once(
                lambda operation: log_groups.seek_group(keys, operation, born, self.name, offset)
            ),
        )

    def _replay(self, partition: int, ids: list[str]) -> int:
        return self.log._in_partition(
            partition,
            lambda keys, born: self._store.run_once(
                lambda operation: log_groups.replay_errors(keys, operation, born, self.name, ids)
            ),
        )

    def _forget(self, partition: int) -> None:
        keys = self._keys.partition(partition)
        self._store.run_once(lambda operation: log_groups.forget_group(keys, operation, self.name))


def _offset_before(ms: int) -> str:
    """The greatest offset that comes before all messages of a time."""
    return f"{ms - 1}-9999999999999999" if ms > 0 else START
