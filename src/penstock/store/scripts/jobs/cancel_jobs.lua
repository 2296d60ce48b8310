-- Cancel jobs: those that wait are cancelled at once, those that run are asked to end.
--
-- One step for each job's record, place, unique key, counts and event. A running job stays with its worker, which is told;
-- it is cancelled when the worker says that it has ended, or when the worker dies.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] ids...     int     1 to 1000
--
-- Returns {'ok', word...}       for each: 'cancelled', 'asked', 'absent', or the code of the state that it is in
--         {'newer', layout}     the queue was written by a newer version
-- include clock channels memory chunks job_keys moves records changes lines endings job_queue
local memory, keys = KEYS[1], keys_beside(KEYS[2])
local operation = ARGV[1]

local done = recall(memory, operation)
if done then return done end

guard(keys, {hash = {'meta', 'jobs', 'facts', 'counts', 'unique_jobs', 'progress'},
  zset = {'due', 'finished', 'buried', 'windows'}})
local refusal = refuse_kind(keys)
if refusal and refusal[1] == 'newer' then return refusal end
local ids, seen, reply = {}, {}, {'ok'}
for index = 2, #ARGV do ids[index - 1] = ARGV[index] end
local all = read_facts(keys, ids)

local now, changes = now_ms(), new_changes()
allow_when_full(memory)
for index, facts in ipairs(all) do
  local id = ids[index]
  if not facts then
    reply[index + 1] = 'absent'
  elseif seen[id] or not may_move(facts.state, CANCELLED) then
    reply[index + 1] = facts.state
  elseif facts.state == RUNNING then
    facts.marks = with(facts.marks, CANCEL_ASKED)
    keep_facts(changes, id, facts)
    publish(keys.cancel_job, facts.worker .. ' ' .. whole(facts.process))
    reply[index + 1] = 'asked'
  else
    redis.call('ZREM', keys.due, id)
    end_job(keys, changes, id, facts, CANCELLED, '', '', now)
    reply[index + 1] = 'cancelled'
  end
  seen[id] = true
end
write_changes(keys, changes, now)
return remember(memory, operation, reply)
