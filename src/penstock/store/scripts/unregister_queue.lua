-- Take a deleted queue off the list of queues, unless it has been created again.
--
-- KEYS[1] queues       hash    queue -> incarnation
-- ARGV[1] queue        string
-- ARGV[2] incarnation  string  that of the deleted queue
--
-- Returns {'ok'}
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
return {'ok'}
