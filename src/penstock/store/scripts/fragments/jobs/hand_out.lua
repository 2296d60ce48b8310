-- Starting jobs, as both start_jobs and report_jobs do it. A start is remembered by its process ids alone: the jobs
-- themselves stay until they are finished, so a repeated reply is read from there.
lib.SCHEDULES_AT_ONCE = 100

-- Looks at every key that reporting or starting jobs may write to, and reads what both need to know.
function lib.guard_work(keys, claim)
  local call = redis.call
  call('HLEN', keys.jobs)
  call('HLEN', keys.facts)
  call('ZCARD', keys.levels)
  call('ZCARD', keys.finished)
  call('SCARD', keys.idle)
  keys.is_used = lib.guard_rare(keys)
  claim.held = call('HLEN', claim.running)
  claim.is_member = call('SISMEMBER', keys.members, claim.worker) == 1
  claim.types = call('HGET', keys.types, claim.worker) or ''
  return lib.refuse_kind(keys)
end

-- A worker that waits is woken by new jobs, and by its own alarm when something falls due. Two workers at a time have
-- an alarm, so that not all of them ask for one job, and one that dies delays nothing.
lib.ALARMS = 2

function lib.next_due_at(keys, now)
  local first
  for _, kind in ipairs({'due', 'unparks', 'slots'}) do
    if keys.is_used[kind] then
      -- The schedules that are due have just been named to this worker, which looks again when it has fired them.
      local after = kind == 'slots' and '(' .. lib.whole(now) or '-inf'
      local at = redis.call('ZRANGEBYSCORE', keys[kind], after, '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
      if at and (not first or tonumber(at) < first) then first = tonumber(at) end
    end
  end
  return first
end

-- Milliseconds until this worker is to look again, or -1: if there is nothing to look for, or others look by then.
function lib.set_alarm(keys, worker, now, at)
  if not at then return -1 end
  redis.call('ZREMRANGEBYSCORE', keys.alarms, '-inf', lib.whole(now))
  redis.call('ZREM', keys.alarms, worker)
  if redis.call('ZCOUNT', keys.alarms, '-inf', lib.whole(at)) >= lib.ALARMS then return -1 end
  redis.call('ZADD', keys.alarms, lib.whole(math.max(at, now + 1)), worker)
  return math.max(at - now, 0)
end

-- A worker that has no time for jobs still fires schedules, or those that fall due while all are busy would be missed.
-- seldom
function lib.set_slot_alarm(keys, worker, now)
  local at = redis.call('ZRANGEBYSCORE', keys.slots, '(' .. lib.whole(now), '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return lib.set_alarm(keys, worker, now, at and tonumber(at))
end

-- Wakes a worker, which then sets an alarm for what falls due at this time, unless one has such an alarm.
-- seldom
function lib.wake_for_alarm(keys, at, now)
  local is_set = redis.call('ZCOUNT', keys.alarms, '(' .. lib.whole(now), lib.whole(at)) > 0
  if not is_set then lib.wake_workers(keys.idle, keys['wake:'], 1) end
end

-- seldom
function lib.wake_for_types(keys, types)
  for _, idle_worker in ipairs(redis.call('SRANDMEMBER', keys.idle, 50)) do
    local worker = lib.name_of(idle_worker)
    local own = redis.call('HGET', keys.types, worker) or ''
    for type in pairs(types) do
      if lib.handles(own, type) then
        redis.call('SREM', keys.idle, idle_worker)
        if lib.publish(keys['wake:'] .. worker, '') > 0 then types[type] = nil end
        break
      end
    end
  end
end

-- The worker that asks may not handle the types that were put aside, now or before; then the wake-up or the alarm that
-- made it ask is for a worker that does. `types` are those put aside now; of the others some are tried, as there may
-- be many that no worker handles.
lib.UNHANDLED_TRIED = 16

-- seldom
function lib.wake_for_unhandled(keys, worker, types)
  lib.leave_idle(keys, worker)
  if redis.call('SCARD', keys.idle) == 0 then return end
  for _, type in ipairs(redis.call('SRANDMEMBER', keys.unhandled_types, lib.UNHANDLED_TRIED)) do
    if redis.call('SISMEMBER', keys.paused_types, type) == 0 then types[type] = true end
  end
  if next(types) then lib.wake_for_types(keys, types) end
end

-- An idle worker is woken when there is work. With a plus before its name it also takes a job unasked: not if it has
-- just got one, or holds one that it may not have known of when it asked.
function lib.join_idle(keys, claim, taken)
  local takes_one = claim.takes_unasked and taken == 0 and claim.held == 0
  redis.call('SADD', keys.idle, takes_one and '+' .. claim.worker or claim.worker)
end

function lib.leave_idle(keys, worker)
  redis.call('SREM', keys.idle, worker, '+' .. worker)
end

function lib.wait_for_more(keys, claim, taken, now, token_at)
  if not claim.wait then return -1 end
  lib.leave_idle(keys, claim.worker)
  lib.join_idle(keys, claim, taken)
  local at = lib.next_due_at(keys, now)
  if token_at and (not at or token_at < at) then at = token_at end
  return lib.set_alarm(keys, claim.worker, now, at)
end

-- With what is no time that jobs wait, no job becomes more urgent.
function lib.ageing_of(keys)
  local ageing_ms = tonumber(keys.settings.ageing_ms)
  return ageing_ms and ageing_ms > 0 and ageing_ms or nil
end

function lib.start_chosen(keys, changes, claim, taken, now)
  local first = lib.next_processes(keys.meta, #taken)
  local fields, reply, bytes = {}, {}, 0
  for index, item in ipairs(taken) do
    local id, facts, record, head = item[1], item[2], item[3], item[2].head
    local process = first + index - 1
    lib.move_job(changes, id, facts, lib.RUNNING, now)
    facts.started, facts.process, facts.worker = now, process, claim.worker
    if head.unique ~= '' then lib.free_unique(keys, id, facts, lib.UNIQUE_QUEUED) end
    lib.keep_facts(changes, id, facts)
    if head.key ~= '' then redis.pcall('HINCRBY', keys.busy, head.key, 1) end -- fsck recounts what is no number
    lib.add_event(keys, changes, 'started', id, facts)
    bytes = bytes + facts.bytes
    fields[2 * index - 1], fields[2 * index] = lib.whole(process), id
    local size = 3 * index
    reply[size - 2], reply[size - 1] = id, record
    reply[size] = lib.tries_of(facts)
  end
  lib.call_in_chunks('HSET', claim.running, fields)
  lib.tally(changes, 'started', #taken)
  lib.tally(changes, 'waiting_bytes', -bytes)
  return first, reply
end

-- seldom
function lib.due_schedules(keys, now)
  return redis.call('ZRANGEBYSCORE', keys.slots, '-inf', lib.whole(now), 'LIMIT', 0, lib.SCHEDULES_AT_ONCE)
end

-- Returns {word, wait_ms, schedules, first_process, id, record, tries, ...}.
function lib.hand_out(keys, changes, claim, now)
  local room = claim.max_held - claim.held
  if not claim.is_member then return {'not_working', -1, {}} end
  local is_paused, ageing_ms = keys.settings.paused, lib.ageing_of(keys)
  if is_paused then
    -- No alarm: it would keep others from setting one when the queue is resumed.
    if keys.is_used.alarms then redis.call('ZREM', keys.alarms, claim.worker) end
    lib.leave_idle(keys, claim.worker)
    if claim.wait then lib.join_idle(keys, claim, 0) end
    return {'paused', -1, {}}
  end
  local schedules = keys.is_used.slots and lib.due_schedules(keys, now) or {}
  if room <= 0 then return {'too_many', -1, schedules} end
  if lib.promote_due(keys, changes, claim, now) > 0 then lib.flush_changes(keys, changes, now) end
  lib.unpark_due(keys, claim, now)

  local limit = keys.is_used.limits and lib.open_limit(keys, '', now)
  local wanted = math.min(claim.limit, room, limit and lib.room_in(limit) or lib.NO_LIMIT)
  if wanted < 1 then
    return {'limited', lib.wait_for_more(keys, claim, 0, now, lib.next_token_at(limit, now)), schedules}
  end
  local taken, may_be_more, unhandled_now = lib.choose_jobs(keys, changes, claim, wanted, ageing_ms, now)
  if limit then limit.used = #taken end
  if keys.is_used.limits then lib.save_limits(keys, now) end
  local first, reply = 0, {}
  if #taken > 0 then first, reply = lib.start_chosen(keys, changes, claim, taken, now) end
  local wait_ms, is_reached = -1, limit and lib.room_in(limit) < 1
  if next(unhandled_now) or (keys.is_used.unhandled_types and not is_reached) then
    lib.wake_for_unhandled(keys, claim.worker, unhandled_now)
  end
  if may_be_more and #taken < claim.limit and not is_reached then
    -- The next job must not run beside these, or too much had to be put aside: there may be more to start.
    local is_apart = redis.call('HEXISTS', keys.suspects, claim.worker) == 1
    if is_apart then
      lib.leave_idle(keys, claim.worker)
      if keys.is_used.alarms then redis.call('ZREM', keys.alarms, claim.worker) end
    else
      wait_ms = 0
    end
    lib.wake_workers(keys.idle, keys['wake:'], 1)
    if #taken == 0 then return {is_apart and 'apart' or 'again', wait_ms, schedules} end
  elseif #taken < claim.limit then
    wait_ms = lib.wait_for_more(keys, claim, #taken, now, limit and lib.next_token_at(limit, now))
    if #taken == 0 then return {'empty', wait_ms, schedules} end
  else
    lib.leave_idle(keys, claim.worker) -- it may have looked without being woken, and has no room now
    -- Wake-ups are passed on, so that one lost on its way to a dead worker delays nothing for long; and so is the
    -- alarm of a worker that has no room.
    local had_alarm = keys.is_used.alarms and redis.call('ZREM', keys.alarms, claim.worker) == 1
    if had_alarm or redis.call('ZCARD', keys.levels) > 0 then lib.wake_workers(keys.idle, keys['wake:'], #taken) end
    if keys.is_used.slots then wait_ms = lib.set_slot_alarm(keys, claim.worker, now) end
  end
  local answer = {'ok', wait_ms, schedules, lib.whole(first)}
  for index = 1, #reply do answer[index + 4] = reply[index] end
  return answer
end

-- A few finished jobs are purged with one request of so many, and with each that finishes many: more than come in.
lib.PURGE_EVERY = 16

function lib.purge_some(keys, changes, operation, finished, now)
  if finished <= 8 and tonumber(operation) % lib.PURGE_EVERY ~= 0 then return end
  lib.purge_up_to(keys, changes, 2 * finished + 40, now)
end

-- Returns how many there were.
-- seldom
function lib.purge_up_to(keys, changes, limit, now)
  lib.drop_old_marks(keys, now)
  local places, ids, all = lib.outdated_jobs(keys, changes, now, limit)
  -- If a list of theirs is damaged, purge_jobs says so; the request of this worker goes on.
  if #ids == 0 or not pcall(lib.check_moves, keys, all) then return 0 end
  lib.purge_jobs(keys, changes, places, ids, all, now)
  return #ids
end

-- A worker that finds nothing to do has time for more of them, and comes back soon if that was not all: otherwise a
-- queue that has become quiet would keep them for long.
lib.PURGED_WHEN_IDLE, lib.PURGE_AGAIN_MS = 100, 100

function lib.purge_when_idle(keys, changes, reply, now)
  if redis.call('ZCARD', keys.finished) == 0 and not keys.is_used.buried then return end
  local purged = lib.purge_up_to(keys, changes, lib.PURGED_WHEN_IDLE, now)
  if purged == lib.PURGED_WHEN_IDLE and (reply[2] < 0 or reply[2] > lib.PURGE_AGAIN_MS) then
    reply[2] = lib.PURGE_AGAIN_MS
  end
end

function lib.remember_hand_out(memory, operation, reply, refused)
  local kept = {reply[1], refused or false}
  if reply[1] == 'ok' then
    kept[3] = reply[4]
    kept[4] = (#reply - 4) / 3
  end
  lib.remember(memory, operation, kept)
end

-- The jobs that were set aside go with every answer, so that the worker can tell.
function lib.answer_of(reply, damaged)
  table.insert(reply, 4, damaged)
  return reply
end

-- seldom
function lib.repeat_hand_out(keys, claim, kept)
  if kept[1] ~= 'ok' then return {kept[1], 1000, {}} end
  local first, fields = tonumber(kept[3]), {}
  for index = 1, kept[4] do fields[index] = lib.whole(first + index - 1) end
  local ids = lib.get_fields(claim.running, fields)
  local reply = {'ok', 1000, {}, kept[3]}
  for index = 1, kept[4] do
    local record = ids[index] and redis.call('HGET', keys.jobs, ids[index])
    if not record then return {'not_working', -1, {}} end
    local facts = lib.facts_in(redis.call('HGET', keys.facts, ids[index]) or '')
    if not facts then return {'not_working', -1, {}} end
    reply[#reply + 1] = ids[index]
    reply[#reply + 1] = record
    reply[#reply + 1] = lib.tries_of(facts)
  end
  return reply
end
