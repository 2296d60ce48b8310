-- Read a page of the registered workers, living and condemned.
--
-- KEYS[1] workers    zset  worker -> end of its lease (ms)
-- KEYS[2] condemned  zset  worker -> when the next peer may try to recover it (ms)
-- KEYS[3] info       hash  worker -> what it said about itself
-- ARGV[1] offset     int
-- ARGV[2] limit      int   1 to 1000
--
-- Returns {'ok', workers, condemned, now, name, lease_left_ms, about, ...}
--         counts of both, and three values for each worker of the page; lease_left_ms is empty for a condemned one
-- include clock
local workers, condemned, info = unpack(KEYS)
local offset, limit = tonumber(ARGV[1]), tonumber(ARGV[2])

local now = lib.now_ms()
local living, dying = redis.call('ZCARD', workers), redis.call('ZCARD', condemned)
local reply = {'ok', living, dying, lib.whole(now)}
local page = redis.call('ZRANGE', workers, offset, offset + limit - 1, 'WITHSCORES')
for index = 1, #page, 2 do
  reply[#reply + 1] = page[index]
  reply[#reply + 1] = lib.whole(tonumber(page[index + 1]) - now)
  reply[#reply + 1] = redis.call('HGET', info, page[index]) or ''
end
local room = limit - #page / 2
if room > 0 then
  local first = math.max(0, offset - living)
  for _, worker in ipairs(redis.call('ZRANGE', condemned, first, first + room - 1)) do
    reply[#reply + 1] = worker
    reply[#reply + 1] = ''
    reply[#reply + 1] = redis.call('HGET', info, worker) or ''
  end
end
return reply
