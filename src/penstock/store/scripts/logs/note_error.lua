-- Keep a message that a group has given up, with the reason.
--
-- Only the newest owner of the partition may. There is room for ten thousand or so; the oldest go.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] offsets    hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- KEYS[3] errors     stream  messages that the group has given up, with the reason
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] group      string
-- ARGV[3] epoch      int     of the owner
-- ARGV[4] id         string  of the message
-- ARGV[5] reason     bytes
-- ARGV[6] attempts   int     how often it was tried
-- ARGV[7] body       bytes
-- ARGV[8] key        bytes   empty if it has none
-- ARGV[9] headers    bytes   empty if it has none
-- ARGV[10] at        bytes   time of the event (ms); empty if it has none
--
-- Returns {'ok', id}        under which it is kept
--         {'stale', epoch}  the partition has a newer owner, or the group was forgotten (0)
-- include clock memory
-- include from logs: offsets
local memory, offsets, errors = unpack(KEYS)
local operation, group, epoch, id, reason, attempts, body, key, headers, at = unpack(ARGV)
local MOST_ERRORS = 10000

local done = lib.recall(memory, operation)
if done then return done end

local known = lib.open_offset(redis.call('HGET', offsets, group))
redis.call('XLEN', errors)
lib.allow_when_full(memory)
if known ~= tonumber(epoch) then return lib.remember(memory, operation, {'stale', known or 0}) end

local kept = redis.call('XADD', errors, 'MAXLEN', '~', MOST_ERRORS, lib.next_id(), 'b', body, 'k', key, 'h', headers,
  't', at, 'i', id, 'r', reason, 'n', attempts)
return lib.remember(memory, operation, {'ok', kept})
