-- How far each group, archive or other reader has come: epoch, offset, when it was last seen (ms) and owner, with a
-- space between. Only the owner with the newest epoch moves the offset of a group; other readers have the epoch 0.
lib.MOST_READERS = 100 -- so that they can all be looked at
lib.EXPIRE_MS = 604800000

function lib.open_offset(entry)
  local epoch, offset, seen, owner = string.match(entry or '', '^(%d+) (%d+%-%d+) (%d+) (.*)$')
  return tonumber(epoch), offset, tonumber(seen), owner
end

function lib.write_offset(offsets, reader, epoch, offset, now, owner)
  redis.call('HSET', offsets, reader, lib.whole(epoch) .. ' ' .. offset .. ' ' .. lib.whole(now) .. ' ' .. owner)
end

-- What the slowest reader has read, of those that have been seen lately; nil if there is none.
function lib.floor_of(part, listed, now)
  local floor, seen_after = nil, now - (part.expire_ms or lib.EXPIRE_MS)
  for index = 2, #listed, 2 do
    local epoch, offset, seen = lib.open_offset(listed[index])
    if epoch and seen > seen_after and (not floor or lib.is_before(offset, floor)) then floor = offset end
  end
  return floor
end

-- Notes what the slowest reader has read, so that writers need not look at all of them.
function lib.settle_floor(part, offsets, now)
  part.floor = lib.floor_of(part, redis.call('HGETALL', offsets), now)
  if part.floor then
    redis.call('HSET', part.key, 'floor', part.floor)
  else
    redis.call('HDEL', part.key, 'floor')
  end
end
