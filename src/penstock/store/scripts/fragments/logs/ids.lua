-- Ids of messages: milliseconds, a minus, and a number that tells messages of one millisecond apart.

function lib.open_id(id)
  local ms, number = string.match(id or '', '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(number)
end

-- Whether one id comes before another. What is no id comes before all.
function lib.is_before(one, other)
  local ms, number = lib.open_id(one)
  local other_ms, other_number = lib.open_id(other)
  if not other_ms then return false end
  if not ms then return true end
  return ms < other_ms or (ms == other_ms and number < other_number)
end

-- The least id that comes after this one.
function lib.id_after(id)
  local ms, number = lib.open_id(id)
  return lib.whole(ms) .. '-' .. lib.whole(number + 1)
end
