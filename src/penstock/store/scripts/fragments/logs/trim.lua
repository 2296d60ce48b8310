-- Removes messages up to a place that is not the end of a segment, and readers that were not seen for long.
lib.LOOKED_AT = 1000 -- messages

function lib.drop_expired(part, offsets, readers, now)
  local seen_after = now - (part.expire_ms or lib.EXPIRE_MS)
  for index = 1, #readers, 2 do
    local epoch, _, seen = lib.open_offset(readers[index + 1])
    if epoch and seen <= seen_after then redis.call('HDEL', offsets, readers[index]) end
  end
end

-- Removes the segments that end before an id, then what is left before it, as long as that is not needed. Returns
-- whether there may be more.
function lib.trim_before(part, messages, segments, before, is_forced)
  local needed_from = part.floor and lib.id_after(part.floor)
  local bound = before
  if needed_from and not is_forced and lib.is_before(needed_from, before) then bound = needed_from end
  for _ = 1, lib.TRIMMED_AT_ONCE do
    local id, added, added_bytes = string.match(redis.call('LINDEX', segments, 0) or '', '^(%d+%-%d+) (%d+) (%d+)$')
    if not id or not lib.is_before(id, bound) then return lib.trim_rest(part, messages, bound, needed_from) end
    redis.call('XTRIM', messages, 'MINID', lib.id_after(id))
    redis.call('LPOP', segments)
    local is_needed = needed_from and not lib.is_before(id, needed_from)
    lib.note_trimmed(part, id, tonumber(added), tonumber(added_bytes), is_needed)
  end
  return true
end

function lib.trim_rest(part, messages, bound, needed_from)
  local rest, size = redis.call('XRANGE', messages, '-', '(' .. bound, 'COUNT', lib.LOOKED_AT), 0
  if #rest == 0 then return false end
  for _, entry in ipairs(rest) do
    size = size + lib.MESSAGE_BYTES
    for index = 2, math.min(6, #entry[2]), 2 do size = size + #entry[2][index] end
  end
  local id = rest[#rest][1]
  redis.call('XTRIM', messages, 'MINID', lib.id_after(id))
  lib.note_trimmed(part, id, part.trimmed + #rest, part.trimmed_bytes + size,
    needed_from and not lib.is_before(id, needed_from))
  return #rest == lib.LOOKED_AT
end
