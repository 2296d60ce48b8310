-- How a job is stored (codec/forms.py has the fields). `jobs` holds the record, which is what was sent: written once,
-- read when the job is handed out. `facts` holds what has happened since, and exists only once something has: a job
-- that was sent and waits has none, which keeps a backlog small. Both have the head, so that only handing out reads
-- the data, which may be large.
lib.IS_FINAL = {d = true, x = true, c = true}

function lib.has(bits, flag) return bits % (2 * flag) >= flag end
function lib.with(bits, flag) return lib.has(bits, flag) and bits or bits + flag end
function lib.without(bits, flag) return lib.has(bits, flag) and bits - flag or bits end

-- seldom
function lib.split(text)
  local words = {}
  for word in string.gmatch(text, '%Z+') do words[#words + 1] = word end
  return words
end

-- Most jobs of a batch have the same head, so each is opened once.
lib.heads = {}
function lib.head_of(text)
  local head = lib.heads[text]
  if head then return head end
  local parts_at, flags, type = lib.open_head(text)
  head = lib.new_head(text, flags, type, parts_at)
  if flags >= lib.FIRST_PART then lib.open_parts(head) end
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
  local part = struct.pack(lib.PART_FORMATS.priority, priority)
  local rest_at = head.parts_at + (lib.has(head.flags, lib.FIRST_PART) and #part or 0)
  local flags = lib.with(head.flags, lib.FIRST_PART)
  return lib.head_of(lib.pack_head(flags, head.type, part .. string.sub(head.text, rest_at)))
end

-- Whether a job may have taken workers down; a lapse may have been one, for all that is known.
function lib.is_suspect(facts) return facts.crashes + facts.lapses >= lib.SUSPECT_FROM end

-- How attempts at a job have ended so far, as workers are told it.
function lib.tries_of(facts)
  if facts.failures + facts.crashes + facts.lapses == 0 then return '0 0 0' end
  return lib.whole(facts.failures) .. ' ' .. lib.whole(facts.crashes) .. ' ' .. lib.whole(facts.lapses)
end

-- Facts of a job of which only the record exists, and where its data begins.
function lib.facts_of_record(record)
  local data_at, created, number, head = lib.open_record(record)
  return lib.new_facts(created, number, #record - data_at + 1, head), data_at
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

-- What is stored may have been cut off, or written by another program. Then it cannot be opened, and these say false.
function lib.facts_in(text)
  local is_well, facts = pcall(lib.open_facts, text)
  return is_well and facts
end

function lib.facts_in_record(record)
  local is_well, facts = pcall(lib.facts_of_record, record)
  return is_well and facts
end

-- Whether a record is what was sent as a job with these facts.
function lib.is_record_of(record, facts)
  local is_well, data_at, _, _, head = pcall(lib.open_record, record)
  return is_well and head == facts.head and #record - data_at + 1 == facts.bytes
end

-- The facts of each job, from `facts` or else from its record; false for a job that does not exist or cannot be read.
function lib.read_facts(keys, ids)
  local found = lib.get_fields(keys.facts, ids)
  for index = 1, #ids do
    if found[index] then
      found[index] = lib.facts_in(found[index])
    else
      local record = redis.call('HGET', keys.jobs, ids[index])
      found[index] = record and lib.facts_in_record(record)
    end
  end
  return found
end
