-- Moves up to `limit` tasks from ready to running. Returns the first process id and the elements.
-- The ids of one start are consecutive, and ids only grow, which lets recovery restore the old order.

-- A task on its last chance may be what kills the workers. It is handed out alone, and no worker holds two such
-- tasks at a time, so that the one that kills takes none of the others down with it for good.
function lib.suspect_from(max_failures)
  return math.max(2, max_failures - 1)
end

function lib.is_suspect(element, failures, suspect)
  return (tonumber(redis.call('HGET', failures, redis.sha1hex(element))) or 0) >= suspect
end

function lib.holds_suspect(running, failures, suspect)
  for _, element in ipairs(redis.call('HVALS', running)) do
    if lib.is_suspect(element, failures, suspect) then return true end
  end
  return false
end

-- Bounded by bytes as well: the reply to one claim must not keep a connection busy for long.
lib.CLAIM_BYTES = 4194304
lib.AT_ONCE = 16 -- so that it is passed by this many tasks at most
-- Before Redis 7 (which this number came with), RPOP with a count walks the whole list to reach its end.
lib.POP_AT_ONCE = redis.REDIS_VERSION_NUM and lib.AT_ONCE or 1

function lib.pop_elements(ready, limit)
  local elements, bytes = {}, 0
  while #elements < limit and bytes < lib.CLAIM_BYTES do
    local wanted = math.min(lib.POP_AT_ONCE, limit - #elements)
    local popped
    if wanted == 1 then
      popped = {redis.call('RPOP', ready) or nil}
    else
      popped = redis.call('RPOP', ready, wanted) or {}
    end
    for index = 1, #popped do
      elements[#elements + 1] = popped[index]
      bytes = bytes + #popped[index]
    end
    if #popped < wanted then break end
  end
  return elements
end

-- `suspect` is false if no task has ever failed, which is nearly always so and saves looking.
function lib.take_elements(ready, running, failures, limit, suspect)
  if not suspect then return lib.pop_elements(ready, limit) end
  local waiting = redis.call('LRANGE', ready, -math.min(limit, lib.AT_ONCE), -1)
  local taken = 0
  while taken < #waiting and not lib.is_suspect(waiting[#waiting - taken], failures, suspect) do
    taken = taken + 1
  end
  if taken == 0 and #waiting > 0 and not lib.holds_suspect(running, failures, suspect) then taken = 1 end
  if taken == 0 then return {} end
  return redis.call('RPOP', ready, taken)
end

function lib.start_elements(ready, running, meta, failures, limit, suspect)
  local elements = lib.take_elements(ready, running, failures, limit, suspect)
  local count = #elements
  if count == 0 then return 0, elements end
  local first = lib.next_processes(meta, count)
  redis.pcall('HINCRBY', meta, 'started', count)
  local fields = {}
  for index = 1, count do
    fields[2 * index - 1] = string.format('%.0f', first + index - 1)
    fields[2 * index] = elements[index]
  end
  lib.call_in_chunks('HSET', running, fields)
  return first, elements
end
