-- Put an attempt to create a queue on the list of queues, before it is made.
--
-- Each attempt has an entry of its own. Were there one for each name, a delete could take away the entry that another
-- client has just relied upon. The time is for `penstock fsck`, which clears away what an attempt leaves behind that
-- was broken off.
--
-- KEYS[1] queues       hash    incarnation -> when it was registered (ms), a space, the queue
-- ARGV[1] queue        string
-- ARGV[2] incarnation  string  never used before
--
-- Returns {'ok'}
-- include clock
redis.call('HSET', KEYS[1], ARGV[2], lib.whole(lib.now_ms()) .. ' ' .. ARGV[1])
return {'ok'}
