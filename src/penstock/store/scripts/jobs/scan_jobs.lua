-- Read what is stored about all jobs of a queue but their data, some at a time, taken apart; for checking.
--
-- Each job is read at one instant, so that its record and its facts agree.
--
-- KEYS[1] meta    hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] cursor  string  0 at first
-- ARGV[2] table   string  'jobs' for all that have a record, 'facts' for those that have none
-- ARGV[3] count   int     about how many to read
--
-- Returns {'ok', cursor, {id, has_facts, state, marks, number, turn, failures, crashes, lapses, since, updated,
--                     finished, process, worker, bytes, outcome_bytes, flags, priority, attempts, type, tenant, key,
--                     unique, tags, words}, ...}
--         for a job that cannot be read only {id, has_record, record_bytes, has_facts, facts_bytes}
--         {'other_layout', layout}   the queue was written by another version
-- include clock chunks model forms
-- include from jobs: keys records
local keys = lib.keys_beside(KEYS[1])
local cursor, table_, count = unpack(ARGV)
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end

local page = redis.call('HSCAN', keys[table_], cursor, 'COUNT', count)
local ids, found = {}, page[2]
for index = 1, #found, 2 do ids[#ids + 1] = found[index] end
local others = lib.get_fields(table_ == 'jobs' and keys.facts or keys.jobs, ids)
local reply = {'ok', page[1]}
for index, id in ipairs(ids) do
  local facts, is_damaged, value, other = false, false, found[2 * index], others[index]
  if table_ == 'jobs' then
    if other then facts = lib.facts_in(other) else facts = lib.facts_in_record(value) end
    is_damaged = not facts or not lib.is_record_of(value, facts)
  elseif not other then
    facts = lib.facts_in(value)
    is_damaged = not facts
  end
  if is_damaged then
    local record, text = value, other
    if table_ == 'facts' then record, text = other, value end
    reply[#reply + 1] = {id, record and 1 or 0, #(record or ''), text and 1 or 0, #(text or '')}
  elseif facts then
    local head = facts.head
    reply[#reply + 1] = {id, others[index] and 1 or 0, facts.state, facts.marks, lib.whole(facts.number),
      lib.whole(facts.turn), facts.failures, facts.crashes, facts.lapses, lib.whole(facts.since),
      lib.whole(facts.updated), lib.whole(facts.finished), lib.whole(facts.process), facts.worker, facts.bytes,
      #facts.outcome, head.flags, head.priority, head.attempts, head.type, head.tenant, head.key, head.unique,
      head.tags, table.concat(head.words, '\0')}
  end
end
return reply
