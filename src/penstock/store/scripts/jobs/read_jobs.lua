-- Read jobs: what was sent and what has happened since, each job at one instant.
--
-- KEYS[1] meta    hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] data    int     0: leave out the data, which may be large
-- ARGV[2] ids...  int     1 to 1000
--
-- Returns {'ok', record, facts, progress, ...}   three for each job, empty where there is none; without the data the
--                                                record is empty if there are facts
--         {'other_layout', layout}                      the queue was written by another version
-- include clock model forms
-- include from jobs: keys records
local keys = lib.keys_beside(KEYS[1])
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end

local reply = {'ok'}
for index = 2, #ARGV do
  local id = ARGV[index]
  local facts = redis.call('HGET', keys.facts, id) or ''
  local record = ''
  if ARGV[1] == '1' or facts == '' then record = redis.call('HGET', keys.jobs, id) or '' end
  if ARGV[1] ~= '1' and record ~= '' then
    local _, data_at = lib.facts_of_record(record)
    record = string.sub(record, 1, data_at - 1)
  end
  local has_progress = facts ~= '' and lib.has(lib.open_facts(facts).marks, lib.HAS_PROGRESS)
  reply[#reply + 1] = record
  reply[#reply + 1] = facts
  reply[#reply + 1] = has_progress and redis.call('HGET', keys.progress, id) or ''
end
return reply
