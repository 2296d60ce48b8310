-- Change when or how urgently a waiting job is to run.
--
-- One step, so that the job is always in exactly one place, the right one.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] id         int
-- ARGV[3] change     string  'delay' (value: ms from now; 0: now), 'run_at' (ms since 1970) or 'priority'
-- ARGV[4] value      int
--
-- Returns {'ok', state}         the code of the state that the job is in now
--         {'absent'}            there is no such job
--         {'state', state}      the job is in a state in which this cannot be changed
--         {'other_layout', layout}     the queue was written by another version
-- include clock channels memory chunks job_keys moves records changes lines endings wake job_queue
local memory, keys = KEYS[1], jobs.keys_beside(KEYS[2])
local operation, id, change, value = unpack(ARGV)

local done = recall(memory, operation)
if done then return done end

jobs.guard(keys, {hash = {'meta', 'jobs', 'facts', 'unique_jobs'}, zset = {'levels', 'due', 'windows'}, set = {'idle'}})
local refusal = jobs.refuse_layout(keys)
if refusal then return refusal end
local facts = jobs.read_facts(keys, {id})[1]
if not facts then
  allow_when_full(memory)
  return remember(memory, operation, {'absent'})
end
local now, changes = now_ms(), jobs.new_changes()
local due = change == 'delay' and now + tonumber(value) or tonumber(value)
local state = facts.state
if change ~= 'priority' then state = due > now and jobs.SCHEDULED or jobs.READY end
local is_waiting = facts.state == jobs.SCHEDULED or facts.state == jobs.READY
if not is_waiting or not jobs.may_move(facts.state, state) then
  allow_when_full(memory)
  return remember(memory, operation, {'state', facts.state})
end
local is_so = facts.state == jobs.READY and state == jobs.READY
if change == 'priority' then is_so = facts.head.priority == tonumber(value) end
if is_so then
  allow_when_full(memory)
  return remember(memory, operation, {'ok', state}) -- it keeps its place
end

local head = change == 'priority' and jobs.reprioritised(facts.head, tonumber(value)) or facts.head
jobs.check_moves(keys, {facts}, state)
if state == jobs.READY then jobs.check_line(keys, head.line) end -- of the new priority

allow_when_full(memory)
if change == 'priority' then
  jobs.leave_state(changes, facts, id)
  facts.head = head
  facts.updated = now
  jobs.enter_state(changes, facts.state, facts, id)
  -- The record is what a worker gets, so it must say the same.
  local record = redis.call('HGET', keys.jobs, id)
  local _, data_at = jobs.facts_of_record(record)
  redis.call('HSET', keys.jobs, id, jobs.record_packer(facts.created, head)(facts.number, string.sub(record, data_at)))
else
  jobs.move_job(changes, id, facts, state, now)
  facts.since = math.max(due, 0)
end
if state == jobs.SCHEDULED then
  redis.call('ZADD', keys.due, whole(facts.since), id)
else
  redis.call('ZREM', keys.due, id)
  if facts.since > now then facts.since = now end
  jobs.free_unique(keys, id, facts, jobs.UNIQUE_SCHEDULED)
  local turn = jobs.next_turns(keys, 1)
  if turn then facts.turn = turn + 1 end
  if change ~= 'priority' then jobs.tell(keys, changes, 'promoted', id, facts) end
end
jobs.keep_facts(changes, id, facts)
if state == jobs.READY then jobs.send_to_lines(keys, {{id, facts}}) end
jobs.write_changes(keys, changes, now)
wake_workers(keys.idle, keys['wake:'], 1)
return remember(memory, operation, {'ok', state})
