-- Remove a schedule. Jobs that it has sent stay.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] name       string
--
-- Returns {'ok'}
--         {'absent'}          there is none of this name
--         {'other_layout', layout}   the queue was written by another version
-- include memory model
-- include from jobs: keys
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation, name = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'schedules'}, zset = {'slots'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
lib.allow_when_full(memory)
redis.call('ZREM', keys.slots, name)
if redis.call('HDEL', keys.schedules, name) == 0 then return lib.remember(memory, operation, {'absent'}) end
return lib.remember(memory, operation, {'ok'})
