"""Synthetic orders, the same ones every time."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEED = 2026
BUSY = 0.04
"""Share of orders whose bank does not answer the first attempt."""
EXPIRED = 0.005
"""Share of orders whose card is refused for good."""

_FILES = 4
_FIRST_AT = datetime(2026, 11, 15, tzinfo=UTC)
_COUNTRIES = {"DE": 40, "FR": 25, "PL": 20, "AT": 10, "LU": 5}
_SCHEMA = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer", pa.string()),
        ("country", pa.string()),
        ("cents", pa.int64()),
        ("card", pa.string()),
        ("ordered_at", pa.timestamp("us", tz="UTC")),
    ]
)


def write_orders(folder: Path, count: int, seed: int = SEED) -> None:
    """Write `count` orders as a few Parquet files."""
    folder.mkdir(parents=True)
    rows = list(_orders(count, random.Random(seed)))
    for number in range(_FILES):
        table = pa.Table.from_pylist(rows[number::_FILES], schema=_SCHEMA)
        pq.write_table(table, folder / f"orders-{number}.parquet")


def _orders(count: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    countries, weights = list(_COUNTRIES), list(_COUNTRIES.values())
    cards = ("good", "busy", "expired")
    for order_id in range(1, count + 1):
        yield {
            "order_id": order_id,
            "customer": f"customer-{chance.randrange(max(1, count // 5)):05}",
            "country": chance.choices(countries, weights)[0],
            "cents": 100 + int(chance.expovariate(1 / 4000)),
            "card": chance.choices(cards, (1 - BUSY - EXPIRED, BUSY, EXPIRED))[0],
            "ordered_at": _FIRST_AT + timedelta(seconds=order_id),
        }
