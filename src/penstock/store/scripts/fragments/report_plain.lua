-- That the only job of a worker is done, and that it waits for the next: what report_jobs does of this, where there is
-- nothing else to see to. A request with which old jobs are purged is left to the usual way.


-- What report_jobs answers, or nil if it has to go the usual way: then nothing is left of what was written.
local function report_plain(memory, operation, meta, running)
  local worker, process, payload = ARGV[2], ARGV[6], ARGV[12]
  local is_single = #ARGV == 12 and ARGV[7] == 'done' and ARGV[3] ~= '0' and ARGV[4] == '2'
  if not is_single or #payload > jobs.NOTICE_BYTES then return nil end
  local call, base = redis.call, string.sub(meta, 1, -5)
  local lane, reporter = lane_of(memory, base), 'reported ' .. worker
  local id = call('HGET', running, process)
  if not id then
    local known = open_note(call('HGET', meta, reporter), lane, operation, {'empty'})
    return known and {{}, known[1], -1, {}}
  end
  if operation % jobs.PURGE_EVERY == 0 then return nil end
  local facts, idle = base .. 'facts', base .. 'idle'
  local text = call('HGET', facts, id)
  if not text then return nil end
  local _, state, marks, turn, created, number, failures, crashes, since, _, started, _, token, bytes, holder, _, head =
    struct.unpack(jobs.FACTS, text)
  local flags, type, tenant, priority = open_plain(head)
  if not type or state ~= jobs.RUNNING or marks > 0 or crashes > 0 or flags % 2 == jobs.FORGET_WHEN_DONE then return nil end
  local run, run_of_type, run_of_tenant = name_plain_counts(jobs.RUNNING, type, tenant)
  local ended, ended_of_type, ended_of_tenant = name_plain_counts(jobs.DONE, type, tenant)
  local found = call('HMGET', meta, 'layout', 'paused', 'history_length', reporter, 'finished', 'done', 'kept_bytes',
    run, run_of_type, run_of_tenant, ended, ended_of_type, ended_of_tenant, 'history_cap', 'marked_until')
  local layout, paused, history_length, note = unpack(found, 1, 4)
  if not layout or (tonumber(layout) or math.huge) > jobs.LAYOUT or paused then return nil end
  for index = 5, 13 do
    found[index] = tonumber(found[index] or 0)
    if not found[index] then return nil end
  end
  -- A list whose page is new gets an entry in its directory, which is left to the usual way too.
  local page = base .. 'page:' .. whole((number - number % jobs.PAGE) / jobs.PAGE) .. ':'
  local pages = {page .. ended, page .. ended_of_type, tenant ~= '' and page .. ended_of_tenant or nil}
  if call('EXISTS', unpack(pages)) < #pages then return nil end
  -- First a removal, which lets the rest pass on a full store (see allow_when_full). If it held nothing else, `running` is
  -- gone now.
  call('HDEL', running, process)
  if call('EXISTS', running, base .. 'levels', base .. 'strays', base .. 'limits', base .. 'due', base .. 'slots', base .. 'unparks') > 0 then
    call('HSET', running, process, id)
    return nil
  end

  local now, attempt = now_ms(), failures + 1
  -- Then what was not looked at, and can be taken back if one of these keys is of a wrong type.
  local history, kept, written, entry, has_waited = base .. 'history', base .. 'finished', 0, nil, false
  local is_well, problem = pcall(function()
    entry = call('XADD', history, 'MAXLEN', '~', history_limit(history_length, found[14], found[15], now), '*', 'attempt',
      pack_ended(id, type, tenant, priority, created, bytes, attempt, 'done', started - since, ARGV[8], ARGV[9], holder,
        jobs.DONE, '', now))
    call('ZADD', kept, whole(now), id)
    written = 1
    has_waited = call('SREM', idle, worker) == 1 -- with a slot that was free all the time
    call('SADD', idle, '+' .. worker)
    written = 2
    for index = 1, #pages do
      call('SADD', pages[index], id)
      written = 2 + index
    end
  end)
  if not is_well then
    for index = 1, written - 2 do call('SREM', pages[index], id) end
    if written > 1 then call('SREM', idle, '+' .. worker) end
    if has_waited then call('SADD', idle, worker) end
    if written > 0 then call('ZREM', kept, id) end
    if entry then call('XDEL', history, entry) end
    call('HSET', running, process, id)
    error(problem, 0)
  end
  call('HSET', facts, id, struct.pack(jobs.FACTS, jobs.LAYOUT, jobs.DONE, 0, turn, created, number, failures, 0, since, now, started,
    now, token, bytes, #holder, holder, 0, '', #head, head) .. payload)
  -- That no job of a type runs is counted too; of tenants there may be too many for that.
  call('HSET', meta, reporter, lane .. operation, 'finished', whole(found[5] + 1), 'done', whole(found[6] + 1),
    'kept_bytes', whole(found[7] + bytes + #payload), run, whole(found[8] - 1), run_of_type, whole(found[9] - 1),
    run_of_tenant, whole(found[10] - 1), ended, whole(found[11] + 1), ended_of_type, whole(found[12] + 1),
    ended_of_tenant, whole(found[13] + 1))
  if tenant ~= '' and found[10] == 1 then call('HDEL', meta, run_of_tenant) end
  make_room_for_note(note, lane, base, {'empty', {}})
  tell_plain(base .. 'events', 'done', id, now, attempt - 1, type, holder)
  publish(base .. 'job:' .. string.sub(id, -jobs.SENDER_DIGITS), struct.pack(jobs.NOTICE, #id, id, jobs.DONE, 'y', 0, '') .. payload)
  return {{}, 'empty', -1, {}}
end
