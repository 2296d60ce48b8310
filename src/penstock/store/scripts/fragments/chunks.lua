-- Lua can unpack a few thousand values at most, so long argument lists go in pieces.
local CHUNK = 1000

local function call_in_chunks(command, key, values)
  if #values == 0 then return end
  for first = 1, #values, CHUNK do
    redis.call(command, key, unpack(values, first, math.min(first + CHUNK - 1, #values)))
  end
end

local function get_fields(key, fields)
  if #fields == 0 then return {} end
  if #fields <= CHUNK then return redis.call('HMGET', key, unpack(fields)) end
  local values = {}
  for first = 1, #fields, CHUNK do
    local last = math.min(first + CHUNK - 1, #fields)
    local found = redis.call('HMGET', key, unpack(fields, first, last))
    for index = 1, #found do values[first + index - 1] = found[index] end
  end
  return values
end
