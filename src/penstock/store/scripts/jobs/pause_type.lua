-- Hand out no more jobs of a type, or hand them out again.
--
-- KEYS[1] meta    hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] type    string
-- ARGV[2] paused  int     1 or 0
--
-- Returns {'ok'}
--         {'no_queue'}        there is no such queue
--         {'newer', layout}   the queue was written by a newer version
-- include channels job_keys wake
local keys = jobs.keys_beside(KEYS[1])
local type, paused = unpack(ARGV)

jobs.guard(keys, {set = {'paused_types', 'idle', 'strays'}})
local refusal = jobs.refuse_newer(keys)
if refusal then return refusal end
if redis.call('HEXISTS', keys.meta, 'incarnation') == 0 then return {'no_queue'} end
if paused == '1' then
  redis.call('SADD', keys.paused_types, type)
elseif redis.call('SREM', keys.paused_types, type) == 1 then
  wake_workers(keys.idle, keys['wake:'], 1 + redis.call('LLEN', keys['stray:'] .. type))
end
return {'ok'}
