-- Read everything that is stored, at one instant, but what lanes remember and what staging.lua reads.
--
-- ARGV[1] types...  string  kind of key, its type, ...
--
-- Returns {{key, value}, ...}   a list or set as its members, a hash or sorted set as pairs; of a stream only its length
local READERS = {
  hash = function(key) return redis.call('HGETALL', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  stream = function(key) return redis.call('XLEN', key) end,
}
local SKIPPED = {memory = true, stage = true, staging = true, moving = true, batches = true, batch_times = true}
local types, found = {}, {}
for index = 1, #ARGV, 2 do types[ARGV[index]] = ARGV[index + 1] end
for _, key in ipairs(redis.call('KEYS', '{*')) do
  local kind = string.match(key, '}:([%w_]+)')
  if not SKIPPED[kind] then found[#found + 1] = {key, READERS[types[kind]](key)} end
end
return found
