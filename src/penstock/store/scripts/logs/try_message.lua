-- Say whether what a group's owner of a partition has just read counts, and note that it is about to try it alone.
--
-- An owner before it has died, perhaps of the message after the offset. As the message is tried alone, and nothing
-- before it is left to be committed, another death says that it was this one.
--
-- KEYS[1] state     hash    what is known of the partition
-- KEYS[2] offsets   hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- KEYS[3] paused    set     groups that read nothing here for now
-- KEYS[4] messages  stream  messages; the oldest first
-- ARGV[1] group     string
-- ARGV[2] epoch     int     of the owner
-- ARGV[3] after     string  the last message that it had read before
--
-- Returns {'ok'}
--         {'paused'}       the group reads nothing here for now; the channel of the partition says when it does
--         {'trimmed', id}  messages after that one are gone, up to this
--         {'lost'}         the partition has a newer owner, or the group was forgotten
-- include clock
-- include from logs: ids offsets
local state, offsets, paused, messages = unpack(KEYS)
local group, epoch, after = unpack(ARGV)

local known, offset, seen, owner, deaths = lib.open_offset(redis.call('HGET', offsets, group))
local is_paused, trimmed_to = redis.call('SISMEMBER', paused, group), redis.call('HGET', state, 'trimmed_to')
local last = redis.call('XREVRANGE', messages, '+', '-', 'COUNT', 1)[1]
if known ~= tonumber(epoch) then return {'lost'} end
if is_paused == 1 then return {'paused'} end
if trimmed_to and lib.is_before(after, trimmed_to) then return {'trimmed', trimmed_to} end
-- If the store does not know how far the owner has come, another death would not say which message it was.
if offset == after and last and lib.is_before(after, last[1]) then
  local crashes, _, how = lib.open_deaths(deaths)
  redis.call('HDEL', offsets, group) -- a removal first, which a full store lets pass
  lib.write_offset(offsets, group, known, offset, seen, owner, lib.pack_deaths(math.max(1, crashes), true, how))
end
return {'ok'}
