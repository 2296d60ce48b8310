-- What becomes of a job that a worker held. The outcome is what the worker says happened; the state that follows is
-- decided here, by what the record allows.
local POISON_FROM = 3
local ATTEMPTS_KEPT = 20

local function note_attempt(keys, id, facts, attempt, outcome, error, now)
  local key = keys['attempts:'] .. id
  redis.call('RPUSH', key, struct.pack('>HI6I6Bc0Bc0', attempt, facts.started, now, #outcome, outcome,
    #facts.worker, facts.worker) .. error)
  redis.call('LTRIM', key, -ATTEMPTS_KEPT, -1)
  facts.marks = with(facts.marks, HAS_ATTEMPTS)
end

local function wait_again(keys, changes, id, facts, state, now)
  move_job(changes, id, facts, state, now)
  facts.process, facts.worker = 0, ''
  tally(changes, 'waiting_bytes', facts.bytes)
end

-- `report` is {outcome, ran_us, cpu_us, delay_ms, reason, payload}; what goes back in line is added to `again`
-- (in its old place) or `anew` (at the back).
local function settle_job(keys, changes, id, facts, report, again, anew, history_length, now)
  local outcome, ran_us, cpu_us, delay_ms, reason, payload = unpack(report)
  local attempt = facts.failures + facts.crashes + 1
  local is_cancelled = outcome == 'cancelled' or (outcome ~= 'done' and has(facts.marks, CANCEL_ASKED))
  if outcome == 'failed' or outcome == 'final' then
    facts.failures = facts.failures + 1
    note_attempt(keys, id, facts, attempt, 'failed', payload, now)
  elseif outcome == 'crashed' or outcome == 'lost' then
    facts.crashes = math.min(255, facts.crashes + 1)
    note_attempt(keys, id, facts, attempt, outcome, payload, now)
  end
  if outcome ~= 'stopped' then
    record_attempt(keys, id, facts, attempt, is_cancelled and 'cancelled' or outcome == 'final' and 'failed' or outcome,
      now, ran_us, cpu_us, history_length)
  end
  tally(changes, outcome == 'final' and 'failed' or outcome == 'done' and 'finished' or outcome, 1)

  if is_cancelled then
    end_job(keys, changes, id, facts, CANCELLED, '', outcome == 'failed' and payload or '', now)
  elseif outcome == 'done' then
    end_job(keys, changes, id, facts, DONE, '', payload, now)
  elseif outcome == 'final' or (outcome == 'failed' and facts.failures >= facts.head.attempts) then
    end_job(keys, changes, id, facts, DEAD, reason ~= '' and reason or 'failed', payload, now)
  elseif outcome == 'failed' then
    facts.outcome = ''
    local delay = tonumber(delay_ms)
    facts.since = now + delay
    if delay > 0 then
      wait_again(keys, changes, id, facts, SCHEDULED, now)
      redis.call('ZADD', keys.due, whole(now + delay), id)
      keep_facts(changes, id, facts)
    else
      wait_again(keys, changes, id, facts, READY, now)
      anew[#anew + 1] = {id, facts}
    end
    tell(keys, changes, 'retried', id, facts, payload)
  elseif (outcome == 'crashed' or outcome == 'lost') and has(facts.head.flags, AT_MOST_ONCE) then
    end_job(keys, changes, id, facts, DEAD, 'lost', payload, now)
  elseif facts.crashes >= POISON_FROM and outcome ~= 'stopped' then
    end_job(keys, changes, id, facts, DEAD, 'poison', payload, now)
  else
    wait_again(keys, changes, id, facts, READY, now)
    keep_facts(changes, id, facts)
    again[#again + 1] = {id, facts}
    if outcome ~= 'stopped' then tell(keys, changes, 'retried', id, facts, payload) end
  end
end

-- Settles what a worker held: `held` is a list of {process, id, facts, report}. Returns how many of
-- them wait again, and how many others may now start.
local function settle_jobs(keys, changes, running, worker, held, now)
  local again, anew, freed, processes, back = {}, {}, {}, {}, 0
  local history_length = redis.call('HGET', keys.meta, 'history_length') or HISTORY_LENGTH
  for index, item in ipairs(held) do
    local process, id, facts, report = unpack(item)
    processes[index] = process
    if facts.crashes >= SUSPECT_FROM and redis.call('HGET', keys.suspects, worker) == id then
      redis.call('HDEL', keys.suspects, worker)
    end
    local key = facts.head.key
    if key ~= '' then
      if redis.call('HINCRBY', keys.busy, key, -1) <= 0 then redis.call('HDEL', keys.busy, key) end
      freed[key] = true
    end
    settle_job(keys, changes, id, facts, report, again, anew, history_length, now)
    if not IS_FINAL[facts.state] then back = back + 1 end
  end
  call_in_chunks('HDEL', running, processes)
  if #anew > 0 then
    local turn = next_turns(keys, #anew)
    for index, item in ipairs(anew) do
      item[2].turn = turn + index
      keep_facts(changes, item[1], item[2])
    end
    send_to_lines(keys, anew)
  end
  write_changes(keys, changes, now)
  if #again > 0 then return_to_lines(keys, again) end
  local unparked = 0
  for key in pairs(freed) do unparked = unparked + unpark_key(keys, key, now) end
  return back, unparked
end
