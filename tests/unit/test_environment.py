"""What the environment says about clients."""

from __future__ import annotations

import pytest

from penstock.client.environment import limits_of_environment, parse_size
from penstock.errors import InvalidArgument


def test_nothing_is_said_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_MAX_PAYLOAD", raising=False)
    monkeypatch.setenv("PENSTOCK_RETRY_FOR", "")

    assert limits_of_environment() == {}


def test_limits_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_MAX_PAYLOAD", "4M")
    monkeypatch.setenv("PENSTOCK_RETRY_FOR", "2.5")

    assert limits_of_environment() == {"max_payload": 4 << 20, "retry_for_s": 2.5}


@pytest.mark.parametrize(
    ("name", "text"), [("PENSTOCK_MAX_PAYLOAD", "much"), ("PENSTOCK_RETRY_FOR", "long")]
)
def test_what_is_no_limit_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(name, text)

    with pytest.raises(InvalidArgument, match=f"the environment variable {name} is '{text}'; give"):
        limits_of_environment()


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("10K", 10 << 10), ("2gb", 2 << 30), ("0", None), ("", None), ("1T", None)],
)
def test_a_size_is_bytes_with_a_unit(text: str, size: int | None) -> None:
    assert parse_size(text) == size
