-- Remove the last traces of a worker that has left all its queues: the last step of `fail worker`.
--
-- KEYS[1] workers    zset    worker -> end of its lease (ms)
-- KEYS[2] condemned  zset    worker -> when the next peer may try to recover it (ms)
-- KEYS[3] work       set     queue, zero byte and kind, of each queue that this worker serves
-- KEYS[4] info       hash    worker -> what it said about itself
-- ARGV[1] worker     string
--
-- Returns {'ok'}
--         {'alive'}   the worker is registered and was never failed; nothing was removed
local workers, condemned, work, info = unpack(KEYS)
local worker = ARGV[1]

redis.call('SCARD', work)
redis.call('HLEN', info)
redis.call('ZCARD', condemned)
if redis.call('ZSCORE', workers, worker) then return {'alive'} end
redis.call('DEL', work)
redis.call('HDEL', info, worker)
redis.call('ZREM', condemned, worker) -- last: until here a crash can be repeated
return {'ok'}
