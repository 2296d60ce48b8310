-- Renew a worker's lease, and hand it dead peers to recover.
--
-- The heartbeat is the sweep: every beat sees whose lease has run out, and each dead worker is handed to one peer at a
-- time (and to another one if that peer dies too), so sweeping costs no command of its own and many workers do not all
-- do it. A worker whose own lease had run out judges no other in that beat: after an outage of the store all leases
-- are over, and every live worker gets the time to renew its own.
--
-- KEYS[1] workers    zset    worker -> end of its lease (ms)
-- KEYS[2] condemned  zset    worker -> when the next peer may try to recover it (ms)
-- KEYS[3] paused_workers  set     names of workers that are to start nothing, also after a restart
-- KEYS[4] info       hash    worker -> what it said about itself
-- ARGV[1] worker     string
-- ARGV[2] lease_ms   int
-- ARGV[3] sweep      int     how many dead peers to take on, 0 to 100
-- ARGV[4] name       string  how its id begins
-- ARGV[5] about      string  JSON, if what it says about itself has changed; else empty
--
-- Returns {'ok', dead_worker...}
--         {'paused', dead_worker...}   the same, and the worker is to start nothing for now
--         {'lease_lost'}   the worker was failed; it must start again under a new name
-- include clock
local workers, condemned, paused_workers, info = unpack(KEYS)
local worker, lease_ms, sweep, name, about = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]

local ends_at = redis.call('ZSCORE', workers, worker)
if not ends_at then return {'lease_lost'} end
local is_paused = redis.call('SISMEMBER', paused_workers, name) == 1
local is_changed = about ~= '' and redis.call('HEXISTS', info, worker) == 1
local now = lib.now_ms()
local dead, overdue = {}, {}
if sweep > 0 and tonumber(ends_at) >= now then
  dead = redis.call('ZRANGEBYSCORE', workers, '-inf', '(' .. lib.whole(now), 'LIMIT', 0, sweep)
  overdue = redis.call('ZRANGEBYSCORE', condemned, '-inf', lib.whole(now), 'LIMIT', 0, sweep - #dead)
end

redis.call('ZREM', condemned, worker) -- a removal first, so that a full store does not kill the workers
redis.call('ZADD', workers, lib.whole(now + lease_ms), worker)
if is_changed then redis.call('HSET', info, worker, about) end
local reply = {is_paused and 'paused' or 'ok'}
for _, peer in ipairs(dead) do
  redis.call('ZREM', workers, peer)
  redis.call('ZADD', condemned, lib.whole(now + lease_ms), peer)
  reply[#reply + 1] = peer
end
for _, peer in ipairs(overdue) do
  redis.call('ZADD', condemned, lib.whole(now + lease_ms), peer)
  reply[#reply + 1] = peer
end
return reply
