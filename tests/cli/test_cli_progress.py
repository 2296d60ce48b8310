"""The bar that is shown while something takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.cli import progress
from penstock.cli.progress import ProgressBar

if TYPE_CHECKING:
    import penstock
    from tests.cli.conftest import CommandLine

COMMAND = ["job", "cancel", "--state", "ready", "-q", "mail", "--yes"]


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("at_a_terminal")
def test_at_a_terminal_a_bar_shows_how_far_a_long_task_is(
    cli: CommandLine, mail: penstock.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SHOWN_AFTER_S", 0)
    mail.add_many("email", [{}] * 1200)

    result = cli(*COMMAND)

    assert "1,200 jobs" in result.stderr
    assert result.stdout.endswith("cancelled 1,200 ready jobs of 'mail'\n")


@pytest.mark.usefixtures("at_a_terminal")
def test_what_is_quick_shows_no_bar(cli: CommandLine, mail: penstock.Jobs) -> None:
    mail.add("email")

    assert cli(*COMMAND).stderr == ""


def test_a_pipe_gets_no_bar(cli: CommandLine, mail: penstock.Jobs) -> None:
    mail.add_many("email", [{}] * 1200)

    assert cli(*COMMAND).stderr == ""


@pytest.mark.usefixtures("at_a_terminal")
def test_a_bar_ends_with_what_it_is_about_also_if_that_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SHOWN_AFTER_S", 0)

    with pytest.raises(ValueError, match="no"), ProgressBar(10) as bar:
        bar.show(5, "5 jobs")
        raise ValueError("no")

    assert not bar._progress.live.is_started
    assert "5 jobs" in capsys.readouterr().err
