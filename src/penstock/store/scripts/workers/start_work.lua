-- Put a queue on a worker's list: the worker's half of `start work`.
--
-- KEYS[1] workers  zset    worker -> end of its lease (ms)
-- KEYS[2] work     set     queue, zero byte and kind, of each queue that this worker serves
-- ARGV[1] worker   string
-- ARGV[2] queue    string  with a zero byte and its kind
--
-- Returns {'ok'}
--         {'lease_lost'}   the worker is not registered, or was failed
local workers, work = unpack(KEYS)
local worker, queue = unpack(ARGV)

redis.call('SCARD', work)
if not redis.call('ZSCORE', workers, worker) then return {'lease_lost'} end
redis.call('SREM', work, queue) -- a removal first, so that a full store can be worked off
redis.call('SADD', work, queue)
return {'ok'}
