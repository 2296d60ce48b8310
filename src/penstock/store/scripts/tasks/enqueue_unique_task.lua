-- Add a task unless one with the same key is in the queue or running.
--
-- One step, so that of any number of producers exactly one is told that its task is new.
--
-- KEYS[1] memory        string  last operation of this lane
-- KEYS[2] ready         list    tasks; the next to run is at the right
-- KEYS[3] meta          hash    settings and counters of the queue
-- KEYS[4] idle          set     workers that wait for a wake-up
-- KEYS[5] unique        hash    key -> holder and task, of every unique task not yet gone
-- KEYS[6] unique_tasks  zset    digest of the task, then key; all scores 0
-- ARGV[1] operation     int     number of this operation in its lane
-- ARGV[2] incarnation   string  made for a queue that does not exist yet, or empty
-- ARGV[3] work          string  channel of the `work` event
-- ARGV[4] wake          string  prefix of the wake-up channels
-- ARGV[5] key           bytes   1 to 1024 bytes
-- ARGV[6] holder        bytes   8 random bytes
-- ARGV[7] task          bytes
--
-- Returns {'ok', ready}            the task is new; how many tasks are ready now
--         {'exists', task}         the task that holds the key (asked again: the one that holds it then)
--         {'no_queue'}             register the queue, then send again with an incarnation
--         {'queue_exists'}         under another incarnation; unregister this one, then send again without
--         {'full', ready, max}     the queue would grow over its maximum length
--         {'jobs', kind}           the queue holds jobs, or is a log, so it takes no plain tasks
-- include clock channels memory queue wake
-- include from tasks: element
local memory, ready, meta, idle, unique, unique_tasks = unpack(KEYS)
local operation, incarnation, work, wake, key, holder, task = unpack(ARGV)

-- The task that holds a key may be large, so only the refusal is remembered, not the task.
local function refused_by(existing)
  return {'exists', existing and string.sub(existing, lib.HOLDER_BYTES + 1) or task}
end

local done = lib.recall(memory, operation)
if done and done[1] == 'exists' then return refused_by(redis.call('HGET', unique, key)) end
if done then return done end

local length = redis.call('LLEN', ready)
local known, max_length, kind = unpack(redis.call('HMGET', meta, 'incarnation', 'max_length', 'kind'))
redis.call('SCARD', idle) -- a key of the wrong type must be found before the first write
local existing = redis.call('HGET', unique, key)
redis.call('ZCARD', unique_tasks) -- a key of the wrong type must be found before the first write
local refusal = lib.refuse_queue(memory, operation, known, incarnation)
if refusal then return refusal end
if existing then
  lib.remember(memory, operation, {'exists'})
  return refused_by(existing)
end
if kind then return lib.remember(memory, operation, {'jobs', kind}) end
max_length = tonumber(max_length) -- a limit that is no number is none
if max_length and length + 1 > max_length then
  return lib.end_early(memory, operation, {'full', length, max_length})
end

if not known then lib.create_queue(meta, incarnation) end
length = redis.call('LPUSH', ready, lib.unique_element(key, holder, task))
redis.call('HSET', unique, key, holder .. task)
redis.call('ZADD', unique_tasks, 0, lib.unique_entry(key, task))
redis.pcall('HINCRBY', meta, 'enqueued', 1)
lib.publish(work, 1)
lib.wake_workers(idle, wake, 1)
return lib.remember(memory, operation, {'ok', length})
