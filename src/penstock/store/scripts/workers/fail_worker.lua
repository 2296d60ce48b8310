-- End a worker's lease for good: the first step of `fail worker`.
--
-- From here on its name is refused everywhere it asks. It stays on the list of condemned workers until its tasks are
-- back in every queue, so if the peer that recovers it crashes, another does it again.
--
-- KEYS[1] workers    zset    worker -> end of its lease (ms)
-- KEYS[2] condemned  zset    worker -> when the next peer may try to recover it (ms)
-- KEYS[3] work       set     queue, zero byte and kind, of each queue that this worker serves
-- ARGV[1] worker     string
-- ARGV[2] retry_ms   int     how long others leave it to the caller
--
-- Returns {'ok', queue...}   the queues to leave, each with a zero byte and its kind
--         {'absent'}         no such worker
-- include clock
local workers, condemned, work = unpack(KEYS)
local worker, retry_ms = unpack(ARGV)

local queues = redis.call('SMEMBERS', work)
local is_condemned = redis.call('ZSCORE', condemned, worker)
if not redis.call('ZSCORE', workers, worker) and not is_condemned then return {'absent'} end
local retry_at = lib.now_ms() + tonumber(retry_ms)

redis.call('ZREM', workers, worker)
redis.call('ZADD', condemned, lib.whole(retry_at), worker)
table.insert(queues, 1, 'ok')
return queues
