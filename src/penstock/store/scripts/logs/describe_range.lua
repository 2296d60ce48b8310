-- Look at what follows a message of a partition: whether it is all there, how much it is, and where parts of it end.
--
-- One step, so that what is counted is what is there. Segments say how many messages there were up to where they
-- end, so only messages of a few segments are looked at.
--
-- KEYS[1] state     hash    what is known of the partition
-- KEYS[2] messages  stream  messages; the oldest first
-- KEYS[3] segments  list    where each hundred messages or so end
-- ARGV[1] start     string  id; what comes after it is meant
-- ARGV[2] finish    string  id of the last message that is meant; '+': the newest there is
-- ARGV[3] most      int     how many messages are meant at most; 0: all
-- ARGV[4] parts     int     1 to 1000, of about as many messages each
--
-- Returns {'ok', now, born, trimmed_to, last, at, count, id, ...}   born: empty if the partition was not opened;
--            trimmed_to, last: ids of the last message that is gone and of the newest, or empty; at: id of the last
--            message up to the start, or empty; count: of the messages that are meant; id: of the last of each part
-- include clock
-- include from logs: ids state lag
local state, messages, segments = unpack(KEYS)
local start, finish, most, parts = unpack(ARGV)

local part, length = lib.read_state(state), redis.call('LLEN', segments)
local function id_of(entries) return entries[1] and entries[1][1] or '' end
local last = id_of(redis.call('XREVRANGE', messages, '+', '-', 'COUNT', 1))
-- Redis goes through all messages to find that none is before the first.
local first, at = id_of(redis.call('XRANGE', messages, '-', '+', 'COUNT', 1)), ''
if not lib.is_before(start, first) then at = id_of(redis.call('XREVRANGE', messages, start, '-', 'COUNT', 1)) end
if finish == '+' then finish = last end
local before, count = 0, 0
if lib.is_before(start, finish) then
  before = lib.added_until(part, messages, segments, length, start)
  count = math.max(0, lib.added_until(part, messages, segments, length, finish) - before)
end
most, parts = tonumber(most), tonumber(parts)
if most > 0 then count = math.min(count, most) end
local reply = {'ok', lib.whole(lib.now_ms()), part.born or '', part.trimmed_to or '', last, at, count}
parts = math.min(parts, count)
for index = 1, parts do
  reply[#reply + 1] = lib.id_at(part, messages, segments, length, before + math.floor(count * index / parts))
end
return reply
