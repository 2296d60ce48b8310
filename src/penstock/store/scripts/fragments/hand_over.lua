-- A job that would be the next to start goes straight to a worker that waits for one, if there is nothing to weigh: that
-- spares it the way through its line, and the worker a request. The worker hears of it on its own channel. Messages can be
-- lost, so a worker also looks for what it holds without knowing (find_handed).
jobs.HANDED_OVER_BYTES = 65536 -- what is pushed waits in the memory of the server; larger jobs are fetched

function jobs.is_simple(keys, sending, now)
  local settings, group = keys.settings, sending.groups[1]
  if sending.added ~= 1 or sending.are_given or settings.idle == 0 or settings.levels > 0 or settings.paused then return false end
  local head = group.head
  return sending.groups[2] == nil and head.unique == '' and head.key == '' and #head.words == 0 and
    not jobs.has(head.flags, jobs.AT_MOST_ONCE) and #group.data[1] <= jobs.HANDED_OVER_BYTES and jobs.due_of(group, now) <= now
end

-- Whether something else may have to be seen to first.
function jobs.is_in_the_way(keys, type, now)
  local call, strays, suspects, limits, paused = redis.call, keys.strays, keys.suspects, keys.limits, keys.paused_types
  if call('EXISTS', strays, suspects, limits, paused, keys.due, keys.slots, keys.unparks) == 0 then return false end
  if call('EXISTS', strays, suspects) > 0 or call('HEXISTS', limits, '') == 1 or call('SISMEMBER', paused, type) == 1 then
    return true
  end
  for _, kind in ipairs({keys.due, keys.slots, keys.unparks}) do
    local first = call('ZRANGE', kind, 0, 0, 'WITHSCORES')[2]
    if first and tonumber(first) <= now then return true end
  end
  return false
end

-- The worker that takes what is sent without having asked, or nil. Looks at every key of its own that is written to then.
function jobs.find_taker(keys, sending, now)
  if not jobs.is_simple(keys, sending, now) then return nil end
  local call, type = redis.call, sending.groups[1].head.type
  if jobs.is_in_the_way(keys, type, now) then return nil end
  local worker = call('SRANDMEMBER', keys.idle)
  local room = tonumber(call('HGET', keys.offers, worker) or '0')
  if room < 1 or not has_listener(keys['wake:'] .. worker) or call('SISMEMBER', keys.members, worker) == 0 then return nil end
  if not jobs.handles(call('HGET', keys.types, worker) or '', type) then return nil end
  call('HLEN', keys['running:'] .. worker)
  return {worker, room}
end

-- Adds a job that runs already. The worker stops waiting when it has as many as it said that it takes.
function jobs.hand_over(keys, sending, taker, now)
  local changes, group, worker, room = jobs.new_changes(), sending.groups[1], taker[1], taker[2]
  local head, id, data = group.head, group.ids[1], group.data[1]
  local number = jobs.take_turns(keys, sending, 1) + 1
  local process = redis.call('HINCRBY', keys.meta, 'process', 1)
  local record = struct.pack(jobs.RECORD, jobs.LAYOUT, now, number, #head.text, head.text) .. data
  local facts = jobs.new_facts(now, number, head, #data)
  jobs.tell(keys, changes, 'enqueued', id, facts)
  facts.state, facts.started, facts.process, facts.worker = jobs.RUNNING, now, process, worker
  jobs.tell(keys, changes, 'started', id, facts)
  jobs.enter_state(changes, jobs.RUNNING, facts, id)
  jobs.keep_facts(changes, id, facts)
  jobs.tally(changes, 'sent', 1)
  jobs.tally(changes, 'started', 1)
  redis.call('HSET', keys.jobs, id, record)
  redis.call('HSET', keys['running:'] .. worker, whole(process), id)
  if room > 1 then
    redis.call('HSET', keys.offers, worker, whole(room - 1))
  else
    redis.call('HDEL', keys.offers, worker)
    redis.call('SREM', keys.idle, worker)
  end
  jobs.write_changes(keys, changes, now)
  publish(keys['wake:'] .. worker, struct.pack('>I7Bc0', process, #id, id) .. record)
end
