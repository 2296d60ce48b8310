-- Set how many jobs of a tenant start in a round, where several tenants have jobs of equal priority.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] meta         hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] incarnation  string  made for a queue that does not exist yet, or empty
-- ARGV[3] tenant       string
-- ARGV[4] share        int     1 to 1000; 1 is the default
--
-- Returns {'ok'}
--         {'no_queue'}        register the queue, then send again with an incarnation
--         {'queue_exists'}    under another incarnation; unregister this one, then send again without
--         {'tasks', kind}     the queue holds plain tasks, or is a log
--         {'other_layout', layout}   the queue was written by another version
-- include clock memory queue model
-- include from jobs: keys queue rules
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation, incarnation, tenant, share = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'shares'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
refusal = lib.refuse_rule(memory, operation, keys, incarnation)
if refusal then return refusal end
if share == '1' then redis.call('HDEL', keys.shares, tenant) end -- first, so that it passes on a full store
lib.create_for_rule(keys, incarnation)
if share ~= '1' then redis.call('HSET', keys.shares, tenant, share) end
return lib.remember(memory, operation, {'ok'})
