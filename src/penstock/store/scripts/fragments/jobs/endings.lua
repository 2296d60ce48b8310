-- How jobs end and are removed, and what is removed with them.

-- Where finished jobs of a state are kept: dead ones stay longer than those that went well.
function lib.kept_in(keys, state)
  return state == lib.DEAD and keys.buried or keys.finished
end

-- What counts toward the bytes that a queue keeps: not what is kept for a batch, which others must not be purged for.
function lib.kept_bytes(facts)
  if facts.marks > 0 and lib.has(facts.marks, lib.KEPT_FOR_BATCH) then return 0 end
  return facts.bytes + #facts.outcome
end

-- Until when the batch that a job belongs to keeps its jobs, if it does. A job names its batch by a tag.
-- seldom
function lib.batch_keeps_until(keys, head, now)
  for _, tag in ipairs(lib.split(head.tags)) do
    local until_ms = string.sub(tag, 1, #lib.BATCH_TAG) == lib.BATCH_TAG and redis.call('ZSCORE', keys.keeps, tag)
    if until_ms and tonumber(until_ms) > now then return tonumber(until_ms) end
  end
  return nil
end
lib.BATCH_TAG = 'batch '

-- seldom
function lib.free_unique(keys, id, facts, flag)
  local key = facts.head.unique
  if key == '' or not lib.has(facts.head.flags, flag) then return end
  if redis.call('HGET', keys.unique_jobs, key) == id then
    redis.call('HDEL', keys.unique_jobs, key)
    redis.call('ZREM', keys.windows, key)
  end
end

-- seldom
function lib.forget_job(keys, changes, id, facts)
  local marks = facts.marks
  changes.dropped_jobs[#changes.dropped_jobs + 1] = id
  changes.dropped_facts[#changes.dropped_facts + 1] = id
  if lib.has(marks, lib.HAS_ATTEMPTS) then redis.call('UNLINK', keys['attempts:'] .. id) end
  if lib.has(marks, lib.HAS_LOG) then redis.call('UNLINK', keys['log:'] .. id) end
  if lib.has(marks, lib.HAS_PROGRESS) then redis.call('HDEL', keys.progress, id) end
  lib.list_words(changes, facts, id, 'SREM')
end

-- Puts a job into one of the final states. Results of up to this size go with the notice to the program that waits;
-- those of any size if the job is not kept.
lib.NOTICE_BYTES = 16384
lib.ENDINGS = {d = 'done', x = 'dead', c = 'cancelled'}

function lib.end_job(keys, changes, id, facts, state, reason, outcome, now)
  local head, tallies, word = facts.head, changes.meta, lib.ENDINGS[state]
  if facts.state ~= lib.RUNNING and not lib.IS_FINAL[facts.state] then
    tallies.waiting_bytes = tallies.waiting_bytes - facts.bytes
  end
  local is_forgotten = state == lib.DONE and head.flags > 0 and lib.has(head.flags, lib.FORGET_WHEN_DONE)
  if is_forgotten then lib.leave_state(changes, facts, id) else lib.move_job(changes, id, facts, state, now) end
  facts.finished, facts.reason, facts.outcome = now, reason, outcome
  if facts.marks > 0 then facts.marks = lib.without(facts.marks, lib.CANCEL_ASKED) end
  if head.unique ~= '' then
    lib.free_unique(keys, id, facts, lib.UNIQUE_QUEUED)
    lib.free_unique(keys, id, facts, lib.UNIQUE_UNTIL_DONE)
    lib.free_unique(keys, id, facts, lib.UNIQUE_SCHEDULED)
  end
  lib.add_event(keys, changes, word, id, facts, reason)
  local is_said = is_forgotten or #outcome <= lib.NOTICE_BYTES
  lib.add_notice(keys, changes, id, state, reason, is_said and outcome)
  if is_forgotten then
    facts.state = state
    lib.forget_job(keys, changes, id, facts)
    lib.tally(changes, 'removed', 1)
  else
    local until_ms = head.tags ~= '' and lib.batch_keeps_until(keys, head, now)
    if until_ms then facts.marks = lib.with(facts.marks, lib.KEPT_FOR_BATCH) end
    lib.keep_facts(changes, id, facts)
    local kept = state == lib.DEAD and changes.buried or changes.finished
    keys.now = keys.now or lib.whole(now)
    local size = #kept
    kept[size + 1] = until_ms and lib.whole(until_ms) or keys.now
    kept[size + 2] = id
    tallies.kept_bytes = tallies.kept_bytes + lib.kept_bytes(facts)
  end
  tallies[word] = (tallies[word] or 0) + 1
end

-- The history has one entry for each attempt that has ended, and one for each job that ended without one: what the
-- archive is made of. An entry is one packed field, as a command costs by its arguments, here, in the log of the
-- server and in its replicas. Readers ignore what follows the fields that they know, so new ones are put at the end.
lib.HISTORY_LENGTH, lib.HISTORY_CAP, lib.REMOVED = '100000', '10000000', '-'

-- How many entries are kept: more while a reader has said that it will read them (see marks.lua).
function lib.history_limit(length, cap, marked_until, now)
  -- What is no whole number is as if it were not set.
  length = string.match(length or '', '^%d+$') or lib.HISTORY_LENGTH
  if (tonumber(marked_until) or 0) <= now then return length end
  cap = string.match(cap or '', '^%d+$') or lib.HISTORY_CAP
  return tonumber(cap) > tonumber(length) and cap or length
end

-- `state` is the one that followed, if the job is not in it yet.
function lib.record_attempt(changes, id, facts, attempt, outcome, waited_ms, ran_us, cpu_us, worker, error, now, state)
  local entries, head = changes.entries, facts.head
  entries[#entries + 1] = lib.pack_ended(attempt, waited_ms > 0 and waited_ms or 0, facts.bytes, now, id, head.type,
    head.tenant, worker, outcome, ran_us, cpu_us, head.priority, facts.created, state or facts.state, error)
end

-- Records the end of a job that no worker held: it waited since it was ready, if it was.
-- seldom
function lib.record_ending(changes, id, facts, outcome, state, now)
  lib.record_attempt(changes, id, facts, 0, outcome, now - facts.since, '0', '0', '', '', now, state)
end

function lib.record_entries(keys, entries, now)
  local settings = keys.settings or lib.read_settings(keys)
  local call, history = redis.call, keys.history
  local length = lib.history_limit(settings.history_length, settings.history_cap, settings.marked_until, now)
  for index = 1, #entries do call('XADD', history, 'MAXLEN', '~', length, '*', 'attempt', entries[index]) end
end

-- Finished jobs go when they are too old, too many or too large together; a few with every request, so that nothing
-- ever stalls. Those that are kept for a batch have a score in the future: they count as ended when the time of the
-- batch is up.
lib.KEEP_MS, lib.KEEP_DEAD_MS, lib.KEEP_COUNT, lib.KEEP_BYTES = 86400000, 2592000000, 100000, 268435456

-- Which jobs are to go: where each is kept, its id, and its facts or false.
-- seldom
function lib.outdated_jobs(keys, changes, now, limit)
  local settings = keys.settings or lib.read_settings(keys)
  local keep_count = tonumber(settings.keep_count) or lib.KEEP_COUNT
  local keep_bytes = tonumber(settings.keep_bytes) or lib.KEEP_BYTES
  local bytes = (tonumber(settings.kept_bytes) or 0) + (changes.meta.kept_bytes or 0)
  local places, ids, all = {}, {}, {}
  for _, kept in ipairs({
      {keys.finished, tonumber(settings.keep_ms) or lib.KEEP_MS},
      {keys.buried, tonumber(settings.keep_dead_ms) or lib.KEEP_DEAD_MS}}) do
    local key, oldest = kept[1], now - kept[2]
    local surplus = redis.call('ZCOUNT', key, '-inf', lib.whole(now)) - keep_count
    local room, candidates = limit - #ids, {}
    if room > 0 and (surplus > 0 or bytes > keep_bytes) then
      candidates = redis.call('ZRANGEBYSCORE', key, '-inf', lib.whole(now), 'LIMIT', 0, room)
    elseif room > 0 then
      candidates = redis.call('ZRANGEBYSCORE', key, '-inf', lib.whole(oldest), 'LIMIT', 0, room)
    end
    local texts = lib.get_fields(keys.facts, candidates)
    for index, id in ipairs(candidates) do
      local facts = texts[index] and lib.facts_in(texts[index])
      local is_recent = facts and facts.finished > oldest and not lib.has(facts.marks, lib.KEPT_FOR_BATCH)
      if is_recent and surplus <= 0 and bytes <= keep_bytes then break end
      if facts then bytes = bytes - lib.kept_bytes(facts) end
      surplus = surplus - 1
      places[#places + 1], ids[#ids + 1], all[#all + 1] = key, id, facts
    end
  end
  return places, ids, all
end

-- When all readers are gone, so are their marks.
-- seldom
function lib.drop_old_marks(keys, now)
  local marked_until = keys.settings.marked_until
  if not marked_until or (tonumber(marked_until) or now + 1) > now then return end
  redis.call('UNLINK', keys.marks)
  redis.call('HDEL', keys.meta, 'marked_until')
end

-- seldom
function lib.purge_jobs(keys, changes, places, ids, all, now)
  for index, id in ipairs(ids) do
    local facts = all[index]
    if facts then
      lib.tally(changes, 'kept_bytes', -lib.kept_bytes(facts))
      lib.leave_state(changes, facts, id)
      lib.forget_job(keys, changes, id, facts)
      lib.tally(changes, 'removed', 1)
    else
      lib.set_aside(keys, changes, id, 'finished', now)
    end
    redis.call('ZREM', places[index], id)
  end
end
