-- Change settings of a queue. A setting given as an empty string falls back to its default.
--
-- KEYS[1] meta         hash    settings and counters of the queue
-- ARGV[1] incarnation  string  made for a queue that does not exist yet, or empty
-- ARGV[2] settings...  string  name, value, name, value, ...
--
-- Returns {'ok'}
--         {'no_queue'}   register the queue, then send again with an incarnation
-- include clock queue
local meta = KEYS[1]
local incarnation = ARGV[1]

if not ensure_queue(meta, incarnation) then return {'no_queue'} end
for index = 2, #ARGV, 2 do
  if ARGV[index + 1] == '' then
    redis.call('HDEL', meta, ARGV[index])
  else
    redis.call('HSET', meta, ARGV[index], ARGV[index + 1])
  end
end
return {'ok'}
