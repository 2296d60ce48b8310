-- Let a group read nothing of a partition for now, or go on. Its owner stays the owner.
--
-- KEYS[1] state      hash    what is known of the partition
-- KEYS[2] paused     set     groups that read nothing here for now
-- ARGV[1] born       string  which log it is a part of
-- ARGV[2] group      string
-- ARGV[3] is_paused  int     0: it goes on
-- ARGV[4] appended   string  channel that those who wait listen to
--
-- Returns {'ok'}
--         {'no_partition'}  it was not opened, or is that of another log; read the log again
-- include channels
local state, paused = unpack(KEYS)
local born, group, is_paused, appended = unpack(ARGV)

redis.call('SCARD', paused)
if redis.call('HGET', state, 'born') ~= born then return {'no_partition'} end
redis.call('SREM', paused, group) -- a removal first, which a full store lets pass
if is_paused == '1' then redis.call('SADD', paused, group) end
lib.publish(appended, '@' .. group)
return {'ok'}
