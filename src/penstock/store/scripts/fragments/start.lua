-- Moves up to `limit` tasks from ready to running. Returns the first process id and the elements.
-- The ids of one start are consecutive, and ids only grow, which lets recovery restore the old order.
local SUSPECT = 2 -- failures after which a task is handed out alone, so that it takes no others down with it

local function take_elements(ready, failures, limit)
  if limit == 1 or redis.call('HLEN', failures) == 0 then
    return redis.call('RPOP', ready, limit) or {}
  end
  local waiting = redis.call('LRANGE', ready, -limit, -1)
  local taken = 0
  for index = #waiting, 1, -1 do
    local count = tonumber(redis.call('HGET', failures, redis.sha1hex(waiting[index])) or '0')
    if count >= SUSPECT then
      if taken == 0 then taken = 1 end
      break
    end
    taken = taken + 1
  end
  if taken == 0 then return {} end
  return redis.call('RPOP', ready, taken)
end

local function start_elements(ready, running, meta, failures, limit)
  local elements = take_elements(ready, failures, limit)
  local count = #elements
  if count == 0 then return 0, elements end
  local first = redis.call('HINCRBY', meta, 'process', count) - count + 1
  redis.call('HINCRBY', meta, 'started', count)
  local fields = {}
  for index = 1, count do
    fields[2 * index - 1] = string.format('%.0f', first + index - 1)
    fields[2 * index] = elements[index]
  end
  call_in_chunks('HSET', running, fields)
  return first, elements
end
