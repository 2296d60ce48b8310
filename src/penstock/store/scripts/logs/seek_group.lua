-- Let a group go on from another place of a partition, back or ahead.
--
-- The epoch grows, so that the owner of now is refused with what it has under way, takes the partition again, and so
-- learns where to go on.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] state      hash    what is known of the partition
-- KEYS[3] offsets    hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- KEYS[4] messages   stream  messages; the oldest first
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] born       string  which log it is a part of
-- ARGV[3] group      string
-- ARGV[4] offset     string  the message after which to go on; one that is yet to come stands for the newest
-- ARGV[5] appended   string  channel that the owner listens to
--
-- Returns {'ok', epoch}
--         {'too_many', count}  the partition has as many readers as it may have
--         {'no_partition'}     it was not opened, or is that of another log; read the log again
-- include clock channels memory
-- include from logs: ids state offsets
local memory, state, offsets, messages = unpack(KEYS)
local operation, born, group, offset, appended = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

local part, now = lib.read_state(state), lib.now_ms()
local known = lib.open_offset(redis.call('HGET', offsets, group))
local readers = redis.call('HLEN', offsets)
redis.call('XLEN', messages)
local refusal = part.born ~= born and {'no_partition'}
  or (not known and readers >= lib.MOST_READERS and {'too_many', readers}) or nil
lib.allow_when_full(memory)
if refusal then return lib.remember(memory, operation, refusal) end

offset = lib.not_ahead(offset, part, messages, now)
local epoch = known and math.max(known + 1, now) or now
lib.write_offset(offsets, group, epoch, offset, now, '')
lib.settle_floor(part, offsets, now)
lib.publish(appended, '@' .. group)
return lib.remember(memory, operation, {'ok', lib.whole(epoch)})
