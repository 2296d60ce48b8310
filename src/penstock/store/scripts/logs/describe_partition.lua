-- Read what is known of a partition, and who reads it, at one instant.
--
-- KEYS[1] messages  stream  messages; the oldest first
-- KEYS[2] state     hash    what is known of the partition
-- KEYS[3] offsets   hash    reader -> epoch, offset, when it was last seen, owner, deaths
--
-- Returns {'ok', now, state, length, first, last, offsets}   state: field, value, ...; offsets: reader, entry, ...;
--                                                            first, last: ids, empty if there are no messages
-- include clock
local messages, state, offsets = unpack(KEYS)

local function id_of(entries) return entries[1] and entries[1][1] or '' end
return {'ok', lib.whole(lib.now_ms()), redis.call('HGETALL', state), redis.call('XLEN', messages),
  id_of(redis.call('XRANGE', messages, '-', '+', 'COUNT', 1)),
  id_of(redis.call('XREVRANGE', messages, '+', '-', 'COUNT', 1)), redis.call('HGETALL', offsets)}
