-- How far each group, archive or other reader has come: epoch, offset, when it was last seen (ms) and owner, with a
-- space between. Only the owner with the newest epoch moves the offset of a group; other readers have the epoch 0.
-- If owners have died since the offset was moved, a line more: how often, whether the message after it is being tried
-- alone (1 or 0), and how the last one died.
lib.MOST_READERS = 100 -- so that they can all be looked at

function lib.open_offset(entry)
  local epoch, offset, seen, owner, deaths = string.match(entry or '', '^(%d+) (%d+%-%d+) (%d+) ([^\n]*)\n?(.*)$')
  return tonumber(epoch), offset, tonumber(seen), owner, deaths
end

function lib.write_offset(offsets, reader, epoch, offset, now, owner, deaths)
  local entry = lib.whole(epoch) .. ' ' .. offset .. ' ' .. lib.whole(now) .. ' ' .. owner
  redis.call('HSET', offsets, reader, deaths and deaths ~= '' and entry .. '\n' .. deaths or entry)
end

-- An offset, or the newest message if it lies ahead both of that and of the clock: else it would pass over what is
-- appended until then.
function lib.not_ahead(offset, part, messages, now)
  if lib.open_id(offset) <= now then return offset end
  local last = redis.call('XREVRANGE', messages, '+', '-', 'COUNT', 1)[1]
  local newest = last and last[1] or part.trimmed_to or '0-0'
  return lib.is_before(newest, offset) and newest or offset
end

function lib.open_deaths(deaths)
  local crashes, is_tried, how = string.match(deaths or '', '^(%d+) ([01]) (.*)$')
  return tonumber(crashes) or 0, is_tried == '1', how or ''
end

function lib.pack_deaths(crashes, is_tried, how) return lib.whole(crashes) .. (is_tried and ' 1 ' or ' 0 ') .. how end

-- What the slowest reader has read, of those that have been seen lately, and when one of them was last seen; nil if
-- there is none.
function lib.floor_of(part, listed, now)
  local floor, floor_at, seen_after = nil, nil, now - (part.expire_ms or lib.EXPIRE_MS)
  for index = 2, #listed, 2 do
    local epoch, offset, seen = lib.open_offset(listed[index])
    if epoch and seen > seen_after then
      if not floor or lib.is_before(offset, floor) then floor = offset end
      floor_at = math.max(floor_at or 0, seen)
    end
  end
  return floor, floor_at
end

-- Notes what the slowest reader has read, so that writers need not look at all of them.
function lib.settle_floor(part, offsets, now)
  part.floor, part.floor_at = lib.floor_of(part, redis.call('HGETALL', offsets), now)
  if part.floor then
    redis.call('HSET', part.key, 'floor', part.floor, 'floor_at', lib.whole(part.floor_at))
  else
    redis.call('HDEL', part.key, 'floor', 'floor_at')
  end
end
