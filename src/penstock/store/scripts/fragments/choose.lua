-- Which jobs a worker is handed: of the most urgent level, from the tenant whose turn it is, the oldest first. What must
-- not start now (its type is paused, a limit is reached) is put aside on the way, so nobody meets it twice.
jobs.EXAMINED_AT_ONCE = 1000 -- a script must not take long, however much there is to be put aside
jobs.JOBS_AT_ONCE = 32
jobs.JOB_BYTES = 4194304
-- A job whose worker has died under it may be what kills the workers. From the second time on it is handed out alone.
jobs.SUSPECT_FROM = 2
jobs.PROMOTED_AT_ONCE = 100

-- seldom
function jobs.promote_jobs(keys, changes, ids, now)
  local all = get_fields(keys.facts, ids)
  for index, text in ipairs(all) do all[index] = text and jobs.open_facts(text) end
  jobs.check_moves(keys, all, jobs.READY)
  call_in_chunks('ZREM', keys.due, ids)
  local turn, items = jobs.next_turns(keys, #ids), {}
  for index, id in ipairs(ids) do
    local facts = all[index]
    if facts and facts.state == jobs.SCHEDULED then
      facts.turn = turn + index
      facts.since = math.min(facts.since, now)
      jobs.move_job(changes, id, facts, jobs.READY, now)
      jobs.free_unique(keys, id, facts, jobs.UNIQUE_SCHEDULED)
      jobs.keep_facts(changes, id, facts)
      jobs.tell(keys, changes, 'promoted', id, facts)
      items[#items + 1] = {id, facts}
    end
  end
  jobs.send_to_lines(keys, items)
  return #items
end

function jobs.promote_due(keys, changes, claim, now)
  if not keys.is_used.due then return 0 end
  local ids = redis.call('ZRANGEBYSCORE', keys.due, '-inf', whole(now), 'LIMIT', 0, jobs.PROMOTED_AT_ONCE)
  if #ids == 0 then return 0 end
  local promoted = jobs.attempt(claim, jobs.promote_jobs, keys, changes, ids, now)
  claim.is_begun = true
  return promoted or 0
end

function jobs.handles(types, type)
  return types == '*' or string.find(types, '\0' .. type .. '\0', 1, true) ~= nil
end

-- The facts of a job that is ready, from its entry; nil if the entry is out of date.
-- seldom
function jobs.facts_of_entry(keys, entry)
  local id, turn = jobs.open_entry(entry)
  local facts = jobs.read_facts(keys, {id})[1]
  if not facts or facts.state ~= jobs.READY or facts.turn ~= (turn or facts.number) then return nil end
  return facts
end

-- With ageing, a job counts as one step more urgent for every `ageing_ms` that it has waited. An entry that is out of
-- date counts as the most urgent of all, so that it is out of the way soon.
function jobs.weigh(keys, priority, entry, ageing_ms, now)
  if not ageing_ms then return tonumber(priority) end
  local facts = jobs.facts_of_entry(keys, entry)
  local waited = facts and now - facts.since or jobs.NO_LIMIT
  return tonumber(priority) - math.floor(waited / ageing_ms)
end

-- The most urgent level, and its weight: that of its first job.
jobs.LEVELS_WEIGHED = 64

function jobs.most_urgent(keys, ageing_ms, now)
  local levels = redis.call('ZRANGE', keys.levels, 0, ageing_ms and jobs.LEVELS_WEIGHED - 1 or 0)
  if not ageing_ms then return levels[1], tonumber(levels[1]) end
  local best, best_weight
  for _, priority in ipairs(levels) do
    local tenant = redis.call('LINDEX', keys['ring:'] .. priority, 0)
    local entry = redis.call('LINDEX', keys['line:'] .. priority .. ':' .. tenant, 0)
    local weight = jobs.weigh(keys, priority, entry, ageing_ms, now)
    if not best or weight < best_weight then best, best_weight = priority, weight end
  end
  return best, best_weight
end

-- A source of entries: a line whose turn it is, or the strays of a type. `look` says what comes next; `settle` takes it
-- away but for the rest, and says how many were handed out.
function jobs.line_source(keys, priority)
  local ring = keys['ring:'] .. priority
  local first_two = redis.call('LRANGE', ring, 0, 1)
  local tenants, tenant = #first_two, first_two[1]
  local key = keys['line:'] .. priority .. ':' .. tenant
  local credit_field = priority .. ':' .. tenant
  local credit = jobs.NO_LIMIT
  if tenants > 1 then
    credit = tonumber(redis.call('HGET', keys.credits, credit_field) or redis.call('HGET', keys.shares, tenant) or '1')
  end
  return {
    first_turn = function()
      local facts = jobs.facts_of_entry(keys, redis.call('LINDEX', key, 0))
      return facts and facts.turn or 0
    end,
    look = function(wanted) return redis.call('LRANGE', key, 0, math.min(wanted, credit, jobs.JOBS_AT_ONCE) - 1) end,
    settle = function(seen, taken, rest)
      redis.call('LTRIM', key, seen, -1)
      call_in_chunks('LPUSH', key, rest)
      if redis.call('EXISTS', key) == 0 then
        redis.call('LPOP', ring)
        if tenants > 1 then redis.call('HDEL', keys.credits, credit_field) else redis.call('ZREM', keys.levels, priority) end
      elseif tenants > 1 and taken > 0 then
        if credit > taken then
          redis.call('HSET', keys.credits, credit_field, credit - taken)
        else
          redis.call('HDEL', keys.credits, credit_field)
          redis.call('LMOVE', ring, ring, 'LEFT', 'RIGHT')
        end
      end
    end,
  }
end

-- Strays are jobs that came up when a worker asked that does not handle their type, or while it was paused. They are
-- taken one by one, as each may change which is next.
-- seldom
function jobs.stray_source(keys, types, is_paused, ageing_ms, now)
  local best
  for _, type in ipairs(redis.call('SMEMBERS', keys.strays)) do
    if jobs.handles(types, type) and not is_paused(type) then
      local key = keys['stray:'] .. type
      local member, priority = unpack(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES'))
      local entry, turn = jobs.open_aside(member)
      local weight = jobs.weigh(keys, priority, entry, ageing_ms, now)
      if not best or weight < best.weight or (weight == best.weight and turn < best.turn) then
        best = {
          weight = weight,
          turn = turn,
          look = function() return {entry} end,
          settle = function(_, _, rest)
            if #rest == 0 then redis.call('ZREM', key, member) end
            if redis.call('EXISTS', key) == 0 then redis.call('SREM', keys.strays, type) end
          end,
        }
      end
    end
  end
  return best
end

-- The next source, or nil if nothing can be handed to this worker, and how many entries it may give at once.
function jobs.next_source(keys, types, is_paused, has_strays, ageing_ms, now)
  local priority, weight = jobs.most_urgent(keys, ageing_ms, now)
  local line = priority and jobs.line_source(keys, priority)
  local stray = has_strays and jobs.stray_source(keys, types, is_paused, ageing_ms, now)
  if stray and (not line or stray.weight < weight or (stray.weight == weight and stray.turn < line.first_turn())) then
    return stray, 1
  end
  -- With ageing, every job handed out may change which level is next; a stray may have its turn after any.
  return line, (ageing_ms or stray) and 1 or jobs.NO_LIMIT
end

-- Takes up to `wanted` jobs out of their lines. Returns a list of {id, facts, record}, whether more may be there, and
-- the types of those put aside for others.
function jobs.choose_jobs(keys, changes, claim, wanted, ageing_ms, now)
  local worker = claim.worker
  local taken, bytes, examined, is_over = {}, 0, 0, false
  local types = claim.types
  local has_paused, has_limits, has_strays = keys.is_used.paused_types, keys.is_used.limits, keys.is_used.strays
  local paused, suited, strayed = {}, {}, {}
  local function is_paused(type)
    if has_paused and paused[type] == nil then
      paused[type] = redis.call('SISMEMBER', keys.paused_types, type) == 1
    end
    return has_paused and paused[type]
  end
  -- Whether jobs of a type may be handed to this worker.
  local function suits(type)
    if suited[type] == nil then suited[type] = not is_paused(type) and jobs.handles(types, type) end
    return suited[type]
  end

  -- Hands out one job or puts it aside; false if it must stay where it is, and all behind it.
  local function examine(id, facts, record)
    local head = facts.head
    local limit = has_limits and head.key ~= '' and jobs.open_limit(keys, head.key, now)
    if head.expires_ms > 0 and facts.since + head.expires_ms <= now then
      jobs.end_job(keys, changes, id, facts, jobs.DEAD, 'expired', '', now)
    elseif not suits(head.type) then
      jobs.put_aside(keys['stray:'] .. head.type, id, facts)
      redis.call('SADD', keys.strays, head.type)
      jobs.keep_facts(changes, id, facts)
      if not is_paused(head.type) then strayed[head.type] = true end
    elseif limit and jobs.room_in(limit) < 1 then
      jobs.park_job(keys, changes, id, facts, limit, now)
    elseif facts.crashes >= jobs.SUSPECT_FROM and (#taken > 0 or redis.call('HEXISTS', keys.suspects, worker) == 1) then
      is_over = true
      return false
    else
      taken[#taken + 1] = {id, facts, record}
      bytes = bytes + #record
      if limit then limit.used = limit.used + 1 end
      if facts.crashes >= jobs.SUSPECT_FROM then
        redis.call('HSET', keys.suspects, worker, id)
        is_over = true
      end
    end
    return true
  end

  -- What comes next, and all that may happen to it, is looked at before it is touched.
  local function look()
    local source, at_once = jobs.next_source(keys, types, is_paused, has_strays, ageing_ms, now)
    if not source then return {} end
    local entries = source.look(math.min(at_once, wanted - #taken))
    local ids, turns, all = {}, {}, {}
    for index = 1, #entries do ids[index], turns[index] = jobs.open_entry(entries[index]) end
    local texts, records = get_fields(keys.facts, ids), get_fields(keys.jobs, ids)
    for index = 1, #entries do
      local facts, turn = false, turns[index]
      if texts[index] then
        facts = jobs.open_facts(texts[index])
        if facts.state ~= jobs.READY or facts.turn ~= (turn or facts.number) then facts = false end
      elseif records[index] and not turn then
        facts = jobs.facts_of_record(records[index])
      end
      if facts then
        local head = facts.head
        jobs.check_lists(keys, head, jobs.READY, facts.number, wanted)
        if head.expires_ms > 0 then jobs.check_lists(keys, head, jobs.DEAD, facts.number, 0) end
        if not suits(head.type) then redis.call('ZCARD', keys['stray:'] .. head.type) end
        if has_limits and head.key ~= '' then redis.call('ZCARD', keys['parked:'] .. head.key) end
      end
      all[index] = facts
    end
    return {source, entries, ids, all, records}
  end

  while #taken < wanted and bytes < jobs.JOB_BYTES and examined < jobs.EXAMINED_AT_ONCE and not is_over do
    local found = jobs.attempt(claim, look)
    if not found then return taken, true, strayed end
    local source, entries, ids, all, records = unpack(found, 1, 5)
    if not source then return taken, false, strayed end
    if not claim.is_begun then redis.call('DEL', claim.memory) end
    claim.is_begun = true
    local before, rest = #taken, {}
    for index, facts in ipairs(all) do
      local is_left = is_over or bytes >= jobs.JOB_BYTES
      if facts and (is_left or not examine(ids[index], facts, records[index])) then
        table.insert(rest, 1, entries[index])
      end
    end
    examined = examined + math.max(1, #entries)
    source.settle(#entries, #taken - before, rest)
  end
  return taken, true, strayed
end
