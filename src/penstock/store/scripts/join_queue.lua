-- Let a worker start tasks of a queue: the queue's half of `start work`.
--
-- The worker has put the queue on its own list before, so that whoever fails the worker comes by here,
-- and it asks for its lease once more afterwards, so that a worker failed in between starts nothing.
--
-- KEYS[1] meta         hash    settings and counters of the queue
-- KEYS[2] members      set     workers that have started work on this queue
-- ARGV[1] worker       string
-- ARGV[2] incarnation  string  made for a queue that does not exist yet, or empty
--
-- Returns {'ok'}
--         {'no_queue'}   register the queue, then send again with an incarnation
-- include clock queue
local meta, members = unpack(KEYS)
local worker, incarnation = unpack(ARGV)

redis.call('SCARD', members)
if redis.call('HEXISTS', meta, 'incarnation') == 0 and incarnation == '' then return {'no_queue'} end
redis.call('SREM', members, worker) -- a removal first, so that a full store can be worked off
ensure_queue(meta, incarnation)
redis.call('SADD', members, worker)
return {'ok'}
