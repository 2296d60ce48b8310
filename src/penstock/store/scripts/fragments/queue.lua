-- A queue exists while its meta hash does. A client that finds it absent puts an incarnation on the list of queues
-- first and then sends its request again with it, so that no queue with tasks is ever missing from the list. Every
-- attempt has an incarnation of its own, so a client that takes one off the list takes away no other client's.

-- Why this request cannot go on, or nil. Remembered, or a copy of the request that arrives late could still do what
-- was refused, and bring back an incarnation that is no longer on the list.
function lib.refuse_queue(memory, operation, known, incarnation)
  if not known and incarnation == '' then return lib.remember(memory, operation, {'no_queue'}) end
  if known and incarnation ~= '' and incarnation ~= known then
    return lib.end_early(memory, operation, {'queue_exists'}) -- or the incarnation would stay on the list
  end
  return nil
end

function lib.create_queue(meta, incarnation)
  -- Process ids begin at the time of creation, so that tokens keep growing even over a delete.
  redis.call('HSET', meta, 'incarnation', incarnation, 'process', lib.whole(lib.now_ms() * 1000))
end
