-- Read everything that is counted about a queue, at one instant.
--
-- The keys of the members' processes must be named beforehand, so the caller says who it thinks the members are
-- and comes again if that has changed.
--
-- KEYS[1] meta        hash  settings and counters of the queue
-- KEYS[2] ready       list  tasks; the next to run is at the right
-- KEYS[3] dead        list  tasks that failed too often; the oldest is at the right
-- KEYS[4] members     set   workers that have started work on this queue
-- KEYS[5] idle        set   workers that wait for a wake-up
-- KEYS[6] unique      hash  key -> holder and task, of every unique task not yet gone
-- KEYS[7] failures    hash  digest of a task -> failed deliveries
-- KEYS[8] running...  hash  process id -> task, one key for each member
-- ARGV[1] workers...  string  the members, in the order of their keys
--
-- Returns {'ok', meta, ready, dead, idle, unique, failures, held...}   meta: field, value, ...; held: tasks per worker
--         {'changed', worker...}                                       the members now
--         {'no_queue'}                                                 there is no such queue
-- include settings
local meta, ready, dead, members, idle, unique, failures = unpack(KEYS, 1, 7)

local settings = lib.settings_of(meta)
local workers = redis.call('SMEMBERS', members)
if #settings == 0 and #workers == 0 then return {'no_queue'} end
local is_same = #workers == #ARGV
for index = 1, #ARGV do
  is_same = is_same and redis.call('SISMEMBER', members, ARGV[index]) == 1
end
if not is_same then
  table.insert(workers, 1, 'changed')
  return workers
end

local reply = {'ok', settings, redis.call('LLEN', ready), redis.call('LLEN', dead), redis.call('SCARD', idle),
  redis.call('HLEN', unique), redis.call('HLEN', failures)}
for index = 8, #KEYS do reply[#reply + 1] = redis.call('HLEN', KEYS[index]) end
return reply
