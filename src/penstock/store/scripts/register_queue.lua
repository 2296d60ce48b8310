-- Put a queue on the list of queues, before it is created.
--
-- The incarnation lets a slow delete recognise that the name has been taken into use again.
--
-- KEYS[1] queues       hash    queue -> incarnation
-- ARGV[1] queue        string
-- ARGV[2] incarnation  string
--
-- Returns {'ok'}
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return {'ok'}
