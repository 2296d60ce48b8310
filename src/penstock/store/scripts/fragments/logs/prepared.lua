-- Stages of batches that are prepared: each is whole, has no expiry, and is kept until it is known whether its batch
-- was decided. Of each: the token of the attempt, its version, when it was prepared (ms), its chunks, and its batch.

function lib.open_prepared(entry)
  local token, version, at, chunks, batch = string.match(entry or '', '^(%S+) (%d+) (%d+) (%d+) (.*)$')
  return token, tonumber(version), tonumber(at), tonumber(chunks), batch
end

-- Stages lie beside the state of their partition.
function lib.stage_key(state, name)
  local base = string.sub(state, 1, -6)
  return base .. 'stage:' .. name
end

-- Drops all that was prepared in a partition whose log is gone.
function lib.drop_all_prepared(state, prepared)
  for _, name in ipairs(redis.call('HKEYS', prepared)) do redis.call('UNLINK', lib.stage_key(state, name)) end
  redis.call('UNLINK', prepared)
end
