"""How everything is packed that is stored about jobs, or said on a channel: one table for all.

The scripts get functions to open and to pack each form (`store/generated.py` writes them from these
tables), Python has `Form.open` and `Form.pack`. So a new field is one line here, and a value for it
where the form is packed. What is stored stays readable as long as LAYOUT does: only a form whose
readers ignore what follows (`ENDED`) may get fields at its end under the same layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from penstock.model.job_snapshot import HAS_ATTEMPTS, HAS_LOG, HAS_PROGRESS, KEPT_FOR_BATCH
from penstock.model.jobs import LAYOUT

SIZES = {"B": 1, "H": 2, "I4": 4, "I6": 6, "I7": 7, "i4": 4, "c1": 1, "Bc0": 1, "Hc0": 2, "I4c0": 4}
"""Format, as Lua's struct has it -> bytes of the number, or of the length that is before a text.

B and H are numbers, as are I and i (with a sign) of so many bytes; c1 is one letter; a number and
c0 are a text behind its length.
"""


class Same(NamedTuple):
    """As another field of the same form is."""

    name: str


@dataclass(frozen=True)
class Field:
    """One value of a form."""

    name: str
    format: str
    usual: int | str | Same | None = None
    """what it is in something new; None if that must be said"""
    is_head: bool = False
    """whether it is the head of a job, which scripts keep opened"""
    is_late: bool = False
    """whether the oldest lack it"""

    @cached_property
    def size(self) -> int:
        return SIZES[self.format]

    @cached_property
    def is_text(self) -> bool:
        return self.format.endswith("c0")

    @cached_property
    def is_number(self) -> bool:
        """Whether it is a number without a sign."""
        return self.format[0] in "BHI" and not self.is_text

    @cached_property
    def is_signed(self) -> bool:
        return self.format.startswith("i")

    def open(self, text: bytes, at: int) -> tuple[Any, int]:
        """The value that begins here, and where it ends: a number, a letter, or bytes."""
        end = at + self.size
        number = int.from_bytes(text[at:end], signed=self.is_signed)
        if self.is_text:
            return text[end : end + number], end + number
        return chr(number) if self.format == "c1" else number, end

    def pack(self, value: Any) -> bytes:
        if self.is_text:
            return len(value).to_bytes(self.size) + bytes(value)
        if self.format == "c1":
            return str(value).encode()
        return int(value).to_bytes(self.size, signed=self.is_signed)


@dataclass(frozen=True)
class Form:
    """Fields in the order in which they are packed, and what follows the last one."""

    name: str
    fields: tuple[Field, ...]
    rest: str = ""
    """the name of what follows, up to the end"""
    is_table: bool = False
    """whether scripts keep it as a table of its fields; else they pass the values one by one"""

    def open(self, text: bytes, at: int = 0) -> dict[str, Any]:
        """The fields by name, without those that the oldest lack. Raises ValueError if the text
        ends too soon.
        """
        values: dict[str, Any] = {}
        length = len(text)
        # What most fields are is opened here, as this is called for every result.
        for field, name, size, is_short_text, is_number in self._steps:
            if at >= length:
                if field.is_late:
                    break
                raise ValueError(f"{length} bytes end before the {name} of the {self.name}")
            if is_short_text:
                begin = at + 1
                at = begin + text[at]
                values[name] = text[begin:at]
            elif is_number:
                values[name] = int.from_bytes(text[at : at + size])
                at += size
            elif field.format == "c1":
                values[name] = chr(text[at])
                at += 1
            else:
                values[name], at = field.open(text, at)
        if self.rest:
            values[self.rest] = text[at:]
        return values

    def pack(self, **values: Any) -> bytes:
        """The bytes of these fields, all of which must be given but for the layout and the rest."""
        values = {"layout": LAYOUT} | values
        packed = [field.pack(values[field.name]) for field in self.fields]
        return b"".join([*packed, values.get(self.rest, b"")])

    def offset(self, name: str, since: str = "") -> int:
        """Where a field begins, behind the field `since` or from the start; there must be no text
        between.
        """
        names = [field.name for field in self.fields]
        between = self.fields[names.index(since) + 1 if since else 0 : names.index(name)]
        return sum(field.size for field in between)

    @cached_property
    def _steps(self) -> list[tuple[Field, str, int, bool, bool]]:
        return [
            (field, field.name, field.size, field.format == "Bc0", field.is_number)
            for field in self.fields
        ]


@dataclass(frozen=True)
class Part:
    """A field of a head that is only there if it is not as usual, which its flag says."""

    flag: int
    name: str
    format: str
    usual: int | str

    @cached_property
    def field(self) -> Field:
        return Field(self.name, self.format, self.usual)


HEAD_FLAGS = {
    "forget_when_done": 1,
    "at_most_once": 2,
    "unique_queued": 4,
    "unique_until_done": 8,
    "unique_window": 16,
    "unique_scheduled": 32,
}
PARTS = (
    Part(64, "priority", "i4", 0),
    Part(128, "attempts", "H", 1),
    Part(256, "timeout_ms", "I4", 0),
    Part(512, "expires_ms", "I6", 0),
    Part(1024, "tenant", "Bc0", ""),
    Part(2048, "key", "Bc0", ""),
    Part(4096, "unique", "Bc0", ""),
    Part(8192, "backoff", "Bc0", ""),
    Part(16384, "tags", "Hc0", ""),
    Part(32768, "words", "Hc0", ""),
    Part(65536, "cause", "Bc0", ""),
)
"""In the order in which they follow the head. The bits from 131072 on are free, for parts and
for more HEAD_FLAGS. Programs that do not know the last parts leave them as they are.
"""

HEAD = Form("head", (Field("flags", "I4"), Field("type", "Bc0")), rest="parts")
"""What the scripts need to know of a job. Both its record and its facts have it."""

RECORD = Form(
    "record",
    (
        Field("layout", "B"),
        Field("created", "I6"),
        Field("number", "I6"),
        Field("head", "Hc0", is_head=True),
    ),
    rest="data",
)
"""What was sent: written once, read when the job is handed out."""

MARKS = {
    "cancel_asked": 1,
    "has_attempts": HAS_ATTEMPTS,
    "has_log": HAS_LOG,
    "has_progress": HAS_PROGRESS,
    "kept_for_batch": KEPT_FOR_BATCH,
}
FACTS = Form(
    "facts",
    (
        Field("layout", "B"),
        Field("state", "c1", "r"),
        Field("marks", "B", 0),
        Field("turn", "I6", Same("number")),
        Field("created", "I6"),
        Field("number", "I6"),
        Field("failures", "H", 0),
        Field("crashes", "B", 0),
        Field("lapses", "B", 0),
        Field("since", "I6", Same("created")),
        Field("updated", "I6", Same("created")),
        Field("started", "I6", 0),
        Field("finished", "I6", 0),
        Field("process", "I7", 0),
        Field("bytes", "I4"),
        Field("worker", "Bc0", ""),
        Field("reason", "Bc0", ""),
        Field("head", "Hc0", is_head=True),
    ),
    rest="outcome",
    is_table=True,
)
"""What has happened to a job since it was sent. `since` is when it became ready, or is due: what
it waits from then on is what the queue is to blame for.
"""

ATTEMPT = Form(
    "attempt",
    (
        Field("attempt", "H"),
        Field("started", "I6"),
        Field("ended", "I6"),
        Field("outcome", "Bc0"),
        Field("worker", "Bc0"),
    ),
    rest="error",
)
"""An attempt that failed, as the job keeps it."""

ENDED = Form(
    "ended",
    (
        Field("layout", "B"),
        Field("attempt", "H"),
        Field("waited_ms", "I6"),
        Field("bytes", "I4"),
        Field("ended", "I6"),
        Field("id", "Bc0"),
        Field("type", "Bc0"),
        Field("tenant", "Bc0"),
        Field("worker", "Bc0"),
        Field("outcome", "Bc0"),
        Field("ran_us", "Bc0"),
        Field("cpu_us", "Bc0"),
        Field("priority", "i4", is_late=True),
        Field("created", "I6", is_late=True),
        Field("state", "c1", is_late=True),
        Field("error_type", "Bc0", is_late=True),
    ),
)
"""An entry of the history: an attempt (0: none) that has ended, and the state that followed ('-':
removed). Readers ignore what follows the fields that they know.
"""

EVENT = Form(
    "event",
    (
        Field("kind", "Bc0"),
        Field("id", "Bc0"),
        Field("happened", "I6"),
        Field("attempt", "H"),
        Field("type", "Bc0"),
        Field("worker", "Bc0"),
    ),
    rest="detail",
)
"""What has happened to a job, for programs that watch the queue."""

NOTICE = Form(
    "notice",
    (
        Field("id", "Bc0"),
        Field("state", "c1"),
        Field("has_outcome", "c1"),
        Field("reason", "Bc0"),
    ),
    rest="outcome",
)
"""That a job has ended, for the program that waits for it; without the outcome if that is large."""

DAMAGED = Form(
    "damaged",
    (Field("found", "I6"), Field("place", "Bc0"), Field("record", "I4c0")),
    rest="facts",
)
"""A job that could not be read and was set aside: when and where it was met, and all that was
stored of it.
"""

HANDED_OVER = Form("handed_over", (Field("process", "I7"), Field("id", "Bc0")), rest="record")
"""A job for a worker that waits and takes jobs unasked."""

FINISHED_TASK = Form(
    "finished_task", (Field("worker", "Hc0"), Field("task", "I4c0")), rest="result"
)
"""That a worker has finished a plain task."""

FORMS = (HEAD, RECORD, FACTS, ATTEMPT, ENDED, EVENT, NOTICE, DAMAGED, HANDED_OVER, FINISHED_TASK)
