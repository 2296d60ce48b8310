"""Checks that what is stored makes sense, and mends what can be mended without risk."""

from penstock.client._async.fsck import check as acheck
from penstock.client._async.fsck import repair as arepair
from penstock.client._sync.fsck import Report, check, repair, take_snapshot

__all__ = [
    "Report",
    "acheck",
    "arepair",
    "check",
    "repair",
    "take_snapshot",
]
