"""Tables on a narrow terminal: text is broken, numbers and ids never are."""

from __future__ import annotations

import pytest

from penstock.cli.render import print_table
from tests.cli.conftest import cells

QUEUES = ("queue", "state", "waiting", "running", "dead", "finished", "workers")
ROW = ("a-long-queue-name", "paused", 1_234_567, 12, 1_234_567, 1_234_567_890, 3)
NUMBERS = ["1,234,567", "12", "1,234,567", "1,234,567,890", "3"]


def printed(
    capsys: pytest.CaptureFixture[str], columns: tuple[str, ...], row: tuple[str | int, ...]
) -> list[list[str]]:
    print_table(columns, [row], empty="")
    return cells(capsys.readouterr().out)


@pytest.mark.parametrize("width", ["10", "40", "60", "70", "80", "100"])
def test_no_number_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)

    lines = printed(capsys, QUEUES, ROW)

    assert ["paused", *NUMBERS] in [line[1:] for line in lines]


@pytest.mark.parametrize("width", ["10", "60", "72", "80", "100"])
def test_all_of_a_text_is_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)

    lines = printed(capsys, ("name", *QUEUES[2:]), (ROW[0], *ROW[2:]))

    begins = next(at for at, line in enumerate(lines) if line[1:] == NUMBERS)
    assert "".join(line[0] for line in lines[begins:]) == "a-long-queue-name"


@pytest.mark.parametrize("width", ["20", "40", "60"])
def test_no_id_is_cut_for_the_sake_of_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)

    lines = printed(
        capsys, ("id", "type", "priority", "data"), ("06w4rkkewgm4j", "email", -10, 100 * "x")
    )

    assert lines[-1][:3] == ["06w4rkkewgm4j", "email", "-10"]
    assert lines[-1][3].endswith("x…")


def test_names_of_columns_are_broken_before_lines_get_too_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")

    print_table(("queue", "scheduled", "running"), [("mail", 1_234_567, 1)], empty="")

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 30
    assert lines[-1].split() == ["mail", "1,234,567", "1"]


@pytest.mark.parametrize("width", ["70", "80", "100", "200"])
def test_a_long_text_beside_data_is_broken_before_lines_get_too_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    why = "failed: ValueError: " + "no " * 20

    print_table(("id", "priority", "why", "data"), [("06w4rkkewgm4j", 5, why, 100 * "x")], empty="")

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= int(width)
    assert " ".join(lines).split().count("no") == 20
