-- Find the processes of one worker that run a given task.
--
-- KEYS[1] running  hash   process id -> task, of this worker
-- ARGV[1] task     bytes
--
-- Returns {'ok', process_id...}   in no particular order
-- include from tasks: element
local running = KEYS[1]
local task = ARGV[1]

local reply = {'ok'}
local held = redis.call('HGETALL', running)
for index = 1, #held, 2 do
  if lib.open_element(held[index + 1]) == task then reply[#reply + 1] = held[index] end
end
return reply
