-- Read the queues that a worker serves.
--
-- KEYS[1] work  set  queue, zero byte and kind, of each queue that this worker serves
--
-- Returns {'ok', queue...}   each with a zero byte and its kind
local queues = redis.call('SMEMBERS', KEYS[1])
table.insert(queues, 1, 'ok')
return queues
