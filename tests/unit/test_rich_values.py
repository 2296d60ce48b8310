"""Values that JSON has no word for, as arguments and results."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel

import penstock
from penstock.client.signatures import Signature
from penstock.codec.values import pack_result
from penstock.errors import InvalidArgument, Unserialisable

NOON = datetime(2026, 11, 18, 12, 0, 0, 123456, tzinfo=UTC)


class Colour(Enum):
    RED = "red"
    BLUE = 2


class Size(StrEnum):
    BIG = "big"


@dataclass
class Line:
    article: UUID
    price: Decimal
    sizes: list[Size] = field(default_factory=list)
    parts: list[Line] = field(default_factory=list)
    total: int = field(init=False, default=0)


class Customer(BaseModel):
    name: str
    since: date


LINE = Line(UUID(int=7), Decimal("9.90"), [Size.BIG], [Line(UUID(int=8), Decimal(1))])

SAMPLES = [
    (datetime, NOON, NOON.isoformat()),
    (datetime, datetime(2026, 1, 2), "2026-01-02T00:00:00"),
    (date, date(2026, 1, 2), "2026-01-02"),
    (time, time(9, 30), "09:30:00"),
    (timedelta, timedelta(minutes=1, microseconds=1), 60.000001),
    (UUID, UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    (Decimal, Decimal("0.10"), "0.10"),
    (bytes, b"\x00\xff", "AP8="),
    (Colour, Colour.RED, "red"),
    (Colour, Colour.BLUE, 2),
    (Size, Size.BIG, "big"),
    (
        Customer,
        Customer(name="Ann", since=date(2026, 1, 2)),
        {"name": "Ann", "since": "2026-01-02"},
    ),
    (list[date], [date(2026, 1, 2)], ["2026-01-02"]),
    (dict[str, Decimal], {"a": Decimal("1.5")}, {"a": "1.5"}),
    (tuple[int, date], (1, date(2026, 1, 2)), [1, "2026-01-02"]),
    (tuple[UUID, ...], (UUID(int=7),), ["00000000-0000-0000-0000-000000000007"]),
    (date | None, date(2026, 1, 2), "2026-01-02"),
    (list[date | None], [None, date(2026, 1, 2)], [None, "2026-01-02"]),
    (int | Decimal, Decimal("1.5"), "1.5"),
    (Annotated[date, "when"], date(2026, 1, 2), "2026-01-02"),
]


@pytest.mark.parametrize(("annotation", "value", "stored"), SAMPLES, ids=str)
def test_a_value_is_stored_as_json_and_arrives_as_it_was(
    annotation: Any, value: object, stored: object
) -> None:
    signature = _taking(annotation)

    data = signature.pack((value,), {})

    assert json.loads(data) == [[stored]]
    (received,), _ = signature.open(data)
    assert (received, type(received)) == (value, type(value))
    assert signature.open_result(pack_result(value)) == value


def test_a_dataclass_may_hold_others() -> None:
    signature = _taking(Line)

    (received,), _ = signature.open(signature.pack((LINE,), {}))

    assert received == LINE
    assert received.parts[0].price == Decimal(1)


def test_named_and_further_arguments_have_annotations_too() -> None:
    def report(*days: date, until: date, **prices: Decimal) -> None: ...

    signature = Signature(report, "report", takes_bytes=False)
    day = date(2026, 1, 2)

    packed = signature.pack((day, day), {"until": day, "bread": Decimal(3)})

    assert signature.open(packed) == ([day, day], {"until": day, "bread": Decimal(3)})


def test_a_value_that_would_arrive_as_something_else_is_refused() -> None:
    def remind(text: str, when=None) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(
        Unserialisable,
        match="argument 'when' of 'remind' has a datetime, and would arrive as str, because no "
        "annotation says what it is; annotate 'when' with its type",
    ):
        Signature(remind, "remind", takes_bytes=False).pack(("tea", NOON), {})


def test_text_that_may_be_meant_as_text_stays_text() -> None:
    signature = _taking(str | date)

    assert signature.open(b'[["2026-01-02"]]') == (["2026-01-02"], {})
    with pytest.raises(Unserialisable, match="has a date, and would arrive as str"):
        signature.pack((date(2026, 1, 2),), {})


@pytest.mark.parametrize(
    ("annotation", "stored", "problem"),
    [
        (datetime, "noon", "argument 'value' of 'take' is 'noon', which cannot be read as its"),
        (Colour, "green", "'green' is not a valid Colour"),
        (Decimal, "much", "cannot be read as its annotation says"),
        (bytes, "?", "bytes are written as base64"),
        (Line, {"price": "1"}, "missing 1 required positional argument: 'article'"),
        (Line, [], "an object is expected, not list"),
        (list[date], "2026", "a list is expected, not str"),
        (Customer, {"name": "Ann"}, "since"),
        (date | UUID, "?", "badly formed hexadecimal UUID string"),
    ],
    ids=str,
)
def test_data_that_is_not_what_the_annotation_says_is_refused(
    annotation: Any, stored: object, problem: str
) -> None:
    with pytest.raises(Unserialisable, match=problem):
        _taking(annotation).open(json.dumps([[stored]]).encode())


def test_an_annotation_that_cannot_be_resolved_is_left_alone() -> None:
    def take(value: NotImported) -> NotImported: ...  # type: ignore[name-defined]  # noqa: F821

    signature = Signature(take, "take", takes_bytes=False)

    assert signature.open(b'[["2026-01-02"]]') == (["2026-01-02"], {})
    assert signature.open_result(pack_result("text")) == "text"


def test_none_is_left_alone() -> None:
    assert _taking(date).open(b"[[null]]") == ([None], {})


def test_a_raw_job_takes_the_bytes_of_its_data() -> None:
    @penstock.job(raw=True)
    def store(image: bytes) -> int:
        return len(image)

    assert store.signature.pack((b"\xff{",), {}) == b"\xff{"
    assert store.signature.open(b"\xff{") == ([b"\xff{"], {})
    with pytest.raises(InvalidArgument, match=r"takes its data as bytes .* store.send\(b'...'\)"):
        store.signature.pack(("text",), {})


def _taking(annotation: Any) -> Signature:
    def take(value: Any) -> Any: ...

    take.__annotations__ = {"value": annotation, "return": annotation}
    return Signature(take, "take", takes_bytes=False)
