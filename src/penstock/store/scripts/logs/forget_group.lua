-- Forget a group: how far it has come in a partition, and its errors there.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] state      hash    what is known of the partition
-- KEYS[3] offsets    hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- KEYS[4] errors     stream  messages that the group has given up, with the reason
-- KEYS[5] paused     set     groups that read nothing here for now
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] group      string
--
-- Returns {'ok', was_known}   1 if there was such a group
-- include clock memory
-- include from logs: ids state offsets
local memory, state, offsets, errors, paused = unpack(KEYS)
local operation, group = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

local part = lib.read_state(state)
redis.call('HLEN', offsets)
redis.call('XLEN', errors)
redis.call('SCARD', paused)
lib.allow_when_full(memory)
local was_known = redis.call('HDEL', offsets, group)
redis.call('UNLINK', errors)
redis.call('SREM', paused, group)
if part.born then lib.settle_floor(part, offsets, lib.now_ms()) end
return lib.remember(memory, operation, {'ok', was_known})
