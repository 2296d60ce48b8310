-- Name a line, or what was put aside, where it is looked for if it is there, and not if it is not; for repairs.
--
-- KEYS[1] meta  hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] kind  string  'line' (and what is left of its turn), 'ring', 'stray' or 'parked'
-- ARGV[2] name  bytes   the line (priority, colon, tenant), priority, type or key
--
-- Returns {'ok', mended}      1 if something was changed
--         {'newer', layout}   the queue was written by a newer version
-- include clock channels chunks job_keys records lines wake job_queue
local keys = jobs.keys_beside(KEYS[1])
local kind, name = ARGV[1], ARGV[2]

jobs.guard(keys, {hash = {'meta', 'credits'}, zset = {'levels', 'unparks'}, set = {'strays', 'idle'}})
local refusal = jobs.refuse_newer(keys)
if refusal then return refusal end

local mended = 0
if kind == 'stray' then
  mended = redis.call(redis.call('EXISTS', keys['stray:'] .. name) == 1 and 'SADD' or 'SREM', keys.strays, name)
elseif kind == 'parked' then
  if redis.call('EXISTS', keys['parked:'] .. name) == 0 then
    mended = redis.call('ZREM', keys.unparks, name)
  else
    mended = redis.call('ZADD', keys.unparks, 'NX', whole(now_ms()), name)
  end
else
  local priority, tenant = string.match(kind == 'ring' and name .. ':' or name, '^(-?%d+):(.*)$')
  local ring = keys['ring:'] .. priority
  if kind ~= 'ring' then
    local is_there = redis.call('EXISTS', keys['line:'] .. name) == 1
    local is_named = redis.call('LPOS', ring, tenant)
    if is_there and not is_named then mended = math.min(1, redis.call('RPUSH', ring, tenant)) end
    if is_named and not is_there then mended = redis.call('LREM', ring, 1, tenant) end
    if not is_there then mended = math.max(mended, redis.call('HDEL', keys.credits, name)) end
  end
  if redis.call('EXISTS', ring) == 1 then
    mended = math.max(mended, redis.call('ZADD', keys.levels, priority, priority))
  else
    mended = math.max(mended, redis.call('ZREM', keys.levels, priority))
  end
end
if mended == 1 then wake_workers(keys.idle, keys['wake:'], 1) end
return {'ok', mended}
