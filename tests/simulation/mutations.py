"""Deliberate bugs. A simulation that finds none of them would prove nothing by finding nothing."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.store.script import SIMULATED, job_script_names, load, script_names


@dataclass(frozen=True)
class Mutation:
    """One change to the text of the scripts."""

    name: str
    old: str
    new: str
    found_by: str
    """a part of what the promises alone say about it, without the reference; empty where only the
    reference says so soon enough for a test"""

    def __call__(self, text: str) -> str:
        return text.replace(self.old, self.new)

    @property
    def is_effective(self) -> bool:
        """Whether the text to be changed is still there."""
        names = [*script_names(), *job_script_names()]
        return any(self.old in load(name).text(SIMULATED) for name in names)


MUTATIONS = [
    Mutation(
        "a stranger may start tasks",
        "claim.worker) == 0 then return {'not_working'} end",
        "claim.worker) == 2 then return {'not_working'} end",
        "but has not started work here",
    ),
    Mutation(
        "a lost worker's tasks go to the back",
        "call_in_chunks('RPUSH', ready, elements)",
        "call_in_chunks('LPUSH', ready, elements)",
        "",
    ),
    Mutation(
        "an enqueue sent twice is done twice",
        "if done then return done end\n\nlocal count = #ARGV - FIRST_TASK + 1",
        "local count = #ARGV - FIRST_TASK + 1",
        "is in two places",
    ),
    Mutation(
        "a start sent twice starts twice",
        "if done then return repeat_claim(claim, done) end\nlocal reply",
        "local reply",
        "had a second effect",
    ),
    Mutation(
        "a start that found nothing is not remembered",
        "  if reply[1] ~= 'ok' then allow_when_full(claim.memory) end",
        "  if reply[1] ~= 'ok' and not refused then return end",
        "had a second effect",
    ),
    Mutation(
        "a unique key is never freed",
        "        redis.call('HDEL', unique, key)\n",
        "",
        "is taken but no tasks hold it",
    ),
    Mutation(
        "failing a worker forgets it before its tasks are back",
        "redis.call('ZADD', condemned, whole(retry_at), worker)",
        "",
        "neither registered nor condemned",
    ),
    Mutation(
        "everybody is taken for dead",
        "'(' .. whole(now)",
        "'+inf'",
        "although its lease had not run out",
    ),
    Mutation(
        "whoever overslept judges the others",
        "if sweep > 0 and tonumber(ends_at) >= now then",
        "if sweep > 0 then",
        "judged others though its own lease had run out",
    ),
    Mutation(
        "whoever comes second goes on although its incarnation is not the queue's",
        "if known and incarnation ~= '' and incarnation ~= known then",
        "if false then",
        "nobody crashed, but",
    ),
    Mutation(
        "a queue is created without being put on the list",
        "redis.call('HSET', KEYS[1], ARGV[2], whole(now_ms()) .. ' ' .. ARGV[1])",
        "",
        "is not on the list of queues",
    ),
    Mutation(
        "a late copy brings a deleted queue back",
        "if done then return done end\n\nlocal known",
        "local known",
        "",
    ),
    Mutation(
        "a queue is deleted under running tasks",
        "if running > 0 then",
        "if false then",
        "are accounted for",
    ),
    Mutation(
        "poison is tried for ever",
        "redis.call('HINCRBY', failures, digest, 1) >= max_failures",
        "redis.call('HINCRBY', failures, digest, 1) < 0",
        "not within",
    ),
    Mutation(
        "a late copy takes a queue off the list of a worker that serves it",
        "if done then return done end\n\nredis.call('SCARD', work)",
        "redis.call('SCARD', work)",
        "",
    ),
    Mutation(
        "tasks come in without waking anybody",
        "wake_workers(idle, wake, count)\n",
        "",
        "wait in",
    ),
]
