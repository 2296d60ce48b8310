-- Lua can unpack a few thousand values at most, so long argument lists go in pieces.
lib.CHUNK = 1000

function lib.call_in_chunks(command, key, values)
  if #values == 0 then return end
  for first = 1, #values, lib.CHUNK do
    redis.call(command, key, unpack(values, first, math.min(first + lib.CHUNK - 1, #values)))
  end
end

function lib.get_fields(key, fields)
  if #fields == 0 then return {} end
  if #fields <= lib.CHUNK then return redis.call('HMGET', key, unpack(fields)) end
  local values = {}
  for first = 1, #fields, lib.CHUNK do
    local last = math.min(first + lib.CHUNK - 1, #fields)
    local found = redis.call('HMGET', key, unpack(fields, first, last))
    for index = 1, #found do values[first + index - 1] = found[index] end
  end
  return values
end
