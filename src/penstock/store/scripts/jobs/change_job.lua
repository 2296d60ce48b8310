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
-- include clock channels memory chunks wake model forms
-- include from jobs: keys queue records changes lines endings
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation, id, change, value = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'jobs', 'facts', 'unique_jobs'}, zset = {'levels', 'due', 'windows'}, set = {'idle'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local facts = lib.read_facts(keys, {id})[1]
local record = facts and redis.call('HGET', keys.jobs, id)
if not record or not lib.is_record_of(record, facts) then return lib.end_early(memory, operation, {'absent'}) end
local now, changes = lib.now_ms(), lib.new_changes()
local due = change == 'delay' and now + tonumber(value) or tonumber(value)
local state = facts.state
if change ~= 'priority' then state = due > now and lib.SCHEDULED or lib.READY end
local is_waiting = facts.state == lib.SCHEDULED or facts.state == lib.READY
if not is_waiting or not lib.may_move(facts.state, state) then
  return lib.end_early(memory, operation, {'state', facts.state})
end
local is_so = facts.state == lib.READY and state == lib.READY
if change == 'priority' then is_so = facts.head.priority == tonumber(value) end
if is_so then return lib.end_early(memory, operation, {'ok', state}) end -- it keeps its place

local head = change == 'priority' and lib.reprioritised(facts.head, tonumber(value)) or facts.head
lib.check_moves(keys, {facts}, state)
if state == lib.READY then lib.check_line(keys, head.line) end -- of the new priority

lib.allow_when_full(memory)
if change == 'priority' then
  lib.leave_state(changes, facts, id)
  facts.head = head
  facts.updated = now
  lib.enter_state(changes, facts.state, facts, id)
  -- The record is what a worker gets, so it must say the same.
  local _, data_at = lib.facts_of_record(record)
  redis.call('HSET', keys.jobs, id, lib.pack_record(facts.created, facts.number, head, string.sub(record, data_at)))
else
  lib.move_job(changes, id, facts, state, now)
  facts.since = math.max(due, 0)
end
if state == lib.SCHEDULED then
  redis.call('ZADD', keys.due, lib.whole(facts.since), id)
else
  redis.call('ZREM', keys.due, id)
  if facts.since > now then facts.since = now end
  lib.free_unique(keys, id, facts, lib.UNIQUE_SCHEDULED)
  local turn = lib.next_turns(keys, 1)
  if turn then facts.turn = turn + 1 end
  if change ~= 'priority' then lib.add_event(keys, changes, 'promoted', id, facts) end
end
lib.keep_facts(changes, id, facts)
if state == lib.READY then lib.send_to_lines(keys, {{id, facts}}) end
lib.write_changes(keys, changes, now)
lib.wake_workers(keys.idle, keys['wake:'], 1)
return lib.remember(memory, operation, {'ok', state})
