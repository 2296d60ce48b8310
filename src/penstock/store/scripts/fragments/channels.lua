-- Publishing on a server of its own: every client sees every channel.
function lib.publish(channel, message)
  return redis.call('PUBLISH', channel, message)
end

-- Patterns are not counted per channel, so any pattern subscriber counts as interested.
function lib.has_subscribers(channel)
  return redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0 or redis.call('PUBSUB', 'NUMPAT') > 0
end

-- The same for two channels at once.
function lib.have_subscribers(one, other)
  local found = redis.call('PUBSUB', 'NUMSUB', one, other)
  local is_one, is_other = found[2] > 0, found[4] > 0
  if (is_one and is_other) or redis.call('PUBSUB', 'NUMPAT') == 0 then return is_one, is_other end
  return true, true
end

-- Whether a worker listens to a channel of its own.
function lib.is_heard(channel)
  return redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0
end
