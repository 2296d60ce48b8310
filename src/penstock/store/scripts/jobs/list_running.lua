-- The jobs that a worker holds.
--
-- KEYS[1] running  hash  process id -> job, of this worker
--
-- Returns {'ok', process, id, ...}
local reply = redis.call('HGETALL', KEYS[1])
table.insert(reply, 1, 'ok')
return reply
