"""Gives a dead worker's tasks back: `fail worker`, step by step."""

from penstock.client._async.recovery import fail_worker as afail_worker
from penstock.client._sync.recovery import fail_worker

__all__ = ["afail_worker", "fail_worker"]
