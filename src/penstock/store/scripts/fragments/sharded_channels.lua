-- Publishing on a cluster: a channel lives on the shard of its queue, so no message crosses nodes.
local function publish(channel, message)
  return redis.call('SPUBLISH', channel, message)
end

local function has_subscribers(channel)
  return redis.call('PUBSUB', 'SHARDNUMSUB', channel)[2] > 0
end
