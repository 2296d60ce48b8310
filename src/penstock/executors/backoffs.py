"""How long failed work waits, where the wait may be up to a function of the user."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.model.retries import MAX_DURATION_MS, delay_ms, exponential

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.model.retries import Backoff

log = logging.getLogger("penstock.worker")


def wait_ms(
    backoff: Backoff, failures: int, strategies: Mapping[str, Callable[[int], float]]
) -> int:
    """The wait after failure number `failures`, counted from 1. A strategy that is not known, or
    fails itself, is replaced by the default.
    """
    if backoff.kind != "named":
        return delay_ms(backoff, failures)
    strategy = strategies.get(backoff.name)
    if strategy is None:
        log.error("no backoff of this name, using the default name=%s", backoff.name)
        return delay_ms(exponential(), failures)
    try:
        return max(0, round(min(1000 * float(strategy(failures)), MAX_DURATION_MS)))
    except BaseException:
        log.exception("a backoff failed, using the default name=%s", backoff.name)
        return delay_ms(exponential(), failures)
