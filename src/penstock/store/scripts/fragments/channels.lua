-- Publishing on a server of its own: every client sees every channel.
local function publish(channel, message)
  return redis.call('PUBLISH', channel, message)
end

-- Patterns are not counted per channel, so any pattern subscriber counts as interested.
local function has_subscribers(channel)
  return redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0 or redis.call('PUBSUB', 'NUMPAT') > 0
end
