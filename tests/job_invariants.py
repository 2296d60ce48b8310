"""The invariants of queues of jobs, as tests ask them; what each proves is said where it is
defined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.fsck import read_job_queue, scan_keys
from penstock.model.job_invariants import job_violations
from penstock.store.keys import NamespaceKeys

if TYPE_CHECKING:
    from penstock.connection.store import Store
    from penstock.model.job_snapshot import JobSnapshot
    from penstock.store.keys import QueueKeys


def check_jobs(store: Store, keys: QueueKeys) -> JobSnapshot:
    """Everything that must be true of a queue of jobs is true; returns all that is stored of it.

    For a queue at rest: while something is under way, a job may be seen in two places or none.
    """
    snapshot = read_jobs(store, keys)
    found = job_violations(snapshot)
    assert not found, "\n".join(f"{v.invariant} {v.kind}: {v.message}" for v in found)
    return snapshot


def read_jobs(store: Store, keys: QueueKeys) -> JobSnapshot:
    """Everything that is stored of a queue of jobs. All its keys are known, of the right type, and
    only those that remember requests expire.
    """
    scan = scan_keys(store, NamespaceKeys(keys.namespace), keys.tag + "*")
    odd = {
        "unknown": scan.unknown,
        "of another type": scan.mistyped,
        "expiring": scan.expiring,
        "lasting": scan.lasting,
    }
    assert not any(odd.values()), odd
    return read_job_queue(store, keys, scan.names)
