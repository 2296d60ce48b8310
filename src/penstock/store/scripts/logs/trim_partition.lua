-- Remove messages of a partition before an id, or those that are kept no longer, and readers that have expired.
--
-- What a reader has still to read stays, unless it is forced; then that is counted as lost. What is gone is noted in
-- the same step, so that a reader that has not read it is told.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] state      hash    what is known of the partition
-- KEYS[3] messages   stream  messages; the oldest first
-- KEYS[4] segments   list    where each hundred messages or so end
-- KEYS[5] offsets    hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] before     string  id; empty: as the settings say
-- ARGV[3] force      int     1: also what a reader has still to read
--
-- Returns {'ok', messages, bytes, more}   how much is gone; 1 if there may be more to remove
-- include clock memory
-- include from logs: ids state retention offsets trim
local memory, state, messages, segments, offsets = unpack(KEYS)
local operation, before, force = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

local part, now = lib.read_state(state), lib.now_ms()
redis.call('XLEN', messages)
redis.call('LLEN', segments)
local readers = redis.call('HGETALL', offsets)
lib.allow_when_full(memory)
if not part.born then return lib.remember(memory, operation, {'ok', 0, 0, 0}) end

local trimmed, trimmed_bytes, more = part.trimmed, part.trimmed_bytes, false
lib.drop_expired(part, offsets, readers, now)
lib.settle_floor(part, offsets, now)
if before == '' then
  more = lib.retain(part, messages, segments, now)
  if part.keep_ms and not more then
    -- Also what is not in a segment yet: nothing may ever be appended again that would complete it.
    local oldest = lib.whole(math.max(1, now - part.keep_ms)) .. '-0'
    more = lib.trim_before(part, messages, segments, oldest, false)
  end
else
  more = lib.trim_before(part, messages, segments, before, force == '1')
end
lib.write_trimmed(part)
return lib.remember(memory, operation,
  {'ok', part.trimmed - trimmed, part.trimmed_bytes - trimmed_bytes, more and 1 or 0})
