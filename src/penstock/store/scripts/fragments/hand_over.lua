-- A job that would be the next to start goes straight to a worker that waits for one, if there is nothing to weigh: that
-- spares it the way through its line, and the worker a request. The worker hears of it on its own channel. Messages can be
-- lost, so a worker also looks for what it holds without knowing (find_handed).
jobs.HANDED_OVER_BYTES = 65536 -- what is pushed waits in the memory of the server; larger jobs are fetched

-- Whether something else may have to be seen to first.
local function is_in_the_way(base, type, now)
  local call, limits, paused = redis.call, base .. 'limits', base .. 'paused_types'
  if call('EXISTS', base .. 'levels', base .. 'strays', base .. 'suspects') > 0 or call('HEXISTS', limits, '') == 1 or
      call('SISMEMBER', paused, type) == 1 then
    return true
  end
  for _, kind in ipairs({'due', 'slots', 'unparks'}) do
    local first = call('ZRANGE', base .. kind, 0, 0, 'WITHSCORES')[2]
    if first and tonumber(first) <= now then return true end
  end
  return false
end

-- Whether one more job may come in, with which the queue has so many bytes.
local function has_room(counts, max_length, max_bytes, bytes)
  -- Nothing is in line, but some may be parked.
  local ready, scheduled, blocked = unpack(redis.call('HMGET', counts, jobs.READY .. 'A:', jobs.SCHEDULED .. 'A:',
    jobs.BLOCKED .. 'A:'))
  local waiting = (ready or 0) + (scheduled or 0) + (blocked or 0)
  return waiting + 1 <= tonumber(max_length or waiting + 1) and bytes <= tonumber(max_bytes or bytes)
end

-- What send_jobs answers, or nil if the job has to go the usual way: then nothing is left of what was written.
local function hand_over(memory, operation, meta)
  local head, id, data = ARGV[4], ARGV[9], ARGV[10]
  local is_single = #ARGV == 10 and ARGV[2] == '' and ARGV[3] == 'made' and ARGV[5] == '0' and ARGV[6] == '0'
  if not is_single or #data > jobs.HANDED_OVER_BYTES then return nil end
  local call, base = redis.call, string.sub(meta, 1, -5)
  local idle, offers, counts, records, facts = base .. 'idle', base .. 'offers', base .. 'counts', base .. 'jobs', base .. 'facts'
  local worker = call('SRANDMEMBER', idle)
  local room = worker and tonumber(call('HGET', offers, worker) or '0') or 0
  if room < 1 then return nil end
  local _, type, tenant = open_plain(head)
  if not type then return nil end
  local kind, layout, enqueued, paused, max_length, max_bytes, bytes, turn, newest, last, sent, started = unpack(call('HMGET', meta,
    'kind', 'layout', 'enqueued', 'paused', 'max_length', 'max_bytes', 'waiting_bytes', 'turn', 'newest', 'process', 'sent', 'started'))
  if not last or enqueued or paused or tonumber(layout or 0) > jobs.LAYOUT then return nil end
  if (max_length or max_bytes) and not has_room(counts, max_length, max_bytes, (bytes or 0) + #data) then return nil end
  -- An id that is greater than all before needs not be looked for.
  newest = newest or call('HLEN', records) == 0 and '0'
  if not newest then return nil end
  if #id > #newest or (#id == #newest and id > newest) then
    newest = id
  elseif call('HEXISTS', records, id) == 1 then
    return nil
  end
  local now = now_ms()
  local is_any = call('EXISTS', base .. 'levels', base .. 'strays', base .. 'suspects', base .. 'limits', base .. 'paused_types',
    base .. 'due', base .. 'slots', base .. 'unparks') > 0
  if is_any and is_in_the_way(base, type, now) then return nil end
  -- Who is no member handles nothing.
  if not handles(call('HGET', base .. 'types', worker) or '', type) then return nil end
  local names = {}
  name_plain_counts(names, jobs.RUNNING, type, tenant)
  local numbers = call('HMGET', counts, unpack(names))

  local number, process, running = (turn or 0) + 1, whole(last + 1), base .. 'running:' .. worker
  local record = struct.pack(jobs.RECORD, jobs.LAYOUT, now, number, #head, head) .. data
  -- What was not looked at comes first and can be taken back: a key of a wrong type is an error, a worker that does not
  -- listen gets nothing.
  local written = 0
  local is_well, problem = pcall(function()
    call('HSET', running, process, id)
    written = 1
    call('HSET', records, id, record)
    written = 2
    call('HSET', facts, id, struct.pack(jobs.FACTS, jobs.LAYOUT, jobs.RUNNING, 0, number, now, number, 0, 0, now, now, now, 0,
      last + 1, #data, #worker, worker, 0, '', #head, head))
    written = 3
  end)
  if not is_well or publish(base .. 'hand:' .. worker, struct.pack('>I7Bc0', last + 1, #id, id) .. record) == 0 then
    if written > 0 then call('HDEL', running, process) end
    if written > 1 then call('HDEL', records, id) end
    if written > 2 then call('HDEL', facts, id) end
    if not is_well then error(problem, 0) end
    return nil
  end
  call('HSET', meta, 'turn', whole(number), 'newest', newest, 'process', process, 'sent', whole((sent or 0) + 1),
    'started', whole((started or 0) + 1))
  if not kind then call('HSET', meta, 'kind', 'jobs', 'layout', jobs.LAYOUT) end
  if room > 1 then
    call('HSET', offers, worker, whole(room - 1))
  else
    call('HDEL', offers, worker)
    call('SREM', idle, worker)
  end
  write_plain_counts(counts, names, numbers, 0)
  -- Whoever hears of the one hears of the other.
  if tell_plain(base .. 'events', 'enqueued', id, now, 0, type, '') > 0 then
    tell_plain(base .. 'events', 'started', id, now, 0, type, worker)
  end
  return remember(memory, operation, {'ok'})
end
