-- Take an incarnation off the list of queues: that of a deleted queue, or one that was not needed.
--
-- KEYS[1] queues       hash    incarnation -> when it was registered (ms), a space, the queue
-- ARGV[1] incarnation  string
--
-- Returns {'ok'}
redis.call('HDEL', KEYS[1], ARGV[1])
return {'ok'}
