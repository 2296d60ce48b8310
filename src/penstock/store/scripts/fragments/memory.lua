-- Same request twice, one effect. A lane has one request under way at a time and numbers its requests,
-- so remembering the last number and its reply is enough, however many requests there were.
lib.MEMORY_MS = '3600000' -- far beyond the time for which any client repeats a request

-- The reply in what is remembered, if that is of this operation; nil if the operation is a new one.
function lib.open_memory(kept, operation)
  if not kept then return nil end
  local space = string.find(kept, ' ', 1, true)
  local number = tonumber(string.sub(kept, 1, space - 1))
  if number < tonumber(operation) then return nil end
  if number > tonumber(operation) then return {'superseded'} end
  return cmsgpack.unpack(string.sub(kept, space + 1))
end

-- The remembered reply if this operation was done before, else nil.
function lib.recall(memory, operation)
  return lib.open_memory(redis.call('GET', memory), operation)
end

-- A full store refuses a script whose first write could grow, and lets all pass once a removal came first.
-- Whatever frees memory in the end begins with this, or a full store could never be emptied.
function lib.allow_when_full(memory)
  redis.call('DEL', memory)
end

function lib.remember(memory, operation, reply)
  redis.call('SET', memory, operation .. ' ' .. cmsgpack.pack(reply), 'PX', lib.MEMORY_MS)
  return reply
end

-- Ends a request that has written nothing. The reply is remembered, or a copy of the request that arrives late could
-- still do what was refused; and that must be possible on a full store.
function lib.end_early(memory, operation, reply)
  lib.allow_when_full(memory)
  return lib.remember(memory, operation, reply)
end
