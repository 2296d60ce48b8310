-- Take a queue off a worker's list, after the worker has left the queue: the worker's half of `stop work`.
--
-- KEYS[1] work   set     queues that this worker serves
-- ARGV[1] queue  string
--
-- Returns {'ok'}
redis.call('SREM', KEYS[1], ARGV[1])
return {'ok'}
