"""A worker that the application drives itself."""

from penstock.client._async.session import AsyncProcess, AsyncWorkerSession
from penstock.client._sync.session import Process, WorkerSession

__all__ = ["AsyncProcess", "AsyncWorkerSession", "Process", "WorkerSession"]
