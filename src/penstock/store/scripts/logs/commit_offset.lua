-- Note how far a group has come in a partition, and remove what is kept no longer.
--
-- Only the newest owner may, and never back, so a copy that arrives late changes nothing.
--
-- KEYS[1] state     hash    what is known of the partition
-- KEYS[2] offsets   hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- KEYS[3] messages  stream  messages; the oldest first
-- KEYS[4] segments  list    where each hundred messages or so end
-- ARGV[1] group     string
-- ARGV[2] epoch     int     of the owner
-- ARGV[3] offset    string  the last message that was handled
--
-- Returns {'ok'}
--         {'stale', epoch}  the partition has a newer owner, or the group was forgotten (0)
--         {'back', offset}  the group has come further than that
-- include clock
-- include from logs: ids state retention offsets
local state, offsets, messages, segments = unpack(KEYS)
local group, epoch, offset = unpack(ARGV)

local part, now = lib.read_state(state), lib.now_ms()
redis.call('XLEN', messages)
redis.call('LLEN', segments)
local known, present, _, owner, deaths = lib.open_offset(redis.call('HGET', offsets, group))
if known ~= tonumber(epoch) then return {'stale', known or 0} end
if lib.is_before(offset, present) then return {'back', present} end
offset = lib.not_ahead(offset, part, messages, now)
if lib.is_before(offset, present) then offset = present end

redis.call('HDEL', offsets, group) -- a removal first, which a full store lets pass
lib.write_offset(offsets, group, known, offset, now, owner, offset == present and deaths or nil)
lib.settle_floor(part, offsets, now)
lib.retain(part, messages, segments, now)
lib.write_trimmed(part)
return {'ok'}
