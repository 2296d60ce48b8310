-- Read the next messages of a partition for the group's owner of it.
--
-- One step, so that messages that are trimmed meanwhile are never passed over in silence.
--
-- KEYS[1] messages  stream  messages; the oldest first
-- KEYS[2] state     hash    what is known of the partition
-- KEYS[3] offsets   hash    reader -> epoch, offset, when it was last seen, owner
-- KEYS[4] paused    set     groups that read nothing here for now
-- ARGV[1] group     string
-- ARGV[2] epoch     int     of the owner
-- ARGV[3] after     string  the last message that it has read
-- ARGV[4] count     int     how many at most
--
-- Returns {'ok', entries}    as XRANGE gives them
--         {'empty'}          there are no more; the channel of the partition says when
--         {'paused'}         the group reads nothing here for now; the channel says when it does
--         {'trimmed', id}    messages after that one are gone, up to this
--         {'lost'}           the partition has a newer owner, or the group was forgotten
-- include from logs: ids offsets
local messages, state, offsets, paused = unpack(KEYS)
local group, epoch, after, count = unpack(ARGV)

redis.call('XLEN', messages)
local known = lib.open_offset(redis.call('HGET', offsets, group))
local is_paused, trimmed_to = redis.call('SISMEMBER', paused, group), redis.call('HGET', state, 'trimmed_to')
if known ~= tonumber(epoch) then return {'lost'} end
if is_paused == 1 then return {'paused'} end
if trimmed_to and lib.is_before(after, trimmed_to) then return {'trimmed', trimmed_to} end
local entries = redis.call('XRANGE', messages, '(' .. after, '+', 'COUNT', count)
if #entries == 0 then return {'empty'} end
return {'ok', entries}
