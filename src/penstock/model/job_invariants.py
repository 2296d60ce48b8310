"""What is true of a queue of jobs at every instant.

As `model/invariants.py` for plain tasks: pure checks of a snapshot, asked by `penstock fsck`, the
simulation and the tests alike. An entry of a line whose job is elsewhere by now is no violation: it
is dropped when it comes up.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.codec.ids import id_text
from penstock.model.invariants import Violation
from penstock.model.job_snapshot import HAS_ATTEMPTS, HAS_LOG, HAS_PROGRESS
from penstock.model.jobs import FINAL_STATES, JOB_STATES, MAX_CRASHES, WAITING_STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock.model.job_snapshot import JobSnapshot, StoredJob
