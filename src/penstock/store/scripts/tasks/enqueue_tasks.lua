-- Add tasks to the back of a queue, all of them or none.
--
-- One step, so that a bulk is never half in, and the tasks are there before a worker is woken. The first write may be
-- refused when the store is full; nothing is written then.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] ready        list    tasks; the next to run is at the right
-- KEYS[3] meta         hash    settings and counters of the queue
-- KEYS[4] idle         set     workers that wait for a wake-up
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] incarnation  string  made for a queue that does not exist yet, or empty
-- ARGV[3] work         string  channel of the `work` event
-- ARGV[4] wake         string  prefix of the wake-up channels
-- ARGV[5] tasks...     bytes   1 to 5000
--
-- Returns {'ok', ready}            how many tasks are ready now
--         {'no_queue'}             register the queue, then send again with an incarnation
--         {'queue_exists'}         under another incarnation; unregister this one, then send again without
--         {'full', ready, max}     the queue would grow over its maximum length
--         {'jobs', kind}           the queue holds jobs, or is a log, so it takes no plain tasks
-- include clock channels memory queue wake
local memory, ready, meta, idle = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local operation, incarnation, work, wake = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local FIRST_TASK = 5

local done = lib.recall(memory, operation)
if done then return done end

local count = #ARGV - FIRST_TASK + 1
local known, max_length, kind = unpack(redis.call('HMGET', meta, 'incarnation', 'max_length', 'kind'))
-- Otherwise the first write goes to `ready`, and would itself find a key of the wrong type.
local length = (max_length or not known) and redis.call('LLEN', ready)
redis.call('SCARD', idle) -- a key of the wrong type must be found before the first write
local refusal = lib.refuse_queue(memory, operation, known, incarnation)
if refusal then return refusal end
if kind then return lib.remember(memory, operation, {'jobs', kind}) end
max_length = tonumber(max_length) -- a limit that is no number is none
if max_length and length + count > max_length then
  return lib.end_early(memory, operation, {'full', length, max_length})
end

if not known then lib.create_queue(meta, incarnation) end
for first = FIRST_TASK, #ARGV, 1000 do
  length = redis.call('LPUSH', ready, unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
redis.pcall('HINCRBY', meta, 'enqueued', count)
lib.publish(work, count)
lib.wake_workers(idle, wake, count)
return lib.remember(memory, operation, {'ok', length})
