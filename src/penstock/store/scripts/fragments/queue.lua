-- A queue exists while its meta hash does. Whoever finds it absent registers the name first and then
-- comes again with an incarnation, so that no queue with tasks is ever missing from the list of queues.
local function ensure_queue(meta, incarnation)
  if redis.call('HEXISTS', meta, 'incarnation') == 1 then return true end
  if incarnation == '' then return false end
  -- Process ids begin at the time of creation, so that tokens keep growing even over a delete.
  redis.call('HSET', meta, 'incarnation', incarnation, 'process', whole(now_ms() * 1000))
  return true
end
