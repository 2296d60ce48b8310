-- Remove the last traces of a worker that has left all its queues: the last step of `fail worker`.
--
-- KEYS[1] condemned  zset    worker -> when the next peer may try to recover it (ms)
-- KEYS[2] work       set     queues that this worker serves
-- KEYS[3] info       hash    worker -> what it said about itself
-- ARGV[1] worker     string
--
-- Returns {'ok'}
--         {'alive'}   the worker was never failed; nothing was removed
local condemned, work, info = unpack(KEYS)
local worker = ARGV[1]

redis.call('SCARD', work)
redis.call('HLEN', info)
if not redis.call('ZSCORE', condemned, worker) then
  if redis.call('HEXISTS', info, worker) == 1 then return {'alive'} end
  return {'ok'}
end
redis.call('DEL', work)
redis.call('HDEL', info, worker)
redis.call('ZREM', condemned, worker) -- last: until here a crash can be repeated
return {'ok'}
