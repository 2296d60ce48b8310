"""Schedules of a queue: jobs that are sent again and again."""

from penstock.client._async.schedules import AsyncSchedules
from penstock.client._sync.schedules import Schedules, ScheduleState

__all__ = ["AsyncSchedules", "ScheduleState", "Schedules"]
