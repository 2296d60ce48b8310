-- Publishing on a cluster: a channel lives on the shard of its queue, so no message crosses nodes.
function lib.publish(channel, message)
  return redis.call('SPUBLISH', channel, message)
end

function lib.has_subscribers(channel)
  return redis.call('PUBSUB', 'SHARDNUMSUB', channel)[2] > 0
end

function lib.have_subscribers(one, other)
  local found = redis.call('PUBSUB', 'SHARDNUMSUB', one, other)
  return found[2] > 0, found[4] > 0
end

-- Whether a worker listens to a channel of its own.
function lib.is_heard(channel)
  return redis.call('PUBSUB', 'SHARDNUMSUB', channel)[2] > 0
end
