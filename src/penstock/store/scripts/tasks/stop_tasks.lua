-- Give tasks that a worker holds back to the queue, at no cost to them.
--
-- One step, so that a task is never in two places or in none.
--
-- KEYS[1] memory        string  last operation of this lane
-- KEYS[2] ready         list    tasks; the next to run is at the right
-- KEYS[3] running       hash    process id -> task, of this worker
-- KEYS[4] meta          hash    settings and counters of the queue
-- KEYS[5] idle          set     workers that wait for a wake-up
-- KEYS[6] unique        hash    key -> holder and task, of every unique task not yet gone
-- ARGV[1] operation     int     number of this operation in its lane
-- ARGV[2] side          string  'front' or 'back'
-- ARGV[3] work          string  channel of the `work` event
-- ARGV[4] wake          string  prefix of the wake-up channels
-- ARGV[5] processes...  int     1 to 10000 process ids, in falling order
--
-- Returns {'ok', refused...}   the process ids not held any more
-- include channels memory chunks wake
-- include from tasks: element
local memory, ready, running, meta, idle, unique = unpack(KEYS)
local operation, side, work, wake = unpack(ARGV, 1, 4)

local done = lib.recall(memory, operation)
if done then return done end

local processes = {}
for index = 5, #ARGV do processes[#processes + 1] = ARGV[index] end
redis.call('LLEN', ready)
redis.call('SCARD', idle)
redis.call('HLEN', unique)
local exists = redis.call('HEXISTS', meta, 'incarnation') == 1
local elements = lib.get_fields(running, processes)

local stopped, returned, reply = {}, {}, {'ok'}
for index = 1, #processes do
  if elements[index] then
    stopped[#stopped + 1] = processes[index]
    returned[#returned + 1] = lib.returned_element(elements[index], unique)
  else
    reply[#reply + 1] = processes[index]
  end
end
lib.allow_when_full(memory)
if #stopped > 0 then
  lib.call_in_chunks('HDEL', running, stopped)
  if side == 'front' then
    lib.call_in_chunks('RPUSH', ready, returned)
  else
    local oldest_first = {}
    for index = #returned, 1, -1 do oldest_first[#oldest_first + 1] = returned[index] end
    lib.call_in_chunks('LPUSH', ready, oldest_first)
  end
  redis.pcall('HINCRBY', meta, 'stopped', #stopped)
  lib.publish(work, #stopped)
  lib.wake_workers(idle, wake, #stopped)
end
if #reply > 1 and exists then redis.pcall('HINCRBY', meta, 'refused', #reply - 1) end
return lib.remember(memory, operation, reply)
