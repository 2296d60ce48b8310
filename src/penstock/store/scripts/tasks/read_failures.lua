-- Read how often tasks that a worker holds have failed before.
--
-- A worker asks when a handler has failed, to know how long to hold the task before it gives it back.
--
-- KEYS[1] running       hash    process id -> task, of this worker
-- KEYS[2] failures      hash    digest of a task -> failed deliveries
-- KEYS[3] meta          hash    settings and counters of the queue
-- ARGV[1] max_failures  int     the default, for a queue without a setting of its own
-- ARGV[2] processes...  int     1 to 10000 process ids
--
-- Returns {'ok', max_failures, failures...}   one count for each process; 0 for one that is not held any more
-- include chunks
local running, failures, meta = unpack(KEYS)
local max_failures = redis.call('HGET', meta, 'max_failures') or ARGV[1]

local processes = {}
for index = 2, #ARGV do processes[#processes + 1] = ARGV[index] end
local elements = lib.get_fields(running, processes)
local reply = {'ok', tonumber(max_failures)}
for index = 1, #processes do
  local count = elements[index] and redis.call('HGET', failures, redis.sha1hex(elements[index]))
  reply[#reply + 1] = tonumber(count or 0)
end
return reply
