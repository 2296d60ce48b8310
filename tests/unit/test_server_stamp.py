"""Which server takes over the data of which."""

from __future__ import annotations

import pytest

from penstock.server.binary import Build
from penstock.server.stamp import can_read

REDIS_6, REDIS_70, REDIS_72 = (Build("Redis", v) for v in ((6, 2, 14), (7, 0, 15), (7, 2, 4)))
REDIS_74, REDIS_8 = Build("Redis", (7, 4, 0)), Build("Redis", (8, 0, 0))
VALKEY_8, VALKEY_90, VALKEY_91 = (Build("Valkey", v) for v in ((8, 1, 0), (9, 0, 0), (9, 1, 2)))


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (VALKEY_91, REDIS_6),
        (VALKEY_91, REDIS_70),
        (VALKEY_91, REDIS_72),
        (VALKEY_91, VALKEY_8),
        (VALKEY_91, VALKEY_91),
        (VALKEY_91, Build("Valkey", (9, 1, 3))),
        (REDIS_70, REDIS_6),
        (REDIS_72, VALKEY_8),
    ],
    ids=str,
)
def test_data_of_an_older_server_is_taken_over(reader: Build, writer: Build) -> None:
    assert can_read(reader, writer)


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (REDIS_70, VALKEY_91),
        (REDIS_8, VALKEY_91),
        (REDIS_70, VALKEY_8),
        (REDIS_70, REDIS_72),
        (REDIS_6, REDIS_70),
        (VALKEY_90, VALKEY_91),
        (VALKEY_91, REDIS_74),
        (REDIS_72, Build("KeyDB", (6, 3, 4))),
    ],
    ids=str,
)
def test_data_that_a_server_may_not_know_is_not_its_own(reader: Build, writer: Build) -> None:
    assert not can_read(reader, writer)
