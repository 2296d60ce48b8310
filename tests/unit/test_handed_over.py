"""The message that hands a job to a worker, as `fragments/jobs/hand_over.lua` sends it."""

from __future__ import annotations

import pytest

from penstock.codec.handed_out import open_handed_out, open_handed_over
from penstock.codec.heads import pack_head
from penstock.codec.ids import id_text
from penstock.model.job_options import JobSettings, make_options

PROCESS, NUMBER = 1_790_000_000_000_017, 1_234_567_890_123_456_789


def record_of(data: bytes, settings: JobSettings) -> bytes:
    head = pack_head(make_options("email", settings))
    return bytes(13) + len(head).to_bytes(2) + head + data


def message_of(record: bytes, number: bytes = b"%d" % NUMBER) -> bytes:
    return PROCESS.to_bytes(7) + len(number).to_bytes(1) + number + record


@pytest.mark.parametrize("data", [b"", b'{"to":"you"}', b"\0\xff"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"timeout": 1.5, "attempts": 7, "backoff": 5}, {"tags": [50 * str(n) for n in range(9)]}],
)  # fmt: skip
def test_a_message_says_what_the_record_says(data: bytes, settings: JobSettings) -> None:
    record = record_of(data, settings)

    job = open_handed_over(message_of(record))

    assert job == open_handed_out(PROCESS, NUMBER, record, b"0 0 0")
    assert (job.process, job.id, job.type) == (PROCESS, id_text(NUMBER), "email")
    assert (job.data, job.failures, job.crashes) == (data, 0, 0)


@pytest.mark.parametrize("size", range(8 + len(str(NUMBER)) + 15))
def test_a_message_that_ends_too_soon_is_none(size: int) -> None:
    with pytest.raises((IndexError, ValueError)):
        open_handed_over(message_of(record_of(b"", {}))[:size])


@pytest.mark.parametrize("number", [b"", b"x", b"12x", b"1.5"])
def test_a_message_without_a_number_is_none(number: bytes) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        open_handed_over(message_of(record_of(b"", {}), number))
