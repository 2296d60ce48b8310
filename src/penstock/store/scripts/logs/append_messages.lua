-- Append messages to a partition, all of them or none, and remove what is kept no longer.
--
-- One step, so that a batch is never half in, and is one batch however often it is sent. The server gives the
-- ids. The first write may be refused when the store is full; nothing is written then.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] messages     stream  messages; the oldest first
-- KEYS[3] state        hash    what is known of the partition
-- KEYS[4] segments     list    where each hundred messages or so end
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] born         string  which log it is a part of
-- ARGV[3] appended     string  channel that says so to those who wait
-- ARGV[4] parts        int     of each message: 1 body; 2 body and key; 4 body, key, headers and event time (ms)
-- ARGV[5] messages...  bytes   the parts of each, empty where a message has none
--
-- Returns {'ok', id, count}    of the first message, and how many there were
--         {'no_partition'}     it was not opened, or is that of another log; read the log again
-- include clock channels memory
-- include from logs: ids state retention append
local memory, messages, state, segments = unpack(KEYS)
local operation, born, appended, parts = unpack(ARGV, 1, 4)
local FIRST_MESSAGE = 5

local done = lib.recall(memory, operation)
if done then return done end

local part = lib.read_state(state)
redis.call('LLEN', segments) -- a key of the wrong type must be found before the first write
if part.born ~= born then return lib.end_early(memory, operation, {'no_partition'}) end

parts = tonumber(parts)
local now, id, first = lib.now_ms(), lib.next_id(), nil
local count, size = part.added, part.added_bytes
local last, last_size = lib.segment_end(part, now)
for index = FIRST_MESSAGE, #ARGV, parts do
  local body, added = ARGV[index], nil
  size = size + lib.MESSAGE_BYTES + #body
  if parts == 1 then
    added = redis.call('XADD', messages, id, 'b', body)
  elseif parts == 2 then
    added = redis.call('XADD', messages, id, 'b', body, 'k', ARGV[index + 1])
    size = size + #ARGV[index + 1]
  else
    added = redis.call('XADD', messages, id, 'b', body, 'k', ARGV[index + 1], 'h', ARGV[index + 2], 't',
      ARGV[index + 3])
    size = size + #ARGV[index + 1] + #ARGV[index + 2]
  end
  first = first or added
  count = count + 1
  if count >= last or size >= last_size then
    lib.close_segment(segments, part, added, count, size, now)
    last, last_size = lib.segment_end(part, now)
  end
end
local appended_now = count - part.added
part.added, part.added_bytes = count, size
lib.retain(part, messages, segments, now)
lib.write_state(part)
lib.publish(appended, first)
return lib.remember(memory, operation, {'ok', first, appended_now})
