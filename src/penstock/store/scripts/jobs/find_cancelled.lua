-- Which of the jobs that a worker holds are to be cancelled, in case it has missed the message.
--
-- KEYS[1] meta     hash    settings and counters; its tag names all other keys of the queue
-- KEYS[2] running  hash    process id -> job, of this worker
--
-- Returns {'ok', process...}
--         {'other_layout', layout}   the queue was written by another version
-- include clock chunks model forms
-- include from jobs: keys records
local keys, running = lib.keys_beside(KEYS[1]), KEYS[2]
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local processes = redis.call('HKEYS', running)
local reply = {'ok'}
for index, text in ipairs(lib.get_fields(keys.facts, lib.get_fields(running, processes))) do
  local facts = text and lib.facts_in(text)
  if facts and lib.has(facts.marks, lib.CANCEL_ASKED) then reply[#reply + 1] = processes[index] end
end
return reply
