-- Take a worker off a queue and give everything it holds back to the front, in the old order.
--
-- The queue's half of `stop work` and of `fail worker`. One step, so that the worker starts nothing more the
-- moment its tasks are back. Doing it again changes nothing, so any number of peers may try to recover one worker.
--
-- KEYS[1] ready         list    tasks; the next to run is at the right
-- KEYS[2] running       hash    process id -> task, of this worker
-- KEYS[3] meta          hash    settings and counters of the queue
-- KEYS[4] members       set     workers that have started work on this queue
-- KEYS[5] idle          set     workers that wait for a wake-up
-- KEYS[6] failures      hash    digest of a task -> failed deliveries
-- KEYS[7] dead          list    tasks that failed too often; the oldest is at the right
-- KEYS[8] unique        hash    key -> holder and task, of every unique task not yet gone
-- KEYS[9] unique_tasks  zset    digest of the task, then key; all scores 0
-- ARGV[1] worker        string
-- ARGV[2] lost          int     1: the worker died, which counts as a failed delivery of what it held
-- ARGV[3] max_failures  int     the default, for a queue without a setting of its own
-- ARGV[4] work          string  channel of the `work` event
-- ARGV[5] wake          string  prefix of the wake-up channels
--
-- Returns {'ok', returned, dead}   how many tasks went back, and how many to the dead list
-- include channels chunks wake element leave fail
local ready, running, meta, members, idle, failures, dead, unique, unique_tasks = unpack(KEYS)
local worker, lost, max_failures, work, wake = unpack(ARGV)

local processes = redis.call('HKEYS', running)
redis.call('SCARD', members)
redis.call('SCARD', idle)
redis.call('LLEN', dead)
redis.call('HLEN', failures)
redis.call('HLEN', unique)
redis.call('ZCARD', unique_tasks)
local waiting = redis.call('LLEN', ready)
max_failures = tonumber(redis.call('HGET', meta, 'max_failures') or max_failures)
-- Equal lengths let text be compared as numbers; the front is pushed last, so the newest comes first.
table.sort(processes, function(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end)
local elements = get_fields(running, processes)

redis.call('SREM', members, worker)
redis.call('SREM', idle, worker)
local buried = {}
if #elements > 0 then
  redis.call('DEL', running)
  if lost == '1' then
    elements, buried = count_failures(elements, failures, max_failures)
    redis.call('HINCRBY', meta, 'lost', #processes)
  else
    redis.call('HINCRBY', meta, 'stopped', #processes)
  end
  call_in_chunks('RPUSH', ready, elements)
  bury_tasks(buried, dead, unique, unique_tasks, failures)
  publish(work, #elements)
end
-- The worker may have been woken for waiting tasks that it never took.
if waiting + #elements > 0 then wake_workers(idle, wake, waiting + #elements) end
return {'ok', #elements, #buried}
