-- Make a member of a group the owner of a partition.
--
-- Its epoch is greater than all before, also over the end of the group: from now on nothing is accepted of the owners
-- before it. The answer says where to go on.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] state      hash    what is known of the partition
-- KEYS[3] offsets    hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- KEYS[4] messages   stream  messages; the oldest first
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] born       string  which log it is a part of
-- ARGV[3] group      string
-- ARGV[4] owner      string
-- ARGV[5] epoch      int     that it was given elsewhere; 0: the next
-- ARGV[6] start      string  'earliest' or 'latest' for a group that is new here; or an id: at least from there on
--
-- Returns {'ok', epoch, offset, before, crashes, how}  before: the epoch until now; 0 if there was none; crashes: how
--                                                      often owners have died at this offset, and the last one how
--         {'stale', epoch}     the partition was taken with this epoch, which is not smaller
--         {'too_many', count}  the partition has as many readers as it may have
--         {'no_partition'}     it was not opened, or is that of another log; read the log again
-- include clock memory
-- include from logs: ids state offsets
local memory, state, offsets, messages = unpack(KEYS)
local operation, born, group, owner, epoch, start = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

local part, now = lib.read_state(state), lib.now_ms()
local last = redis.call('XREVRANGE', messages, '+', '-', 'COUNT', 1)[1]
local known, offset, _, _, deaths = lib.open_offset(redis.call('HGET', offsets, group))
local readers = redis.call('HLEN', offsets)
epoch = tonumber(epoch)
local refusal = part.born ~= born and {'no_partition'}
  or (known and epoch ~= 0 and epoch <= known and {'stale', known})
  or (not known and readers >= lib.MOST_READERS and {'too_many', readers}) or nil
lib.allow_when_full(memory)
if refusal then return lib.remember(memory, operation, refusal) end

-- Epochs begin at the time, so that they keep growing over the end of a group.
if epoch == 0 then epoch = known and math.max(known + 1, now) or now end
if not known then
  offset = start == 'latest' and (last and last[1] or part.trimmed_to) or part.trimmed_to or '0-0'
end
if lib.open_id(start) and (not known or lib.is_before(offset, start)) then offset, deaths = start, nil end
local crashes, _, how = lib.open_deaths(deaths)
if crashes > 0 then deaths = lib.pack_deaths(crashes, false, how) end
lib.write_offset(offsets, group, epoch, offset, now, owner, deaths)
lib.settle_floor(part, offsets, now)
return lib.remember(memory, operation, {'ok', lib.whole(epoch), offset, lib.whole(known or 0), crashes, how})
