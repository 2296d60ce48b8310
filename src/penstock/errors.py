"""Every error penstock raises.

All in one file, though it is a long one, so that it is known where to look. One class per thing a
caller could handle. Each message says what happened, with the values, and what to do next; `code`
is stable and meant for programs (`--json` output, log filters).
"""

from __future__ import annotations


class PenstockError(Exception):
    """Anything penstock refuses or fails to do."""

    code = "error"


# What the caller gave us is wrong; nothing was sent.


class InvalidName(PenstockError):
    """A namespace, queue or worker name that cannot be used."""

    code = "invalid_name"


class InvalidArgument(PenstockError):
    """A value out of range or of the wrong kind."""

    code = "invalid_argument"


class InvalidUrl(PenstockError):
    """A store address that cannot be understood."""

    code = "invalid_url"


class PayloadTooLarge(PenstockError):
    """A task or result above `max_payload`."""

    code = "payload_too_large"


class RowRefused(PenstockError):
    """A row of a DataFrame that cannot be sent; nothing of its batch is in the queue."""

    code = "row_refused"


class BatchTooLarge(PenstockError):
    """More was staged for one batch than may be; nothing of it is in the queue."""

    code = "batch_too_large"


class Unserialisable(PenstockError):
    """Data or a result that cannot be written as JSON."""

    code = "unserialisable"


# Raised to callers that wait for a job.


class JobFailed(PenstockError):
    """The job is dead, so it has no result."""

    code = "job_failed"


class ResultTimeout(PenstockError):
    """The job has not ended within the time that was given; it may still do so."""

    code = "result_timeout"


# The store answered that it refuses.


class QueueFull(PenstockError):
    """The queue has no room for it; nothing of this request was accepted."""

    code = "queue_full"
    room: int | None = None
    """for how many more jobs there was room; None: for any number"""
    room_bytes: int | None = None
    """the same in bytes of data"""
    is_final = False
    """a single job that has more bytes than even an empty queue takes, so waiting would not help"""


class StageLost(PenstockError):
    """Rows that were staged for a batch are gone, so it cannot be decided."""

    code = "stage_lost"


class LeaseLost(PenstockError):
    """The worker no longer holds what it tried to change."""

    code = "lease_lost"


class NotWorking(PenstockError):
    """The worker has not started work on this queue."""

    code = "not_working"


class WorkerExists(PenstockError):
    """A worker of this name is registered already."""

    code = "worker_exists"


class TooManyProcesses(PenstockError):
    """The worker holds as many tasks of one queue as one worker may."""

    code = "too_many_processes"


class QueueNotFound(PenstockError):
    """No queue of this name exists."""

    code = "queue_not_found"


class LogNotFound(PenstockError):
    """No log of this name exists."""

    code = "log_not_found"


class GroupNotFound(PenstockError):
    """No group of consumers of this name reads the log."""

    code = "group_not_found"


class LogTrimmed(PenstockError):
    """Messages are gone that a reader of a log has not read."""

    code = "log_trimmed"
    partition = 0
    trimmed_to = ""
    """the last message that is gone: a reader that can do without them goes on after it"""


class OffsetRefused(PenstockError):
    """The partition has another owner by now, or the offset would go back."""

    code = "offset_refused"


class TaskNotFound(PenstockError):
    """The queue neither holds nor runs this task."""

    code = "task_not_found"


class JobNotFound(PenstockError):
    """There is no job of this id, or not any more."""

    code = "job_not_found"


class JobConflict(PenstockError):
    """The id that was given belongs to another job."""

    code = "job_conflict"


class IllegalMove(PenstockError):
    """The job is in a state from which it cannot go where it was told to."""

    code = "illegal_move"


class WrongKind(PenstockError):
    """The name is that of another kind: of plain tasks, of jobs, or of a log."""

    code = "wrong_kind"


class ScheduleNotFound(PenstockError):
    """No schedule of this name exists."""

    code = "schedule_not_found"


class WorkerNotFound(PenstockError):
    """No worker of this id is registered."""

    code = "worker_not_found"


# The store itself is the problem.


class StoreError(PenstockError):
    """The store refused for a reason of its own, such as a key of the wrong type or a missing
    permission.
    """

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store did not do what was asked within the time allowed: it gave no answer, could not be
    reached, or answered that it cannot do it now.
    """

    code = "store_unavailable"
    may_have_taken_effect = True
    """False if the request was never sent, or every try of it was answered"""


class StoreFull(StoreError):
    """The store is out of memory (`maxmemory`) and accepts no new tasks; finishing still works."""

    code = "store_full"


class PermissionMissing(StoreError):
    """The Redis user lacks a command, or the keys or channels of the namespace; nothing was
    written. Or a ZooKeeper does not let the user of its address in.
    """

    code = "permission_missing"


class UnsafeStore(StoreError):
    """The store is configured so that tasks could vanish silently."""

    code = "unsafe_store"


class ProtocolError(StoreError):
    """The store sent something that this version of penstock does not understand."""

    code = "protocol_error"


class UnknownLayout(ProtocolError):
    """Jobs are stored in a way that this version of penstock does not know."""

    code = "unknown_layout"


class ServerNotFound(PenstockError):
    """No redis-server or valkey-server could be found to run privately."""

    code = "server_not_found"


class ServerFailed(PenstockError):
    """The private server did not start or stop as asked."""

    code = "server_failed"


class HandlerNotFound(PenstockError):
    """A worker was asked to serve a queue for which its module registers no handler."""

    code = "handler_not_found"


class WrongLoop(PenstockError):
    """An async client is used on another event loop than the one that it was opened on."""

    code = "wrong_loop"


class WorkerBroken(PenstockError):
    """A job has ended the event loop on which its worker ran."""

    code = "worker_broken"


class LifespanFailed(PenstockError):
    """The lifespan hook of a worker has raised something."""

    code = "lifespan_failed"


class NoResources(PenstockError):
    """A job in a process of its own has asked for what the lifespan hook of its worker has made."""

    code = "no_resources"


class NoJob(PenstockError):
    """No job is running where one was asked for."""

    code = "no_job"


class HistoryLost(PenstockError):
    """Entries of a history are gone, or damaged, that a reader has not read yet."""

    code = "history_lost"


class SparkNotFound(PenstockError):
    """PySpark is missing, or is of a version that penstock does not work with."""

    code = "spark_not_found"


class SparkWorkFailed(PenstockError):
    """Spark could not run workers to their end. What they held goes back to the queue."""

    code = "spark_work_failed"


class JavaNotFound(PenstockError):
    """No Java that Spark can run on was found."""

    code = "java_not_found"


class ArchiveFailed(PenstockError):
    """Spark, or the storage of a lake, failed while history was archived."""

    code = "archive_failed"


class LakeNotFound(PenstockError):
    """Nothing was archived at this place."""

    code = "lake_not_found"


class LakeUnreadable(PenstockError):
    """Files of a lake are missing or broken, or another program has given them another form."""

    code = "lake_unreadable"


class LakeNotShared(PenstockError):
    """Not all machines of the Spark cluster see the folder of the lake."""

    code = "lake_not_shared"


class LakeConflict(PenstockError):
    """A lake has attempts of a queue, and nothing says up to which."""

    code = "lake_conflict"


class LakeBusy(PenstockError):
    """Others changed a table of the lake each time that something was to be committed."""

    code = "lake_busy"


# Logs and their readers.


class PartitionLost(PenstockError):
    """A member of a group does not own a partition any more."""

    code = "partition_lost"


# How a job ended.


class JobTimeout(PenstockError):
    """A job ran longer than its timeout."""

    code = "job_timeout"


class JobCancelled(PenstockError):
    """A job was cancelled while it ran, and was ended."""

    code = "job_cancelled"


class JobCrashed(PenstockError):
    """The process that ran a job, or was to run it, died."""

    code = "job_crashed"


# Tests, shows and measurements.


class RunTooLong(PenstockError):
    """There is always more to run in a test than was expected."""

    code = "run_too_long"


class DemoFailed(PenstockError):
    """The demo could not be played to its end."""

    code = "demo_failed"


class BenchFailed(PenstockError):
    """A figure could not be measured."""

    code = "bench_failed"
