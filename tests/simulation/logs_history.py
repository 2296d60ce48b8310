"""What was appended, processed and written down, and the promises about it, as it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.model.logs import id_key
from tests.log_promises import Batch, PartitionReading
from tests.simulation.arguments import Arguments
from tests.simulation.server import Violated

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from penstock.executors.batch_context import BatchContext
    from penstock.model.logs import Appended, Message, Reader
    from penstock.model.workers import Lease
    from penstock.store.command import Command
    from tests.simulation.logs_process import Process
    from tests.simulation.logs_world import Look

_MAY_APPEND = ("append_messages", "replay_errors")
_MAY_TRIM = ("append_messages", "trim_partition", "commit_offset")


class LogHistory:
    """Everything since the beginning."""

    def __init__(self, groups: tuple[str, ...], sometimes: Counter[str]) -> None:
        self.offered: set[bytes] = set()
        """bodies that somebody tried to append"""
        self.seen: dict[bytes, tuple[int, str]] = {}
        """bodies that were appended, and where; without an id if they were trimmed at once"""
        self.known: dict[int, list[str]] = {}
        """every message that was ever there, by partition"""
        self.readers: dict[tuple[str, int], Reader] = {}
        """where each group is in each partition, by what is stored"""
        self.readings: dict[tuple[str, int], PartitionReading] = {}
        self.broken: Violated | None = None
        """what a consumer has seen that must not be; nobody hears what it raises"""
        self._groups = groups
        self._sometimes = sometimes
        self._leases: dict[Batch, Lease] = {}
        self._settled: dict[tuple[str, int], dict[str, int]] = {}
        """messages that are done or given up, and the newest epoch of whose owner"""
        self._newest_lease: dict[tuple[str, int], tuple[int, Lease]] = {}
        self._trimmed_to: dict[int, str] = {}
        self._gaps: dict[tuple[str, int], str] = {}
        """up to where a group was told that messages are gone"""
        self._operations: set[tuple[str, int]] = set()
        self._epochs: dict[tuple[str, int, int], tuple[str, int]] = {}
        """group, partition and epoch -> the request that it was given to"""

    # What producers and consumers say.

    def accepted(self, appended: Appended, body: bytes) -> None:
        """A producer was told where its message is."""
        if self.seen.get(body) not in (appended, (appended.partition, "")):
            raise Violated(f"{body!r} was acknowledged as {appended}, but is {self.seen.get(body)}")

    def began(
        self, process: Process, group: str, context: BatchContext, messages: list[Message]
    ) -> Callable[[int], None]:
        """A consumer was given messages; it calls the answer with how many of them are done."""
        number, lease = messages[0].partition, context.origin.lease
        ids = tuple(message.id for message in messages)
        batch = Batch(number, context.token, process.number, ids)
        reading = self._reading(group, number)
        self._leases[batch] = lease
        self._newest_lease[group, number] = batch.epoch, lease
        if (gap := self._gaps.get((group, number))) is not None:
            reading.passed(gap)
        self._hold(lambda: reading.began(batch))
        if not lease.is_valid:
            self._break(f"{process.name} began {batch} of {group}, though its lease was over")

        def end(done: int) -> None:
            settled = self._settled.setdefault((group, number), {})
            for id in ids[:done]:
                settled[id] = max(batch.epoch, settled.get(id, 0))
            if not lease.is_valid:
                self._sometimes["batch ended after its lease"] += 1
            self._hold(lambda: reading.ended(batch, done))

        return end

    # What happened.

    def observe(self, command: Command[Any], reply: list[Any], look: Look) -> None:
        """A command about a partition has run."""
        name, arguments = command.script.name, Arguments(command)
        is_repetition = self._is_repetition(arguments)
        if is_repetition:
            self._sometimes["repetition absorbed"] += 1
        self._messages_came(name, look, is_repetition)
        if name == "append_messages" and reply[0] == b"ok" and not is_repetition:
            bodies = arguments["messages"][:: int(arguments["parts"])]
            for body in bodies[: len(bodies) - len(look.new)]:
                self.seen[body] = look.number, ""
                self._sometimes["message trimmed as it came"] += 1
        if name == "check_reading" and reply[0] == b"trimmed":
            self._gaps[arguments["group"], look.number] = reply[1].decode()
            self._sometimes["gap told"] += 1
        if name == "take_partition" and reply[0] == b"ok":
            self._taken(arguments, look.number, int(reply[1]))
        if name == "note_error" and not is_repetition:
            self._given_up(arguments, reply, look.number)
        if name == "commit_offset":
            self._committed(arguments, reply, look.number)
        for group in self._groups:
            self._group_changed(group, name, arguments, look)
        self._trimmed(name, arguments, look)

    def released(self, member: str, group: str, number: int) -> None:
        """An owner lets others have a partition: what is done has to be written down by then."""
        reader = self.readers.get((group, number))
        epoch, lease = self._newest_lease.get((group, number), (0, None))
        if reader is None or lease is None or not lease.is_valid:
            return
        if (reader.owner, reader.epoch) != (member, epoch):
            return
        reading = self._reading(group, number)
        settled = self._settled.get((group, number), {})
        later = reading.between(reader.offset, "9999999999999-0")
        unsaid = [id for id in later if settled.get(id) == epoch]
        if unsaid:
            raise Violated(f"{member} released {number} of {group} before {unsaid} were committed")
        self._sometimes["partition released"] += 1

    def left(self) -> dict[tuple[str, int], list[str]]:
        """What nobody has processed yet, or nobody has written down."""
        left = {}
        for key, reading in self.readings.items():
            offset = self.readers[key].offset if key in self.readers else "0-0"
            unread = reading.left or reading.between(offset, "9999999999999-0")
            if unread:
                left[key] = unread
        return left

    def _messages_came(self, name: str, look: Look, is_repetition: bool) -> None:
        for message in look.new:
            if name not in _MAY_APPEND:
                raise Violated(f"{message} came by {name}")
            if is_repetition:
                raise Violated(f"a repeated {name} had a second effect: {message}")
            if message.only_for is None:
                if message.body in self.seen:
                    raise Violated(f"{message.body!r} was appended twice")
                if message.body not in self.offered:
                    raise Violated(f"{message.body!r} is of nobody")
                self.seen[message.body] = look.number, message.id
            self.known.setdefault(look.number, []).append(message.id)
            for group in self._groups:
                if message.only_for in (None, group):
                    self._reading(group, look.number).appended([message.id])

    def _taken(self, arguments: Arguments, number: int, epoch: int) -> None:
        request = arguments["memory"], arguments["operation"]
        known = self._epochs.setdefault((arguments["group"], number, epoch), request)
        if known != request:
            raise Violated(f"epoch {epoch} of {arguments['group']} in {number} was given twice")

    def _given_up(self, arguments: Arguments, reply: list[Any], number: int) -> None:
        if reply[0] != b"ok":
            self._sometimes["error refused"] += 1
            return
        group, epoch, id = arguments["group"], arguments["epoch"], arguments["id"]
        self._check_owner("an error", group, epoch, number)
        self._settled.setdefault((group, number), {})[id] = epoch
        self._reading(group, number).passed(id)
        self._sometimes["message given up"] += 1

    def _committed(self, arguments: Arguments, reply: list[Any], number: int) -> None:
        if reply[0] == b"ok":
            self._check_owner("an offset", arguments["group"], arguments["epoch"], number)
        else:
            self._sometimes[f"commit refused: {reply[0].decode()}"] += 1

    def _check_owner(self, what: str, group: str, epoch: int, number: int) -> None:
        reader = self.readers.get((group, number))
        if reader is None or reader.epoch != epoch:
            raise Violated(
                f"{what} of epoch {epoch} was accepted of {group} in {number}, which has {reader}"
            )

    def _group_changed(self, group: str, name: str, arguments: Arguments, look: Look) -> None:
        key = group, look.number
        old, new = self.readers.get(key), look.readers.get(group)
        if new is None:
            if old is not None:
                raise Violated(f"{name} has forgotten {group} in {look.number}")
            return
        self.readers[key] = new
        reading = self._reading(*key)
        if old is None or name == "seek_group":
            if old is None or (old.epoch, old.offset) != (new.epoch, new.offset):
                reading.moved(new.epoch, new.offset)
            if old is not None and old.epoch > new.epoch:
                raise Violated(f"the epoch of {group} went back from {old} to {new}")
            return
        if new.epoch < old.epoch:
            raise Violated(f"the epoch of {group} went back from {old} to {new}")
        if new.epoch != old.epoch and name != "take_partition":
            raise Violated(f"{name} changed the epoch of {group} from {old} to {new}")
        if new.offset == old.offset:
            return
        if name != "commit_offset" or arguments["group"] != group:
            raise Violated(f"{name} moved {group} from {old} to {new}")
        if id_key(new.offset) < id_key(old.offset):
            raise Violated(f"the offset of {group} went back from {old} to {new}")
        settled, gap = self._settled.get(key, {}), id_key(self._gaps.get(key, ""))
        for id in reading.between(old.offset, new.offset):
            if settled.get(id) != new.epoch and id_key(id) > gap:
                raise Violated(f"{group} has committed {new}, but {id} is not done")
        self._sometimes["offset committed"] += 1

    def _trimmed(self, name: str, arguments: Arguments, look: Look) -> None:
        before = self._trimmed_to.get(look.number, "")
        if look.trimmed_to == before:
            return
        self._trimmed_to[look.number] = look.trimmed_to
        if id_key(look.trimmed_to) < id_key(before) or name not in _MAY_TRIM:
            raise Violated(f"{name} moved what is trimmed from {before} to {look.trimmed_to}")
        self._sometimes["trimmed"] += 1
        for group in self._groups:
            if (reader := look.readers.get(group)) is None:
                continue
            lost = self._reading(group, look.number).between(reader.offset, look.trimmed_to)
            if lost and not look.may_lose and not arguments.get("force"):
                raise Violated(f"{lost} were trimmed by {name}, though {group} is at {reader}")
            self._sometimes["messages lost by force"] += bool(lost)

    def _is_repetition(self, arguments: Arguments) -> bool:
        if "memory" not in arguments:
            return False
        operation = arguments["memory"], arguments["operation"]
        is_known = operation in self._operations
        self._operations.add(operation)
        return is_known

    def _reading(self, group: str, number: int) -> PartitionReading:
        key = group, number
        if key not in self.readings:
            self.readings[key] = PartitionReading(
                lambda batch, other: not self._leases[batch].is_valid
            )
        return self.readings[key]

    def _hold(self, act: Callable[[], None]) -> None:
        try:
            act()
        except AssertionError as error:
            self._break(str(error))

    def _break(self, what: str) -> None:
        self.broken = self.broken or Violated(what)
