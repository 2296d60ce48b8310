-- How a job is stored. `jobs` holds what was sent: written once, read when the job is handed out. `facts` holds what
-- has happened since, and exists only once something has: a job that was sent and waits has none, which keeps
-- a backlog small. Both carry the head, so that nothing but handing out ever reads the data, which may be large.
--
-- head    flags, priority, attempts, timeout, expiry; type, tenant, limit key, unique key, backoff, tags, words
-- record  layout, created, number; head; data
-- facts   layout, state, marks, turn, created, number, failures, crashes, since, updated, started, finished, process,
--         bytes; worker, reason, head; outcome
--
-- `since` is when the job became ready, or is due: what it waits from then on is what the queue is to blame for.
local LAYOUT = 1
local HEAD = '>Bi4HI4I6Bc0Bc0Bc0Bc0Bc0Hc0Hc0'
local RECORD = '>BI6I6Hc0'
local FACTS = '>Bc1BI6I6I6HBI6I6I6I6I7I4Bc0Bc0Hc0'

local SCHEDULED, BLOCKED, READY, RUNNING, DONE, DEAD, CANCELLED = 's', 'b', 'r', 'u', 'd', 'x', 'c'
local IS_FINAL = {d = true, x = true, c = true}

-- Flags of a head.
local FORGET_WHEN_DONE, AT_MOST_ONCE = 1, 2
local UNIQUE_QUEUED, UNIQUE_UNTIL_DONE, UNIQUE_WINDOW, UNIQUE_SCHEDULED = 4, 8, 16, 32
-- Marks of facts.
local CANCEL_ASKED, HAS_ATTEMPTS, HAS_LOG, HAS_PROGRESS = 1, 2, 4, 8

local function has(bits, flag) return math.floor(bits / flag) % 2 == 1 end
local function with(bits, flag) return has(bits, flag) and bits or bits + flag end
local function without(bits, flag) return has(bits, flag) and bits - flag or bits end

local function split(text)
  local words = {}
  for word in string.gmatch(text, '%Z+') do words[#words + 1] = word end
  return words
end

-- Most jobs of a batch have the same head, so each is taken apart once.
local heads = {}
local function open_head(text)
  local head = heads[text]
  if head then return head end
  head = {text = text}
  local tags, words
  head.flags, head.priority, head.attempts, head.timeout_ms, head.expires_ms, head.type, head.tenant, head.key,
    head.unique, head.backoff, tags, words = struct.unpack(HEAD, text)
  head.dimensions = {'A:', 'T:' .. head.type}
  if head.tenant ~= '' then head.dimensions[3] = 'N:' .. head.tenant end
  for _, tag in ipairs(split(tags)) do head.dimensions[#head.dimensions + 1] = 'G:' .. tag end
  head.words = split(words)
  head.line = whole(head.priority) .. ':' .. head.tenant
  heads[text] = head
  return head
end

local function new_facts(created, number, head, bytes)
  return {state = READY, marks = 0, turn = number, created = created, number = number, failures = 0, crashes = 0,
    since = created, updated = created, started = 0, finished = 0, process = 0, bytes = bytes, worker = '', reason = '',
    head = head, outcome = ''}
end

-- Facts of a job of which only the record exists, and where its data begins.
local function facts_of_record(record)
  local _, created, number, text, data_at = struct.unpack(RECORD, record)
  return new_facts(created, number, open_head(text), #record - data_at + 1), data_at
end

local function open_facts(text)
  local facts = {}
  local head, at, _
  _, facts.state, facts.marks, facts.turn, facts.created, facts.number, facts.failures, facts.crashes, facts.since,
    facts.updated, facts.started, facts.finished, facts.process, facts.bytes, facts.worker, facts.reason, head, at =
    struct.unpack(FACTS, text)
  facts.head = open_head(head)
  facts.outcome = string.sub(text, at)
  return facts
end

local function pack_facts(facts)
  return struct.pack(FACTS, LAYOUT, facts.state, facts.marks, facts.turn, facts.created, facts.number, facts.failures,
    facts.crashes, facts.since, facts.updated, facts.started, facts.finished, facts.process, facts.bytes,
    #facts.worker, facts.worker, #facts.reason, facts.reason, #facts.head.text, facts.head.text) .. facts.outcome
end

-- An entry of a line is the id, and after it the turn if it is not the one of the first time. An entry whose job is
-- not ready any more, or has another turn, is dropped when it comes up; taking it out of the middle would take long.
local function entry_of(id, facts)
  if facts.turn == facts.number then return id end
  return id .. '.' .. whole(facts.turn)
end

local function open_entry(entry)
  local dot = string.find(entry, '.', 1, true)
  if not dot then return entry, nil end
  return string.sub(entry, 1, dot - 1), tonumber(string.sub(entry, dot + 1))
end

-- The facts of each job, from `facts` or else from its record; false for a job that does not exist.
local function read_facts(keys, ids)
  local found = get_fields(keys.facts, ids)
  for index = 1, #ids do
    if found[index] then
      found[index] = open_facts(found[index])
    else
      local record = redis.call('HGET', keys.jobs, ids[index])
      found[index] = record and facts_of_record(record) or false
    end
  end
  return found
end
