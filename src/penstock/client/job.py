"""One job, as its sender and its operators see it."""

from penstock.client._async.job import AsyncJob
from penstock.client._sync.job import Job

__all__ = ["AsyncJob", "Job"]
