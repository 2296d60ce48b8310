-- Set how many jobs of a tenant start in a round, where several tenants have jobs of equal priority.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] tenant     string
-- ARGV[3] share      int     1 to 1000; 1 is the default
--
-- Returns {'ok'}
--         {'no_queue'}        there is no such queue
--         {'newer', layout}   the queue was written by a newer version
-- include memory job_keys
local memory, keys = KEYS[1], jobs.keys_beside(KEYS[2])
local operation, tenant, share = unpack(ARGV)

local done = recall(memory, operation)
if done then return done end

jobs.guard(keys, {hash = {'meta', 'shares'}})
local refusal = jobs.refuse_newer(keys)
if refusal then return refusal end
if redis.call('HEXISTS', keys.meta, 'incarnation') == 0 then
  allow_when_full(memory)
  return remember(memory, operation, {'no_queue'})
end
if share == '1' then redis.call('HDEL', keys.shares, tenant) else redis.call('HSET', keys.shares, tenant, share) end
return remember(memory, operation, {'ok'})
