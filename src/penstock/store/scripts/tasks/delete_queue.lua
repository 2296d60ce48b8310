-- Delete a queue: its waiting and dead tasks, those that were decided to be in it, settings and counters.
--
-- Running tasks are not touched: they can still be finished, or stopped and then wait again; the queue itself stays,
-- empty, until a delete finds nothing running. Large lists are freed by the server in the background (UNLINK), so a
-- million tasks stall no other request.
--
-- KEYS[1] memory        string  last operation of this lane
-- KEYS[2] ready         list    tasks; the next to run is at the right
-- KEYS[3] meta          hash    settings and counters of the queue
-- KEYS[4] failures      hash    digest of a task -> failed deliveries
-- KEYS[5] dead          list    tasks that failed too often; the oldest is at the right
-- KEYS[6] unique        hash    key -> holder and task, of every unique task not yet gone
-- KEYS[7] unique_tasks  zset    digest of the task, then key; all scores 0
-- KEYS[8] moving        list    name and number of chunks of each decided stage; the next to be moved is at the left
-- KEYS[9] batches       hash    name of a batch -> its version
-- KEYS[10] batch_times  zset    name of a batch -> when it was decided (ms)
-- KEYS[11] keeps        zset    tag of a batch -> until when its finished jobs are kept (ms)
-- ARGV[1] operation     int     number of this operation in its lane
-- ARGV[2] delete        string  channel of the `delete` event
--
-- Returns {'ok', removed, running, incarnation}   the incarnation to take off the list of queues;
--                                                 empty while tasks are running
--         {'no_queue'}                            there is no such queue
--         {'jobs', kind}                          the queue holds jobs; delete_jobs is for those; or it is a log
-- include channels memory stages
local memory, ready, meta, failures, dead, unique, unique_tasks, moving, batches, batch_times, keeps = unpack(KEYS)
local operation, delete = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

local incarnation, last_process, kind, started, finished, stopped, failed, lost, staged = unpack(
  redis.call('HMGET', meta, 'incarnation', 'process', 'kind', 'started', 'finished', 'stopped', 'failed',
    'lost', 'staged'))
if not incarnation then
  -- Remembered, or a copy of the request that arrives late would delete a queue created since.
  return lib.end_early(memory, operation, {'no_queue'})
end
if kind then return lib.end_early(memory, operation, {'jobs', kind}) end
local function count(value) return tonumber(value) or 0 end
local running = count(started) - count(finished) - count(stopped) - count(failed) - count(lost)
local waiting, buried = redis.call('LLEN', ready), redis.call('LLEN', dead)
redis.call('HLEN', failures) -- a key of the wrong type must be found before the first write
redis.call('HLEN', unique)
redis.call('ZCARD', unique_tasks)
redis.call('HLEN', batches)
redis.call('ZCARD', batch_times)
redis.call('ZCARD', keeps)
local stages = redis.call('LLEN', moving)

lib.allow_when_full(memory)
lib.drop_stages(moving, string.sub(meta, 1, -5), stages)
redis.call('UNLINK', ready, failures, dead, unique, unique_tasks, batches, batch_times, keeps)
if running > 0 then
  -- Recounting must still come out right: what went is written down where the counters are.
  redis.pcall('HINCRBY', meta, 'deleted', waiting + buried)
  redis.call('HDEL', meta, 'staged', 'moved_at')
  incarnation = ''
else
  redis.call('UNLINK', meta)
end
-- Tasks that are started after this are not meant, however late the event arrives.
lib.publish(delete, (waiting + buried) .. ' ' .. last_process)
return lib.remember(memory, operation, {'ok', waiting + buried + count(staged), running, incarnation})
