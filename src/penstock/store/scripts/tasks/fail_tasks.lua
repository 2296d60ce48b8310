-- Give tasks back after their handler failed: to the back of the queue, or to the dead list.
--
-- One step, so that the count, the place and the unique key of a task change together.
--
-- KEYS[1] memory        string  last operation of this lane
-- KEYS[2] ready         list    tasks; the next to run is at the right
-- KEYS[3] running       hash    process id -> task, of this worker
-- KEYS[4] meta          hash    settings and counters of the queue
-- KEYS[5] idle          set     workers that wait for a wake-up
-- KEYS[6] failures      hash    digest of a task -> failed deliveries
-- KEYS[7] dead          list    tasks that failed too often; the oldest is at the right
-- KEYS[8] unique        hash    key -> holder and task, of every unique task not yet gone
-- KEYS[9] unique_tasks  zset    digest of the task, then key; all scores 0
-- ARGV[1] operation     int     number of this operation in its lane
-- ARGV[2] max_failures  int     the default, for a queue without a setting of its own
-- ARGV[3] work          string  channel of the `work` event
-- ARGV[4] wake          string  prefix of the wake-up channels
-- ARGV[5] processes...  int     1 to 10000 process ids, in rising order
--
-- Returns {'ok', dead, refused...}   how many died; the process ids not held any more
-- include channels memory chunks wake
-- include from tasks: element leave fail
local memory, ready, running, meta, idle, failures, dead, unique, unique_tasks = unpack(KEYS)
local operation, max_failures, work, wake = unpack(ARGV, 1, 4)

local done = lib.recall(memory, operation)
if done then return done end

local processes = {}
for index = 5, #ARGV do processes[#processes + 1] = ARGV[index] end
redis.call('LLEN', ready)
redis.call('LLEN', dead)
redis.call('SCARD', idle)
redis.call('HLEN', failures)
redis.call('HLEN', unique)
redis.call('ZCARD', unique_tasks)
local exists, own_maximum = unpack(redis.call('HMGET', meta, 'incarnation', 'max_failures'))
max_failures = tonumber(own_maximum) or tonumber(max_failures) -- one that is no number is none
local elements = lib.get_fields(running, processes)

local failed, held, refused = {}, {}, {}
for index = 1, #processes do
  if elements[index] then
    failed[#failed + 1] = processes[index]
    held[#held + 1] = lib.returned_element(elements[index], unique)
  else
    refused[#refused + 1] = processes[index]
  end
end
lib.allow_when_full(memory)
lib.call_in_chunks('HDEL', running, failed)
local again, buried = lib.count_failures(held, failures, max_failures)
lib.call_in_chunks('LPUSH', ready, again)
lib.bury_tasks(buried, dead, unique, unique_tasks, failures)
if #failed > 0 then redis.pcall('HINCRBY', meta, 'failed', #failed) end
if #again > 0 then
  lib.publish(work, #again)
  lib.wake_workers(idle, wake, #again)
end
if #refused > 0 and exists then redis.pcall('HINCRBY', meta, 'refused', #refused) end
local reply = {'ok', #buried}
for index = 1, #refused do reply[index + 2] = refused[index] end
return lib.remember(memory, operation, reply)
