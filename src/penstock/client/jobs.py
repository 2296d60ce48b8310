"""A queue of jobs, as its producers and operators see it."""

from penstock.client._async.jobs import AsyncJobs
from penstock.client._sync.jobs import Jobs

__all__ = ["AsyncJobs", "Jobs"]
