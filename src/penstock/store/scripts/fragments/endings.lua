-- The ways out of a job's life, and what each takes along.

-- Marks which lists of finished jobs a state is kept on: what died is kept longer than what went well.
local function kept_in(keys, state)
  return state == DEAD and keys.buried or keys.finished
end

local function kept_bytes(facts) return facts.bytes + #facts.outcome end

local function free_unique(keys, id, facts, flag)
  local key = facts.head.unique
  if key == '' or not has(facts.head.flags, flag) then return end
  if redis.call('HGET', keys.unique_jobs, key) == id then
    redis.call('HDEL', keys.unique_jobs, key)
    redis.call('ZREM', keys.windows, key)
  end
end

local function forget_job(keys, changes, id, facts)
  local marks = facts.marks
  changes.dropped_jobs[#changes.dropped_jobs + 1] = id
  changes.dropped_facts[#changes.dropped_facts + 1] = id
  if has(marks, HAS_ATTEMPTS) then redis.call('UNLINK', keys['attempts:'] .. id) end
  if has(marks, HAS_LOG) then redis.call('UNLINK', keys['log:'] .. id) end
  if has(marks, HAS_PROGRESS) then redis.call('HDEL', keys.progress, id) end
  list_words(changes, facts, id, 'SREM')
end

-- To one of the final states. Results of up to this size go with the notice to whoever waits.
local NOTICE_BYTES = 16384

local function end_job(keys, changes, id, facts, state, reason, outcome, now)
  if facts.state == SCHEDULED or facts.state == READY or facts.state == BLOCKED then
    tally(changes, 'waiting_bytes', -facts.bytes)
  end
  move_job(changes, id, facts, state, now)
  facts.finished, facts.reason, facts.outcome = now, reason, outcome
  facts.marks = without(facts.marks, CANCEL_ASKED)
  free_unique(keys, id, facts, UNIQUE_QUEUED)
  free_unique(keys, id, facts, UNIQUE_UNTIL_DONE)
  free_unique(keys, id, facts, UNIQUE_SCHEDULED)
  tell(keys, changes, state == DONE and 'done' or state == DEAD and 'dead' or 'cancelled', id, facts,
    state == DEAD and reason or '')
  local notice = state .. (#outcome <= NOTICE_BYTES and 'y' or 'n') .. struct.pack('>Bc0', #reason, reason)
  changes.notices[#changes.notices + 1] = {id, #outcome <= NOTICE_BYTES and notice .. outcome or notice}
  if state == DONE and has(facts.head.flags, FORGET_WHEN_DONE) then
    leave_state(changes, facts, id)
    forget_job(keys, changes, id, facts)
    tally(changes, 'removed', 1)
  else
    keep_facts(changes, id, facts)
    local kept = state == DEAD and changes.buried or changes.finished
    kept[#kept + 1] = whole(now)
    kept[#kept + 1] = id
    tally(changes, 'kept_bytes', kept_bytes(facts))
  end
  tally(changes, state == DONE and 'done' or state == DEAD and 'dead' or 'cancelled', 1)
end

-- One entry for each attempt that has ended: what the archive is made of.
local HISTORY_LENGTH = 100000

local function record_attempt(keys, id, facts, attempt, outcome, now, ran_us, cpu_us, history_length)
  redis.call('XADD', keys.history, 'MAXLEN', '~', history_length, '*', 'job', id, 'type', facts.head.type,
    'tenant', facts.head.tenant, 'attempt', attempt, 'outcome', outcome,
    'waited_ms', whole(math.max(0, facts.started - facts.since)), 'ran_us', ran_us, 'cpu_us', cpu_us,
    'worker', facts.worker, 'bytes', facts.bytes, 'at', whole(now))
end

-- Finished jobs go when they are too old, too many or too large together; a few with every request, so that
-- nothing ever stalls.
local KEEP_MS, KEEP_DEAD_MS, KEEP_COUNT, KEEP_BYTES = 86400000, 2592000000, 100000, 268435456

local function purge_kept(keys, changes, now, limit)
  local keep_ms, keep_dead_ms, keep_count, keep_bytes, bytes = unpack(redis.call('HMGET', keys.meta, 'keep_ms',
    'keep_dead_ms', 'keep_count', 'keep_bytes', 'kept_bytes'))
  keep_count, keep_bytes = tonumber(keep_count or KEEP_COUNT), tonumber(keep_bytes or KEEP_BYTES)
  bytes = tonumber(bytes or '0') + (changes.meta.kept_bytes or 0)
  local purged = 0
  for _, kept in ipairs({
      {keys.finished, tonumber(keep_ms or KEEP_MS)}, {keys.buried, tonumber(keep_dead_ms or KEEP_DEAD_MS)}}) do
    local key, oldest = kept[1], now - kept[2]
    local surplus = redis.call('ZCARD', key) - keep_count
    local candidates = {}
    if surplus > 0 or bytes > keep_bytes then
      candidates = redis.call('ZRANGE', key, 0, limit - purged - 1)
    elseif purged < limit then
      candidates = redis.call('ZRANGEBYSCORE', key, '-inf', whole(oldest), 'LIMIT', 0, limit - purged)
    end
    local texts, gone = get_fields(keys.facts, candidates), {}
    for index, id in ipairs(candidates) do
      local facts = texts[index] and open_facts(texts[index])
      if facts and facts.finished > oldest and surplus <= 0 and bytes <= keep_bytes then break end
      if facts then
        bytes = bytes - kept_bytes(facts)
        tally(changes, 'kept_bytes', -kept_bytes(facts))
        leave_state(changes, facts, id)
        forget_job(keys, changes, id, facts)
        tally(changes, 'removed', 1)
      end
      surplus = surplus - 1
      gone[#gone + 1] = id
    end
    call_in_chunks('ZREM', key, gone)
    purged = purged + #gone
  end
  return purged
end
