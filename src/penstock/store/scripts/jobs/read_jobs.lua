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

-- What cannot be read is as if it were not there, and `penstock fsck` tells of it; but for what another version may
-- have written, of which the layout is told. Layouts are small numbers.
local MOST_LAYOUTS = 31
local function layout_of_another(text)
  local layout = string.byte(text) or 0
  return layout > 0 and layout <= MOST_LAYOUTS and layout ~= lib.LAYOUT and string.char(layout) or ''
end

local function read(id)
  local facts = redis.call('HGET', keys.facts, id) or ''
  local opened = facts ~= '' and lib.facts_in(facts)
  if facts ~= '' and not opened then return '', layout_of_another(facts), false end
  if ARGV[1] ~= '1' and opened then return '', facts, opened end
  local record = redis.call('HGET', keys.jobs, id) or ''
  local is_well, _, data_at = pcall(lib.facts_of_record, record)
  if not is_well then return layout_of_another(record), '', false end
  return ARGV[1] == '1' and record or string.sub(record, 1, data_at - 1), facts, opened
end

local reply = {'ok'}
for index = 2, #ARGV do
  local id = ARGV[index]
  local record, facts, opened = read(id)
  local has_progress = opened and lib.has(opened.marks, lib.HAS_PROGRESS)
  reply[#reply + 1] = record
  reply[#reply + 1] = facts
  reply[#reply + 1] = has_progress and redis.call('HGET', keys.progress, id) or ''
end
return reply
