-- Hand out nothing more until the queue is resumed. What is running goes on; enqueueing works.
--
-- KEYS[1] meta         hash    settings and counters of the queue
-- ARGV[1] incarnation  string  made for a queue that does not exist yet, or empty
--
-- Returns {'ok'}
--         {'no_queue'}   register the queue, then send again with an incarnation
-- include clock queue
local meta = KEYS[1]
local incarnation = ARGV[1]

redis.call('HLEN', meta)
redis.call('HDEL', meta, 'paused') -- a removal first, so that a full store can still be paused
if not ensure_queue(meta, incarnation) then return {'no_queue'} end
redis.call('HSET', meta, 'paused', '1')
return {'ok'}
