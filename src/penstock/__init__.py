"""A distributed, reliable, atomic work queue on Redis."""

from penstock.client._async.client import AsyncPenstock
from penstock.client._async.queue import AsyncQueue
from penstock.client._async.session import AsyncProcess, AsyncWorkerSession
from penstock.client._sync.client import Penstock
from penstock.client._sync.queue import Queue
from penstock.client._sync.session import Process, WorkerSession
from penstock.client.connect import aconnect, connect
from penstock.errors import LeaseLost, PenstockError, QueueFull, StoreUnavailable
from penstock.executors.assignment import Context
from penstock.model.events import Event
from penstock.model.queues import Enqueued, QueueState
from penstock.worker.handlers import handler
from penstock.worker.run import serve
from penstock.worker.worker import Worker

__all__ = [
    "AsyncPenstock",
    "AsyncProcess",
    "AsyncQueue",
    "AsyncWorkerSession",
    "Context",
    "Enqueued",
    "Event",
    "LeaseLost",
    "Penstock",
    "PenstockError",
    "Process",
    "Queue",
    "QueueFull",
    "QueueState",
    "StoreUnavailable",
    "Worker",
    "WorkerSession",
    "aconnect",
    "connect",
    "handler",
    "serve",
]
