-- Read everything in a small queue, at one instant.
--
-- For checking: what several commands read one after the other need never have been true at any moment.
-- The keys of the workers' processes must be named beforehand; the members are in the answer, so that the caller
-- can see whether it has named them all.
--
-- KEYS[1] meta          hash  settings and counters of the queue
-- KEYS[2] ready         list  tasks; the next to run is at the right
-- KEYS[3] dead          list  tasks that failed too often; the oldest is at the right
-- KEYS[4] members       set   workers that have started work on this queue
-- KEYS[5] idle          set   workers that wait for a wake-up
-- KEYS[6] failures      hash  digest of a task -> failed deliveries
-- KEYS[7] unique        hash  key -> holder and task, of every unique task not yet gone
-- KEYS[8] unique_tasks  zset  digest of the task, then key; all scores 0
-- KEYS[9] running...    hash  process id -> task, of one worker each
-- ARGV[1] limit         int   how many tasks, keys and failures may be read; 0: only what is counted
--
-- Returns {'ok', meta, ready, dead, members, idle, failures, unique, unique_tasks, running...}
--                     the whole of each; hashes as field, value, ...
--         {'counted', meta, ready, dead, members, idle, failures, unique, unique_tasks, running...}
--                     there are more than `limit`: meta, members and idle in full, of the others how many
-- include settings
local meta, ready, dead, members, idle, failures, unique, unique_tasks = unpack(KEYS, 1, 8)
local limit = tonumber(ARGV[1])

local counts = {redis.call('LLEN', ready), redis.call('LLEN', dead), redis.call('HLEN', failures),
  redis.call('HLEN', unique), redis.call('ZCARD', unique_tasks)}
for index = 9, #KEYS do counts[#counts + 1] = redis.call('HLEN', KEYS[index]) end
local total = 0
for _, count in ipairs(counts) do total = total + count end

local settings = lib.settings_of(meta)
local workers, waiters = redis.call('SMEMBERS', members), redis.call('SMEMBERS', idle)
local reply
if total > limit then
  reply = {'counted', settings, counts[1], counts[2], workers, waiters, counts[3], counts[4], counts[5]}
  for index = 6, #counts do reply[#reply + 1] = counts[index] end
else
  reply = {'ok', settings, redis.call('LRANGE', ready, 0, -1), redis.call('LRANGE', dead, 0, -1), workers, waiters,
    redis.call('HGETALL', failures), redis.call('HGETALL', unique), redis.call('ZRANGE', unique_tasks, 0, -1)}
  for index = 9, #KEYS do reply[#reply + 1] = redis.call('HGETALL', KEYS[index]) end
end
return reply
