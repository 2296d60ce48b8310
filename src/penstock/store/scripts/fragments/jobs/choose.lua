-- Which jobs a worker is handed: of the most urgent level, from the tenant whose turn it is, the oldest first. What
-- must not start now (its type is paused, a limit is reached) is put aside on the way, so that no other start meets
-- it.
lib.EXAMINED_AT_ONCE = 1000 -- a script must not take long, however much there is to be put aside
lib.JOBS_AT_ONCE = 32
-- A worker that asks for many jobs gets some of each tenant at a time, as if each tenant had so many turns a request.
lib.TURNS_A_REQUEST = 12
lib.JOB_BYTES = 4194304
lib.PROMOTED_AT_ONCE = 25

-- Sets a job aside, and tells the worker that asks.
-- seldom
function lib.note_damaged(keys, changes, claim, id, place, now)
  if lib.set_aside(keys, changes, id, place, now) then claim.damaged[#claim.damaged + 1] = id end
end

-- seldom
function lib.promote_jobs(keys, changes, claim, ids, now)
  local texts, all = lib.get_fields(keys.facts, ids), {}
  for index, text in ipairs(texts) do all[index] = text and lib.facts_in(text) end
  lib.check_moves(keys, all, lib.READY)
  lib.call_in_chunks('ZREM', keys.due, ids)
  local turn, items = lib.next_turns(keys, #ids), {}
  for index, id in ipairs(ids) do
    local facts = all[index]
    if texts[index] and not facts then lib.note_damaged(keys, changes, claim, id, 'due', now) end
    if facts and facts.state == lib.SCHEDULED then
      if turn then facts.turn = turn + index end
      facts.since = math.min(facts.since, now)
      lib.move_job(changes, id, facts, lib.READY, now)
      lib.free_unique(keys, id, facts, lib.UNIQUE_SCHEDULED)
      lib.keep_facts(changes, id, facts)
      lib.add_event(keys, changes, 'promoted', id, facts)
      items[#items + 1] = {id, facts}
    end
  end
  lib.send_to_lines(keys, items)
  return #items
end

function lib.promote_due(keys, changes, claim, now)
  if not keys.is_used.due then return 0 end
  local ids = redis.call('ZRANGEBYSCORE', keys.due, '-inf', lib.whole(now), 'LIMIT', 0, lib.PROMOTED_AT_ONCE)
  if #ids == 0 then return 0 end
  local promoted = lib.try_step(claim, lib.promote_jobs, keys, changes, claim, ids, now)
  claim.is_begun = true
  return promoted or 0
end

-- The facts of a job that is ready, from its entry; nil if the entry is out of date.
-- seldom
function lib.facts_of_entry(keys, entry)
  if not entry then return nil end
  local id, turn = lib.open_entry(entry)
  local facts = lib.read_facts(keys, {id})[1]
  if not facts or facts.state ~= lib.READY or facts.turn ~= (turn or facts.number) then return nil end
  return facts
end

-- With ageing, a job counts as one step more urgent for every `ageing_ms` that it has waited. An entry that is out of
-- date counts as the most urgent of all, so that it is dropped soon.
function lib.weight_of(keys, priority, entry, ageing_ms, now)
  if not ageing_ms then return tonumber(priority) or 0 end
  local facts = lib.facts_of_entry(keys, entry)
  local waited = facts and now - facts.since or lib.NO_LIMIT
  return (tonumber(priority) or 0) - math.floor(waited / ageing_ms)
end

-- The most urgent level, and its weight: that of its first job.
lib.LEVELS_WEIGHED = 64

function lib.most_urgent(keys, ageing_ms, now)
  local levels = redis.call('ZRANGE', keys.levels, 0, ageing_ms and lib.LEVELS_WEIGHED - 1 or 0)
  if not ageing_ms then return levels[1], tonumber(levels[1]) or 0 end
  local best, best_weight
  for _, priority in ipairs(levels) do
    local tenant = redis.call('ZRANGE', keys['ring:'] .. priority, 0, 0)[1]
    local entry = tenant and redis.call('LINDEX', keys['line:'] .. priority .. ':' .. tenant, 0)
    local weight = lib.weight_of(keys, priority, entry, ageing_ms, now)
    if not best or weight < best_weight then best, best_weight = priority, weight end
  end
  return best, best_weight
end

-- The tenants that are next at a priority, read together. As many turns are theirs, since each turn lets at most one
-- of them fall back behind those that were not read. What changes is written when these turns are over.
lib.TENANTS_AT_ONCE = 32

function lib.open_ring(keys, priority)
  local key = keys['ring:'] .. priority
  local found = redis.call('ZRANGE', key, 0, lib.TENANTS_AT_ONCE - 1, 'WITHSCORES')
  local tenants, places, shares = {}, {}, {}
  for index = 1, #found / 2 do tenants[index], places[index] = found[2 * index - 1], tonumber(found[2 * index]) end
  if #tenants > 1 and keys.is_used.shares then
    local found_shares = lib.get_fields(keys.shares, tenants)
    for index, share in ipairs(found_shares) do shares[tenants[index]] = lib.positive(share) end
  end
  local is_whole = #tenants < lib.TENANTS_AT_ONCE
  return {key = key, priority = priority, tenants = tenants, places = places, shares = shares, is_whole = is_whole,
    turns = is_whole and lib.NO_LIMIT or lib.TENANTS_AT_ONCE, moved = {}, gone = {}}
end

-- What is no number, or not above 0, is as if it were not there.
-- seldom
function lib.positive(stored)
  local number = tonumber(stored)
  return number and number > 0 and number or nil
end

function lib.has_one_tenant(ring) return ring.is_whole and #ring.tenants == 1 end

-- The tenant that is first has had a turn; `is_left` says whether its line goes on.
function lib.end_turn(ring, taken, is_left)
  local tenants, places = ring.tenants, ring.places
  local tenant = tenants[1]
  ring.turns = ring.turns - 1
  if not is_left then
    ring.gone[#ring.gone + 1] = tenant
    ring.moved[tenant] = nil
    table.remove(tenants, 1)
    table.remove(places, 1)
  elseif taken > 0 and not lib.has_one_tenant(ring) then
    local at, place = 1, places[1] + taken / (ring.shares[tenant] or 1)
    while tenants[at + 1] and (places[at + 1] < place or (places[at + 1] == place and tenants[at + 1] < tenant)) do
      tenants[at], places[at] = tenants[at + 1], places[at + 1]
      at = at + 1
    end
    tenants[at], places[at], ring.moved[tenant] = tenant, place, place
  end
end

function lib.close_ring(keys, ring)
  local scores = {}
  for tenant, place in pairs(ring.moved) do
    local size = #scores
    scores[size + 1], scores[size + 2] = string.format('%.17g', place), tenant
  end
  lib.call_in_chunks('ZADD', ring.key, scores)
  lib.call_in_chunks('ZREM', ring.key, ring.gone)
  if #ring.tenants == 0 and redis.call('EXISTS', ring.key) == 0 then redis.call('ZREM', keys.levels, ring.priority) end
end

-- A source of entries: a line whose turn it is, or the unhandled jobs of a type. `look` says what comes next; `settle`
-- takes it away but for the rest, and is told how many were handed out.
function lib.line_source(keys, ring, turn_jobs)
  local key = keys['line:'] .. ring.priority .. ':' .. ring.tenants[1]
  local most = lib.has_one_tenant(ring) and lib.JOBS_AT_ONCE or turn_jobs
  local is_left = false
  return {
    first_turn = function()
      local facts = lib.facts_of_entry(keys, redis.call('LINDEX', key, 0))
      return facts and facts.turn or 0
    end,
    look = function(wanted)
      wanted = math.min(wanted, most)
      local entries = redis.call('LRANGE', key, 0, wanted) -- one more, to know whether there is one
      is_left = #entries > wanted
      entries[wanted + 1] = nil
      return entries
    end,
    settle = function(seen, taken, rest)
      redis.call('LTRIM', key, seen, -1)
      lib.call_in_chunks('LPUSH', key, rest)
      lib.end_turn(ring, taken, is_left or #rest > 0)
    end,
  }
end

-- Unhandled jobs are those that came up when a worker asked that does not handle their type, or while it was paused.
-- They are taken one by one, as each may change which is next.
-- seldom
function lib.unhandled_source(keys, types, is_paused, ageing_ms, now)
  local best
  for _, type in ipairs(redis.call('SMEMBERS', keys.unhandled_types)) do
    if lib.handles(types, type) and not is_paused(type) then
      local key = keys['unhandled:'] .. type
      local member, priority = unpack(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES'))
      local entry, turn = lib.open_aside(member or '')
      local weight = lib.weight_of(keys, priority, entry, ageing_ms, now)
      local is_next = not best or weight < best.weight or (weight == best.weight and turn < best.turn)
      if member and is_next then
        best = {
          weight = weight,
          turn = turn,
          look = function() return {entry} end,
          settle = function(_, _, rest)
            if #rest == 0 then redis.call('ZREM', key, member) end
            if redis.call('EXISTS', key) == 0 then redis.call('SREM', keys.unhandled_types, type) end
          end,
        }
      end
    end
  end
  return best
end

lib.NO_ENTRIES = {look = function() return {} end, settle = function() end}

-- The next source, or nil if nothing can be handed to this worker, and how many entries it may give at once. `ring` is
-- the one that the last came from, if it has turns left.
function lib.next_source(keys, ring, types, is_paused, has_unhandled, ageing_ms, turn_jobs, now)
  local priority, weight
  if not ring then
    priority, weight = lib.most_urgent(keys, ageing_ms, now)
    ring = priority and lib.open_ring(keys, priority)
  end
  -- A level without tenants is taken off when the ring is closed.
  if ring and #ring.tenants == 0 then return lib.NO_ENTRIES, 1, ring end
  local line = ring and lib.line_source(keys, ring, turn_jobs)
  local unhandled = has_unhandled and lib.unhandled_source(keys, types, is_paused, ageing_ms, now)
  if unhandled and (not line or unhandled.weight < weight or
      (unhandled.weight == weight and unhandled.turn < line.first_turn())) then
    return unhandled, 1
  end
  -- With ageing, every job handed out may change which level is next; an unhandled job may have its turn after any.
  return line, (ageing_ms or unhandled) and 1 or lib.NO_LIMIT, ring
end

-- Takes up to `wanted` jobs out of their lines. Returns a list of {id, facts, record}, whether more may be there, and
-- the types of those put aside for others.
function lib.choose_jobs(keys, changes, claim, wanted, ageing_ms, now)
  local worker = claim.worker
  local taken, bytes, examined, is_over, ring = {}, 0, 0, false, nil
  local turn_jobs = math.max(1, math.floor(wanted / lib.TURNS_A_REQUEST))
  local types = claim.types
  local is_used = keys.is_used
  local has_paused, has_limits, has_unhandled = is_used.paused_types, is_used.limits, is_used.unhandled_types
  local looks_anew = ageing_ms or has_unhandled
  local paused, suited, unhandled_now = {}, {}, {}
  local function is_paused(type)
    if has_paused and paused[type] == nil then
      paused[type] = redis.call('SISMEMBER', keys.paused_types, type) == 1
    end
    return has_paused and paused[type]
  end
  -- Whether jobs of a type may be handed to this worker.
  local function suits(type)
    if suited[type] == nil then suited[type] = not is_paused(type) and lib.handles(types, type) end
    return suited[type]
  end

  -- Hands out one job or puts it aside; false if it must stay where it is, and all behind it.
  local function examine(id, facts, record)
    local head = facts.head
    local limit = has_limits and head.key ~= '' and lib.open_limit(keys, head.key, now)
    if head.expires_ms > 0 and facts.since + head.expires_ms <= now then
      lib.record_ending(changes, id, facts, 'expired', lib.DEAD, now)
      lib.end_job(keys, changes, id, facts, lib.DEAD, 'expired', '', now)
    elseif not suits(head.type) then
      lib.put_aside(keys['unhandled:'] .. head.type, id, facts)
      redis.call('SADD', keys.unhandled_types, head.type)
      lib.keep_facts(changes, id, facts)
      if not is_paused(head.type) then unhandled_now[head.type] = true end
    elseif limit and lib.room_in(limit) < 1 then
      lib.park_job(keys, changes, id, facts, limit, now)
    elseif lib.is_suspect(facts) and (#taken > 0 or redis.call('HEXISTS', keys.suspects, worker) == 1) then
      is_over = true
      return false
    else
      taken[#taken + 1] = {id, facts, record}
      bytes = bytes + #record
      if limit then limit.used = limit.used + 1 end
      if lib.is_suspect(facts) then
        redis.call('HSET', keys.suspects, worker, id)
        is_over = true
      end
    end
    return true
  end

  -- What comes next, and all that may happen to it, is looked at before it is touched.
  local function look()
    local source, at_once, opened =
      lib.next_source(keys, ring, types, is_paused, has_unhandled, ageing_ms, turn_jobs, now)
    if not source then return {} end
    local entries = source.look(math.min(at_once, wanted - #taken))
    local ids, turns, all, damaged = {}, {}, {}, {}
    for index = 1, #entries do ids[index], turns[index] = lib.open_entry(entries[index]) end
    local texts, records = lib.get_fields(keys.facts, ids), lib.get_fields(keys.jobs, ids)
    for index = 1, #entries do
      local facts, turn = false, turns[index]
      if texts[index] then
        facts = lib.facts_in(texts[index])
        damaged[index] = not facts
        if facts and (facts.state ~= lib.READY or facts.turn ~= (turn or facts.number)) then
          facts = false
        elseif facts and not (records[index] and lib.is_record_of(records[index], facts)) then
          facts, damaged[index] = false, true
        end
      elseif records[index] and not turn then
        facts = lib.facts_in_record(records[index])
        damaged[index] = not facts
      end
      if facts then
        local head = facts.head
        lib.check_lists(keys, head, lib.READY, facts.number, wanted)
        if head.expires_ms > 0 then
          lib.check_lists(keys, head, lib.DEAD, facts.number, 0)
          redis.call('XLEN', keys.history)
        end
        if not suits(head.type) then redis.call('ZCARD', keys['unhandled:'] .. head.type) end
        if has_limits and head.key ~= '' then redis.call('ZCARD', keys['parked:'] .. head.key) end
      end
      all[index] = facts
    end
    return {source, entries, ids, all, records, opened, damaged}
  end

  while #taken < wanted and bytes < lib.JOB_BYTES and examined < lib.EXAMINED_AT_ONCE and not is_over do
    local found = lib.try_step(claim, look)
    if not found or not found[1] then
      if ring then lib.close_ring(keys, ring) end
      return taken, not found, unhandled_now
    end
    local source, entries, ids, all, records = unpack(found, 1, 5)
    ring = found[6]
    local damaged = found[7]
    if not claim.is_begun then redis.call('DEL', claim.memory) end
    claim.is_begun = true
    local before, rest = #taken, {}
    for index, facts in ipairs(all) do
      local is_left = is_over or bytes >= lib.JOB_BYTES
      if damaged[index] then lib.note_damaged(keys, changes, claim, ids[index], 'line', now) end
      if facts and (is_left or not examine(ids[index], facts, records[index])) then
        table.insert(rest, 1, entries[index])
      end
    end
    examined = examined + math.max(1, #entries)
    source.settle(#entries, #taken - before, rest)
    if ring and (looks_anew or ring.turns == 0 or #ring.tenants == 0) then
      lib.close_ring(keys, ring)
      ring = nil
    end
  end
  if ring then lib.close_ring(keys, ring) end
  return taken, true, unhandled_now
end
