"""Plays the pipeline on a private Redis, and leaves its lake and its report."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.demo.orders.stage import Stage
from penstock.demo.orders.story import tell_story
from penstock.errors import InvalidArgument
from penstock.server.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.demo.interruption import Interruption
    from penstock.demo.orders.outcome import Outcome
    from penstock.demo.orders.view import Steps


def play(
    interruption: Interruption, orders: int, lease_ms: int, folder: Path | None, view: Steps
) -> Outcome:
    """Orders, lake and report are in `folder`, else in a new temporary one. Everything else that
    was started or written is gone in the end, also when this is interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as name, _kept(folder) as kept:
        work = Path(name)
        server = EmbeddedServer(work / "redis")
        try:
            stage = Stage(server.start().url, orders, lease_ms, work, kept, view)
            try:
                with view:
                    view.begin("starting Spark")
                    with interruption.put_off():
                        stage.start_spark()
                        interruption.take_back()
                    return tell_story(stage)
            finally:
                with interruption.put_off():
                    stage.close()
        finally:
            with interruption.put_off():
                server.stop()


@contextmanager
def _kept(folder: Path | None) -> Iterator[Path]:
    """A folder that stays if all goes well; one that was here before stays in any case."""
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise InvalidArgument(f"the folder {folder} is not empty; name a new one")
    is_new = folder is None or not folder.exists()
    kept = Path(tempfile.mkdtemp(prefix="penstock-orders-")) if folder is None else folder
    kept.mkdir(parents=True, exist_ok=True)
    try:
        yield kept.absolute()
    except BaseException:
        if is_new:
            shutil.rmtree(kept, ignore_errors=True)
        raise
