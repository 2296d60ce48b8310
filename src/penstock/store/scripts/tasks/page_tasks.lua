-- Read a page of waiting or dead tasks, oldest first, without taking them.
--
-- KEYS[1] tasks   list  `ready` or `dead`; the oldest is at the right
-- ARGV[1] offset  int   how many of the oldest to skip
-- ARGV[2] limit   int   1 to 1000
--
-- Returns {'ok', length, task...}   of the whole list, and the page
local tasks = KEYS[1]
local offset, limit = tonumber(ARGV[1]), tonumber(ARGV[2])

local page = redis.call('LRANGE', tasks, -offset - limit, -offset - 1)
local reply = {'ok', redis.call('LLEN', tasks)}
for index = #page, 1, -1 do reply[#reply + 1] = page[index] end
return reply
