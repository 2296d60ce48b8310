-- Gather everything that can keep a job from running, at one instant.
--
-- KEYS[1] meta   hash  settings and counters; its tag names all other keys of the queue
-- ARGV[1] id     int
-- ARGV[2] depth  int   how many jobs before it in its line are counted at most
--
-- Returns {'ok', now, facts, name, value, ...}   what was found, by name
--         {'absent'}            there is no such job
--         {'other_layout', layout}     the queue was written by another version
-- include clock chunks model forms
-- include from jobs: keys types records lines limits
local keys = lib.keys_beside(KEYS[1])
local id, depth = ARGV[1], tonumber(ARGV[2])

local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local facts = lib.read_facts(keys, {id})[1]
if not facts then return {'absent'} end
local now, head = lib.now_ms(), facts.head
local reply = {'ok', lib.whole(now), lib.pack_facts(facts)}
local function say(name, value)
  reply[#reply + 1] = name
  reply[#reply + 1] = value
end

say('paused', redis.call('HGET', keys.meta, 'paused') and 1 or 0)
say('type_paused', redis.call('SISMEMBER', keys.paused_types, head.type))
say('running', tonumber(redis.call('HGET', keys.meta, 'uA:') or '0') or 0)
local handlers, workers = {}, redis.call('HGETALL', keys.types)
for index = 1, #workers, 2 do
  if lib.handles(workers[index + 1], head.type) then handlers[#handlers + 1] = workers[index] end
end
say('workers', #workers / 2)
say('handlers', table.concat(handlers, ' '))
local waits = facts.state == lib.READY or facts.state == lib.SCHEDULED
if waits and head.expires_ms > 0 and facts.since + head.expires_ms <= now then
  say('expired_at', lib.whole(facts.since + head.expires_ms))
end
if facts.state == lib.READY then
  local ahead = 0
  local below = '(' .. lib.whole(head.priority)
  for _, priority in ipairs(redis.call('ZRANGEBYSCORE', keys.levels, '-inf', below, 'LIMIT', 0, 1000)) do
    for _, tenant in ipairs(redis.call('ZRANGE', keys['ring:'] .. priority, 0, 999)) do
      ahead = ahead + redis.call('LLEN', keys['line:'] .. priority .. ':' .. tenant)
    end
  end
  say('more_urgent', ahead)
  local aside = lib.aside_of(id, facts)
  -- How many were put aside before it, whether it is there too or would be; and whether it is.
  local function aside_before(key)
    local low = redis.call('ZCOUNT', key, '-inf', '(' .. lib.whole(head.priority))
    local high = redis.call('ZCOUNT', key, '-inf', lib.whole(head.priority))
    while low < high do
      local middle = math.floor((low + high) / 2)
      if redis.call('ZRANGE', key, middle, middle)[1] < aside then low = middle + 1 else high = middle end
    end
    return low, redis.call('ZSCORE', key, aside)
  end
  local parked, is_parked = aside_before(keys['parked:'] .. head.key)
  local unhandled, is_unhandled = aside_before(keys['unhandled:'] .. head.type)
  say('parked_before', parked)
  say('aside_before', parked + unhandled)
  -- A job that was put aside is not in line: the jobs there do not hold it back.
  local is_aside = is_parked or is_unhandled
  local line, entry = keys['line:'] .. head.line, lib.entry_of(id, facts)
  local at = is_aside and 0 or redis.call('LPOS', line, entry, 'MAXLEN', depth + 1)
  say('ahead_in_line', at or -1)
  say('tenants', redis.call('ZCARD', keys['ring:'] .. lib.whole(head.priority)))
  say('share', tonumber(redis.call('HGET', keys.shares, head.tenant) or '1') or 1)
  local function say_limit(name, key)
    local limit = lib.open_limit(keys, key, now)
    if not limit or lib.room_in(limit) >= 1 then return end
    local at = lib.next_token_at(limit, now)
    say(name, key)
    say(name .. '_is_own', redis.call('HEXISTS', keys.limits, key))
    say(name .. '_until', at and lib.whole(at) or '')
    say(name .. '_token_ms', at and string.format('%.9f', limit.per_ms / limit.rate) or '')
    say(name .. '_slots', limit.free < 1 and limit.slots or '')
    say(name .. '_busy', limit.free < 1 and lib.whole(limit.slots - limit.free) or '')
  end
  say_limit('queue_limit', '')
  if head.key ~= '' then say_limit('key_limit', head.key) end
end
return reply
