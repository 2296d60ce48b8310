-- A queue holds either plain tasks or jobs, or is a log; what first comes in decides. Its layout is the version of all
-- its records.

-- Reads what is set for the queue, once; `keys.settings` has it from then on.
function lib.read_settings(keys)
  local found = redis.call('HMGET', keys.meta, 'incarnation', 'kind', 'layout', 'enqueued', 'paused', 'ageing_ms',
    'history_length', 'keep_ms', 'keep_dead_ms', 'keep_count', 'keep_bytes', 'kept_bytes', 'max_length', 'max_bytes',
    'waiting_bytes', 'turn', 'newest', 'history_cap', 'marked_until', 'process')
  keys.settings = {incarnation = found[1], kind = found[2], layout = found[3], enqueued = found[4], paused = found[5],
    ageing_ms = found[6], history_length = found[7], keep_ms = found[8], keep_dead_ms = found[9],
    keep_count = found[10], keep_bytes = found[11], kept_bytes = found[12], max_length = found[13],
    max_bytes = found[14], waiting_bytes = found[15], turn = found[16], newest = found[17], history_cap = found[18],
    marked_until = found[19], process = found[20]}
  return keys.settings
end

-- Why a request cannot go on, or nil.
function lib.refuse_kind(keys)
  local settings = keys.settings or lib.read_settings(keys)
  if settings.kind == 'jobs' then
    return lib.refuse_other_layout(settings.layout)
  end
  return (settings.enqueued or settings.kind) and {'tasks', settings.kind or ''} or nil
end

-- The greatest id that the queue has had, also after it was deleted, for as long as requests are remembered: an id
-- that is greater than all before must still mean that its job is new.
-- seldom
function lib.keep_newest(keys)
  local newest = redis.call('HGET', keys.meta, 'newest')
  if newest then redis.call('SET', keys['memory:'] .. 'newest', newest, 'PX', lib.MEMORY_MS) end
end

-- seldom
function lib.newest_before(keys)
  return redis.call('GET', keys['memory:'] .. 'newest') or '0'
end

-- seldom
function lib.become_job_queue(keys)
  redis.call('HSET', keys.meta, 'kind', 'jobs', 'layout', lib.LAYOUT)
end
