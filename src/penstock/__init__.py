"""A distributed, reliable, atomic work queue on Redis."""

from penstock.client._async.client import AsyncPenstock
from penstock.client._async.job import AsyncJob
from penstock.client._async.jobs import AsyncJobs
from penstock.client._async.queue import AsyncQueue
from penstock.client._async.session import AsyncProcess, AsyncWorkerSession
from penstock.client._sync.client import Penstock
from penstock.client._sync.job import Job
from penstock.client._sync.jobs import Jobs
from penstock.client._sync.queue import Queue
from penstock.client._sync.session import Process, WorkerSession
from penstock.client.connect import aconnect, connect
from penstock.client.current import current
from penstock.client.functions import JobFunction, job
from penstock.client.job_ids import new_job_id
from penstock.errors import JobFailed, LeaseLost, PenstockError, QueueFull, StoreUnavailable
from penstock.executors.assignment import Context
from penstock.model.events import Event
from penstock.model.jobs import JobEvent, JobInfo
from penstock.model.queues import Enqueued, QueueState
from penstock.model.retries import Reject, Retry, exponential, fixed
from penstock.worker.handlers import backoff, handler
from penstock.worker.run import serve
from penstock.worker.worker import Worker

__all__ = [
    "AsyncJob",
    "AsyncJobs",
    "AsyncPenstock",
    "AsyncProcess",
    "AsyncQueue",
    "AsyncWorkerSession",
    "Context",
    "Enqueued",
    "Event",
    "Job",
    "JobEvent",
    "JobFailed",
    "JobFunction",
    "JobInfo",
    "Jobs",
    "LeaseLost",
    "Penstock",
    "PenstockError",
    "Process",
    "Queue",
    "QueueFull",
    "QueueState",
    "Reject",
    "Retry",
    "StoreUnavailable",
    "Worker",
    "WorkerSession",
    "aconnect",
    "backoff",
    "connect",
    "current",
    "exponential",
    "fixed",
    "handler",
    "job",
    "new_job_id",
    "serve",
]
