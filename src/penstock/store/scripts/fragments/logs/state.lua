-- What is known of a partition without a look at its messages. Sizes are counted from the first message ever, so that
-- what is trimmed is a number that grows, and a part of the log is the difference of two numbers.
lib.MESSAGE_BYTES = 32 -- what a message takes beside its body, key and headers, about
lib.STATE = {'born', 'added', 'added_bytes', 'trimmed', 'trimmed_bytes', 'trimmed_to', 'lost', 'closed',
  'closed_bytes', 'opened_at', 'floor', 'keep_ms', 'keep_count', 'keep_bytes', 'max_bytes', 'expire_ms', 'floor_at'}
lib.EXPIRE_MS = 604800000

-- What is no number counts as if it were not there.
function lib.read_state(state)
  local found = redis.call('HMGET', state, unpack(lib.STATE))
  return {key = state, born = found[1], added = tonumber(found[2]) or 0, added_bytes = tonumber(found[3]) or 0,
    trimmed = tonumber(found[4]) or 0, trimmed_bytes = tonumber(found[5]) or 0, trimmed_to = found[6],
    lost = tonumber(found[7]) or 0, closed = tonumber(found[8]) or 0, closed_bytes = tonumber(found[9]) or 0,
    opened_at = tonumber(found[10]) or 0, floor = found[11], keep_ms = tonumber(found[12]),
    keep_count = tonumber(found[13]), keep_bytes = tonumber(found[14]), max_bytes = tonumber(found[15]),
    expire_ms = tonumber(found[16]), floor_at = tonumber(found[17])}
end
