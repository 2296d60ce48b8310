"""Checks that what is stored makes sense, and mends what can be mended without risk."""

from penstock.client._async.fsck import check as acheck
from penstock.client._async.fsck import repair as arepair
from penstock.client._async.kind_checks import KIND_CHECKS as ASYNC_KIND_CHECKS
from penstock.client._sync.fsck import Report, check, repair, take_snapshot
from penstock.client._sync.job_scan import read_job_queue
from penstock.client._sync.key_scan import scan_keys
from penstock.client._sync.kind_checks import KIND_CHECKS
from penstock.client._sync.log_scan import read_log

__all__ = [
    "ASYNC_KIND_CHECKS",
    "KIND_CHECKS",
    "Report",
    "acheck",
    "arepair",
    "check",
    "read_job_queue",
    "read_log",
    "repair",
    "scan_keys",
    "take_snapshot",
]
