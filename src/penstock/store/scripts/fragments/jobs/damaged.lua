-- A job of which a record or facts cannot be read was written to by another program, or cut off. It is set aside with
-- all that is stored of it, byte for byte, so that nothing is lost and nobody meets it again. What it was counted and
-- listed as is left for fsck to put right, as that can no longer be known.

-- Sets a job aside; `place` is where it was met. Returns whether anything was stored of it.
-- seldom
function lib.set_aside(keys, changes, id, place, now)
  local record, facts = redis.call('HGET', keys.jobs, id), redis.call('HGET', keys.facts, id)
  if not record and not facts then return false end
  redis.call('HSET', keys.damaged, id, lib.pack_damaged(now, place, record or '', facts or ''))
  redis.call('HDEL', keys.jobs, id)
  redis.call('HDEL', keys.facts, id)
  redis.call('ZREM', keys.due, id)
  local was_kept = redis.call('ZREM', keys.finished, id) + redis.call('ZREM', keys.buried, id) > 0
  -- Of facts without a record nobody has been told that it was sent.
  if record then lib.tally(changes, was_kept and 'removed' or 'damaged', 1) end
  lib.add_notice(keys, changes, id, '-', '')
  return true
end

-- The same for what a worker held. It does not run any more, as far as is known: so each start still has its end.
-- seldom
function lib.set_aside_held(keys, changes, running, process, id, now)
  local is_known = redis.call('HEXISTS', keys.damaged, id) == 1
  if lib.set_aside(keys, changes, id, 'running', now) or is_known then lib.tally(changes, 'lost', 1) end
  redis.call('HDEL', running, process)
end
