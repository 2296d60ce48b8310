-- A queue holds either plain tasks or jobs; what first comes in decides. Its layout is the version of all its records.

jobs.SETTINGS = {'incarnation', 'kind', 'layout', 'enqueued', 'paused', 'ageing_ms', 'history_length', 'keep_ms',
  'keep_dead_ms', 'keep_count', 'keep_bytes', 'kept_bytes'}

-- Reads what is set for the queue, once; `keys.settings` has it from then on.
function jobs.read_settings(keys)
  local settings = {}
  for index, value in ipairs(redis.call('HMGET', keys.meta, unpack(jobs.SETTINGS))) do
    settings[jobs.SETTINGS[index]] = value
  end
  keys.settings = settings
  return settings
end

-- Why a request cannot go on, or nil.
function jobs.refuse_kind(keys)
  local settings = rawget(keys, 'settings') or jobs.read_settings(keys)
  if settings.kind == 'jobs' then
    local layout = tonumber(settings.layout)
    return layout > jobs.LAYOUT and {'newer', layout} or nil
  end
  return settings.enqueued and {'tasks'} or nil
end

function jobs.become_job_queue(keys)
  redis.call('HSET', keys.meta, 'kind', 'jobs', 'layout', jobs.LAYOUT)
end
