-- Set how many jobs of a tenant start in its turn, where several tenants have jobs of equal priority.
--
-- KEYS[1] meta    hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] tenant  string
-- ARGV[2] share   int     1 to 1000; 1 is the default
--
-- Returns {'ok'}
--         {'no_queue'}        there is no such queue
--         {'newer', layout}   the queue was written by a newer version
-- include job_keys
local keys = jobs.keys_beside(KEYS[1])
local tenant, share = unpack(ARGV)

jobs.guard(keys, {hash = {'meta', 'shares'}})
local refusal = jobs.refuse_newer(keys)
if refusal then return refusal end
if redis.call('HEXISTS', keys.meta, 'incarnation') == 0 then return {'no_queue'} end
if share == '1' then redis.call('HDEL', keys.shares, tenant) else redis.call('HSET', keys.shares, tenant, share) end
return {'ok'}
