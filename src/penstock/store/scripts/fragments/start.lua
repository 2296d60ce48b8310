-- Moves up to `limit` tasks from ready to running. Returns the first process id and the elements.
-- The ids of one start are consecutive, and ids only grow, which lets recovery restore the old order.
local SUSPECT = 2 -- failures after which a task is handed out alone, so that it takes no others down with it

local function is_suspect(element, failures)
  return tonumber(redis.call('HGET', failures, redis.sha1hex(element)) or '0') >= SUSPECT
end

local function holds_suspect(running, failures)
  for _, element in ipairs(redis.call('HVALS', running)) do
    if is_suspect(element, failures) then return true end
  end
  return false
end

-- No worker holds two suspects at a time. So a task that kills its workers takes each other task down with it
-- twice at most: after that both are suspects and never meet again.
local function take_elements(ready, running, failures, limit)
  if redis.call('HLEN', failures) == 0 then
    return redis.call('RPOP', ready, limit) or {}
  end
  local waiting = redis.call('LRANGE', ready, -limit, -1)
  local taken = 0
  while taken < #waiting and not is_suspect(waiting[#waiting - taken], failures) do
    taken = taken + 1
  end
  if taken == 0 and #waiting > 0 and not holds_suspect(running, failures) then taken = 1 end
  if taken == 0 then return {} end
  return redis.call('RPOP', ready, taken)
end

local function start_elements(ready, running, meta, failures, limit)
  local elements = take_elements(ready, running, failures, limit)
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
