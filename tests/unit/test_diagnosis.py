"""What `penstock doctor` makes of what it sees."""

from __future__ import annotations

import pytest

from penstock.cli import diagnosis
from penstock.connection.address import Endpoint
from penstock.model.history import HistoryBounds, Mark


@pytest.mark.parametrize(
    ("info", "level", "message"),
    [
        ({"redis_version": "6.2.0"}, "ok", "Redis 6.2.0"),
        ({"redis_version": "6.0.16"}, "problem", "Redis 6.0.16"),
        (
            {"redis_version": "7.2.4", "valkey_version": "8.1.0"},
            "ok",
            "Valkey 8.1.0 (as Redis 7.2.4)",
        ),
    ],
)
def test_versions_from_6_2_on_will_do(info: dict[str, str], level: str, message: str) -> None:
    finding = diagnosis.judge_version(info)

    assert (finding.level, finding.message) == (level, message)


@pytest.mark.parametrize(("used", "level"), [(79, "ok"), (80, "warning"), (95, "problem")])
def test_memory_is_judged_by_what_is_left(used: int, level: str) -> None:
    finding = diagnosis.judge_memory({"used_memory": str(used), "maxmemory": "100"})

    assert finding.level == level


@pytest.mark.parametrize(("ahead_s", "level"), [(0.5, "ok"), (-0.5, "ok"), (-2.0, "warning")])
def test_clocks_may_differ_by_less_than_a_second(ahead_s: float, level: str) -> None:
    assert diagnosis.judge_clock(ahead_s).level == level


def test_a_slow_connection_is_a_warning() -> None:
    assert diagnosis.judge_round_trip(0.001).level == "ok"
    assert diagnosis.judge_round_trip(0.2).level == "warning"


def test_a_replica_is_a_problem() -> None:
    assert diagnosis.judge_role({"role": "slave"}).level == "problem"


def test_an_append_only_file_that_cannot_be_written_is_a_problem() -> None:
    info = {"aof_enabled": "1", "aof_last_write_status": "err"}

    assert diagnosis.judge_persistence(info, "everysec").level == "problem"


@pytest.mark.parametrize(
    ("endpoint", "is_open", "level"),
    [
        (Endpoint("db.example", 6379), True, "warning"),
        (Endpoint("db.example", 6379), False, "ok"),
        (Endpoint("127.0.0.1", 6379), True, "ok"),
        (Endpoint(path="/run/redis.sock"), True, "ok"),
    ],
)
def test_a_server_open_to_the_network_is_a_warning(
    endpoint: Endpoint, is_open: bool, level: str
) -> None:
    assert diagnosis.judge_access(endpoint, "default", is_open).level == level


def test_a_cluster_with_slots_that_nobody_serves_is_a_problem() -> None:
    info = {"cluster_state": "fail", "cluster_slots_ok": "10923", "cluster_size": "2"}

    assert diagnosis.judge_cluster(info, is_cluster_url=True).level == "problem"


NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("place", "length", "found"),
    [
        (f"{NOW_MS}-0", 9, []),
        (f"{NOW_MS - 1}-0", 5, []),
        ("0-0", 5, []),
        ("0-0", 6, [("warning", "6 entries are kept of at most 10")]),
        (f"{NOW_MS - 1}-0", 6, [("warning", "6 entries are kept of at most 10")]),
        (f"{NOW_MS - 2 * DAY_MS}-0", 5, [("warning", "it has read up to 48 hours ago")]),
        (f"{NOW_MS - 9 * DAY_MS}-0", 5, [("problem", "and the oldest is")]),
    ],
)
def test_readers_are_judged_by_what_is_kept_for_them(
    place: str, length: int, found: list[tuple[str, str]]
) -> None:
    first, last = f"{NOW_MS - 8 * DAY_MS}-0", f"{NOW_MS}-0"
    marks = (Mark("lake", place, NOW_MS / 1000),)
    bounds = HistoryBounds(
        NOW_MS / 1000, "i1", length, length, first, last, "0-0", False, first, 10, marks
    )

    judged = diagnosis.judge_readers("mail", bounds)

    assert [finding.level for finding in judged] == [level for level, _ in found]
    assert all(text in finding.message for finding, (_, text) in zip(judged, found, strict=True))
