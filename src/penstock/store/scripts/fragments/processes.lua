-- Process ids come from a counter that begins at the time of creation of the queue and only grows.

-- So many new ones; returns the first. If the last one that was given out is lost, or is no number, they begin again
-- at the time, as in a new queue: none that was given out before is as great.
function lib.next_processes(meta, count)
  local last = redis.pcall('HINCRBY', meta, 'process', count)
  if type(last) ~= 'number' or last <= count then
    last = lib.now_ms() * 1000 + count
    redis.call('HSET', meta, 'process', lib.whole(last))
  end
  return last - count + 1
end
