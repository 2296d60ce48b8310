-- How new jobs come into a queue. They are sent in groups that share a head: head, delay_ms, run_at, window_ms, count,
-- then count times id and data.

-- Looks at the keys that every job is written to, and reads what is set for the queue.
function lib.guard_admission(keys)
  local is_empty = redis.call('HLEN', keys.jobs) == 0
  redis.call('HLEN', keys.facts)
  local settings = lib.read_settings(keys)
  if is_empty and not settings.newest then settings.newest = lib.newest_before(keys) end
  return settings
end

-- Looks at the other keys that jobs which stand in line are written to, and which of those are in use.
function lib.guard_waiting(keys)
  local call, base = redis.call, keys.base
  call('ZCARD', keys.levels)
  call('SCARD', keys.idle)
  local is_any = call('EXISTS', base .. 'unique_jobs', base .. 'progress', base .. 'due', base .. 'windows') > 0
  keys.is_used = is_any and lib.guard(keys, {hash = {'unique_jobs', 'progress'}, zset = {'due', 'windows'}}) or {}
end

-- Ids begin with the time at which they were made, so those of new jobs are mostly greater than all before; then none
-- has to be looked for. `newest` is the greatest that the queue has ever had.
function lib.is_greater(id, other) return #id > #other or (#id == #other and id > other) end

-- Written out, as a call for each id would cost as much as to look the ids up.
function lib.are_newer(ids, newest)
  local length = #newest
  for index = 1, #ids do
    local id = ids[index]
    if id <= newest or #id ~= length then
      if #id <= length then return false end
      length = #id
    end
    newest = id
  end
  return true
end

-- The job that holds a unique key now, if any.
-- seldom
function lib.holder_of_key(keys, key, now)
  local id = redis.call('HGET', keys.unique_jobs, key)
  local until_ms = id and redis.call('ZSCORE', keys.windows, key)
  if until_ms and tonumber(until_ms) <= now then return nil end
  return id or nil
end

-- Which jobs of a group are there already, or have a unique key that another holds: `existing` has {position, id,
-- group, data} of each, and what is left of the group is new.
-- seldom
function lib.find_existing(keys, sending, group, records, position, now)
  local head, claimed, ids, data = group.head, sending.claimed, group.ids, group.data
  group.ids, group.data = {}, {}
  for job = 1, #ids do
    local id = ids[job]
    local holder = head.unique ~= '' and (claimed[head.unique] or lib.holder_of_key(keys, head.unique, now))
    if records[job] then
      local is_well, facts, data_at = pcall(lib.facts_of_record, records[job])
      local is_same = is_well and facts.head.text == head.text and string.sub(records[job], data_at) == data[job]
      sending.taken = sending.taken or id
      if not is_same then sending.conflict = sending.conflict or id end
      sending.existing[#sending.existing + 1] = {position, id}
    elseif holder then
      sending.existing[#sending.existing + 1] = {position, holder, group, data[job]}
    else
      if head.unique ~= '' then claimed[head.unique] = id end
      group.ids[#group.ids + 1], group.data[#group.data + 1] = id, data[job]
    end
    position = position + 1
  end
end

-- The ids of which a derived one is the first: they differ from it in the last six digits alone, which is less than
-- the time that ids begin with.
-- seldom
function lib.candidates(id, first)
  local rest, last, ids = string.sub(id, 1, -7), tonumber(string.sub(id, -6)), {}
  for step = 0, 3 do ids[step + 1] = rest .. string.format('%06.0f', (last + first + step) % 1000000) end
  return ids
end

-- Ids have so few bits that the one derived from a cause may be that of another too; the job then has the next id.
-- A job is looked for under four ids, also behind one that is free, as the job that had it may be gone. `places` has
-- the causes of jobs that are sent together, by id.
-- seldom
function lib.find_derived(keys, sending, group, position)
  local wanted, cause, data = group.ids[1], group.head.cause, group.data[1]
  group.ids, group.data = {}, {}
  for first = 0, 96, 4 do
    local ids, free = lib.candidates(wanted, first), nil
    local records = lib.get_fields(keys.jobs, ids)
    for index, id in ipairs(ids) do
      local found = sending.places[id]
      if not found and records[index] then
        local facts = lib.facts_in_record(records[index])
        found = facts and facts.head.cause or ''
      end
      if found == cause then
        sending.existing[#sending.existing + 1] = {position, id}
        return
      end
      if not found then free = free or id end
    end
    if free then
      sending.places[free], group.ids[1], group.data[1] = cause, free, data
      if free ~= wanted then sending.elsewhere[#sending.elsewhere + 1] = {position, free} end
      if sending.newest and lib.is_greater(free, sending.newest) then sending.newest = free end
      return
    end
  end
  sending.conflict = wanted
end

-- The groups of jobs that the arguments have from this index on, and which of these jobs are there already.
function lib.read_groups(keys, arguments, index, now, are_derived)
  local sending = {groups = {}, existing = {}, elsewhere = {}, claimed = {}, places = {}, added = 0, bytes = 0,
    taken = false, conflict = false, turn = 0, newest = keys.settings.newest, are_given = false}
  local position, last = 0, #arguments
  while index <= last do
    local size, ids, data = tonumber(arguments[index + 4]), {}, {}
    local at, newest = index + 3, sending.newest
    for job = 1, size do ids[job], data[job] = arguments[at + 2 * job], arguments[at + 1 + 2 * job] end
    local group = {head = lib.head_of(arguments[index]), delay_ms = tonumber(arguments[index + 1]),
      run_at = tonumber(arguments[index + 2]), window_ms = tonumber(arguments[index + 3]), ids = ids, data = data}
    local is_new, records = not are_derived and newest and lib.are_newer(ids, newest), {}
    if are_derived then
      lib.find_derived(keys, sending, group, position)
    elseif is_new then
      sending.newest = ids[size]
    else
      is_new, records = true, lib.get_fields(keys.jobs, ids)
      for job = 1, size do
        is_new = is_new and not records[job]
        if newest and lib.is_greater(ids[job], sending.newest) then sending.newest = ids[job] end
      end
    end
    if not are_derived and (not is_new or group.head.unique ~= '') then
      lib.find_existing(keys, sending, group, records, position, now)
    end
    for job = 1, #group.data do sending.bytes = sending.bytes + #group.data[job] end
    sending.added = sending.added + #group.ids
    sending.groups[#sending.groups + 1] = group
    position = position + size
    index = index + 5 + 2 * size
  end
  return sending
end

function lib.waiting_jobs(keys)
  local waiting = 0
  for _, found in ipairs(redis.call('HMGET', keys.meta, 'rA:', 'sA:', 'bA:')) do
    waiting = waiting + (tonumber(found) or 0)
  end
  return waiting
end

-- Why new jobs cannot be given turns, or nil.
function lib.refuse_turn(keys, sending)
  sending.turn = tonumber(keys.settings.turn or '0')
  return not sending.turn and {'no_number', 'turn'} or nil
end

-- Why these jobs cannot come in, or nil.
function lib.refuse_jobs(keys, sending, origin)
  if sending.taken and origin == 'made' then return {'taken', sending.taken} end
  if sending.conflict then return {'conflict', sending.conflict} end
  local refusal = lib.refuse_turn(keys, sending)
  if refusal then return refusal end
  local settings = keys.settings
  -- A limit that is no number is none.
  local max_length, max_bytes = tonumber(settings.max_length), tonumber(settings.max_bytes)
  if sending.added == 0 or not (max_length or max_bytes) then return nil end
  local waiting, bytes = lib.waiting_jobs(keys), tonumber(settings.waiting_bytes) or 0
  if (max_length and waiting + sending.added > max_length) or (max_bytes and bytes + sending.bytes > max_bytes) then
    return {'full', waiting, max_length or -1, bytes, max_bytes or -1, sending.added, sending.bytes}
  end
  return nil
end

function lib.due_of(group, now)
  return group.run_at > 0 and group.run_at or now + group.delay_ms
end

-- seldom
function lib.take_unique_key(keys, head, id, window_ms, now)
  redis.call('HSET', keys.unique_jobs, head.unique, id)
  if lib.has(head.flags, lib.UNIQUE_WINDOW) then
    redis.call('ZADD', keys.windows, lib.whole(now + window_ms), head.unique)
  else
    redis.call('ZREM', keys.windows, head.unique)
  end
end

-- Writes facts of new jobs that are not simply ready: they are due later, or the caller has given their ids. A given
-- id may have been that of a job that is gone, whose entry still stands in a line; a turn other than its number, so
-- many after it, tells the new job from that one. Returns their entries in line, if they have any.
-- seldom
function lib.note_group(keys, changes, group, number, turns_after, now)
  local head, due = group.head, lib.due_of(group, now)
  local entries, scores = {}, {}
  for index, id in ipairs(group.ids) do
    number = number + 1
    local facts = lib.new_facts(now, number, #group.data[index], head)
    if due <= now then
      facts.turn = number + turns_after
      entries[index] = lib.entry_of(id, facts)
    else
      facts.state, facts.since = lib.SCHEDULED, due
      scores[#scores + 1] = lib.whole(due)
      scores[#scores + 1] = id
    end
    lib.keep_facts(changes, id, facts)
  end
  lib.call_in_chunks('ZADD', keys.due, scores)
  return entries
end

-- Adds the jobs of one group. Returns how many of them are ready.
function lib.admit_group(keys, changes, group, number, turns_after, now)
  local head, ids, data = group.head, group.ids, group.data
  if #ids == 0 then return 0 end
  local is_due = lib.due_of(group, now) <= now
  local records, entries, first = {}, ids, number
  for index = 1, #ids do
    number = number + 1
    records[2 * index - 1], records[2 * index] = ids[index], lib.pack_record(now, number, head, data[index])
  end
  if not is_due or turns_after > 0 then entries = lib.note_group(keys, changes, group, first, turns_after, now) end
  lib.list_new(keys, changes, is_due and lib.READY or lib.SCHEDULED, head, ids, first, now)
  if head.unique ~= '' then lib.take_unique_key(keys, head, ids[#ids], group.window_ms, now) end
  lib.call_in_chunks('HSET', keys.jobs, records)
  if #entries > 0 then lib.join_line(keys, head.line, entries) end
  return #entries
end

-- A debounced job that still waits takes the head and the data that came last, and waits anew.
-- seldom
function lib.debounce_job(keys, changes, id, group, data, now)
  local text = group and lib.has(group.head.flags, lib.UNIQUE_SCHEDULED) and redis.call('HGET', keys.facts, id)
  local facts = text and lib.facts_in(text)
  if not facts or facts.state ~= lib.SCHEDULED or not lib.has(facts.head.flags, lib.UNIQUE_SCHEDULED) then return end
  lib.leave_state(changes, facts, id)
  lib.list_words(changes, facts, id, 'SREM')
  lib.tally(changes, 'waiting_bytes', #data - facts.bytes)
  facts.head, facts.bytes, facts.updated, facts.since = group.head, #data, now, lib.due_of(group, now)
  lib.enter_state(changes, lib.SCHEDULED, facts, id)
  lib.list_words(changes, facts, id, 'SADD')
  lib.keep_facts(changes, id, facts)
  redis.call('HSET', keys.jobs, id, lib.pack_record(facts.created, facts.number, group.head, data))
  redis.call('ZADD', keys.due, lib.whole(facts.since), id)
end

-- Looks at every list and line that these jobs will be on, before anything is written.
function lib.check_admission(keys, sending, now)
  lib.guard_waiting(keys)
  local turn = sending.turn
  for _, group in ipairs(sending.groups) do
    local head, first, last = group.head, turn + 1, turn + #group.ids
    local is_due = lib.due_of(group, now) <= now
    if #group.ids > 0 then
      for number = first, last + lib.PAGE - 1, lib.PAGE do
        lib.check_lists(keys, head, is_due and lib.READY or lib.SCHEDULED, math.min(number, last), 0)
      end
      if is_due then lib.check_line(keys, head.line) end
    end
    turn = last
  end
  for _, found in ipairs(sending.existing) do
    local head = found[3] and found[3].head
    local text = head and lib.has(head.flags, lib.UNIQUE_SCHEDULED) and redis.call('HGET', keys.facts, found[2])
    local facts = text and lib.facts_in(text)
    if facts then
      lib.check_moves(keys, {facts})
      lib.check_lists(keys, head, lib.SCHEDULED, facts.number, 0)
    end
  end
end

-- So many turns for new jobs, after the one that is returned.
function lib.take_turns(keys, sending, count)
  local last = lib.whole(sending.turn + count)
  if sending.newest then
    redis.call('HSET', keys.meta, 'turn', last, 'newest', sending.newest)
  else
    redis.call('HSET', keys.meta, 'turn', last)
  end
  return sending.turn
end

-- Adds what is new, and wakes workers for it.
function lib.admit_jobs(keys, sending, now)
  local changes = lib.new_changes()
  local first_due = keys.is_used.due and redis.call('ZRANGE', keys.due, 0, 0, 'WITHSCORES')[2]
  local turns_after = sending.are_given and sending.added or 0
  local number = sending.added > 0 and lib.take_turns(keys, sending, sending.added + turns_after) or 0
  local ready = 0
  for _, group in ipairs(sending.groups) do
    ready = ready + lib.admit_group(keys, changes, group, number, turns_after, now)
    number = number + #group.ids
  end
  local last = {}
  for _, found in ipairs(sending.existing) do
    if found[3] and lib.has(found[3].head.flags, lib.UNIQUE_SCHEDULED) then last[found[2]] = found end
  end
  if next(last) then lib.flush_changes(keys, changes, now) end
  for id, found in pairs(last) do lib.debounce_job(keys, changes, id, found[3], found[4], now) end
  -- Windows that are over are removed, a few at a time.
  if keys.is_used.windows then
    for _, key in ipairs(redis.call('ZRANGEBYSCORE', keys.windows, '-inf', lib.whole(now), 'LIMIT', 0, 10)) do
      redis.call('HDEL', keys.unique_jobs, key)
      redis.call('ZREM', keys.windows, key)
    end
  end
  lib.tally(changes, 'sent', sending.added)
  lib.tally(changes, 'waiting_bytes', sending.bytes)
  lib.write_changes(keys, changes, now)
  if ready > 0 then
    lib.wake_workers(keys.idle, keys['wake:'], ready)
  elseif (redis.call('ZRANGE', keys.due, 0, 0, 'WITHSCORES')[2] or false) ~= (first_due or false) then
    lib.wake_workers(keys.idle, keys['wake:'], 1) -- it sets an alarm for what is due next
  end
end
