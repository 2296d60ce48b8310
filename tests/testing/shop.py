"""A module of an application, with jobs."""

from __future__ import annotations

from penstock import job


@job(queue="shop")
def pack(items: int) -> int:
    return items
