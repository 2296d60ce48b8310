-- How many jobs may run at once, and how many may start in a time, for the queue (key '') or for a key that jobs
-- carry. A job that must not start now is parked: taken out of its line until a slot is free or a token is there, so
-- that no start meets it again and again. The limit '*' is for every key without one of its own.
lib.NO_LIMIT = 1e15

lib.open_limits = {}
-- seldom
function lib.open_limit(keys, key, now)
  if lib.open_limits[key] ~= nil then return lib.open_limits[key] end
  local text = redis.call('HGET', keys.limits, key) or (key ~= '' and redis.call('HGET', keys.limits, '*'))
  local limit = false
  if text then
    local slots, rate, per_ms, burst = string.match(text, '^(%S+) (%S+) (%S+) (%S+)$')
    slots, rate, per_ms, burst = tonumber(slots), tonumber(rate), tonumber(per_ms), tonumber(burst)
    -- What is no limit holds nothing back; it is left for fsck to find. A rate needs a time in which it is given.
    local is_limit = slots and rate and per_ms and burst and (rate <= 0 or per_ms > 0)
    limit = is_limit and {key = key, slots = slots, rate = rate, per_ms = per_ms, burst = burst, free = lib.NO_LIMIT,
      tokens = lib.NO_LIMIT, used = 0}
    if limit and limit.slots > 0 then
      local busy = key == '' and redis.call('HGET', keys.meta, 'uA:') or redis.call('HGET', keys.busy, key)
      limit.free = limit.slots - (tonumber(busy or '0') or 0)
    end
    if limit and limit.rate > 0 then
      local tokens, at = string.match(redis.call('HGET', keys.buckets, key) or '', '^(%S+) (%S+)$')
      tokens, at = tonumber(tokens) or limit.burst, tonumber(at) or now
      limit.tokens = math.min(limit.burst, tokens + math.max(0, now - at) * limit.rate / limit.per_ms)
    end
  end
  lib.open_limits[key] = limit
  return limit
end

-- seldom
function lib.room_in(limit)
  return math.floor(math.min(limit.free, limit.tokens + 1e-9) - limit.used)
end

-- When the next token is there, or nil if it is a slot that is missing.
-- seldom
function lib.next_token_at(limit, now)
  local tokens = limit.tokens - limit.used
  if limit.rate <= 0 or tokens >= 1 then return nil end
  return now + math.max(1, math.ceil((1 - tokens) * limit.per_ms / limit.rate))
end

-- A bucket that is full again, or of a limit that was lifted, is not needed. With every request that writes some, a
-- few more are looked at, so that they do not become as many as there ever were keys.
-- seldom
function lib.save_limits(keys, now)
  local written = 0
  for key, limit in pairs(lib.open_limits) do
    if limit and limit.rate > 0 and limit.used > 0 then
      redis.call('HSET', keys.buckets, key, string.format('%.9f %.0f', limit.tokens - limit.used, now))
      written = written + 1
    end
  end
  if written == 0 then return end
  for _, key in ipairs(redis.call('HRANDFIELD', keys.buckets, 2 * written)) do
    local limit = lib.open_limit(keys, key, now)
    local is_full = not limit or limit.rate <= 0 or limit.tokens - limit.used >= limit.burst
    if is_full then redis.call('HDEL', keys.buckets, key) end
  end
end

-- seldom
function lib.park_job(keys, changes, id, facts, limit, now)
  lib.put_aside(keys['parked:'] .. limit.key, id, facts)
  lib.keep_facts(changes, id, facts)
  local at = lib.next_token_at(limit, now)
  redis.call('ZADD', keys.unparks, at and lib.whole(at) or '+inf', limit.key) -- without a time, it waits for a slot
  keys.is_used.unparks = true
end

lib.UNPARKED_AT_ONCE = 100
-- What was put back may not start after all, as when it has expired or no worker handles it; then another is tried.
lib.LOOK_AGAIN_MS = 1000

-- Puts parked jobs of a key back in line, as many as may start now. Returns how many.
-- seldom
function lib.unpark_key(keys, key, now)
  local parked = keys['parked:'] .. key
  if redis.call('EXISTS', parked) == 0 then
    redis.call('ZREM', keys.unparks, key)
    return 0
  end
  local limit = lib.open_limit(keys, key, now)
  local room = limit and lib.room_in(limit) or lib.NO_LIMIT
  local items, members, examined = {}, {}, 0
  while #items < room and examined < lib.UNPARKED_AT_ONCE do
    local wanted = math.min(room - #items, lib.UNPARKED_AT_ONCE - examined)
    local found = redis.call('ZRANGE', parked, examined, examined + wanted - 1)
    if #found == 0 then break end
    local ids, turns = {}, {}
    for index, member in ipairs(found) do
      local entry, turn = lib.open_aside(member)
      ids[index], turns[index] = lib.open_entry(entry), turn
      members[#members + 1] = member
    end
    for index, text in ipairs(lib.get_fields(keys.facts, ids)) do
      local facts = text and lib.facts_in(text)
      if facts and facts.state == lib.READY and facts.turn == turns[index] then
        items[#items + 1] = {ids[index], facts}
      end
    end
    examined = examined + #ids
  end
  for _, item in ipairs(items) do lib.check_line(keys, item[2].head.line) end
  redis.call('ZREM', keys.unparks, key)
  lib.call_in_chunks('ZREM', parked, members)
  if #items > 0 then lib.return_to_lines(keys, items) end
  if redis.call('EXISTS', parked) == 0 then return #items end
  -- The jobs put back will use up the tokens; the rest waits for the next one.
  local tokens = limit and limit.tokens - limit.used - #items
  local at
  if examined == lib.UNPARKED_AT_ONCE then
    at = now
  elseif limit and limit.rate > 0 and tokens < 1 then
    at = now + math.max(1, math.ceil((1 - tokens) * limit.per_ms / limit.rate))
  elseif #items > 0 then
    at = now + lib.LOOK_AGAIN_MS
  end
  redis.call('ZADD', keys.unparks, at and lib.whole(at) or '+inf', key)
  return #items
end

function lib.unpark_due(keys, claim, now)
  if not keys.is_used.unparks then return end
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', keys.unparks, '-inf', lib.whole(now), 'LIMIT', 0, 16)) do
    lib.try_step(claim, lib.unpark_key, keys, key, now)
    claim.is_begun = true
  end
end
