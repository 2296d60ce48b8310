-- Put an attempt to create a queue on the list of queues, before it is made.
--
-- Each attempt has an entry of its own. Were there one for each name, a delete could take away the entry that another
-- client has just relied upon. The time is for `penstock fsck`, which clears away what an attempt leaves behind that
-- was broken off.
--
-- KEYS[1] queues       hash    incarnation -> when it was registered (ms), a space, the queue
-- ARGV[1] queue        string
-- ARGV[2] incarnation  string  never used before
-- ARGV[3] joins        int     1 if a worker is to join it: it is registered on a full store too
--
-- Returns {'ok'}
-- include clock
local queues = KEYS[1]
local queue, incarnation, joins = unpack(ARGV)

local entry = lib.whole(lib.now_ms()) .. ' ' .. queue
-- A removal first lets a full store pass: a worker of several queues must not be kept from those that have work.
if joins == '1' then redis.call('HDEL', queues, incarnation) end
redis.call('HSET', queues, incarnation, entry)
return {'ok'}
