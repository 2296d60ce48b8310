-- List a line, or jobs that were put aside, where workers look for them if they exist, and only then; for repairs.
--
-- KEYS[1] meta   hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] write  int     0: only say whether something is wrong
-- ARGV[2] kind   string  'line', 'ring', 'unhandled' or 'parked'
-- ARGV[3] name   bytes   the line (priority, colon, tenant), priority, type or key
--
-- Returns {'ok', wrong}       how much was wrong
--         {'other_layout', layout}   the queue was written by another version
-- include clock channels wake model
-- include from jobs: keys lines
local keys = lib.keys_beside(KEYS[1])
local write, kind, name = ARGV[1] == '1', ARGV[2], ARGV[3]

lib.guard(keys, {hash = {'meta'}, zset = {'levels', 'unparks'}, set = {'unhandled_types', 'idle'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end

-- What is to be done: each a command with its arguments.
local changes = {}
local function compare(is_there, is_named, to_name, to_forget)
  if is_there and not is_named then changes[#changes + 1] = to_name end
  if is_named and not is_there then changes[#changes + 1] = to_forget end
end

local function exists(key) return redis.call('EXISTS', key) == 1 end

if kind == 'unhandled' then
  compare(exists(keys['unhandled:'] .. name), redis.call('SISMEMBER', keys.unhandled_types, name) == 1,
    {'SADD', keys.unhandled_types, name}, {'SREM', keys.unhandled_types, name})
elseif kind == 'parked' then
  compare(exists(keys['parked:'] .. name), redis.call('ZSCORE', keys.unparks, name),
    {'ZADD', keys.unparks, lib.whole(lib.now_ms()), name}, {'ZREM', keys.unparks, name})
else
  local priority, tenant = string.match(kind == 'ring' and name .. ':' or name, '^(-?%d+):(.*)$')
  if not priority then priority, tenant = name, '' end -- no script has written this, and it is nowhere
  local ring = keys['ring:'] .. priority
  local tenants = redis.call('ZCARD', ring)
  if kind == 'line' then
    local is_there, is_named = exists(keys['line:'] .. name), redis.call('ZSCORE', ring, tenant)
    compare(is_there, is_named, {'ZADD', ring, lib.place_to_join(ring), tenant}, {'ZREM', ring, tenant})
    if is_there and not is_named then tenants = tenants + 1 end
    if is_named and not is_there then tenants = tenants - 1 end
  end
  compare(tenants > 0, redis.call('ZSCORE', keys.levels, priority),
    {'ZADD', keys.levels, priority, priority}, {'ZREM', keys.levels, priority})
end
if not write or #changes == 0 then return {'ok', #changes} end

for _, change in ipairs(changes) do redis.call(unpack(change)) end
lib.wake_workers(keys.idle, keys['wake:'], 1)
return {'ok', #changes}
