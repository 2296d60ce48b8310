-- Append the next chunk of a stage that was decided to be part of a log to its partition.
--
-- One step, so that a message is either in its stage or in the partition. The next chunk is whatever is next in the
-- store, so a request that is sent again moves another one and does no harm; it needs no number.
--
-- KEYS[1] messages  stream  messages; the oldest first
-- KEYS[2] state     hash    what is known of the partition
-- KEYS[3] segments  list    where each hundred messages or so end
-- KEYS[4] prepared  hash    stage -> token, version, when it was prepared (ms), chunks, batch
-- KEYS[5] stage     hash    index -> chunk, of one attempt
-- ARGV[1] born      string  which log it is a part of
-- ARGV[2] name      string  of the stage
-- ARGV[3] appended  string  channel that says so to those who wait
--
-- Returns {'ok', moved, left}   so many messages were appended, and so many chunks are left
--         {'empty'}             there is no such stage any more
--         {'no_partition'}      it was not opened, or is that of another log; read the log again
-- include clock channels
-- include from logs: ids state retention append prepared
local messages, state, segments, prepared, stage = unpack(KEYS)
local born, name, appended = unpack(ARGV)

local part, now = lib.read_state(state), lib.now_ms()
redis.call('XLEN', messages)
redis.call('LLEN', segments)
local _, _, _, chunks = lib.open_prepared(redis.call('HGET', prepared, name))
local left = redis.call('HLEN', stage)
local packed = chunks and redis.call('HGET', stage, lib.whole(chunks - left)) or ''
if part.born ~= born then return {'no_partition'} end
local is_well, chunk = pcall(cmsgpack.unpack, packed)
if not is_well or type(chunk) ~= 'table' then return {'empty'} end

local count, size = part.added, part.added_bytes
local last, last_size = lib.segment_end(part, now)
local first = nil
for index = 1, #chunk, 4 do
  local body, key, headers, at = chunk[index], chunk[index + 1], chunk[index + 2], chunk[index + 3]
  local id = lib.next_id()
  if headers ~= '' or at ~= '' then
    id = redis.call('XADD', messages, id, 'b', body, 'k', key, 'h', headers, 't', at)
  elseif key ~= '' then
    id = redis.call('XADD', messages, id, 'b', body, 'k', key)
  else
    id = redis.call('XADD', messages, id, 'b', body)
  end
  first = first or id
  count, size = count + 1, size + lib.MESSAGE_BYTES + #body + #key + #headers
  if count >= last or size >= last_size then
    lib.close_segment(segments, part, id, count, size, now)
    last, last_size = lib.segment_end(part, now)
  end
end
local moved = count - part.added
part.added, part.added_bytes = count, size
redis.call('HDEL', stage, lib.whole(chunks - left))
if left == 1 then redis.call('HDEL', prepared, name) end
lib.retain(part, messages, segments, now)
lib.write_state(part)
if moved > 0 then lib.publish(appended, first) end
return {'ok', moved, left - 1}
