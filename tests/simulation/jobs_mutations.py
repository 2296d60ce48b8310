"""Deliberate bugs in the scripts on jobs, each of which must be found."""

from __future__ import annotations

from tests.simulation.mutations import Mutation

JOB_MUTATIONS = [
    Mutation(
        "a job that is done stays in the worker's hands",
        "  call_in_chunks('HDEL', running, processes)\n",
        "",
        "are accounted for",
    ),
    Mutation(
        "a send repeated is done twice",
        " or recall_sent(memory, operation, KEYS[2]) or\n  recall(memory, operation)\n",
        "\n",
        "",
    ),
    Mutation(
        "a start repeated starts twice",
        "if done then return jobs.repeat_hand_out(keys, claim, done) end\n",
        "",
        "had a second effect",
    ),
    Mutation(
        "an entry that is out of date is handed out",
        "if facts.state ~= 'r' or facts.turn ~= (turn or facts.number) then facts = false",
        "if false then facts = false",
        "",
    ),
    Mutation(
        "jobs are promoted before their time",
        "ZRANGEBYSCORE', keys.due, '-inf', whole(now)",
        "ZRANGEBYSCORE', keys.due, '-inf', '+inf'",
        "though it was not its time",
    ),
    Mutation(
        "a cancelled job stays due",
        "    redis.call('ZREM', keys.due, id)\n    jobs.end_job",
        "    jobs.end_job",
        "stands in 'due' but is cancelled",
    ),
    Mutation(
        "a slot is not freed",
        "if redis.call('HINCRBY', keys.busy, key, -1) <= 0 then",
        "if false then",
        "are counted in busy",
    ),
    Mutation(
        "one job more than allowed runs at once",
        "limit.free = limit.slots - ",
        "limit.free = limit.slots + 1 - ",
        "may",
    ),
    Mutation(
        "tokens come twice as fast",
        "math.max(0, now - at) * limit.rate",
        "math.max(0, now - at) * 2 * limit.rate",
        "allows",
    ),
    Mutation(
        "a slot that is free is offered to nobody",
        "pcall(jobs.unpark_key, keys, key, now)",
        "false, 0",
        "wait for a slot",
    ),
    Mutation(
        "a type that is paused is handed out",
        "suited[type] = not is_paused(type) and handles",
        "suited[type] = handles",
        "is paused",
    ),
    Mutation(
        "a queue that is paused hands out",
        "  if is_paused then\n    -- No alarm",
        "  if false then\n    -- No alarm",
        "may start nothing",
    ),
    Mutation(
        "what has expired is started",
        "if head.expires_ms > 0 and facts.since",
        "if false and facts.since",
        "after it had expired",
    ),
    Mutation(
        "the least urgent goes first",
        "local levels = redis.call('ZRANGE', keys.levels",
        "local levels = redis.call('ZREVRANGE', keys.levels",
        "which is more urgent",
    ),
    Mutation(
        "what is given back goes to the end of its line",
        "if #again > 0 then jobs.return_to_lines(keys, again) end",
        "if #again > 0 then jobs.send_to_lines(keys, again) end",
        "which came earlier",
    ),
    Mutation(
        "poison is tried for ever",
        "elseif facts.crashes >= 3 and",
        "elseif false and",
        "crashes",
    ),
    Mutation(
        "a worker that was failed stays a member",
        "redis.call('SREM', keys.members, worker)\nredis.call('SREM', keys.idle",
        "redis.call('SREM', keys.idle",
        "",
    ),
    Mutation(
        "a schedule is fired whatever slot was meant",
        "if not stored or tonumber(stored) ~= tonumber(slot) or",
        "if not stored or",
        "",
    ),
    Mutation(
        "a unique key is never freed",
        "    jobs.free_unique(keys, id, facts, 8)\n    jobs.free_unique",
        "    jobs.free_unique",
        "may not hold it",
    ),
    Mutation(
        "a unique key is given to whoever comes",
        "    elseif holder then",
        "    elseif false then",
        "key",
    ),
    Mutation(
        "jobs come in without waking anybody",
        "    wake_workers(keys.idle, keys['wake:'], ready)\n",
        "",
        "sleeps in",
    ),
    Mutation(
        "nobody gets up for what is due",
        "  redis.call('ZADD', keys.alarms, whole(math.max(at, now + 1)), worker)\n"
        "  return math.max(at - now, 0)",
        "  return -1",
        "not within",
    ),
    Mutation(
        "process ids are given out again",
        "redis.call('HINCRBY', keys.meta, 'process', #taken) - #taken + 1",
        "redis.call('HINCRBY', keys.meta, 'process', 1) - #taken + 1",
        "",
    ),
    Mutation(
        "a worker is handed more than it takes",
        "  call('SREM', idle, offer)\n",
        "",
        "which takes another unasked",
    ),
    Mutation(
        "a job that is handed over is in nobody's hands",
        "    call('HSET', running, process, id)\n    written",
        "    written",
        "",
    ),
    Mutation(
        "a plain job whose report goes the usual way is in nobody's hands",
        "    call('HSET', running, process, id)\n    return nil\n",
        "    return nil\n",
        "",
    ),
    Mutation(
        "a plain job that is done is counted as running",
        "whole(found[8] - 1)",
        "whole(found[8])",
        "",
    ),
    Mutation(
        "what a worker has missed is never found",
        "if not is_known[process] then processes",
        "if false then processes",
        "not within",
    ),
    Mutation(
        "a job that is removed while it waits leaves no entry in the history",
        "jobs.record_ending(changes, id, facts, 'removed', '-', now)",
        "",
        "jobs without one ended",
    ),
    Mutation(
        "a deleted queue leaves its history behind",
        "'schedules', 'slots', 'history', 'marks'}",
        "'schedules', 'slots', 'marks'}",
        "these keys are left",
    ),
    Mutation(
        "a chunk of jobs that is moved stays in its stage",
        "remove_chunk(keys.moving, stage, index, rest)\n",
        "",
        "are stored",
    ),
    Mutation(
        "jobs of a chunk that find no room are lost",
        "remove_chunk(keys.moving, stage, index, rest)\n",
        "remove_chunk(keys.moving, stage, index, {})\n",
        "are stored",
    ),
    Mutation(
        "jobs of a batch that are merged are still to be moved",
        "'staged', whole(staged - moved)",
        "'staged', whole(staged - sending.added)",
        "rows are to be moved",
    ),
    Mutation(
        "a job of a batch is lost if its id is taken",
        "if sending.taken and are_made then return refuse({'taken'}) end\n",
        "",
        "nobody has its key",
    ),
    Mutation(
        "a queue of jobs that is deleted leaves its stages behind",
        "    redis.call('UNLINK', base .. 'stage:' .. string.match("
        "redis.call('LPOP', moving), '^%S+'))",
        "    redis.call('LPOP', moving)",
        "belongs to no decided batch",
    ),
    Mutation(
        "a deleted queue still counts what was to be moved",
        "redis.call('HDEL', keys.meta, 'staged', 'moved_at')",
        "redis.call('HDEL', keys.meta, 'moved_at')",
        "rows are to be moved",
    ),
]
