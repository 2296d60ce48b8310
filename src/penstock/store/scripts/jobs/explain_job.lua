-- Gather everything that can keep a job from running, at one instant.
--
-- KEYS[1] meta   hash  settings and counters; its tag names all other keys of the queue
-- ARGV[1] id     int
-- ARGV[2] depth  int   how many jobs before it in its line are counted at most
--
-- Returns {'ok', now, facts, name, value, ...}   what was found, by name
--         {'absent'}            there is no such job
--         {'newer', layout}     the queue was written by a newer version
-- include clock chunks job_keys types records lines limits choose job_queue
local keys = jobs.keys_beside(KEYS[1])
local id, depth = ARGV[1], tonumber(ARGV[2])

local refusal = jobs.refuse_newer(keys)
if refusal then return refusal end
local facts = jobs.read_facts(keys, {id})[1]
if not facts then return {'absent'} end
local now, head = now_ms(), facts.head
local reply = {'ok', whole(now), jobs.pack_facts(facts)}
local function say(name, value)
  reply[#reply + 1] = name
  reply[#reply + 1] = value
end

say('paused', redis.call('HGET', keys.meta, 'paused') and 1 or 0)
say('type_paused', redis.call('SISMEMBER', keys.paused_types, head.type))
say('running', tonumber(redis.call('HGET', keys.meta, 'uA:') or '0'))
local handlers, workers = {}, redis.call('HGETALL', keys.types)
for index = 1, #workers, 2 do
  if handles(workers[index + 1], head.type) then handlers[#handlers + 1] = workers[index] end
end
say('workers', #workers / 2)
say('handlers', table.concat(handlers, ' '))
local waits = facts.state == jobs.READY or facts.state == jobs.SCHEDULED
if waits and head.expires_ms > 0 and facts.since + head.expires_ms <= now then
  say('expired_at', whole(facts.since + head.expires_ms))
end
if facts.state == jobs.READY then
  local ahead = 0
  for _, priority in ipairs(redis.call('ZRANGEBYSCORE', keys.levels, '-inf', '(' .. whole(head.priority), 'LIMIT', 0, 1000)) do
    for _, tenant in ipairs(redis.call('ZRANGE', keys['ring:'] .. priority, 0, 999)) do
      ahead = ahead + redis.call('LLEN', keys['line:'] .. priority .. ':' .. tenant)
    end
  end
  say('more_urgent', ahead)
  local aside = jobs.aside_of(id, facts)
  local is_aside = redis.call('ZSCORE', keys['stray:'] .. head.type, aside) or redis.call('ZSCORE', keys['parked:'] .. head.key, aside)
  -- Whoever is put aside is not in line: what stands there does not hold it back.
  local at = is_aside and 0 or redis.call('LPOS', keys['line:'] .. head.line, jobs.entry_of(id, facts), 'MAXLEN', depth + 1)
  say('ahead_in_line', at or -1)
  say('tenants', redis.call('ZCARD', keys['ring:'] .. whole(head.priority)))
  say('share', tonumber(redis.call('HGET', keys.shares, head.tenant) or '1'))
  for _, key in ipairs({'', head.key}) do
    local limit = (key ~= '' or head.key == '') and jobs.open_limit(keys, key, now) or (key == '' and jobs.open_limit(keys, '', now))
    if limit and jobs.room_in(limit) < 1 then
      say('limit', key)
      say('limit_slots', limit.slots)
      say('limit_free', limit.slots > 0 and whole(limit.free) or '')
      say('limit_until', jobs.next_token_at(limit, now) and whole(jobs.next_token_at(limit, now)) or '')
    end
  end
end
return reply
