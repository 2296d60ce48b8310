"""A log, as its producers, readers and operators see it."""

from penstock.client._async.log import AsyncLog
from penstock.client._async.log_groups import AsyncLogGroup
from penstock.client._sync.log import Log
from penstock.client._sync.log_groups import LogGroup

__all__ = ["AsyncLog", "AsyncLogGroup", "Log", "LogGroup"]
