-- Read what was staged for queues, and what of it was decided to be in them, at one instant.
--
-- ARGV[1] tags...  string  of each queue
--
-- Returns {{moving, batches, batch_times, staged, moved_at, stages, staging}, ...}   of each queue; `stages` has the name of
--     each, whether it expires (1), then index and strings of each chunk; `staging` has name and bytes of each batch
local replies, of_tag = {}, {}
for index, tag in ipairs(ARGV) do
  local meta = redis.call('HMGET', tag .. ':meta', 'staged', 'moved_at')
  replies[index] = {redis.call('LRANGE', tag .. ':moving', 0, -1), redis.call('HGETALL', tag .. ':batches'),
    redis.call('ZRANGE', tag .. ':batch_times', 0, -1, 'WITHSCORES'), meta[1] or '0', meta[2] or '0', {}, {}}
  of_tag[tag] = replies[index]
end
local keys = redis.call('KEYS', '{*}:stag*')
table.sort(keys)
for _, key in ipairs(keys) do
  local tag, kind, name = string.match(key, '^(.-}):(%a+):(.*)$')
  if kind == 'staging' then
    table.insert(of_tag[tag][7], {name, redis.call('GET', key)})
  else
    local stage = {name, redis.call('PTTL', key) >= 0 and 1 or 0}
    local chunks = redis.call('HGETALL', key)
    for at = 1, #chunks, 2 do
      stage[#stage + 1], stage[#stage + 2] = chunks[at], cmsgpack.unpack(chunks[at + 1])
    end
    table.insert(of_tag[tag][6], stage)
  end
end
return replies
