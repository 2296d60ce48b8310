-- Stop waiting for a wake-up, and pass one on that may be on its way.
--
-- KEYS[1] meta    hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] worker  string
--
-- Returns {'ok'}
--         {'newer', layout}   the queue was written by a newer version
-- include channels job_keys wake
local keys, worker = jobs.keys_beside(KEYS[1]), ARGV[1]

jobs.guard(keys, {zset = {'alarms', 'levels', 'due'}, set = {'idle', 'strays'}})
local refusal = jobs.refuse_newer(keys)
if refusal then return refusal end
redis.call('SREM', keys.idle, worker)
local had_alarm = redis.call('ZREM', keys.alarms, worker) == 1
local has_more = redis.call('ZCARD', keys.levels) > 0 or redis.call('SCARD', keys.strays) > 0
if had_alarm or has_more then wake_workers(keys.idle, keys['wake:'], 1) end
return {'ok'}
