-- Note how far a reader has come that is no group, such as an archive, so that retention keeps the rest for it.
--
-- KEYS[1] state    hash    what is known of the partition
-- KEYS[2] offsets  hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- ARGV[1] born     string  which log it is a part of
-- ARGV[2] reader   string
-- ARGV[3] offset   string  the last message that it has read; empty: it reads no more
--
-- Returns {'ok'}
--         {'too_many', count}  the partition has as many readers as it may have
--         {'group', epoch}     a group of consumers has this name
--         {'no_partition'}     it was not opened, or is that of another log; read the log again
-- include clock
-- include from logs: ids state offsets
local state, offsets = unpack(KEYS)
local born, reader, offset = unpack(ARGV)

local part, now = lib.read_state(state), lib.now_ms()
local known = lib.open_offset(redis.call('HGET', offsets, reader))
local readers = redis.call('HLEN', offsets)
if part.born ~= born then return {'no_partition'} end
if known and known > 0 then return {'group', known} end
if not known and offset ~= '' and readers >= lib.MOST_READERS then return {'too_many', readers} end

redis.call('HDEL', offsets, reader) -- a removal first, which a full store lets pass
if offset ~= '' then lib.write_offset(offsets, reader, 0, offset, now, '') end
lib.settle_floor(part, offsets, now)
return {'ok'}
