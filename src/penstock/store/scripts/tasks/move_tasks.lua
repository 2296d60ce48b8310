-- Move one chunk of tasks, of those that were decided to be in the queue, to its back; part of it if there is no room
-- for all.
--
-- One step, so that a task is either in its stage or in the queue. The next chunk is whatever is next in the store, so
-- a request that is sent again moves another one and does no harm; it needs no number. On a full store nothing is
-- moved while tasks wait; when none does, a chunk is moved all the same, as only work that is done makes room.
--
-- KEYS[1] meta    hash    settings and counters of the queue; its tag names the stages
-- KEYS[2] ready   list    tasks; the next to run is at the right
-- KEYS[3] moving  list    name and number of chunks of each decided stage; the next to be moved is at the left
-- KEYS[4] idle    set     workers that wait for a wake-up
-- ARGV[1] work    string  channel of the `work` event
-- ARGV[2] wake    string  prefix of the wake-up channels
--
-- Returns {'ok', moved, left}            so many tasks were moved, of so many that were to be moved are left
--         {'no_room', ready, max, left}  the queue is full
--         {'empty'}                      there is nothing to move
-- include clock channels wake stages
local meta, ready, moving, idle = unpack(KEYS)
local work, wake = unpack(ARGV)

local stage, index, tasks = lib.next_chunk(moving, string.sub(meta, 1, -5))
local max_length, staged = unpack(redis.call('HMGET', meta, 'max_length', 'staged'))
local length = redis.call('LLEN', ready)
redis.call('SCARD', idle) -- a key of the wrong type must be found before the first write
if not stage then return {'empty'} end
staged = tonumber(staged or '0') or 0
max_length = tonumber(max_length) -- a limit that is no number is none
local count = max_length and math.min(#tasks, max_length - length) or #tasks
if count <= 0 and #tasks > 0 then return {'no_room', length, max_length, staged} end

if length == 0 then lib.allow_move_when_full(stage) end
for first = 1, count, 1000 do
  redis.call('LPUSH', ready, unpack(tasks, first, math.min(first + 999, count)))
end
lib.remove_chunk(moving, stage, index, {unpack(tasks, count + 1)})
redis.pcall('HINCRBY', meta, 'enqueued', count)
redis.call('HSET', meta, 'staged', lib.whole(staged - count), 'moved_at', lib.whole(lib.now_ms()))
lib.publish(work, count)
lib.wake_workers(idle, wake, count)
return {'ok', count, staged - count}
