"""Deliberate bugs. A simulation that finds none of them would prove nothing by finding nothing."""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from penstock.store.script import SIMULATED, scripts

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Mutation:
    """One change to the text of the scripts."""

    name: str
    old: str
    new: str
    found_by: str
    """a part of what the promises alone say about it, without the reference; empty where only the
    reference says so soon enough for a test"""
    seed: int
    """One that finds it, without the reference where `found_by` is not empty. Once it does not, the
    tests try all seeds, and say at the end of their output which one to write here."""

    def __call__(self, text: str) -> str:
        return text.replace(self.old, self.new)

    @property
    def is_effective(self) -> bool:
        """Whether the text to be changed is still there."""
        return any(self.old in script.text(SIMULATED) for script in scripts())

    @contextmanager
    def in_code(self) -> Iterator[None]:
        """While this lasts, code that is no script has the bug."""
        yield


@dataclass(frozen=True)
class CodeMutation(Mutation):
    """One change to the text of a method."""

    owner: type
    method: str

    def __call__(self, text: str) -> str:
        return text

    @property
    def is_effective(self) -> bool:
        return self.old in self._source

    @contextmanager
    def in_code(self) -> Iterator[None]:
        known = vars(self.owner)[self.method]
        scope: dict[str, Any] = {}
        text = "from __future__ import annotations\n" + self._source.replace(self.old, self.new)
        exec(text, vars(sys.modules[self.owner.__module__]), scope)
        setattr(self.owner, self.method, scope[self.method])
        try:
            yield
        finally:
            setattr(self.owner, self.method, known)

    @property
    def _source(self) -> str:
        known: Any = vars(self.owner)[self.method]
        return dedent(inspect.getsource(getattr(known, "fget", known)))


MUTATIONS = [
    Mutation(
        "a stranger may start tasks",
        "claim.worker) == 0 then return {'not_working'} end",
        "claim.worker) == 2 then return {'not_working'} end",
        "but has not started work here",
        seed=0,
    ),
    Mutation(
        "a lost worker's tasks go to the back",
        "lib.call_in_chunks('RPUSH', ready, elements)",
        "lib.call_in_chunks('LPUSH', ready, elements)",
        "",
        seed=0,
    ),
    Mutation(
        "an enqueue sent twice is done twice",
        "if done then return done end\n\nlocal count = #ARGV - FIRST_TASK + 1",
        "local count = #ARGV - FIRST_TASK + 1",
        "is in two places",
        seed=0,
    ),
    Mutation(
        "a start sent twice starts twice",
        "if done then return lib.repeat_claim(claim, done) end\nlocal reply",
        "local reply",
        "was never told so",
        seed=1,
    ),
    Mutation(
        "a start that found nothing is not remembered",
        "  if reply[1] ~= 'ok' then lib.allow_when_full(claim.memory) end",
        "  if reply[1] ~= 'ok' and not refused then return end",
        "had a second effect",
        seed=8,
    ),
    Mutation(
        "a unique key is never freed",
        "        redis.call('HDEL', unique, key)\n",
        "",
        "is taken but no tasks hold it",
        seed=0,
    ),
    Mutation(
        "failing a worker forgets it before its tasks are back",
        "redis.call('ZADD', condemned, lib.whole(retry_at), worker)",
        "",
        "neither registered nor condemned",
        seed=8,
    ),
    Mutation(
        "everybody is taken for dead",
        "'(' .. lib.whole(now)",
        "'+inf'",
        "although its lease had not run out",
        seed=0,
    ),
    Mutation(
        "a worker that overslept judges the others",
        "if sweep > 0 and tonumber(ends_at) >= now then",
        "if sweep > 0 then",
        "judged others though its own lease had run out",
        seed=2,
    ),
    Mutation(
        "the client that comes second goes on although its incarnation is not the queue's",
        "if known and incarnation ~= '' and incarnation ~= known then",
        "if false then",
        "nobody crashed, but",
        seed=0,
    ),
    Mutation(
        "a queue is created without being put on the list",
        "redis.call('HSET', queues, incarnation, entry)",
        "",
        "is not on the list of queues",
        seed=0,
    ),
    Mutation(
        "a late copy brings a deleted queue back",
        "if done then return done end\n\nlocal known",
        "local known",
        "",
        seed=3,
    ),
    Mutation(
        "a queue is deleted under running tasks",
        "if running > 0 then",
        "if false then",
        "are accounted for",
        seed=0,
    ),
    Mutation(
        "poison is tried for ever",
        "if failed >= max_failures then",
        "if failed < 0 then",
        "not within",
        seed=0,
    ),
    Mutation(
        "a late copy takes a queue off the list of a worker that serves it",
        "if done then return done end\n\nredis.call('SCARD', work)",
        "redis.call('SCARD', work)",
        "",
        seed=44,
    ),
    Mutation(
        "tasks come in without waking anybody",
        "lib.wake_workers(idle, wake, count)\n",
        "",
        "wait in",
        seed=0,
    ),
    Mutation(
        "what was decided still expires",
        "  redis.call('PERSIST', KEYS[index])\n",
        "",
        "and will expire",
        seed=0,
    ),
    Mutation(
        "a batch is decided once more by who comes second",
        "if last and tonumber(last) >= tonumber(version) then",
        "if last and tonumber(last) > tonumber(version) then",
        "was decided twice",
        seed=3,
    ),
    Mutation(
        "a batch is decided without a stage that is lost",
        "if redis.call('HLEN', KEYS[index]) ~= wanted then",
        "if false then",
        "are stored",
        seed=34,
    ),
    Mutation(
        "a stage that has lost a chunk is taken for whole",
        "if redis.call('HLEN', KEYS[index]) ~= wanted then",
        "if redis.call('HLEN', KEYS[index]) == 0 then",
        "are stored",
        seed=1,
    ),
    Mutation(
        "a decision sent twice is answered anew",
        "if done then return done end\n\nlocal known, stored_kind",
        "local known, stored_kind",
        "had a second effect",
        seed=3,
    ),
    Mutation(
        "a batch that is known takes away what was decided before",
        "if redis.call('PTTL', KEYS[index]) >= 0 then redis.call('UNLINK', KEYS[index]) end",
        "redis.call('UNLINK', KEYS[index])",
        "so its rows are lost",
        seed=7,
    ),
    Mutation(
        "stages are dropped though they were decided",
        "if redis.call('PTTL', KEYS[index]) >= 0 then dropped =",
        "if true then dropped =",
        "so its rows are lost",
        seed=2,
    ),
    Mutation(
        "a late copy of a chunk is added to what was decided",
        "if redis.call('PTTL', stage) == -1 then return {'decided'} end",
        "",
        "and will expire",
        seed=21,
    ),
    Mutation(
        "a chunk that is moved stays in its stage",
        "    redis.call('HDEL', stage, index)\n    if",
        "    if",
        "are stored",
        seed=0,
    ),
    Mutation(
        "a chunk that is moved in part loses the rest",
        "  if #rest > 0 then",
        "  if false then",
        "are stored",
        seed=10,
    ),
    Mutation(
        "a stage is over before its last chunk",
        "if redis.call('EXISTS', stage) == 0 then redis.call('LPOP', moving) end",
        "if redis.call('HLEN', stage) <= 1 then redis.call('LPOP', moving) end",
        "belongs to no decided batch",
        seed=0,
    ),
    Mutation(
        "more is moved than there is room for",
        "max_length and math.min(#tasks, max_length - length) or #tasks",
        "#tasks",
        "",
        seed=10,
    ),
    Mutation(
        "rows that were moved are still counted",
        "'staged', lib.whole(staged - count)",
        "'staged', lib.whole(staged)",
        "rows are to be moved",
        seed=0,
    ),
    Mutation(
        "a queue that a worker has joined takes whatever comes first",
        "if not enqueued then redis.call('HSET', meta, 'enqueued', 0) end\n",
        "",
        "",
        seed=0,
    ),
    Mutation(
        "a queue that is deleted leaves its stages behind",
        "    redis.call('UNLINK', base .. 'stage:' .. (string.match("
        "redis.call('LPOP', moving), '^%S+') or ''))",
        "    redis.call('LPOP', moving)",
        "belongs to no decided batch",
        seed=0,
    ),
]
