-- What was decided to be in the queue and is yet to be moved: stages, of which the first chunk of the first is next. A
-- chunk is an array of strings, as cmsgpack packs it. The chunks of a stage go in order, so how many are left says
-- which is next.

-- The key of the stage, the index of its next chunk, the chunk (an array) and the number of stages; nil if there is
-- nothing to move, or what is next cannot be read: then nothing behind it is moved either, until fsck has mended it.
function lib.next_chunk(moving, base)
  local stages = redis.call('LLEN', moving)
  if stages == 0 then return nil end
  local name, chunks = string.match(redis.call('LINDEX', moving, 0), '^(%S+) (%d+)$')
  if not name then return nil end
  local stage = base .. 'stage:' .. name
  local index = lib.whole(tonumber(chunks) - redis.call('HLEN', stage))
  local is_well, chunk = pcall(cmsgpack.unpack, redis.call('HGET', stage, index) or '')
  if not is_well or type(chunk) ~= 'table' then return nil end
  return stage, index, chunk, stages
end

-- Takes a chunk out of its stage but for the rest that was not moved. A stage goes with its last chunk.
function lib.remove_chunk(moving, stage, index, rest)
  if #rest > 0 then
    redis.call('HSET', stage, index, cmsgpack.pack(rest))
  else
    redis.call('HDEL', stage, index)
    if redis.call('EXISTS', stage) == 0 then redis.call('LPOP', moving) end
  end
end

-- Drops up to so many stages with all that they hold.
function lib.drop_stages(moving, base, limit)
  for _ = 1, math.min(limit, redis.call('LLEN', moving)) do
    redis.call('UNLINK', base .. 'stage:' .. (string.match(redis.call('LPOP', moving), '^%S+') or ''))
  end
end

-- A full store lets a script pass that begins with a removal, also of what is not there.
function lib.allow_move_when_full(stage)
  redis.call('HDEL', stage, '')
end
