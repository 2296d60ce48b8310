-- Which jobs a worker holds without knowing, in case it has missed the message by which it was handed one.
--
-- KEYS[1] meta      hash    settings and counters; its tag names all other keys of the queue
-- KEYS[2] running   hash    process id -> job, of this worker
-- ARGV[1] known...  int     processes that the worker knows of
--
-- Returns {'ok', process, id, record, 'failures crashes lapses', ...}
--         {'other_layout', layout}   the queue was written by another version
-- include clock chunks model forms
-- include from jobs: keys records
local keys, running = lib.keys_beside(KEYS[1]), KEYS[2]
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local is_known, processes = {}, {}
for _, process in ipairs(ARGV) do is_known[process] = true end
for _, process in ipairs(redis.call('HKEYS', running)) do
  if not is_known[process] then processes[#processes + 1] = process end
end
local ids, reply = lib.get_fields(running, processes), {'ok'}
local records, texts = lib.get_fields(keys.jobs, ids), lib.get_fields(keys.facts, ids)
for index, process in ipairs(processes) do
  local facts, size = texts[index] and lib.facts_in(texts[index]), #reply
  -- What cannot be read is set aside when the worker leaves.
  if records[index] and facts and lib.is_record_of(records[index], facts) then
    reply[size + 1], reply[size + 2], reply[size + 3] = process, ids[index], records[index]
    reply[size + 4] = lib.tries_of(facts)
  end
end
return reply
