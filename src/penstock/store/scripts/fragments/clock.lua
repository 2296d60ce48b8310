-- The one clock of the system: the server's, in milliseconds. Called once per script, because before
-- Redis 7.2 two calls in one script can differ.
function lib.now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Numbers of this size lose digits in tostring(). A server has 64 bits; others are refused by the client.
function lib.whole(number)
  return string.format('%d', number)
end

-- The id of the next message of a stream: the server's own.
function lib.next_id() return '*' end
