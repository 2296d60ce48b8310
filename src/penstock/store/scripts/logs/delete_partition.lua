-- Delete a partition of a log that was deleted.
--
-- One of a newer log of the same name stays, so this can be repeated at any time.
--
-- KEYS[1] state      hash    what is known of the partition
-- KEYS[2] messages   stream  messages; the oldest first
-- KEYS[3] segments   list    where each hundred messages or so end
-- KEYS[4] offsets    hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- KEYS[5] paused     set     groups that read nothing here for now
-- KEYS[6] prepared   hash    stages of batches of which it is to be known whether they were decided
-- KEYS[7] errors...  stream  messages that a group has given up, one key for each group
-- ARGV[1] born       string  which log it was a part of; empty: of none that is known
--
-- Returns {'ok', messages}      how many there were
--         {'other_log', born}   another log has this partition
-- include from logs: prepared
local state, messages, segments, offsets, paused, prepared = unpack(KEYS, 1, 6)
local born = ARGV[1]

local present, count = redis.call('HGET', state, 'born'), redis.call('XLEN', messages)
redis.call('LLEN', segments)
redis.call('HLEN', offsets)
redis.call('SCARD', paused)
redis.call('HLEN', prepared)
for index = 7, #KEYS do redis.call('XLEN', KEYS[index]) end
if present and present ~= born then return {'other_log', present} end

lib.drop_all_prepared(state, prepared)
for index = 1, #KEYS do redis.call('UNLINK', KEYS[index]) end
return {'ok', count}
