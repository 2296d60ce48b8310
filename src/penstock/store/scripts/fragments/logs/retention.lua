-- Messages go by segments, the oldest first: a segment says where it ends and how much there was up to there, so it
-- goes without a look at its messages.
lib.TRIMMED_AT_ONCE = 20 -- segments, so that no request takes long

-- Whether a segment may go, and whether a reader would lose something by it.
function lib.judge_segment(part, id, added, added_bytes, now)
  local ms = lib.open_id(id)
  local is_old = (part.keep_ms and ms < now - part.keep_ms)
    or (part.keep_count and part.added - added >= part.keep_count)
    or (part.keep_bytes and part.added_bytes - added_bytes >= part.keep_bytes)
  local is_needed = part.floor and lib.is_before(part.floor, id)
  local is_too_much = part.max_bytes and part.added_bytes - part.trimmed_bytes > part.max_bytes
  return (is_old and not is_needed) or is_too_much, is_needed
end

-- Notes that everything up to this message is gone.
function lib.note_trimmed(part, id, added, added_bytes, is_needed)
  if is_needed then part.lost = part.lost + added - part.trimmed end
  part.trimmed, part.trimmed_bytes, part.trimmed_to = added, added_bytes, id
end

-- A reader that is seen settles the floor anew. So if none was seen for long, all have expired, which a writer can
-- tell without a look at them.
function lib.expire_floor(part, now)
  local seen_after = now - (part.expire_ms or lib.EXPIRE_MS)
  if part.floor_at and part.floor_at <= seen_after then part.floor = nil end
end

-- Removes segments that are kept no longer; returns whether there may be more of them.
function lib.retain(part, messages, segments, now)
  if not (part.keep_ms or part.keep_count or part.keep_bytes or part.max_bytes) then return false end
  lib.expire_floor(part, now)
  for _ = 1, lib.TRIMMED_AT_ONCE do
    local oldest = redis.call('LINDEX', segments, 0)
    local id, added, added_bytes = string.match(oldest or '', '^(%d+%-%d+) (%d+) (%d+)$')
    if not id then return false end
    added, added_bytes = tonumber(added), tonumber(added_bytes)
    local may_go, is_needed = lib.judge_segment(part, id, added, added_bytes, now)
    if not may_go then return false end
    redis.call('XTRIM', messages, 'MINID', lib.id_after(id))
    redis.call('LPOP', segments)
    lib.note_trimmed(part, id, added, added_bytes, is_needed)
  end
  return true
end

function lib.write_trimmed(part)
  redis.call('HSET', part.key, 'trimmed', lib.whole(part.trimmed), 'trimmed_bytes', lib.whole(part.trimmed_bytes),
    'lost', lib.whole(part.lost))
  if part.trimmed_to then redis.call('HSET', part.key, 'trimmed_to', part.trimmed_to) end
end
