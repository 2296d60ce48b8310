-- Read what holds for many jobs of a queue: settings, limits, shares and paused types.
--
-- KEYS[1] meta   hash  settings and counters; its tag names all other keys of the queue
-- ARGV[1] limit  int   how many limits and shares to read at most
--
-- Returns {'ok', settings, limits, shares, paused_types}   the first three as name, value, ...
--         {'other_layout', layout}                                the queue was written by another version
-- include model
-- include from jobs: keys
local keys, limit = lib.keys_beside(KEYS[1]), ARGV[1]

local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local names = {'max_length', 'max_bytes', 'ageing_ms', 'keep_ms', 'keep_dead_ms', 'keep_count', 'keep_bytes',
  'history_length', 'history_cap', 'max_schedules'}
local settings = {}
for index, value in ipairs(redis.call('HMGET', keys.meta, unpack(names))) do
  if value then
    settings[#settings + 1] = names[index]
    settings[#settings + 1] = value
  end
end
local function some(key) return redis.call('HSCAN', key, 0, 'COUNT', limit)[2] end
return {'ok', settings, some(keys.limits), some(keys.shares), redis.call('SMEMBERS', keys.paused_types)}
