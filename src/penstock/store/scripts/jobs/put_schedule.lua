-- Store a schedule and when it is due next, in the place of one of the same name.
--
-- When it is due next depends on the time and on what was stored before, so the caller, which works it out, says what
-- it has read. If that is not so any more, as when it was fired since, a slot could be fired twice or be passed over.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] meta         hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] incarnation  string  made for a queue that does not exist yet, or empty
-- ARGV[3] name         string
-- ARGV[4] definition   bytes
-- ARGV[5] slot         int     when it is due next (ms since 1970), or empty: never again
-- ARGV[6] read         bytes   the definition and the slot that were read, with a space between; '*': any
-- ARGV[7] max          int     how many schedules a queue may have that says nothing else
--
-- Returns {'ok', new}          1 if there was none of this name
--         {'late'}             it is not what was read any more; read it again
--         {'no_queue'}         register the queue, then send again with an incarnation
--         {'queue_exists'}     under another incarnation; unregister this one, then send again without
--         {'too_many', count}  the queue has as many schedules as it may have (max_schedules)
--         {'tasks', kind}      the queue holds plain tasks, or is a log
--         {'other_layout', layout}    the queue was written by another version
-- include clock channels memory queue wake model
-- include from jobs: keys queue
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation, incarnation, name, definition, slot, read, max = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'schedules'}, zset = {'slots'}, set = {'idle'}})
local stored = redis.call('HGET', keys.schedules, name) or ''
local stored_slot = redis.call('ZSCORE', keys.slots, name) or ''
local is_over = slot ~= '' and slot ~= stored_slot and tonumber(slot) <= lib.now_ms()
-- A caller that sends an incarnation was asked for one, and must be told what became of it.
if incarnation == '' and read ~= '*' and (is_over or read ~= stored .. ' ' .. stored_slot) then
  return lib.end_early(memory, operation, {'late'})
end
local known = redis.call('HGET', keys.meta, 'incarnation')
local refusal = lib.refuse_queue(memory, operation, known, incarnation)
if refusal then return refusal end
refusal = lib.refuse_kind(keys)
local count = redis.call('HLEN', keys.schedules)
local most = tonumber(redis.call('HGET', keys.meta, 'max_schedules') or max) or tonumber(max)
if not refusal and count >= most and redis.call('HEXISTS', keys.schedules, name) == 0 then
  refusal = {'too_many', count}
end
if refusal then return lib.end_early(memory, operation, refusal) end

if not known then lib.create_queue(keys.meta, incarnation) end
if redis.call('HEXISTS', keys.meta, 'kind') == 0 then lib.become_job_queue(keys) end
local is_new = redis.call('HSET', keys.schedules, name, definition)
if slot == '' then redis.call('ZREM', keys.slots, name) else redis.call('ZADD', keys.slots, slot, name) end
lib.wake_workers(keys.idle, keys['wake:'], 1) -- it sets an alarm for what is due next
return lib.remember(memory, operation, {'ok', is_new})
