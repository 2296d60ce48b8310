-- Remove a schedule. Jobs that it has sent stay.
--
-- KEYS[1] meta  hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] name  string
--
-- Returns {'ok'}
--         {'absent'}          there is none of this name
--         {'newer', layout}   the queue was written by a newer version
-- include job_keys
local keys = jobs.keys_beside(KEYS[1])

jobs.guard(keys, {hash = {'schedules'}, zset = {'slots'}})
local refusal = jobs.refuse_newer(keys)
if refusal then return refusal end
redis.call('ZREM', keys.slots, ARGV[1])
return {redis.call('HDEL', keys.schedules, ARGV[1]) == 1 and 'ok' or 'absent'}
