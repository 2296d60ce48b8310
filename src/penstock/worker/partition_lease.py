"""The right of a worker to handle the messages of a partition."""

from __future__ import annotations

from penstock.model.workers import Lease


class PartitionLease(Lease):
    """Valid while the worker holds its own lease and is a member of the group."""

    def __init__(self, worker: Lease, member: Lease) -> None:
        self._worker = worker
        self._member = member
        self._is_partition_lost = False

    @property
    def is_lost(self) -> bool:
        return self._is_partition_lost or self._worker.is_lost or self._member.is_lost

    @property
    def is_valid(self) -> bool:
        is_valid = self._worker.is_valid and self._member.is_valid
        return is_valid and not self._is_partition_lost

    def lose(self) -> None:
        """Only this partition is another member's; the worker goes on with the others."""
        self._is_partition_lost = True
