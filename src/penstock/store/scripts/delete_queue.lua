-- Delete a queue: its waiting and dead tasks, settings and counters.
--
-- Running tasks are not touched: they can still be finished, or stopped and then wait again; the queue itself
-- stays, empty, until a delete finds nothing running. Large lists are freed by the server in the background (UNLINK),
-- so a million tasks stall nobody.
--
-- KEYS[1] memory        string  last operation of this lane
-- KEYS[2] ready         list    tasks; the next to run is at the right
-- KEYS[3] meta          hash    settings and counters of the queue
-- KEYS[4] failures      hash    digest of a task -> failed deliveries
-- KEYS[5] dead          list    tasks that failed too often; the oldest is at the right
-- KEYS[6] unique        hash    key -> holder and task, of every unique task not yet gone
-- KEYS[7] unique_tasks  zset    digest of the task, then key; all scores 0
-- ARGV[1] operation     int     number of this operation in its lane
-- ARGV[2] delete        string  channel of the `delete` event
--
-- Returns {'ok', removed, running, incarnation}   the incarnation to take off the list of queues;
--                                                 empty while tasks are running
--         {'no_queue'}                            there is no such queue
--         {'jobs'}                                the queue holds jobs; delete_jobs is for those
-- include channels memory
local memory, ready, meta, failures, dead, unique, unique_tasks = unpack(KEYS)
local operation, delete = unpack(ARGV)

local done = recall(memory, operation)
if done then return done end

local incarnation, last_process, kind, started, finished, stopped, failed, lost = unpack(redis.call('HMGET', meta,
  'incarnation', 'process', 'kind', 'started', 'finished', 'stopped', 'failed', 'lost'))
if not incarnation then
  -- Remembered, or a copy of the request that arrives late would delete a queue created since.
  allow_when_full(memory)
  return remember(memory, operation, {'no_queue'})
end
if kind then
  allow_when_full(memory)
  return remember(memory, operation, {'jobs'})
end
local function count(value) return tonumber(value or '0') end
local running = count(started) - count(finished) - count(stopped) - count(failed) - count(lost)
local waiting, buried = redis.call('LLEN', ready), redis.call('LLEN', dead)
redis.call('HLEN', failures) -- a key of the wrong type must be found before the first write
redis.call('HLEN', unique)
redis.call('ZCARD', unique_tasks)

allow_when_full(memory)
redis.call('UNLINK', ready, failures, dead, unique, unique_tasks)
if running > 0 then
  -- Recounting must still come out right: what went is written down where the counters are.
  redis.call('HINCRBY', meta, 'deleted', waiting + buried)
  incarnation = ''
else
  redis.call('UNLINK', meta)
end
-- Tasks that are started after this are not meant, however late the event arrives.
publish(delete, (waiting + buried) .. ' ' .. last_process)
return remember(memory, operation, {'ok', waiting + buried, running, incarnation})
