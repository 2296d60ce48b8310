-- Put dead tasks back to the end of the queue, the oldest first, with no failures counted.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] ready      list    tasks; the next to run is at the right
-- KEYS[3] dead       list    tasks that failed too often; the oldest is at the right
-- KEYS[4] idle       set     workers that wait for a wake-up
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] limit      int     1 to 1000
-- ARGV[3] work       string  channel of the `work` event
-- ARGV[4] wake       string  prefix of the wake-up channels
--
-- Returns {'ok', retried, left}   how many went back, and how many are still dead
-- include channels memory chunks wake
-- include from tasks: element
local memory, ready, dead, idle = unpack(KEYS)
local operation, limit, work, wake = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

redis.call('LLEN', ready)
redis.call('SCARD', idle)
redis.call('LLEN', dead)
lib.allow_when_full(memory)
local tasks = redis.call('RPOP', dead, limit) or {}
local elements = {}
for index = 1, #tasks do elements[index] = lib.plain_element(tasks[index]) end
lib.call_in_chunks('LPUSH', ready, elements)
if #tasks > 0 then
  lib.publish(work, #tasks)
  lib.wake_workers(idle, wake, #tasks)
end
return lib.remember(memory, operation, {'ok', #tasks, redis.call('LLEN', dead)})
