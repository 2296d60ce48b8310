-- How many jobs may run at once, and how many may start in a time, for the queue (key '') or for a key that jobs carry.
-- A job that must not start now is parked: taken out of its line until a slot is free or a token is there, so that
-- nobody looks at it in vain. The limit '*' is for every key without one of its own.
jobs.NO_LIMIT = 1e15

jobs.open_limits = {}
function jobs.open_limit(keys, key, now)
  if jobs.open_limits[key] ~= nil then return jobs.open_limits[key] end
  local text = redis.call('HGET', keys.limits, key) or (key ~= '' and redis.call('HGET', keys.limits, '*'))
  local limit = false
  if text then
    local slots, rate, per_ms, burst = string.match(text, '^(%S+) (%S+) (%S+) (%S+)$')
    limit = {key = key, slots = tonumber(slots), rate = tonumber(rate), per_ms = tonumber(per_ms),
      burst = tonumber(burst), free = jobs.NO_LIMIT, tokens = jobs.NO_LIMIT, used = 0}
    if limit.slots > 0 then
      local busy = key == '' and redis.call('HGET', keys.counts, 'uA:') or redis.call('HGET', keys.busy, key)
      limit.free = limit.slots - tonumber(busy or '0')
    end
    if limit.rate > 0 then
      local tokens, at = string.match(redis.call('HGET', keys.buckets, key) or '', '^(%S+) (%S+)$')
      tokens, at = tonumber(tokens or limit.burst), tonumber(at or now)
      limit.tokens = math.min(limit.burst, tokens + math.max(0, now - at) * limit.rate / limit.per_ms)
    end
  end
  jobs.open_limits[key] = limit
  return limit
end

function jobs.room_in(limit)
  return math.floor(math.min(limit.free, limit.tokens + 1e-9) - limit.used)
end

-- When the next token is there, or nil if it is a slot that is missing.
function jobs.next_token_at(limit, now)
  local tokens = limit.tokens - limit.used
  if limit.rate <= 0 or tokens >= 1 then return nil end
  return now + math.max(1, math.ceil((1 - tokens) * limit.per_ms / limit.rate))
end

function jobs.save_limits(keys, now)
  for key, limit in pairs(jobs.open_limits) do
    if limit and limit.rate > 0 and limit.used > 0 then
      redis.call('HSET', keys.buckets, key, string.format('%.9f %.0f', limit.tokens - limit.used, now))
    end
  end
end

function jobs.park_job(keys, changes, id, facts, limit, now)
  redis.call('RPUSH', keys['parked:'] .. limit.key, jobs.entry_of(id, facts))
  jobs.keep_facts(changes, id, facts)
  local at = jobs.next_token_at(limit, now)
  redis.call('ZADD', keys.unparks, at and whole(at) or '+inf', limit.key) -- without a time, it waits for a slot
end

jobs.UNPARKED_AT_ONCE = 100

-- Puts parked jobs of a key back in line, as many as may start now. Returns how many.
function jobs.unpark_key(keys, key, now)
  local parked = keys['parked:'] .. key
  local waiting = redis.call('LLEN', parked)
  if waiting == 0 then
    redis.call('ZREM', keys.unparks, key)
    return 0
  end
  local limit = jobs.open_limit(keys, key, now)
  local room = limit and jobs.room_in(limit) or jobs.NO_LIMIT
  local wanted = math.min(room, waiting, jobs.UNPARKED_AT_ONCE)
  local items = {}
  if wanted > 0 then
    local entries, ids = redis.call('LPOP', parked, wanted), {}
    for index, entry in ipairs(entries) do ids[index] = jobs.open_entry(entry) end
    local texts = get_fields(keys.facts, ids)
    for index, entry in ipairs(entries) do
      local facts = texts[index] and jobs.open_facts(texts[index])
      if facts and facts.state == jobs.READY and jobs.entry_of(ids[index], facts) == entry then
        items[#items + 1] = {ids[index], facts}
      end
    end
    if #items > 0 then jobs.return_to_lines(keys, items) end
  end
  local at
  if waiting > wanted then
    at = wanted == jobs.UNPARKED_AT_ONCE and now or (limit and jobs.next_token_at(limit, now))
    -- Of those put back, as many may start as there are tokens; the rest waits for the token after.
    if not at and limit and limit.rate > 0 then at = now + math.ceil(limit.per_ms / limit.rate) end
  end
  if waiting > wanted then
    redis.call('ZADD', keys.unparks, at and whole(at) or '+inf', key)
  else
    redis.call('ZREM', keys.unparks, key)
  end
  return #items
end

function jobs.unpark_due(keys, now)
  if not keys.is_used.unparks then return end
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', keys.unparks, '-inf', whole(now), 'LIMIT', 0, 16)) do
    jobs.unpark_key(keys, key, now)
  end
end
