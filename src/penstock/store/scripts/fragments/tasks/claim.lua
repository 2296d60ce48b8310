-- Starting tasks as both start_tasks and finish_tasks do it. A claim is remembered by its process ids alone:
-- the tasks themselves are in `running` until they are finished, so a repeated reply is read from there.
function lib.new_claim(memory, ready, running, meta, members, idle, failures, worker, wait, wake, max_failures)
  return {memory = memory, ready = ready, running = running, meta = meta, members = members, idle = idle,
    failures = failures, worker = worker, wait = wait, wake = wake, max_failures = max_failures}
end

function lib.make_claim(claim, limit, max_held)
  -- Everything that is written to below is read first, which finds a key of the wrong type.
  local room = max_held - redis.call('HLEN', claim.running)
  local waiting = redis.call('LLEN', claim.ready)
  local has_failures = redis.call('HLEN', claim.failures) > 0
  local is_idle = redis.call('SISMEMBER', claim.idle, claim.worker) == 1
  if redis.call('SISMEMBER', claim.members, claim.worker) == 0 then return {'not_working'} end
  local is_paused, max_failures, kind = unpack(redis.call('HMGET', claim.meta, 'paused', 'max_failures', 'kind'))
  if kind then return {'jobs'} end
  if is_paused or waiting == 0 then
    if claim.wait and not is_idle then
      -- A removal first, so that a full store can be worked off.
      redis.call('SREM', claim.idle, claim.worker)
      redis.call('SADD', claim.idle, claim.worker)
    end
    return {is_paused and 'paused' or 'empty'}
  end
  if room <= 0 then return {'too_many'} end

  local suspect = has_failures and lib.suspect_from(tonumber(max_failures) or tonumber(claim.max_failures))
  local first, elements = lib.start_elements(
    claim.ready, claim.running, claim.meta, claim.failures, math.min(limit, room), suspect)
  if #elements == 0 then
    -- What is next must not run beside what this worker holds. Others may start it; this worker comes again when it
    -- has finished that, and is not woken until then.
    redis.call('SREM', claim.idle, claim.worker)
    lib.wake_workers(claim.idle, claim.wake, 1)
    return {'apart'}
  end
  -- A worker that got less than it asked for waits, also when more is there that is handed out one by one.
  if claim.wait and #elements < limit then redis.call('SADD', claim.idle, claim.worker) end
  local left = waiting - #elements
  if left > 0 then
    -- Wake-ups are passed on, so that one lost on its way to a dead worker delays nothing for long.
    lib.wake_workers(claim.idle, claim.wake, left)
  end
  local reply = {'ok', string.format('%.0f', first)}
  for index = 1, #elements do reply[index + 2] = elements[index] end
  return reply
end

-- Having started nothing is remembered too: a copy of the request that arrives late, when there is work again, would
-- start tasks that no worker knows of.
function lib.remember_claim(claim, operation, reply, refused)
  if reply[1] ~= 'ok' then lib.allow_when_full(claim.memory) end
  local kept = {reply[1], refused or false}
  if reply[1] == 'ok' then
    kept[3] = reply[2]
    kept[4] = #reply - 2
  end
  lib.remember(claim.memory, operation, kept)
end

function lib.repeat_claim(claim, kept)
  if kept[1] ~= 'ok' then return {kept[1]} end
  local first, count = tonumber(kept[3]), kept[4]
  local reply, fields = {'ok', kept[3]}, {}
  for index = 1, count do fields[index] = string.format('%.0f', first + index - 1) end
  local elements = lib.get_fields(claim.running, fields)
  for index = 1, count do
    if not elements[index] then return {'not_working'} end
    reply[index + 2] = elements[index]
  end
  return reply
end
