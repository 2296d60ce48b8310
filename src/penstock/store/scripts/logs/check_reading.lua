-- Say whether what a group's owner of a partition has just read counts.
--
-- The messages are read by XRANGE before this, as a script would take five times as long to hand them out. What was
-- trimmed only grows: what is not trimmed now was not when they were read.
--
-- KEYS[1] state    hash    what is known of the partition
-- KEYS[2] offsets  hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- KEYS[3] paused   set     groups that read nothing here for now
-- ARGV[1] group    string
-- ARGV[2] epoch    int     of the owner
-- ARGV[3] after    string  the last message that it had read before
--
-- Returns {'ok'}
--         {'paused'}       the group reads nothing here for now; the channel of the partition says when it does
--         {'trimmed', id}  messages after that one are gone, up to this
--         {'lost'}         the partition has a newer owner, or the group was forgotten
-- include from logs: ids offsets
local state, offsets, paused = unpack(KEYS)
local group, epoch, after = unpack(ARGV)

local known = lib.open_offset(redis.call('HGET', offsets, group))
local is_paused, trimmed_to = redis.call('SISMEMBER', paused, group), redis.call('HGET', state, 'trimmed_to')
if known ~= tonumber(epoch) then return {'lost'} end
if is_paused == 1 then return {'paused'} end
if trimmed_to and lib.is_before(after, trimmed_to) then return {'trimmed', trimmed_to} end
return {'ok'}
