-- Set how many jobs of a key may run at once and start in a time, or lift the limit.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] meta         hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] incarnation  string  made for a queue that does not exist yet, or empty
-- ARGV[3] key          string  '' for the whole queue, '*' for every key without a limit of its own
-- ARGV[4] settings     string  slots, rate, per_ms, burst, with a space between (0: none); empty to lift the limit
--
-- Returns {'ok'}
--         {'more'}            set, but it holds back jobs of more keys than can be woken at once; set it once more
--         {'no_queue'}        register the queue, then send again with an incarnation; or there is nothing to lift
--         {'queue_exists'}    under another incarnation; unregister this one, then send again without
--         {'tasks', kind}     the queue holds plain tasks, or is a log
--         {'other_layout', layout}   the queue was written by another version
-- include clock channels memory queue wake model
-- include from jobs: keys queue rules
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation, incarnation, key, settings = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'limits', 'buckets'}, zset = {'unparks'}, set = {'idle'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
refusal = lib.refuse_rule(memory, operation, keys, incarnation)
if refusal then return refusal end
local now = lib.now_ms()
if settings == '' then
  redis.call('HDEL', keys.limits, key)
  redis.call('HDEL', keys.buckets, key)
else
  lib.create_for_rule(keys, incarnation)
  redis.call('HSET', keys.limits, key, settings)
end
-- The next worker that starts jobs looks at what the limit has held back.
local AT_ONCE = 1000
local held_back = {key}
if key == '*' then
  held_back = redis.call('ZRANGEBYSCORE', keys.unparks, '(' .. lib.whole(now), '+inf', 'LIMIT', 0, AT_ONCE)
end
for _, parked in ipairs(held_back) do redis.call('ZADD', keys.unparks, 'XX', lib.whole(now), parked) end
lib.wake_workers(keys.idle, keys['wake:'], 1)
if #held_back == AT_ONCE then return lib.remember(memory, operation, {'more'}) end
return lib.remember(memory, operation, {'ok'})
