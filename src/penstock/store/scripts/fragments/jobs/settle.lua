-- What becomes of a job that a worker held. The outcome is what the worker says happened; the state that follows is
-- decided here, by what the record allows.
lib.ATTEMPTS_KEPT = 20
-- What an outcome is counted as; 'done' and 'cancelled' count jobs that have come to their end in that way.
lib.WAYS_OUT = {done = 'finished', final = 'failed', cancelled = 'interrupted', lapsed = 'lost'}

-- seldom
function lib.note_attempt(keys, id, facts, attempt, outcome, error, now)
  local key = keys['attempts:'] .. id
  redis.call('RPUSH', key, lib.pack_attempt(attempt, facts.started, now, outcome, facts.worker, error))
  redis.call('LTRIM', key, -lib.ATTEMPTS_KEPT, -1)
  facts.marks = lib.with(facts.marks, lib.HAS_ATTEMPTS)
end

-- The type of an error is the first of a JSON array of texts, of which the last may be very long: so only the
-- beginning is looked at. At most 255 bytes of it, as its length is one byte, and no part of a character.
lib.ERROR_TYPE_BYTES = 255

-- seldom
function lib.error_type(payload)
  local type = string.match(string.sub(payload, 1, lib.ERROR_TYPE_BYTES + 3), '^%["([^"]*)')
  if not type or #type <= lib.ERROR_TYPE_BYTES then return type or '' end
  return (string.gsub(string.sub(type, 1, lib.ERROR_TYPE_BYTES), '[\192-\255][\128-\191]*$', ''))
end

-- seldom
function lib.wait_again(keys, changes, id, facts, state, now)
  lib.move_job(changes, id, facts, state, now)
  facts.process, facts.worker = 0, ''
  lib.tally(changes, 'waiting_bytes', facts.bytes)
end

-- `item` is {process, id, facts, outcome, ran_us, cpu_us, delay_ms, reason, payload}; what goes back in line is added
-- to `again` (in its old place) or `anew` (at the back).
function lib.settle_job(keys, changes, item, again, anew, now)
  local id, facts, outcome, payload = item[2], item[3], item[4], item[9]
  local worker, waited_ms = facts.worker, facts.started - facts.since
  local attempt = facts.failures + facts.crashes + facts.lapses + 1
  local is_lost = outcome == 'crashed' or outcome == 'lost' or outcome == 'lapsed'
  local is_cancelled = outcome == 'cancelled' or (outcome ~= 'done' and lib.has(facts.marks, lib.CANCEL_ASKED))
  if outcome == 'failed' or outcome == 'final' then
    facts.failures = facts.failures + 1
    lib.note_attempt(keys, id, facts, attempt, 'failed', payload, now)
  elseif is_lost then
    local counter = outcome == 'lapsed' and 'lapses' or 'crashes'
    facts[counter] = math.min(255, facts[counter] + 1)
    lib.note_attempt(keys, id, facts, attempt, outcome, payload, now)
  end
  lib.tally(changes, lib.WAYS_OUT[outcome] or outcome, 1)

  if is_cancelled then
    -- The process stays with an attempt that the cancel has ended; others are counted as failures, crashes or lapses,
    -- or not at all.
    if outcome ~= 'cancelled' then facts.process = 0 end
    lib.end_job(keys, changes, id, facts, lib.CANCELLED, '', outcome == 'failed' and payload or '', now)
  elseif outcome == 'done' then
    lib.end_job(keys, changes, id, facts, lib.DONE, '', payload, now)
  elseif outcome == 'final' or (outcome == 'failed' and facts.failures >= facts.head.attempts) then
    lib.end_job(keys, changes, id, facts, lib.DEAD, item[8] ~= '' and item[8] or 'failed', payload, now)
  elseif outcome == 'failed' then
    facts.outcome = ''
    local delay = tonumber(item[7])
    facts.since = now + delay
    if delay > 0 then
      lib.wait_again(keys, changes, id, facts, lib.SCHEDULED, now)
      redis.call('ZADD', keys.due, lib.whole(now + delay), id)
      keys.is_used.due = true
      changes.due_at = math.min(changes.due_at or facts.since, facts.since)
      lib.keep_facts(changes, id, facts)
    else
      lib.wait_again(keys, changes, id, facts, lib.READY, now)
      anew[#anew + 1] = {id, facts}
    end
    lib.add_event(keys, changes, 'retried', id, facts, payload)
  elseif is_lost and lib.has(facts.head.flags, lib.AT_MOST_ONCE) then
    lib.end_job(keys, changes, id, facts, lib.DEAD, 'lost', payload, now)
  elseif is_lost and facts.crashes >= lib.MAX_CRASHES then
    lib.end_job(keys, changes, id, facts, lib.DEAD, 'poison', payload, now)
  elseif is_lost and facts.lapses >= lib.MAX_LAPSES then
    lib.end_job(keys, changes, id, facts, lib.DEAD, 'lapsed', payload, now)
  else
    -- If it has run, it begins to wait now; else it has waited all the time.
    if outcome ~= 'stopped' or item[5] ~= '0' then facts.since = now end
    lib.wait_again(keys, changes, id, facts, lib.READY, now)
    lib.keep_facts(changes, id, facts)
    again[#again + 1] = {id, facts}
    if outcome ~= 'stopped' then lib.add_event(keys, changes, 'retried', id, facts, payload) end
  end
  if outcome ~= 'stopped' or is_cancelled then
    local word = is_cancelled and 'cancelled' or outcome == 'final' and 'failed' or outcome
    local error_type = outcome ~= 'done' and payload ~= '' and lib.error_type(payload) or ''
    local counted = outcome == 'stopped' and 0 or attempt
    lib.record_attempt(changes, id, facts, counted, word, waited_ms, item[5], item[6], worker, error_type, now)
  end
end

-- Looks at every list and line that these jobs may be on, before anything is written.
function lib.check_settling(keys, held)
  for _, item in ipairs(held) do
    local id, facts = item[2], item[3]
    local head, number = facts.head, facts.number
    if item[4] == 'done' then
      lib.check_lists(keys, head, lib.DONE, number, 0)
    else
      for _, state in ipairs({lib.READY, lib.SCHEDULED, lib.DEAD, lib.CANCELLED}) do
        lib.check_lists(keys, head, state, number, 0)
      end
      lib.check_line(keys, head.line)
      redis.call('LLEN', keys['attempts:'] .. id)
    end
    if head.key ~= '' then redis.call('ZCARD', keys['parked:'] .. head.key) end
  end
end

-- Settles what a worker held: `held` is a list of items as above. Returns how many of them wait again, and how many
-- others may now start.
function lib.settle_jobs(keys, changes, running, worker, held, now)
  local again, anew, freed, is_freed, processes, back = {}, {}, {}, {}, {}, 0
  for index, item in ipairs(held) do
    local id, facts = item[2], item[3]
    processes[index] = item[1]
    if lib.is_suspect(facts) and redis.call('HGET', keys.suspects, worker) == id then
      redis.call('HDEL', keys.suspects, worker)
    end
    local key = facts.head.key
    if key ~= '' then
      local busy = redis.pcall('HINCRBY', keys.busy, key, -1) -- fsck recounts what is no number
      if type(busy) == 'number' and busy <= 0 then redis.call('HDEL', keys.busy, key) end
      if not is_freed[key] then freed[#freed + 1] = key end
      is_freed[key] = true
    end
    lib.settle_job(keys, changes, item, again, anew, now)
    if not lib.IS_FINAL[facts.state] then back = back + 1 end
  end
  lib.call_in_chunks('HDEL', running, processes)
  if #anew > 0 then
    local turn = lib.next_turns(keys, #anew)
    for index, item in ipairs(anew) do
      if turn then item[2].turn = turn + index end
      lib.keep_facts(changes, item[1], item[2])
    end
    lib.send_to_lines(keys, anew)
  end
  -- What is read again below must be written first; the queue's own limit counts the jobs that run.
  if back > 0 or next(freed) or keys.is_used.limits then lib.flush_changes(keys, changes, now) end
  if #again > 0 then lib.return_to_lines(keys, again) end
  local unparked = 0
  for _, key in ipairs(freed) do
    -- If what is parked cannot go back in line, then the next start of jobs says so; what was settled stays so.
    local is_well, number = pcall(lib.unpark_key, keys, key, now)
    if is_well then unparked = unparked + number end
  end
  return back, unparked
end
