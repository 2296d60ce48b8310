-- A queue holds either plain tasks or jobs; what first comes in decides. Its layout is the version of all its records.

-- Why a request cannot go on, or nil.
local function refuse_kind(keys)
  local kind, layout, enqueued = unpack(redis.call('HMGET', keys.meta, 'kind', 'layout', 'enqueued'))
  if kind == 'jobs' then
    return tonumber(layout) > LAYOUT and {'newer', tonumber(layout)} or nil
  end
  return enqueued and {'tasks'} or nil
end

local function become_job_queue(keys)
  redis.call('HSET', keys.meta, 'kind', 'jobs', 'layout', LAYOUT)
end
