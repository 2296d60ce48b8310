"""Data folders of the private server that have been written by other servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.errors import ServerFailed
from penstock.server.binary import build_of
from penstock.server.embedded import EmbeddedServer
from tests.servers import OLDEST, binary_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEBIAN, VALKEY = binary_of("debian"), binary_of("valkey")


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    EmbeddedServer(tmp_path / "data").stop()


@pytest.mark.parametrize("kind", ["debian", *OLDEST])
@pytest.mark.parametrize("is_stamped", [True, False], ids=["stamped", "unstamped"])
def test_the_carried_server_takes_over_what_others_wrote_and_nothing_is_lost(
    data: Path, kind: str, is_stamped: bool
) -> None:
    job = fill(data, binary_of(kind))
    if not is_stamped:
        (data / "server.stamp").unlink()

    with penstock.connect(data=data, namespace="shop") as ps:
        assert ps.queue("mail").page().tasks == [b"first", b"second"]
        assert ps.jobs("images").get(job).info().type == "resize"

    assert (data / "server.stamp").read_text() == f"{build_of(VALKEY)}\n"
    assert EmbeddedServer(data).status().server == "Valkey"


def test_data_of_valkey_is_kept_from_a_redis_that_cannot_read_it(data: Path) -> None:
    fill(data, VALKEY)
    log = (data / "server.log").read_bytes()

    with pytest.raises(
        ServerFailed, match=r"written by Valkey 9\.1\.2, and .*\(Redis 7\.0\.15\) ca"
    ):
        EmbeddedServer(data, DEBIAN).start()

    assert (data / "server.log").read_bytes() == log, "nothing was launched"
    assert EmbeddedServer(data, VALKEY).start().keys


@pytest.mark.parametrize("kind", OLDEST)
def test_data_of_redis_7_without_a_stamp_is_kept_from_redis_6(data: Path, kind: str) -> None:
    fill(data, DEBIAN)
    (data / "server.stamp").unlink()

    with pytest.raises(
        ServerFailed, match=r"written by Redis 7 or later, and .*\(Redis 6\.2\.14\)"
    ):
        EmbeddedServer(data, binary_of(kind)).start()


def fill(data: Path, binary: Path) -> str:
    """Tasks and a job, written by this server, which has been stopped; returns the job's id."""
    server = EmbeddedServer(data, binary)
    with penstock.connect(server.start().url, namespace="shop") as ps:
        ps.queue("mail").enqueue_many([b"first", b"second"])
        job = ps.jobs("images").add("resize", {"width": 9})
    server.stop()
    assert not server.stop()
    return job.id
