"""A distributed, reliable, atomic work queue on Redis."""

from penstock.client.causes import sending_for
from penstock.client.client import AsyncPenstock, Penstock
from penstock.client.connect import aconnect, connect
from penstock.client.current import current
from penstock.client.functions import JobFunction, job
from penstock.client.job import AsyncJob, Job
from penstock.client.jobs import AsyncJobs, Jobs
from penstock.client.log import AsyncLog, Log
from penstock.client.queue import AsyncQueue, Queue
from penstock.client.session import AsyncProcess, AsyncWorkerSession, Process, WorkerSession
from penstock.connection.job_ids import new_job_id
from penstock.errors import JobFailed, LeaseLost, PenstockError, QueueFull, StoreUnavailable
from penstock.executors.context import Context
from penstock.model.events import Event
from penstock.model.jobs import JobEvent, JobInfo
from penstock.model.logs import Message, NewMessage
from penstock.model.queues import Enqueued, QueueState
from penstock.model.retries import Reject, Retry, exponential, fixed
from penstock.worker.consumers import consumer
from penstock.worker.handlers import backoff, handler
from penstock.worker.hooks import lifespan, middleware
from penstock.worker.run import serve
from penstock.worker.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "AsyncJob",
    "AsyncJobs",
    "AsyncLog",
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
    "Log",
    "Message",
    "NewMessage",
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
    "consumer",
    "current",
    "exponential",
    "fixed",
    "handler",
    "job",
    "lifespan",
    "middleware",
    "new_job_id",
    "sending_for",
    "serve",
]
