"""How the pipeline ended, and whether the counts agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.client.fsck import Report


class Joined(NamedTuple):
    """The orders with their jobs, counted."""

    rows: int
    orders: int
    """different ones"""
    done: int
    dead: int
    failed_before: int
    """done, after an attempt that failed"""
    on_spark: int
    """ended by a worker on Spark"""
    paid: int
    """cents"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final table."""

    orders: int
    sent: int
    """rows that became jobs"""
    done: int
    dead: int
    """refused for good"""
    failed_before: int
    """done, after an attempt that failed"""
    lost_attempts: int
    """that the killed worker had begun"""
    on_spark: int
    """orders that ended on Spark's executors"""
    letters: int
    """written to customers whose card was refused"""
    attempts: int
    """in the history that Redis has"""
    archived: int
    """in the lake"""
    recovery_s: float
    """from the kill until the orders of the killed worker were back"""
    seconds: float
    report: str
    """the page"""
    lake: str
    disagreements: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        return 1 if self.disagreements else 0


def find_disagreements(
    orders: int,
    sent: int,
    joined: Joined,
    letters: int,
    in_redis: set[str],
    in_lake: list[str],
    report: Report,
) -> tuple[str, ...]:
    """What does not fit together in the end; nothing if all is well.

    Attempts are named by queue and place, as often as they are found.
    """
    ended = joined.done + joined.dead
    claims = {
        f"{orders:,} orders were written, but {sent:,} sent": sent == orders,
        f"{orders:,} orders have {joined.rows:,} jobs, of {joined.orders:,} different orders": (
            joined.rows == joined.orders == orders
        ),
        f"{ended:,} jobs of {orders:,} have ended": ended == orders,
        f"{joined.dead:,} orders were refused, but {letters:,} letters written": (
            letters == joined.dead
        ),
        f"{len(in_redis - set(in_lake)):,} attempts are not in the lake": in_redis <= set(in_lake),
        f"{len(set(in_lake) - in_redis):,} attempts in the lake were never made": (
            set(in_lake) <= in_redis
        ),
        f"{len(in_lake) - len(set(in_lake)):,} attempts are in the lake more than once": (
            len(in_lake) == len(set(in_lake))
        ),
    }
    broken = [f"{v.invariant}: {v.message}" for v in report.violations]
    return (*(claim for claim, is_true in claims.items() if not is_true), *broken)
