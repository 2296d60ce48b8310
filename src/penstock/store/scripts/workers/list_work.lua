-- Read the queues that a worker serves.
--
-- KEYS[1] work  set  queues that this worker serves
--
-- Returns {'ok', queue...}
local queues = redis.call('SMEMBERS', KEYS[1])
table.insert(queues, 1, 'ok')
return queues
