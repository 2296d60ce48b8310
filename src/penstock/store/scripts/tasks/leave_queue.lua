-- Take a worker off a queue and give everything it holds back to the front, in the old order.
--
-- The queue's half of `stop work` and of `fail worker`. One step, so that the worker starts nothing more the
-- moment its tasks are back. Doing it again changes nothing, so any number of peers may try to recover one worker;
-- the lane is there for the counts in the answer, and so that a copy that arrives late finds nothing to do.
--
-- KEYS[1] memory         string  last operation of this lane
-- KEYS[2] ready          list    tasks; the next to run is at the right
-- KEYS[3] running        hash    process id -> task, of this worker
-- KEYS[4] meta           hash    settings and counters of the queue
-- KEYS[5] members        set     workers that have started work on this queue
-- KEYS[6] idle           set     workers that wait for a wake-up
-- KEYS[7] failures       hash    digest of a task -> failed deliveries
-- KEYS[8] dead           list    tasks that failed too often; the oldest is at the right
-- KEYS[9] unique         hash    key -> holder and task, of every unique task not yet gone
-- KEYS[10] unique_tasks  zset    digest of the task, then key; all scores 0
-- KEYS[11] types         hash    worker -> what it handles, if the queue has held jobs and is gone
-- ARGV[1] operation      int     number of this operation in its lane
-- ARGV[2] worker         string
-- ARGV[3] lost           int     1: the worker died, which counts as a failed delivery of what it held
-- ARGV[4] max_failures   int     the default, for a queue without a setting of its own
-- ARGV[5] work           string  channel of the `work` event
-- ARGV[6] wake           string  prefix of the wake-up channels
--
-- Returns {'ok', returned, dead}   how many tasks went back, and how many to the dead list
--         {'jobs'}                 the queue holds jobs; leave_jobs is for those
-- include channels memory chunks wake
-- include from tasks: element leave fail
local memory, ready, running, meta, members, idle, failures, dead, unique, unique_tasks, types = unpack(KEYS)
local operation, worker, lost, max_failures, work, wake = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

local processes = redis.call('HKEYS', running)
redis.call('SCARD', members)
redis.call('SCARD', idle)
redis.call('LLEN', dead)
redis.call('HLEN', failures)
redis.call('HLEN', unique)
redis.call('ZCARD', unique_tasks)
redis.call('HLEN', types)
local waiting = redis.call('LLEN', ready)
local own_maximum, kind = unpack(redis.call('HMGET', meta, 'max_failures', 'kind'))
max_failures = tonumber(own_maximum) or tonumber(max_failures) -- one that is no number is none
if kind == 'jobs' then return lib.end_early(memory, operation, {'jobs'}) end
-- Equal lengths let text be compared as numbers; the front is pushed last, so the newest comes first.
table.sort(processes, function(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end)
local elements = lib.get_fields(running, processes)
for index = 1, #elements do elements[index] = lib.returned_element(elements[index], unique) end

local function oldest_first(newest_first)
  local turned = {}
  for index = #newest_first, 1, -1 do turned[#turned + 1] = newest_first[index] end
  return turned
end

lib.allow_when_full(memory)
redis.call('SREM', members, worker)
redis.call('SREM', idle, worker, '+' .. worker)
redis.call('HDEL', types, worker)
local buried = {}
if #elements > 0 then
  redis.call('DEL', running)
  if lost == '1' then
    elements, buried = lib.count_failures(elements, failures, max_failures)
    redis.pcall('HINCRBY', meta, 'lost', #processes)
  else
    redis.pcall('HINCRBY', meta, 'stopped', #processes)
  end
  lib.call_in_chunks('RPUSH', ready, elements)
  lib.bury_tasks(oldest_first(buried), dead, unique, unique_tasks, failures)
  if #elements > 0 then lib.publish(work, #elements) end
end
-- The worker may have been woken for waiting tasks that it never took.
if waiting + #elements > 0 then lib.wake_workers(idle, wake, waiting + #elements) end
return lib.remember(memory, operation, {'ok', #elements, #buried})
