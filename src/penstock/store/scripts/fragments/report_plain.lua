-- That the only job of a worker is done, and that it waits for the next: what report_jobs does of this, where there is
-- nothing else to see to. A request with which old jobs are purged is left to the usual way.

-- What report_jobs answers, or nil if it has to go the usual way: then nothing is written.
local function report_plain(memory, operation, meta, running)
  local worker, process, payload = ARGV[2], ARGV[6], ARGV[12]
  local is_single = #ARGV == 12 and ARGV[7] == 'done' and ARGV[3] ~= '0' and ARGV[4] == '2'
  if not is_single or #payload > jobs.NOTICE_BYTES or operation % jobs.PURGE_EVERY == 0 then return nil end
  local call, base = redis.call, string.sub(meta, 1, -5)
  local held = call('HRANDFIELD', running, 2, 'WITHVALUES')
  if #held ~= 2 or held[1] ~= process then return nil end
  local kind, layout, paused, history_length, finished, done, kept_bytes = unpack(call('HMGET', meta, 'kind', 'layout', 'paused',
    'history_length', 'finished', 'done', 'kept_bytes'))
  if kind ~= 'jobs' or tonumber(layout) > jobs.LAYOUT or paused then return nil end
  if call('EXISTS', base .. 'levels', base .. 'strays', base .. 'limits', base .. 'due', base .. 'slots', base .. 'unparks') > 0 then
    return nil
  end
  local id, facts, counts, idle, offers = held[2], base .. 'facts', base .. 'counts', base .. 'idle', base .. 'offers'
  local text = call('HGET', facts, id)
  if not text then return nil end
  local _, state, marks, turn, created, number, failures, crashes, since, _, started, _, token, bytes, holder, _, head =
    struct.unpack(jobs.FACTS, text)
  local flags, type, tenant = open_plain(head)
  if not type or state ~= jobs.RUNNING or marks > 0 or crashes > 0 or flags % 2 == jobs.FORGET_WHEN_DONE then return nil end
  -- A list whose page is new gets an entry in its directory, which is left to the usual way too.
  local page = base .. 'page:' .. whole((number - number % jobs.PAGE) / jobs.PAGE) .. ':' .. jobs.DONE
  local pages = {page .. 'A:', page .. 'T:' .. type, tenant ~= '' and page .. 'N:' .. tenant or nil}
  if call('EXISTS', unpack(pages)) < #pages then return nil end
  local names = {}
  local less = name_plain_counts(names, jobs.RUNNING, type, tenant)
  name_plain_counts(names, jobs.DONE, type, tenant)
  local numbers = call('HMGET', counts, unpack(names))

  local now, waited_ms, attempt = now_ms(), started - since, failures + 1
  -- First a removal, which lets the rest pass on a full store (see allow_when_full).
  call('HDEL', running, process)
  -- Then what was not looked at, and can be taken back if one of these keys is of a wrong type.
  local history, ended, written, entry = base .. 'history', base .. 'finished', 0, nil
  local is_well, problem = pcall(function()
    entry = call('XADD', history, 'MAXLEN', '~', history_length or jobs.HISTORY_LENGTH, '*', 'attempt', struct.pack(jobs.ENDED,
      jobs.LAYOUT, attempt, waited_ms > 0 and waited_ms or 0, bytes, now, #id, id, #type, type, #tenant, tenant, #holder, holder,
      4, 'done', #ARGV[8], ARGV[8], #ARGV[9], ARGV[9]))
    call('ZADD', ended, whole(now), id)
    written = 1
    call('SADD', idle, worker)
    written = 2
    call('HSET', offers, worker, '1')
    written = 3
    for index = 1, #pages do
      call('SADD', pages[index], id)
      written = 3 + index
    end
  end)
  if not is_well then
    for index = 1, written - 3 do call('SREM', pages[index], id) end
    if written > 2 then call('HDEL', offers, worker) end
    if written > 1 then call('SREM', idle, worker) end
    if written > 0 then call('ZREM', ended, id) end
    if entry then call('XDEL', history, entry) end
    call('HSET', running, process, id)
    error(problem, 0)
  end
  call('HSET', facts, id, struct.pack(jobs.FACTS, jobs.LAYOUT, jobs.DONE, 0, turn, created, number, failures, 0, since, now, started,
    now, token, bytes, #holder, holder, 0, '', #head, head) .. payload)
  write_plain_counts(counts, names, numbers, less)
  call('HSET', meta, 'finished', whole((finished or 0) + 1), 'done', whole((done or 0) + 1),
    'kept_bytes', whole((kept_bytes or 0) + bytes + #payload))
  tell_plain(base .. 'events', 'done', id, now, attempt - 1, type, holder)
  publish(base .. 'job:' .. string.sub(id, -jobs.SENDER_DIGITS), struct.pack(jobs.NOTICE, #id, id, jobs.DONE, 'y', 0, '') .. payload)
  remember(memory, operation, {'empty', {}})
  return {{}, 'empty', -1, {}}
end
