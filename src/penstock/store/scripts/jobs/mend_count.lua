-- Set a count to what a recount has found, unless it has changed since; for repairs.
--
-- Every operation changes a count by as much as what it counts, so a count that is off stays off by as much, and one
-- that is as it was seen can be set right even if jobs have come and gone.
--
-- KEYS[1] meta   hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] table  string  'meta' or 'busy'
-- ARGV[2] field  bytes   what is counted
-- ARGV[3] seen   bytes   the count that is wrong, which may not even be a number
-- ARGV[4] right  int     the recount
--
-- Returns {'ok', mended}      1 if it was set, 0 if it has changed
--         {'other_layout', layout}   the queue was written by another version
-- include model
-- include from jobs: keys
local keys = lib.keys_beside(KEYS[1])
local table_, field, seen, right = unpack(ARGV)

lib.guard(keys, {hash = {'meta', 'busy'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
if (redis.call('HGET', keys[table_], field) or '0') ~= seen then return {'ok', 0} end
if right == '0' then redis.call('HDEL', keys[table_], field) else redis.call('HSET', keys[table_], field, right) end
return {'ok', 1}
