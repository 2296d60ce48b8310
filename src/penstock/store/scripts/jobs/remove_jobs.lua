-- Remove jobs and everything that is recorded about them. What runs is not removed; cancel it first.
--
-- One step for each job's record, place, unique key, counts and event.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] ids...     int     1 to 1000
--
-- Returns {'ok', word...}       for each: 'removed', 'absent' or the code of the state that it is in
--         {'other_layout', layout}     the queue was written by another version
-- include clock channels memory chunks job_keys records changes endings job_queue
local memory, keys = KEYS[1], jobs.keys_beside(KEYS[2])
local operation = ARGV[1]

local done = recall(memory, operation)
if done then return done end

jobs.guard(keys, {hash = {'meta', 'jobs', 'facts', 'unique_jobs', 'progress'},
  zset = {'due', 'finished', 'buried', 'windows'}, stream = {'history'}})
local refusal = jobs.refuse_layout(keys)
if refusal then return refusal end
local ids, seen, reply = {}, {}, {'ok'}
for index = 2, #ARGV do ids[index - 1] = ARGV[index] end
local all = jobs.read_facts(keys, ids)
jobs.check_moves(keys, all)

local now, changes = now_ms(), jobs.new_changes()
allow_when_full(memory)
for index, facts in ipairs(all) do
  local id = ids[index]
  if not facts or seen[id] then
    reply[index + 1] = 'absent'
  elseif facts.state == jobs.RUNNING then
    reply[index + 1] = facts.state
  else
    if jobs.IS_FINAL[facts.state] then
      redis.call('ZREM', jobs.kept_in(keys, facts.state), id)
      jobs.tally(changes, 'kept_bytes', -jobs.kept_bytes(facts))
    else
      redis.call('ZREM', keys.due, id)
      jobs.tally(changes, 'waiting_bytes', -facts.bytes)
      jobs.tally(changes, 'discarded', 1)
      jobs.record_ending(changes, id, facts, 'removed', jobs.REMOVED, now)
      jobs.notify(keys, changes, id, '-', '')
    end
    for _, flag in ipairs({jobs.UNIQUE_QUEUED, jobs.UNIQUE_UNTIL_DONE, jobs.UNIQUE_WINDOW, jobs.UNIQUE_SCHEDULED}) do
      jobs.free_unique(keys, id, facts, flag)
    end
    jobs.leave_state(changes, facts, id)
    jobs.forget_job(keys, changes, id, facts)
    if jobs.IS_FINAL[facts.state] then jobs.tally(changes, 'removed', 1) end
    jobs.tell(keys, changes, 'removed', id, facts)
    reply[index + 1] = 'removed'
  end
  seen[id] = true
end
jobs.write_changes(keys, changes, now)
return remember(memory, operation, reply)
