-- Read a page of the list of queues.
--
-- KEYS[1] queues  hash    incarnation -> when it was registered (ms), a space, the queue
-- ARGV[1] cursor  string  '0' at first, then what the page before returned
-- ARGV[2] limit   int     about how many
--
-- Returns {'ok', cursor, queue...}   in no particular order, some more than once; the cursor is '0' at the end
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local reply = {'ok', page[1]}
for index = 2, #page[2], 2 do
  reply[#reply + 1] = string.match(page[2][index], '^%d+ (.*)$')
end
return reply
