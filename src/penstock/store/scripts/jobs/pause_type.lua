-- Hand out no more jobs of a type, or hand them out again.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] meta         hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] incarnation  string  made for a queue that does not exist yet, or empty
-- ARGV[3] type         string
-- ARGV[4] paused       int     1 or 0
--
-- Returns {'ok'}
--         {'no_queue'}        register the queue, then send again with an incarnation; or there is nothing to lift
--         {'queue_exists'}    under another incarnation; unregister this one, then send again without
--         {'tasks', kind}     the queue holds plain tasks, or is a log
--         {'other_layout', layout}   the queue was written by another version
-- include clock channels memory queue wake model
-- include from jobs: keys queue rules
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation, incarnation, type, paused = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta'}, set = {'paused_types', 'idle'}})
local unhandled = redis.call('ZCARD', keys['unhandled:'] .. type)
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
lib.allow_when_full(memory)
refusal = lib.refuse_rule(memory, operation, keys, incarnation)
if refusal then return refusal end
if paused == '1' then
  lib.create_for_rule(keys, incarnation)
  redis.call('SADD', keys.paused_types, type)
elseif redis.call('SREM', keys.paused_types, type) == 1 then
  lib.wake_workers(keys.idle, keys['wake:'], 1 + unhandled)
end
return lib.remember(memory, operation, {'ok'})
