-- Members of a group that Redis coordinates: until when each is one (ms), its weight, and the partitions it knows of.
lib.MOST_MEMBERS = 1000 -- so that they can all be looked at
lib.FORGET_MS = 3600000 -- so that nothing is left of groups whose members all died

function lib.open_member(entry)
  local ends_at, weight, partitions = string.match(entry or '', '^(%d+) (%d+) (%d+)$')
  return tonumber(ends_at) or 0, weight, partitions
end

-- The members whose time is not up, and the partitions that they own: name -> entry, partition -> name. The others are
-- removed, and what they own has no owner from then on.
function lib.living_members(members, owners, now)
  local listed, owned = redis.call('HGETALL', members), redis.call('HGETALL', owners)
  local living, owned_by = {}, {}
  for index = 1, #listed, 2 do
    if lib.open_member(listed[index + 1]) > now then
      living[listed[index]] = listed[index + 1]
    else
      redis.call('HDEL', members, listed[index])
    end
  end
  for index = 1, #owned, 2 do
    if living[owned[index + 1]] then
      owned_by[owned[index]] = owned[index + 1]
    else
      redis.call('HDEL', owners, owned[index])
    end
  end
  return living, owned_by
end
