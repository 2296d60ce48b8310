"""Deliberate bugs in logs and in how they are read, each of which must be found."""

from __future__ import annotations

from penstock.coordination.redis import RedisMembership
from penstock.worker.group_reading import GroupReading
from penstock.worker.partition_lease import PartitionLease
from penstock.worker.pump import Pump
from penstock.worker.sources.logs import LogSource
from tests.simulation.mutations import CodeMutation, Mutation

LOG_MUTATIONS = [
    Mutation(
        "an offset is taken from an owner that is none any more",
        "if known ~= tonumber(epoch) then return {'stale', known or 0} end\nif lib.is_before",
        "if lib.is_before",
        "was accepted of",
        seed=1,
    ),
    Mutation(
        "an error is taken from an owner that is none any more",
        "if known ~= tonumber(epoch) then return lib.remember(memory, operation, {'stale'",
        "if false then return lib.remember(memory, operation, {'stale'",
        "was accepted of",
        seed=3,
    ),
    Mutation(
        "a new owner gets the epoch of the old one",
        "epoch = known and math.max(known + 1, now) or now end",
        "epoch = known or now end",
        "was given twice",
        seed=0,
    ),
    Mutation(
        "a commit that arrives late sets the offset back",
        "if lib.is_before(offset, present) then return {'back', present} end\n"
        "offset = lib.not_ahead(offset, part, messages, now)\n"
        "if lib.is_before(offset, present) then offset = present end\n",
        "",
        "went back",
        seed=1,
    ),
    Mutation(
        "an append that is repeated appends twice",
        "if done then return done end\n\nlocal part = lib.read_state(state)\nredis.call('LLEN'",
        "local part = lib.read_state(state)\nredis.call('LLEN'",
        "had a second effect",
        seed=0,
    ),
    Mutation(
        "a trim passes a reader that is behind",
        "if needed_from and not is_forced and",
        "if false and",
        "were trimmed by",
        seed=0,
    ),
    Mutation(
        "retention passes a reader that is behind",
        "(is_old and not is_needed)",
        "is_old",
        "were trimmed by",
        seed=1,
    ),
    Mutation(
        "what is trimmed is not counted",
        "part.trimmed + #rest",
        "part.trimmed",
        "were appended",
        seed=0,
    ),
    Mutation(
        "a group that moves keeps its epoch, so its owner does not learn of it",
        "local epoch = known and math.max(known + 1, now) or now\nlib.write_offset",
        "local epoch = known or now\nlib.write_offset",
        "skipped",
        seed=6,
    ),
    Mutation(
        "owners are forgotten, so two members have the same partition",
        "    if living[owned[index + 1]] then\n",
        "    if false then\n",
        "was under way when",
        seed=1,
    ),
    Mutation(
        "a partition is claimed without a look at its owner",
        "if owner and owner ~= member then",
        "if false then",
        "was under way when",
        seed=1,
    ),
    CodeMutation(
        "an owner works on after its time is up",
        "return is_valid and not self._is_partition_lost",
        "return not self._is_partition_lost",
        "was under way when",
        1,
        PartitionLease,
        "is_valid",
    ),
    CodeMutation(
        "a lease is counted from the answer, not from the request",
        "self.lease.renewed(sent_at)",
        "self.lease.renewed(lease_clock())",
        "was followed by",
        39,
        RedisMembership,
        "_beat",
    ),
    CodeMutation(
        "what has failed counts as done",
        "self._advance(context.messages[context.done - 1].id)",
        "self._advance(context.messages[-1].id)",
        "is not done",
        1,
        LogSource,
        "report_apart",
    ),
    CodeMutation(
        "one message too few is handed out",
        'return Claim("ok", [messages])',
        'return Claim("ok", [messages[1:] or messages])',
        "skipped",
        0,
        LogSource,
        "_read",
    ),
    CodeMutation(
        "a partition is released before its last commit",
        "await self._commit_last(owned)",
        "owned.committing.cancel()",
        "were committed",
        4,
        GroupReading,
        "_forget",
    ),
    CodeMutation(
        "what has begun is not waited for before a partition is released",
        "await self._host.withdraw([owned.pump], owned.tasks)",
        "await self._host.drop([owned.pump], owned.tasks)",
        "was under way when",
        17,
        GroupReading,
        "_hand_over",
    ),
    CodeMutation(
        "the end of a batch makes no room for other partitions",
        "if self.feed.asking is None:",
        "if False:",
        "not within",
        51,
        Pump,
        "report",
    ),
]
