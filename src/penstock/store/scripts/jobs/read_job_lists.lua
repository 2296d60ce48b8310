-- Read the log of a job, or its attempts that did not end well.
--
-- KEYS[1] lines   list  of `log` or `attempts`
-- ARGV[1] offset  int   from the oldest; negative: from the newest
-- ARGV[2] limit   int   1 to 1000
--
-- Returns {'ok', total, line...}
local lines, offset, limit = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])

local total = redis.call('LLEN', lines)
local first = offset < 0 and math.max(0, total + offset) or offset
local reply = redis.call('LRANGE', lines, first, first + limit - 1)
table.insert(reply, 1, total)
table.insert(reply, 1, 'ok')
return reply
