-- Count how many messages of a partition each reader has still to read.
--
-- Segments say how many messages there were up to where they end, so only those of one segment are looked at.
--
-- KEYS[1] state     hash    what is known of the partition
-- KEYS[2] messages  stream  messages; the oldest first
-- KEYS[3] segments  list    where each hundred messages or so end
-- KEYS[4] offsets   hash    reader -> epoch, offset, when it was last seen, owner, deaths
--
-- Returns {'ok', now, reader, lag, next, ...}   next: id of the first message that it has still to read, or empty
-- include clock
-- include from logs: ids state offsets lag
local state, messages, segments, offsets = unpack(KEYS)

local part, length = lib.read_state(state), redis.call('LLEN', segments)
redis.call('XLEN', messages)
local reply, listed = {'ok', lib.whole(lib.now_ms())}, redis.call('HGETALL', offsets)
for index = 1, #listed, 2 do
  local epoch, offset = lib.open_offset(listed[index + 1])
  if epoch then
    local following = redis.call('XRANGE', messages, '(' .. offset, '+', 'COUNT', 1)[1]
    reply[#reply + 1] = listed[index]
    reply[#reply + 1] = following and part.added - lib.added_until(part, messages, segments, length, offset) or 0
    reply[#reply + 1] = following and following[1] or ''
  end
end
return reply
