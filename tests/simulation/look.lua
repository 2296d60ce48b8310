-- Read everything that is stored but what lanes remember, at one instant.
--
-- ARGV[1] clock  string  the key that has the time
--
-- Returns {{key, value}, ...}   a list or set as its members, a hash or sorted set as pairs; of a stream only its length
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if key ~= ARGV[1] and not string.find(key, '}:memory:', 1, true) then
    local type = redis.call('TYPE', key).ok
    local value
    if type == 'hash' then
      value = redis.call('HGETALL', key)
    elseif type == 'zset' then
      value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    elseif type == 'list' then
      value = redis.call('LRANGE', key, 0, -1)
    elseif type == 'set' then
      value = redis.call('SMEMBERS', key)
    elseif type == 'stream' then
      value = redis.call('XLEN', key)
    else
      value = redis.call('GET', key)
    end
    found[#found + 1] = {key, value}
  end
end
return found
