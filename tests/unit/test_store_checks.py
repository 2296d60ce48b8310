"""Which stores are refused before anything is put there."""

from __future__ import annotations

import pytest

from penstock.connection.address import parse_url
from penstock.connection.wire import check_store
from penstock.errors import UnsafeStore

ADDRESS = parse_url("redis://here:6379")
SOUND = {"redis_version": "7.0.15", "arch_bits": "64", "maxmemory_policy": "noeviction"}


def test_a_sound_store_is_accepted() -> None:
    check_store(SOUND, ADDRESS)
    check_store({"redis_version": "6.2.0"}, ADDRESS)


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"redis_version": "6.0.16"}, "is version 6.0.16; penstock needs 6.2 or newer"),
        ({"arch_bits": "32"}, "is a 32-bit build, .*; use a 64-bit one"),
        ({"maxmemory_policy": "allkeys-lru"}, "evicts keys .*; set it to 'noeviction'"),
    ],
    ids=["old", "32 bits", "evicting"],
)
def test_one_that_could_lose_something_is_refused(info: dict[str, str], message: str) -> None:
    with pytest.raises(UnsafeStore, match=f"the Redis at here:6379 {message}"):
        check_store(SOUND | info, ADDRESS)
