-- Stop waiting for a wake-up, and pass one on that may already have been sent here.
--
-- For a worker that has no room or is about to stop: without this, a task could wait beside idle workers.
--
-- KEYS[1] ready   list    tasks; the next to run is at the right
-- KEYS[2] meta    hash    settings and counters of the queue
-- KEYS[3] idle    set     workers that wait for a wake-up
-- ARGV[1] worker  string
-- ARGV[2] wake    string  prefix of the wake-up channels
--
-- Returns {'ok'}
-- include channels wake
local ready, meta, idle = unpack(KEYS)
local worker, wake = unpack(ARGV)

local waiting = redis.call('LLEN', ready)
local is_paused = redis.call('HGET', meta, 'paused')
redis.call('SREM', idle, worker)
if waiting > 0 and not is_paused then lib.wake_workers(idle, wake, waiting) end
return {'ok'}
