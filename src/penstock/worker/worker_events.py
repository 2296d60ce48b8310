"""What a program that runs a worker is told of its life."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class WorkerEvents:
    """Functions that a worker calls; none does anything until it is replaced."""

    def __init__(self) -> None:
        self.registered: Callable[[str], None] = lambda worker: None
        """with every id under which the worker registers, before it starts anything, and with the
        empty one when it has left
        """
        self.joined: Callable[[], None] = lambda: None
        """when the worker has joined its queues and is about to start something"""
        self.renewed: Callable[[float], None] = lambda at: None
        """with every beat, at which time of the clock of leases; in the heartbeat's thread"""
        self.stop_asked: Callable[[int], None] = lambda times: None
        """with how often the worker was asked to stop, each time that it is"""
