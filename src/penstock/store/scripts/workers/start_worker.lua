-- Register a worker and give it its first lease.
--
-- A name is used once: a worker that lost its lease starts again under a new one, which is what makes
-- recovering the old one safe at any later time.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] workers    zset    worker -> end of its lease (ms)
-- KEYS[3] condemned  zset    worker -> when the next peer may try to recover it (ms)
-- KEYS[4] info       hash    worker -> what it said about itself
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] worker     string
-- ARGV[3] lease_ms   int
-- ARGV[4] about      string  JSON
--
-- Returns {'ok'}
--         {'exists'}   a worker of this name is registered
-- include clock memory
local memory, workers, condemned, info = unpack(KEYS)
local operation, worker, lease_ms, about = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

if redis.call('ZSCORE', workers, worker) or redis.call('ZSCORE', condemned, worker)
  or redis.call('HEXISTS', info, worker) == 1 then
  return {'exists'}
end
local ends_at = lib.now_ms() + tonumber(lease_ms)

lib.allow_when_full(memory)
redis.call('ZADD', workers, lib.whole(ends_at), worker)
redis.call('HSET', info, worker, about)
return lib.remember(memory, operation, {'ok'})
