-- Which jobs a worker is handed: of the most urgent level, from the tenant whose turn it is, the oldest first. What must
-- not start now (its type is paused, a limit is reached) is put aside on the way, so nobody meets it twice.
local EXAMINED_AT_ONCE = 1000 -- a script must not take long, however much there is to be put aside
local JOBS_AT_ONCE = 32
local JOB_BYTES = 4 * 1024 * 1024
-- A job whose worker has died under it may be what kills the workers. From the second time on it is handed out alone.
local SUSPECT_FROM = 2
local PROMOTED_AT_ONCE = 200

local function promote_jobs(keys, changes, ids, now)
  local texts = get_fields(keys.facts, ids)
  call_in_chunks('ZREM', keys.due, ids)
  local turn, items = next_turns(keys, #ids), {}
  for index, id in ipairs(ids) do
    local facts = texts[index] and open_facts(texts[index])
    if facts and facts.state == SCHEDULED then
      facts.turn = turn + index
      facts.since = math.min(facts.since, now)
      move_job(changes, id, facts, READY, now)
      free_unique(keys, id, facts, UNIQUE_SCHEDULED)
      keep_facts(changes, id, facts)
      tell(keys, changes, 'promoted', id, facts)
      items[#items + 1] = {id, facts}
    end
  end
  send_to_lines(keys, items)
  return #items
end

local function promote_due(keys, changes, now)
  if not keys.is_used.due then return 0 end
  local ids = redis.call('ZRANGEBYSCORE', keys.due, '-inf', whole(now), 'LIMIT', 0, PROMOTED_AT_ONCE)
  return #ids > 0 and promote_jobs(keys, changes, ids, now) or 0
end

local function handles(types, type)
  return types == '*' or string.find(types, '\0' .. type .. '\0', 1, true) ~= nil
end

-- With ageing, a level counts as one step more urgent for every `ageing_ms` that its first job has waited.
local LEVELS_WEIGHED = 64

local function most_urgent(keys, ageing_ms, now)
  local levels = redis.call('ZRANGE', keys.levels, 0, ageing_ms and LEVELS_WEIGHED - 1 or 0)
  if not ageing_ms or #levels < 2 then return levels[1] end
  local best, best_weight
  for _, priority in ipairs(levels) do
    local tenant = redis.call('LINDEX', keys['ring:'] .. priority, 0)
    local entry = redis.call('LINDEX', keys['line:'] .. priority .. ':' .. tenant, 0)
    local facts = read_facts(keys, {(open_entry(entry))})[1]
    local waited = facts and now - facts.since or NO_LIMIT
    local weight = tonumber(priority) - math.floor(waited / ageing_ms)
    if not best or weight < best_weight then best, best_weight = priority, weight end
  end
  return best
end

-- A source of entries: a line whose turn it is, or the strays of a type. `take` pops some, `settle` says how many of
-- them were handed out and brings back the rest.
local function line_source(keys, priority)
  local ring = keys['ring:'] .. priority
  local tenants = redis.call('LLEN', ring)
  local tenant = redis.call('LINDEX', ring, 0)
  local key = keys['line:'] .. priority .. ':' .. tenant
  local credit_field = priority .. ':' .. tenant
  local credit = NO_LIMIT
  if tenants > 1 then
    credit = tonumber(redis.call('HGET', keys.credits, credit_field) or redis.call('HGET', keys.shares, tenant) or '1')
  end
  return {
    priority = tonumber(priority),
    take = function(wanted) return redis.call('LPOP', key, math.min(wanted, credit, JOBS_AT_ONCE)) or {} end,
    settle = function(taken, rest)
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

-- Strays are jobs that came up when a worker asked that does not handle their type, or while it was paused.
local function stray_source(keys, types, is_paused)
  local best
  for _, type in ipairs(redis.call('SMEMBERS', keys.strays)) do
    local key = keys['stray:'] .. type
    if handles(types, type) and not is_paused(type) then
      local entry = redis.call('LINDEX', key, 0)
      local facts = entry and read_facts(keys, {(open_entry(entry))})[1]
      local priority = facts and facts.head.priority or -NO_LIMIT
      if not best or priority < best.priority then
        best = {
          priority = priority,
          take = function(wanted) return redis.call('LPOP', key, math.min(wanted, JOBS_AT_ONCE)) or {} end,
          settle = function(_, rest)
            call_in_chunks('LPUSH', key, rest)
            if redis.call('EXISTS', key) == 0 then redis.call('SREM', keys.strays, type) end
          end,
        }
      end
    end
  end
  return best
end

-- The next source, or nil if nothing can be handed to this worker.
local function next_source(keys, types, is_paused, has_strays, ageing_ms, now)
  local priority = most_urgent(keys, ageing_ms, now)
  local stray = has_strays and stray_source(keys, types, is_paused)
  if stray and (not priority or stray.priority <= tonumber(priority)) then return stray end
  return priority and line_source(keys, priority)
end

-- Takes up to `wanted` jobs out of their lines. Returns a list of {id, facts, record}, whether more may be there, and
-- the types of those put aside for others.
local function choose_jobs(keys, changes, worker, wanted, ageing_ms, now)
  local taken, bytes, examined, is_over = {}, 0, 0, false
  local types = redis.call('HGET', keys.types, worker) or ''
  local has_paused, has_limits, has_strays = keys.is_used.paused_types, keys.is_used.limits, keys.is_used.strays
  local paused, strayed = {}, {}
  local function is_paused(type)
    if has_paused and paused[type] == nil then
      paused[type] = redis.call('SISMEMBER', keys.paused_types, type) == 1
    end
    return has_paused and paused[type]
  end

  -- Hands out one job or puts it aside; false if it must stay where it is, and all behind it.
  local function examine(id, facts, record)
    local head = facts.head
    local limit = has_limits and head.key ~= '' and open_limit(keys, head.key, now)
    if head.expires_ms > 0 and facts.created + head.expires_ms <= now then
      end_job(keys, changes, id, facts, DEAD, 'expired', '', now)
    elseif is_paused(head.type) or not handles(types, head.type) then
      redis.call('RPUSH', keys['stray:'] .. head.type, entry_of(id, facts))
      redis.call('SADD', keys.strays, head.type)
      keep_facts(changes, id, facts)
      if not is_paused(head.type) then strayed[head.type] = true end
    elseif limit and room_in(limit) < 1 then
      park_job(keys, changes, id, facts, limit, now)
    elseif facts.crashes >= SUSPECT_FROM and (#taken > 0 or redis.call('HEXISTS', keys.suspects, worker) == 1) then
      is_over = true
      return false
    else
      taken[#taken + 1] = {id, facts, record}
      bytes = bytes + #record
      if limit then limit.used = limit.used + 1 end
      if facts.crashes >= SUSPECT_FROM then
        redis.call('HSET', keys.suspects, worker, id)
        is_over = true
      end
    end
    return true
  end

  while #taken < wanted and bytes < JOB_BYTES and examined < EXAMINED_AT_ONCE and not is_over do
    local source = next_source(keys, types, is_paused, has_strays, ageing_ms, now)
    if not source then return taken, false, strayed end
    -- With ageing, every job handed out may change which level is next.
    local entries = source.take(ageing_ms and 1 or wanted - #taken)
    local before, ids, rest = #taken, {}, {}
    for index = 1, #entries do ids[index] = open_entry(entries[index]) end
    local texts, records = get_fields(keys.facts, ids), get_fields(keys.jobs, ids)
    for index = 1, #entries do
      local _, turn = open_entry(entries[index])
      local facts
      if texts[index] then
        facts = open_facts(texts[index])
        if facts.state ~= READY or facts.turn ~= (turn or facts.number) then facts = nil end
      elseif records[index] and not turn then
        facts = facts_of_record(records[index])
      end
      local is_left = is_over or bytes >= JOB_BYTES
      if facts and (is_left or not examine(ids[index], facts, records[index])) then
        table.insert(rest, 1, entries[index])
      end
    end
    examined = examined + math.max(1, #entries)
    source.settle(#taken - before, rest)
  end
  return taken, true, strayed
end
