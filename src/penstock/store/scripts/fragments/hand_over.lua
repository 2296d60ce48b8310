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

-- Whether one more job of so many bytes may come in.
local function has_room(meta, max_length, max_bytes, bytes)
  -- Nothing is in line, but some may be parked.
  local ready, scheduled, blocked, waiting_bytes = unpack(redis.call('HMGET', meta, jobs.READY .. 'A:', jobs.SCHEDULED .. 'A:',
    jobs.BLOCKED .. 'A:', 'waiting_bytes'))
  local waiting = (tonumber(ready) or 0) + (tonumber(scheduled) or 0) + (tonumber(blocked) or 0)
  bytes = bytes + (tonumber(waiting_bytes) or 0)
  return waiting + 1 <= (tonumber(max_length) or math.huge) and bytes <= (tonumber(max_bytes) or math.huge)
end

-- What is remembered of a single job that was handed over.
local function recall_sent(memory, operation, meta)
  if #ARGV ~= 10 then return nil end
  local note = redis.call('HGET', meta, 'sent ' .. string.sub(ARGV[9], -jobs.SENDER_DIGITS))
  return open_note(note, lane_of(memory, string.sub(meta, 1, -5)), operation, {'ok'})
end

-- What send_jobs answers, or nil if the job has to go the usual way: then nothing is left of what was written.
local function hand_over(memory, operation, meta)
  local head, id, data = ARGV[4], ARGV[9], ARGV[10]
  local is_single = #ARGV == 10 and ARGV[2] == '' and ARGV[3] == 'made' and ARGV[5] == '0' and ARGV[6] == '0'
  if not is_single or #data > jobs.HANDED_OVER_BYTES then return nil end
  local call, base = redis.call, string.sub(meta, 1, -5)
  local lane, idle, records, facts = lane_of(memory, base), base .. 'idle', base .. 'jobs', base .. 'facts'
  local offer = call('SRANDMEMBER', idle)
  if not offer or string.byte(offer) ~= 43 then return nil end
  local _, type, tenant = open_plain(head)
  if not type then return nil end
  local sender, all, of_type, of_tenant = 'sent ' .. string.sub(id, -jobs.SENDER_DIGITS), name_plain_counts(jobs.RUNNING, type, tenant)
  local layout, paused, max_length, max_bytes, turn, newest, last, note, sent, started, run, run_of_type, run_of_tenant =
    unpack(call('HMGET', meta, 'layout', 'paused', 'max_length', 'max_bytes', 'turn', 'newest', 'process', sender, 'sent',
    'started', all, of_type, of_tenant))
  if not layout or not last or paused or (tonumber(layout) or math.huge) > jobs.LAYOUT then return nil end
  run, run_of_type, run_of_tenant = tonumber(run or 0), tonumber(run_of_type or 0), tonumber(run_of_tenant or 0)
  sent, started, turn = tonumber(sent or 0), tonumber(started or 0), tonumber(turn or 0)
  if not (sent and started and turn and run and run_of_type and run_of_tenant) then return nil end
  if (max_length or max_bytes) and not has_room(meta, max_length, max_bytes, #data) then return nil end
  -- A request that comes again has an id that is not greater than all before: if it is, nothing needs be looked for.
  if not newest or #id < #newest or (#id == #newest and id <= newest) then
    newest = newest or call('HLEN', records) == 0 and newest_before(base)
    if not newest or open_note(note, lane, operation, true) or recall(memory, operation) then return nil end
    if #id > #newest or (#id == #newest and id > newest) then
      newest = id
    elseif call('HEXISTS', records, id) == 1 then
      return nil
    end
  else
    newest = id
  end
  local now = now_ms()
  local is_any = call('EXISTS', base .. 'levels', base .. 'strays', base .. 'suspects', base .. 'limits', base .. 'paused_types',
    base .. 'due', base .. 'slots', base .. 'unparks') > 0
  if is_any and is_in_the_way(base, type, now) then return nil end
  -- Who is no member handles nothing.
  local worker = string.sub(offer, 2)
  if not handles(call('HGET', base .. 'types', worker) or '', type) then return nil end

  local number, process, running = turn + 1, whole(last + 1), base .. 'running:' .. worker
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
  call('HSET', meta, 'turn', whole(number), 'newest', newest, 'process', process, sender, lane .. operation, 'sent', whole(sent + 1),
    'started', whole(started + 1), all, whole(run + 1), of_type, whole(run_of_type + 1),
    of_tenant, whole(run_of_tenant + 1))
  call('SREM', idle, offer)
  make_room_for_note(note, lane, base, {'ok'})
  -- Whoever hears of the one hears of the other.
  if tell_plain(base .. 'events', 'enqueued', id, now, 0, type, '') > 0 then
    tell_plain(base .. 'events', 'started', id, now, 0, type, worker)
  end
  return {'ok'}
end
