-- Hand out tasks again, and wake workers for those that wait.
--
-- KEYS[1] ready  list    tasks; the next to run is at the right
-- KEYS[2] meta   hash    settings and counters of the queue
-- KEYS[3] idle   set     workers that wait for a wake-up
-- ARGV[1] work   string  channel of the `work` event
-- ARGV[2] wake   string  prefix of the wake-up channels
--
-- Returns {'ok'}
--         {'no_queue'}        there is no such queue
--         {'other_layout', layout}   it holds jobs, written by another version
-- include channels wake model
-- include from jobs: keys
local ready, meta, idle = unpack(KEYS)
local work, wake = unpack(ARGV)

local waiting = redis.call('LLEN', ready)
redis.call('SCARD', idle)
if redis.call('HEXISTS', meta, 'incarnation') == 0 then return {'no_queue'} end
local refusal = lib.refuse_layout({meta = meta})
if refusal then return refusal end
-- How many jobs could start is not known here; the worker that is woken first wakes the next.
if redis.call('HEXISTS', meta, 'kind') == 1 then waiting = 1 end
if redis.call('HDEL', meta, 'paused') == 1 and waiting > 0 then
  lib.publish(work, waiting)
  lib.wake_workers(idle, wake, waiting)
end
return {'ok'}
