-- How a job is stored. `jobs` holds what was sent: written once, read when the job is handed out. `facts` holds what
-- has happened since, and exists only once something has: a job that was sent and waits has none, which keeps
-- a backlog small. Both carry the head, so that nothing but handing out ever reads the data, which may be large.
--
-- head    flags (32 bits), type, and of the rest what differs from the usual, which the flags say: priority, attempts, timeout,
--         expiry, tenant, limit key, unique key, backoff, tags, words
-- record  layout, created, number; head; data
-- facts   layout, state, marks, turn, created, number, failures, crashes, since, updated, started, finished, process,
--         bytes; worker, reason, head; outcome
--
-- `since` is when the job became ready, or is due: what it waits from then on is what the queue is to blame for.
lib.HEAD = '>I4Bc0'
lib.RECORD = '>BI6I6Hc0'
lib.FACTS = '>Bc1BI6I6I6HBI6I6I6I6I7I4Bc0Bc0Hc0'

lib.IS_FINAL = {d = true, x = true, c = true}

-- Flags of a head. The higher ones say which of these parts follow the type, in this order.
lib.FIRST_PART, lib.HAS_TENANT = 64, 1024
lib.PARTS = {'priority', 'attempts', 'timeout_ms', 'expires_ms', 'tenant', 'key', 'unique', 'backoff', 'tags', 'words'}
lib.PART_FORMATS = {'>i4', '>H', '>I4', '>I6', '>Bc0', '>Bc0', '>Bc0', '>Bc0', '>Hc0', '>Hc0'}

-- seldom
function lib.open_parts(head, text, at)
  local flags = (head.flags - head.flags % lib.FIRST_PART) / lib.FIRST_PART
  for index = 1, #lib.PARTS do
    if flags % 2 == 1 then head[lib.PARTS[index]], at = struct.unpack(lib.PART_FORMATS[index], text, at) end
    flags = (flags - flags % 2) / 2
  end
end

lib.FORGET_WHEN_DONE, lib.AT_MOST_ONCE = 1, 2
lib.UNIQUE_QUEUED, lib.UNIQUE_UNTIL_DONE, lib.UNIQUE_WINDOW, lib.UNIQUE_SCHEDULED = 4, 8, 16, 32
-- Marks of facts.
lib.CANCEL_ASKED, lib.HAS_ATTEMPTS, lib.HAS_LOG, lib.HAS_PROGRESS, lib.KEPT_FOR_BATCH = 1, 2, 4, 8, 16

function lib.has(bits, flag) return bits % (2 * flag) >= flag end
function lib.with(bits, flag) return lib.has(bits, flag) and bits or bits + flag end
function lib.without(bits, flag) return lib.has(bits, flag) and bits - flag or bits end

-- seldom
function lib.split(text)
  local words = {}
  for word in string.gmatch(text, '%Z+') do words[#words + 1] = word end
  return words
end

-- Most jobs of a batch have the same head, so each is taken apart once.
lib.heads = {}
function lib.open_head(text)
  local head = lib.heads[text]
  if head then return head end
  local flags, type, at = struct.unpack(lib.HEAD, text)
  head = {text = text, flags = flags, type = type, priority = 0, attempts = 1, timeout_ms = 0, expires_ms = 0, tenant = '',
    key = '', unique = '', backoff = '', tags = '', words = ''}
  if flags >= lib.FIRST_PART then lib.open_parts(head, text, at) end
  if head.tenant == '' then
    head.dimensions = {'A:', 'T:' .. type}
  else
    head.dimensions = {'A:', 'T:' .. type, 'N:' .. head.tenant}
  end
  if head.tags ~= '' then
    for _, tag in ipairs(lib.split(head.tags)) do head.dimensions[#head.dimensions + 1] = 'G:' .. tag end
  end
  head.words = head.words ~= '' and lib.split(head.words) or {}
  head.line = (head.priority == 0 and '0:' or lib.whole(head.priority) .. ':') .. head.tenant
  lib.heads[text] = head
  return head
end

-- The same head with another priority, which is the first of its parts.
-- seldom
function lib.reprioritised(head, priority)
  local _, _, at = struct.unpack(lib.HEAD, head.text)
  local rest = string.sub(head.text, at + (lib.has(head.flags, lib.FIRST_PART) and 4 or 0))
  return lib.open_head(struct.pack(lib.HEAD, lib.with(head.flags, lib.FIRST_PART), #head.type, head.type) ..
    struct.pack(lib.PART_FORMATS[1], priority) .. rest)
end

function lib.new_facts(created, number, head, bytes)
  return {state = lib.READY, marks = 0, turn = number, created = created, number = number, failures = 0, crashes = 0,
    since = created, updated = created, started = 0, finished = 0, process = 0, bytes = bytes, worker = '', reason = '',
    head = head, outcome = ''}
end

-- Returns a function of number and data, as many jobs that are sent together share the rest.
function lib.record_packer(created, head)
  local pack, before, after = struct.pack, struct.pack('>BI6', lib.LAYOUT, created), struct.pack('>Hc0', #head.text, head.text)
  return function(number, data) return before .. pack('>I6', number) .. after .. data end
end

-- Facts of a job of which only the record exists, and where its data begins.
function lib.facts_of_record(record)
  local _, created, number, text, data_at = struct.unpack(lib.RECORD, record)
  return lib.new_facts(created, number, lib.open_head(text), #record - data_at + 1), data_at
end

-- A table that is made with all its fields is not copied while it grows.
function lib.open_facts(text)
  local _, state, marks, turn, created, number, failures, crashes, since, updated, started, finished, process, bytes, worker,
    reason, head, at = struct.unpack(lib.FACTS, text)
  return {state = state, marks = marks, turn = turn, created = created, number = number, failures = failures,
    crashes = crashes, since = since, updated = updated, started = started, finished = finished, process = process,
    bytes = bytes, worker = worker, reason = reason, head = lib.open_head(head), outcome = string.sub(text, at)}
end

function lib.pack_facts(facts)
  return struct.pack(lib.FACTS, lib.LAYOUT, facts.state, facts.marks, facts.turn, facts.created, facts.number, facts.failures,
    facts.crashes, facts.since, facts.updated, facts.started, facts.finished, facts.process, facts.bytes,
    #facts.worker, facts.worker, #facts.reason, facts.reason, #facts.head.text, facts.head.text) .. facts.outcome
end

-- An entry of a line is the id, and after it the turn if it is not the one of the first time. An entry whose job is
-- not ready any more, or has another turn, is dropped when it comes up; taking it out of the middle would take long.
function lib.entry_of(id, facts)
  if facts.turn == facts.number then return id end
  return id .. '.' .. lib.whole(facts.turn)
end

function lib.open_entry(entry)
  local dot = string.find(entry, '.', 1, true)
  if not dot then return entry, nil end
  return string.sub(entry, 1, dot - 1), tonumber(string.sub(entry, dot + 1))
end

-- The facts of each job, from `facts` or else from its record; false for a job that does not exist.
function lib.read_facts(keys, ids)
  local found = lib.get_fields(keys.facts, ids)
  for index = 1, #ids do
    if found[index] then
      found[index] = lib.open_facts(found[index])
    else
      local record = redis.call('HGET', keys.jobs, ids[index])
      found[index] = record and lib.facts_of_record(record) or false
    end
  end
  return found
end
