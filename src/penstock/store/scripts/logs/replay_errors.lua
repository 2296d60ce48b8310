-- Append messages to their partition again that a group has given up, for this group alone.
--
-- One step, so that each is either among the errors or among the messages. They say for which group they are; others
-- pass over them.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] messages   stream  messages; the oldest first
-- KEYS[3] state      hash    what is known of the partition
-- KEYS[4] segments   list    where each hundred messages or so end
-- KEYS[5] errors     stream  messages that the group has given up, with the reason
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] born       string  which log it is a part of
-- ARGV[3] appended   string  channel that says so to those who wait
-- ARGV[4] group      string
-- ARGV[5] ids...     string  1 to 100, of the errors
--
-- Returns {'ok', count}      how many of them there were
--         {'no_partition'}   it was not opened, or is that of another log; read the log again
-- include clock channels memory
-- include from logs: state retention append
local memory, messages, state, segments, errors = unpack(KEYS)
local operation, born, appended, group = unpack(ARGV, 1, 4)
local FIRST_ID = 5

local done = lib.recall(memory, operation)
if done then return done end

local part, now = lib.read_state(state), lib.now_ms()
redis.call('XLEN', messages)
redis.call('LLEN', segments)
local found = {}
for index = FIRST_ID, #ARGV do
  local entry = redis.call('XRANGE', errors, ARGV[index], ARGV[index], 'COUNT', 1)[1]
  if entry then found[#found + 1] = entry end
end
if part.born ~= born then return lib.end_early(memory, operation, {'no_partition'}) end

local count, size = part.added, part.added_bytes
local last, last_size = lib.segment_end(part, now)
local first = nil
for _, entry in ipairs(found) do
  local _, body, _, key, _, headers, _, at = unpack(entry[2])
  local id = redis.call('XADD', messages, lib.next_id(), 'b', body, 'k', key, 'h', headers, 't', at, 'g', group)
  redis.call('XDEL', errors, entry[1])
  first = first or id
  count, size = count + 1, size + lib.MESSAGE_BYTES + #body + #key + #headers
  if count >= last or size >= last_size then
    lib.close_segment(segments, part, id, count, size, now)
    last, last_size = lib.segment_end(part, now)
  end
end
part.added, part.added_bytes = count, size
lib.write_state(part)
if first then lib.publish(appended, first) end
return lib.remember(memory, operation, {'ok', #found})
