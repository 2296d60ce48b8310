-- How many messages a partition has ever had up to an id.
lib.MOST_OF_SEGMENT = 128

function lib.added_until(part, messages, segments, length, offset)
  local low, high = 0, length -- the first segment that ends after the offset is the one at `low`, in the end
  while low < high do
    local middle = math.floor((low + high) / 2)
    local id = string.match(redis.call('LINDEX', segments, middle), '^%S+')
    if lib.is_before(offset, id) then high = middle else low = middle + 1 end
  end
  local before, added = '-', part.trimmed
  if low > 0 then
    local id, count = string.match(redis.call('LINDEX', segments, low - 1), '^(%S+) (%d+)')
    before, added = '(' .. (id or '0-0'), tonumber(count) or part.trimmed
  end
  if before == '-' and part.trimmed_to and lib.is_before(offset, part.trimmed_to) then return added end
  return added + #redis.call('XRANGE', messages, before, offset, 'COUNT', lib.MOST_OF_SEGMENT)
end

-- The id of the message that was the so-many-th ever; empty if it is not there.
function lib.id_at(part, messages, segments, length, number)
  local low, high = 0, length -- the first segment that has so many is the one at `low`, in the end
  while low < high do
    local middle = math.floor((low + high) / 2)
    local count = string.match(redis.call('LINDEX', segments, middle), '^%S+ (%d+)')
    if (tonumber(count) or 0) >= number then high = middle else low = middle + 1 end
  end
  local before, added = '-', part.trimmed
  if low > 0 then
    local id, count = string.match(redis.call('LINDEX', segments, low - 1), '^(%S+) (%d+)')
    before, added = '(' .. (id or '0-0'), tonumber(count) or part.trimmed
  end
  if number <= added then return '' end
  local found = redis.call('XRANGE', messages, before, '+', 'COUNT', number - added)
  return #found == number - added and found[#found][1] or ''
end
