"""Spark reads and writes queues: `format("penstock")`, a session that knows it, and the lake.

Importing it without PySpark, or with a version that it does not work with, raises SparkNotFound.
"""

from penstock.spark.requirements import check_requirements

check_requirements()

# Behind the check, so that its message comes before any failed import.
from penstock.spark.archiving import Archived, archive  # noqa: E402
from penstock.spark.history_lake import Lake, lake  # noqa: E402
from penstock.spark.history_offsets import mark_offsets  # noqa: E402
from penstock.spark.map_jobs import BatchProgress, map_jobs  # noqa: E402
from penstock.spark.queue_work import WorkerSummary, run  # noqa: E402
from penstock.spark.reports.report import Report, make_report  # noqa: E402
from penstock.spark.session import register, session  # noqa: E402
from penstock.spark.source import PenstockSource  # noqa: E402

__all__ = [
    "Archived",
    "BatchProgress",
    "Lake",
    "PenstockSource",
    "Report",
    "WorkerSummary",
    "archive",
    "lake",
    "make_report",
    "map_jobs",
    "mark_offsets",
    "register",
    "run",
    "session",
]
