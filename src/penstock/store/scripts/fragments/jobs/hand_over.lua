-- A job that would be the next to start goes straight to a worker that waits for one, if no other job has to be
-- considered: the job need not go through its line then, nor the worker ask for it. The worker hears of it on a
-- channel of its own. Messages can be lost, so a worker also asks which jobs it holds without knowing it
-- (find_handed).
lib.HANDED_OVER_BYTES = 65536 -- what is pushed waits in the memory of the server; larger jobs are fetched

-- Whether another job may have to start first, or this one must not start now.
function lib.must_wait(keys, type, now)
  local call, base = redis.call, keys.base
  if call('EXISTS', keys.levels, base .. 'unhandled_types', base .. 'suspects', base .. 'limits',
      base .. 'paused_types', base .. 'due', base .. 'slots', base .. 'unparks') == 0 then
    return false
  end
  if call('EXISTS', keys.levels, keys.unhandled_types, keys.suspects) > 0 or call('HEXISTS', keys.limits, '') == 1 or
      call('SISMEMBER', keys.paused_types, type) == 1 then
    return true
  end
  for _, kind in ipairs({'due', 'slots', 'unparks'}) do
    local first = call('ZRANGE', keys[kind], 0, 0, 'WITHSCORES')[2]
    if first and tonumber(first) <= now then return true end
  end
  return false
end

-- The worker that takes this job unasked, or nil if the job has to stand in line.
function lib.find_taker(keys, sending, now)
  local group, settings = sending.groups[1], keys.settings
  local is_single = sending.added == 1 and #sending.groups == 1 and #sending.existing == 0 and not sending.are_given
  if not is_single or group.delay_ms > 0 or group.run_at > 0 then return nil end
  if #group.data[1] > lib.HANDED_OVER_BYTES then return nil end
  if settings.kind ~= 'jobs' or settings.paused then return nil end
  -- A worker that takes jobs unasked stands among the idle ones with a plus before its name.
  local offer = redis.call('SRANDMEMBER', keys.idle)
  if not offer or string.byte(offer) ~= 43 then return nil end
  local worker, head = string.sub(offer, 2), group.head
  -- A worker has to ask for a job that must not run twice, or that has a limit, a unique key, tags or words.
  if head.key ~= '' or head.unique ~= '' or head.tags ~= '' or #head.words > 0 or
      lib.has(head.flags, lib.AT_MOST_ONCE) then
    return nil
  end
  if not tonumber(settings.process) or lib.must_wait(keys, head.type, now) then return nil end
  -- A worker that is no member handles nothing.
  if not lib.handles(redis.call('HGET', keys.types, worker) or '', head.type) then return nil end
  redis.call('HLEN', keys['running:'] .. worker)
  return lib.is_heard(keys['hand:'] .. worker) and worker or nil
end

-- Sends the job and starts it, in one step: record, counts and events are those of any job that runs.
function lib.hand_over(keys, sending, worker, now)
  local changes, group, call = lib.new_changes(), sending.groups[1], redis.call
  local id, data, head = group.ids[1], group.data[1], group.head
  local number = lib.take_turns(keys, sending, 1) + 1
  local process, record = call('HINCRBY', keys.meta, 'process', 1), lib.pack_record(now, number, head, data)
  local facts = lib.new_facts(now, number, #data, head)
  lib.add_event(keys, changes, 'enqueued', id, facts)
  facts.state, facts.started, facts.process, facts.worker = lib.RUNNING, now, process, worker
  lib.add_event(keys, changes, 'started', id, facts)
  lib.enter_state(changes, lib.RUNNING, facts, id)
  lib.keep_facts(changes, id, facts)
  call('HSET', keys.jobs, id, record)
  call('HSET', keys['running:'] .. worker, lib.whole(process), id)
  call('SREM', keys.idle, '+' .. worker)
  lib.tally(changes, 'sent', 1)
  lib.tally(changes, 'started', 1)
  lib.write_changes(keys, changes, now)
  lib.publish(keys['hand:'] .. worker, lib.pack_handed_over(process, id, record))
end
